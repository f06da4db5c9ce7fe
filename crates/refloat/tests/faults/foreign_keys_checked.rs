//! `--foreign-keys checked`: rows that point at nothing are listed, and the load does not count as
//! proven.

// Hazard of faults: L-91 orphans are listed with `--foreign-keys checked`, exit code 4

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use refloat_sandbox::StartOptions;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{BOTH, Desk, Run, Running, dump, finish_with_input, shared, table};

/// Parents and children, children first; `stray` is added to the children.
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
            // As with the stock client: the dump switches the checks off, and is trusted.
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

/// A dump whose session checks foreign keys: the stock client stops at a row without a parent.
#[test]
fn rows_that_point_at_nothing_stop_a_load_whose_dump_checks() {
    let definitions = "CREATE TABLE parent (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;\n\
         CREATE TABLE child (id INT NOT NULL PRIMARY KEY, p INT, pad LONGTEXT, KEY p (p), \
         CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id)) ENGINE=InnoDB;\n";
    // Small tables keep their keys; large ones get them back after their rows.
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
            // Parents may come after children: the check runs when all are in.
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
            // Into existing tables: the server itself checks each row.
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

/// Loads `first`, is killed when `until` holds, and resumes with `first` and `rest`.
fn killed_and_resumed(
    desk: &Desk,
    server: &refloat_sandbox::Instance,
    (first, rest): (&str, &str),
    until: impl Fn() -> bool,
) -> Run {
    let load = || desk.load_command(Path::new("-"), &server.url(), &["--chunk-rows", "4"]);
    let mut command = load();
    command.stdin(Stdio::piped());
    let (running, mut pipe) = Running::start_with_stdin(command);
    pipe.write_all(first.as_bytes()).unwrap();
    wait_until("rows are in", until);
    running.signal("KILL");
    let _ = running.ends_within(Duration::from_secs(10));
    let text = format!("{first}{rest}");
    finish_with_input(load(), move |pipe| {
        let _ = pipe.write_all(text.as_bytes());
    })
}

/// Rows that have been checked are not checked again after a resume, although later rows and
/// statements may remove their parents.
#[test]
fn a_load_that_was_killed_looks_for_parents_like_any_other() {
    let definitions = "CREATE TABLE parent (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;\n\
         CREATE TABLE child (id INT NOT NULL PRIMARY KEY, p INT, pad LONGTEXT, KEY p (p), \
         CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id)) ENGINE=InnoDB;\n\
         INSERT INTO parent VALUES (1),(2);\nINSERT INTO child VALUES (1,1,'');\n";
    // Rows of a table are written when those of another one arrive.
    let items = table("items", 1000);
    let more = table("more", 1000);
    // Text is read in large blocks.
    let filler = format!("-- {}\n", "x".repeat(1 << 20)).repeat(24);
    let pad = "x".repeat(1 << 20);
    let large: Vec<String> = (10..32)
        .map(|id| format!("INSERT INTO child VALUES ({id},1,'{pad}');\n"))
        .collect();
    for kind in BOTH {
        let server = servers::start(&StartOptions::new(kind));
        let mut desk = Desk::new();
        for behind in ["", "DELETE FROM parent WHERE id = 1;\n"] {
            desk.next();
            let first = format!(
                "{definitions}SET foreign_key_checks = 0;\nINSERT INTO child VALUES (2,99,'');\n{behind}{items}{more}{filler}"
            );
            let rows = |name: &str| desk.rows(&server, name).unwrap_or(0);
            let until = || desk.tables(&server) == 4 && rows("child") == 2 && rows("items") > 0;
            killed_and_resumed(&desk, &server, (&first, "SELECT 1;\n"), until)
                .exits(0)
                .says("were already loaded");
            assert_eq!([rows("items"), rows("more")], [1000, 1000]);
        }
        // Its foreign key does not exist yet when the load resumes.
        desk.next();
        let (first, rest) = large.split_at(18);
        let first = format!(
            "{definitions}INSERT INTO child VALUES (5,42,'');\n{}",
            first.concat()
        );
        let until = || desk.tables(&server) == 2 && desk.rows(&server, "child").unwrap_or(0) > 2;
        killed_and_resumed(&desk, &server, (&first, &rest.concat()), until)
            .exits(1)
            .says(
                "a foreign key constraint fails: 1 row has no parent by of_parent (for example 42)",
            );
    }
}

/// Constraints and their numbers of orphans, from the JSON outcome.
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
