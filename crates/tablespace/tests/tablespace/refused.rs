//! Rows that are not built here, because only the server can say what becomes of them.

use std::io;
use std::sync::Arc;

use refloat_sandbox::ServerKind;
use refloat_tablespace::order::by_bytes;
use refloat_tablespace::record::{Row, RowError};
use refloat_tablespace::space::Pages;
use refloat_tablespace::table::{BuildError, TableBuilder};
use refloat_testkit::servers;

use crate::common::{Exported, Value, create, export};

/// Begins a table in a file that nobody reads.
fn begin(exported: &Exported) -> Result<Arc<TableBuilder>, BuildError> {
    let sink = Box::new(tempfile::tempfile()?);
    let pages = Pages::new(exported.file.clone(), sink).map_err(io::Error::other)?;
    let folder = std::env::temp_dir();
    let table = TableBuilder::new(&exported.description, pages, by_bytes, 1 << 20, &folder);
    Ok(Arc::new(table.map_err(io::Error::other)?))
}

/// Builds rows in parts.
fn build(exported: &Exported, parts: &[Vec<Vec<Value>>]) -> Result<u64, BuildError> {
    let table = begin(exported)?;
    for (number, rows) in parts.iter().enumerate() {
        let mut part = table.part(number, 0);
        for values in rows {
            let mut row = Row::default();
            part.begin(&mut row);
            for value in values {
                match &value.stored {
                    Some(stored) => row.push(stored),
                    None => row.push_null(),
                }
            }
            part.push(&row)?;
        }
        part.finish()?;
    }
    table.finish().map(|(count, _)| count)
}

#[test]
fn rows_out_of_order_and_duplicates() {
    let server = servers::server(ServerKind::MariaDb1011);
    let definition = "(id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(9), UNIQUE KEY u (a), \
        KEY b (b)) DEFAULT CHARSET=latin1 COLLATE=latin1_bin";
    let mut conn = create(server, "refused", definition);
    let exported = export(&mut conn, "built");
    let row = |id, a: Option<i32>, b| {
        let a = a.map_or_else(Value::null, Value::int);
        vec![Value::int(id), a, Value::text(b)]
    };
    let built = |parts: &[Vec<Vec<Value>>]| build(&exported, parts);
    let good = vec![
        vec![row(1, None, "a"), row(2, None, "a")],
        vec![row(3, Some(1), "b")],
    ];
    assert_eq!(built(&good).unwrap(), 3);
    for parts in [
        vec![vec![row(2, None, "a"), row(1, None, "a")]],
        vec![vec![row(2, None, "a")], vec![row(1, None, "a")]],
        vec![vec![row(2, None, "a")], vec![row(2, None, "a")]],
    ] {
        let error = built(&parts).unwrap_err();
        assert!(matches!(error, BuildError::NotInOrder), "{error}");
    }
    let error = built(&[vec![row(1, Some(7), "a")], vec![row(2, Some(7), "b")]]).unwrap_err();
    assert!(
        matches!(&error, BuildError::Duplicate(name) if name == "u"),
        "{error}"
    );
    // A part that is not there, is given up, or comes twice leaves the table unfinished.
    let table = begin(&exported).unwrap();
    table.part(0, 0).finish().unwrap();
    let given_up = table.part(1, 0);
    drop(given_up);
    assert!(matches!(table.finish(), Err(BuildError::Unfinished)));
    for numbers in [[0, 2], [0, 0]] {
        let table = begin(&exported).unwrap();
        let finished = numbers.map(|number| table.part(number, 0).finish());
        assert_eq!(finished[1].is_ok(), numbers[1] == 2);
        assert!(matches!(table.finish(), Err(BuildError::Unfinished)));
    }
    // A row that cannot be stored is left out, and its part can be finished.
    let table = begin(&exported).unwrap();
    let mut part = table.part(0, 0);
    let mut short = Row::default();
    part.begin(&mut short);
    let error = part.push(&short).unwrap_err();
    assert!(matches!(error, BuildError::Row(RowError::Unexpected(0))));
    assert_eq!(part.rows(), 0);
    part.finish().unwrap();
    assert_eq!(table.finish().unwrap().0, 0);
}

#[test]
fn rows_that_no_page_has_room_for() {
    let server = servers::server(ServerKind::MariaDb1011);
    let columns: Vec<String> = (0..40).map(|at| format!("c{at} VARCHAR(255)")).collect();
    let definition = format!("({}) DEFAULT CHARSET=latin1", columns.join(", "));
    let mut conn = create(server, "wide", &definition);
    let exported = export(&mut conn, "built");
    let row = |len| vec![(0..40).map(|_| Value::text(&"x".repeat(len))).collect()];
    assert_eq!(build(&exported, &[row(200)]).unwrap(), 1);
    let error = build(&exported, &[row(205)]).unwrap_err();
    assert!(
        matches!(error, BuildError::Row(RowError::TooLong(_))),
        "{error}"
    );
    // The server stores no such row either.
    let values = vec![format!("'{}'", "x".repeat(205)); 40].join(",");
    conn.exec(format!("INSERT INTO loaded VALUES ({values})"))
        .unwrap_err();
}

#[test]
fn indexes_that_only_the_server_can_build() {
    let server = servers::server(ServerKind::MariaDb1011);
    let refused = |definition: &str| {
        let mut conn = create(server, "unknown", definition);
        let exported = export(&mut conn, "built");
        build(&exported, &[]).unwrap_err().to_string()
    };
    for (definition, words) in [
        (
            "(a INT PRIMARY KEY, b VARCHAR(9) COLLATE latin1_swedish_ci, KEY k (b)) CHARSET latin1",
            "index k: the order of b is known to the server only",
        ),
        (
            "(a INT PRIMARY KEY, b VARCHAR(9) COLLATE gbk_bin, KEY k (b(3))) CHARSET gbk",
            "index k: it has a prefix of b, whose characters have different lengths",
        ),
        (
            "(a INT PRIMARY KEY, b INT AS (a + 1) VIRTUAL, KEY k (b))",
            "index k: b is not stored in the row",
        ),
    ] {
        assert_eq!(refused(definition), words);
    }
}
