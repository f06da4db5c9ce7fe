//! `--foreign-keys checked`: rows that point at nothing are listed, and the load does not count as proven.

use crate::support::{BOTH, Desk, dump, shared};

/// Parents and children, the children first; `stray` stands among their rows.
fn families(stray: &str) -> String {
    dump(&format!(
        "CREATE TABLE `child` (`id` int NOT NULL, `p` int DEFAULT NULL, `code` varchar(9) DEFAULT NULL, `part` int DEFAULT NULL, PRIMARY KEY (`id`), KEY `p` (`p`), \
         KEY `two` (`code`,`part`), CONSTRAINT `one_column` FOREIGN KEY (`p`) REFERENCES `parent` (`id`), \
         CONSTRAINT `two columns` FOREIGN KEY (`code`,`part`) REFERENCES `parent` (`code`,`part`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\
         INSERT INTO `child` VALUES (1,1,'a',1),(2,NULL,'b',2),(3,2,NULL,77),(4,2,'a',NULL){stray};\n\
         CREATE TABLE `parent` (`id` int NOT NULL, `code` varchar(9) NOT NULL, `part` int NOT NULL, PRIMARY KEY (`id`), UNIQUE KEY `two` (`code`,`part`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\
         INSERT INTO `parent` VALUES (1,'a',1),(2,'b',2);\n\
         CREATE TABLE `tree` (`id` int NOT NULL, `up` int DEFAULT NULL, PRIMARY KEY (`id`), KEY `up` (`up`), CONSTRAINT `up` FOREIGN KEY (`up`) REFERENCES `tree` (`id`)) ENGINE=InnoDB;\n\
         INSERT INTO `tree` VALUES (1,2),(2,1),(3,NULL),(4,4);\n"
    ))
}

#[test]
fn rows_that_point_at_nothing_are_listed_when_asked() {
    let mut desk = Desk::new();
    // Three rows without a parent by one column, two by two columns; one row is both.
    let stray = ",(5,41,'a',1),(6,42,'b',2),(7,41,'b',1),(8,1,'z',9)";
    for kind in BOTH {
        let server = shared(kind);
        for more in [&[][..], &["--indexes", "inline", "--chunk-rows", "2"]] {
            let checked: Vec<&str> = ["--foreign-keys", "checked"]
                .iter()
                .chain(more)
                .copied()
                .collect();
            desk.next();
            desk.load_text(families(""), server, &checked)
                .exits(0)
                .says("done and proven")
                .never_says("point at nothing");
            desk.next();
            // As the stock client would: the dump switches the checks off, and is trusted.
            desk.load_text(families(stray), server, more)
                .exits(0)
                .never_says("point at nothing");
            desk.next();
            let run = desk
                .load_text(families(stray), server, &checked)
                .exits(4)
                .says("rows that point at nothing")
                .says(&format!("{}.child, one_column: 3 rows", desk.db))
                .says("41")
                .says("42")
                .says(&format!("{}.child, two columns: 2 rows", desk.db))
                .says("b, 1")
                .says("z, 9")
                .never_says("done and proven")
                .never_says("tree, up");
            assert_eq!(desk.rows(server, "child"), Some(8), "{}", run.stdout);
            assert_eq!(
                desk.ask(
                    server,
                    "SELECT COUNT(*) FROM information_schema.referential_constraints WHERE constraint_schema = '@db'"
                ),
                "3",
                "{kind}: the constraints are there all the same"
            );
        }
        desk.next();
        let mut json = checked_json(&desk, &families(stray), server);
        json.sort();
        assert_eq!(
            json,
            [("one_column".to_owned(), 3), ("two columns".to_owned(), 2)],
            "{kind}"
        );
    }
}

/// A dump whose session checks: the stock client stops at a row without a parent.
#[test]
fn rows_that_point_at_nothing_stop_a_load_whose_dump_checks() {
    let definitions = "CREATE TABLE parent (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;\n\
         CREATE TABLE child (id INT NOT NULL PRIMARY KEY, p INT, pad LONGTEXT, KEY p (p), \
         CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id)) ENGINE=InnoDB;\n";
    // Small tables keep their keys; large ones get them back behind their rows.
    let pad = "x".repeat(1 << 20);
    let large: Vec<String> = (10..19)
        .map(|id| format!("INSERT INTO child VALUES ({id},1,'{pad}');\n"))
        .collect();
    let large = large.concat();
    let mut desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        for (filler, more) in [
            ("", &[][..]),
            ("", &["--write-path", "insert"]),
            (&large, &[]),
        ] {
            // The parents may come behind the children: they are looked for when all are in.
            let good = format!(
                "{definitions}INSERT INTO child VALUES (1,1,''),(2,NULL,'');\n{filler}INSERT INTO parent VALUES (1),(2);\n"
            );
            let bad = format!("{good}INSERT INTO child VALUES (3,2,''),(4,41,''),(5,42,'');\n");
            let with = |other: &[&'static str]| [more, other].concat();
            desk.next();
            desk.load_text(&good, server, more)
                .exits(0)
                .says("done and proven");
            let before = desk.rows(server, "child").unwrap();
            // Into what is there: the server itself compares each row.
            let other = "INSERT INTO child VALUES (6,2,'');\nINSERT INTO child VALUES (7,43,'');\n";
            desk.load_text(other, server, &with(&["--append"]))
                .exits(1)
                .says("foreign key constraint fails");
            assert_eq!(desk.rows(server, "child"), Some(before + 1), "{kind}");
            desk.next();
            desk.load_text(&bad, server, more)
                .exits(1)
                .says(&format!(
                    "table {}.child: a foreign key constraint fails: 2 rows have no parent by of_parent (for example 41; 42)",
                    desk.db
                ))
                .says("--foreign-keys checked");
            desk.load_text(&bad, server, &with(&["--foreign-keys", "checked"]))
                .exits(4)
                .says("of_parent: 2 rows");
            assert_eq!(desk.rows(server, "child"), Some(before + 3), "{kind}");
            desk.next();
            desk.load_text(&bad, server, &with(&["--on-error", "continue"]))
                .exits(4)
                .says("of_parent: 2 rows");
        }
    }
}

/// Constraint and number of orphans as the JSON outcome has them.
fn checked_json(desk: &Desk, text: &str, server: &refloat_sandbox::Instance) -> Vec<(String, u64)> {
    let run = desk
        .load_text(text, server, &["--foreign-keys", "checked", "--json"])
        .exits(4);
    let last = run.stdout.lines().last().expect("there are events");
    let last: serde_json::Value = serde_json::from_str(last).expect("the last line is JSON");
    assert_eq!(last["outcome"]["result"], "proof_failed", "{last}");
    let orphans = last["outcome"]["summary"]["proof"]["orphans"].as_array();
    let orphans = orphans.expect("orphans are a list").iter();
    orphans
        .map(|one| {
            let name = one["constraint"].as_str().expect("a name");
            (name.to_owned(), one["rows"].as_u64().expect("a number"))
        })
        .collect()
}
