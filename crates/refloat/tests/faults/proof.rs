//! A proof that fails: what somebody else does to a table while it is loaded is found, named, and exits with 4.

use crate::held::Held;
use crate::support::{BOTH, Desk, shared};

/// Rows of the load: half of them are enough for rows to be committed while it waits for the rest.
const ROWS: u64 = 400_000;

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
