//! A proof that fails: what somebody else does to a table while it is loaded is found, named, and exits with 4.

use crate::held::Held;
use crate::support::{BOTH, Desk, dump, shared};

/// Rows of the load: half of them are enough for rows to be committed while it waits for the rest.
const ROWS: u64 = 400_000;

/// What the expression of a computed column lets pass speaks for nothing else in the row.
#[test]
fn rows_of_tables_that_compute_are_refused_for_everything_else() {
    for kind in BOTH {
        let server = shared(kind);
        let load = |text: &str| {
            let desk = Desk::new();
            let run = desk.load_text(dump(text), server, &[]);
            (desk, run)
        };
        let (desk, run) = load(
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), n TINYINT, g INT AS (CAST(s AS SIGNED)) STORED);\n\
             INSERT INTO t (id, s, n) VALUES (1,'1x',1),(2,'2x',1000),(3,'3x',3);\n",
        );
        run.exits(1).says("Out of range value for column 'n'");
        assert_eq!(desk.rows(server, "t"), Some(0));
        let (desk, run) = load(
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), m INT NOT NULL, g INT AS (CAST(s AS SIGNED)) STORED);\n\
             INSERT INTO t (id, s) VALUES (1,'1'),(2,'2');\n",
        );
        // The dump's own session is not strict: it gives the column 0, as with the stock client.
        run.exits(0);
        assert_eq!(desk.rows(server, "t"), Some(2));
        // Nothing can be taken back here, so nothing is tried twice.
        let (desk, run) = load(
            "CREATE TABLE t (id INT, s VARCHAR(9), g INT AS (CAST(s AS SIGNED)) STORED, CHECK (id < 3)) ENGINE=MyISAM;\n\
             INSERT INTO t (id, s) VALUES (1,'1x'),(2,'2x'),(3,'3x');\n",
        );
        run.exits(1)
            .says("t")
            .says("its engine has no transactions");
        assert_eq!(desk.rows(server, "t"), Some(2));
    }
}

#[test]
fn rows_and_definitions_that_are_others_at_the_end_are_a_failed_proof() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, server, ROWS, &[]);
        // Of the rows that are committed by now.
        desk.ask(server, "DELETE FROM @db.items WHERE id <= 3");
        desk.ask(
            server,
            "ALTER TABLE @db.items MODIFY `name` varchar(81) NOT NULL",
        );
        let run = held
            .goes_on()
            .exits(4)
            .says("loaded, but the proof FAILED")
            .says("2 DIFFERENCES")
            .says(&format!(
                "table {}.items: expected {ROWS} rows, found {} rows",
                desk.db,
                ROWS - 3
            ))
            .says(&format!(
                "table {}.items: expected the definition that it was created with, found CREATE TABLE",
                desk.db
            ))
            .never_says("done and proven");
        assert_eq!(
            desk.rows(server, "items"),
            Some(ROWS - 3),
            "{kind}: what was found is what is there\n{}",
            run.stdout
        );
        desk.ask(server, "DROP DATABASE @db");
    }
}
