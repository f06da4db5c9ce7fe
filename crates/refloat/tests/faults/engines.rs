//! Tables without transactions: what they have taken cannot be taken back, so nothing is tried twice.

use crate::support::{BOTH, Desk, dump, place, shared, table};

/// `--on-error continue` cannot leave a row out there: the load stops, says where, and says which rows are in.
#[test]
fn a_refused_row_of_a_table_without_transactions_stops_the_load() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        for (engine, path) in [("MyISAM", "auto"), ("MyISAM", "insert"), ("Aria", "auto")] {
            if engine == "Aria" && !kind.is_mariadb() {
                continue;
            }
            desk.next();
            let text = dump(&format!(
                "{}CREATE TABLE `plain` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE={engine};\n\
                 INSERT INTO `plain` VALUES (1),(2);\nINSERT INTO `plain` VALUES (3),(2),(4);\n",
                table("items", 100)
            ));
            let file = desk.file("dump.sql", &text);
            desk.load(
                &file,
                server,
                &["--write-path", path, "--on-error", "continue"],
            )
            .exits(1)
            .says("dump.sql: ")
            .says(&place(&text, "(1),(2);"))
            .says("its engine has no transactions")
            .says(&format!("{}.plain", desk.db))
            .says("NOT complete")
            .says("plain: 0 rows counted, and whatever it took of the chunk that failed")
            .never_says("refused: ")
            .never_says("done and proven");
            // LOAD DATA skips the row and goes on, and is looked at afterwards; inserts stop before it.
            let stored = if kind.is_mariadb() || path == "insert" {
                "1,2,3"
            } else {
                "1,2,3,4"
            };
            assert_eq!(
                desk.ask(server, "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.plain"),
                stored,
                "{kind} {engine} {path}"
            );
            assert_eq!(desk.rows(server, "items"), Some(100), "{kind} {engine}");
        }
    }
}
