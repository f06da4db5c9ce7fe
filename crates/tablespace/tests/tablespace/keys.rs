//! Indexes over columns of many types: their records are in the order of the server's own.

use refloat_sandbox::ServerKind;
use refloat_testkit::random::Rng;
use refloat_testkit::servers;

use crate::common::{Value, assert_same, assert_sound, create, export, load};
use crate::import::{is_as_the_servers_own, lives_on};
use crate::values::{Column, approximate, bits, bytes, characters, decimal, member, members};

/// Text that sorts in all ways around blanks.
fn text(random: &mut Rng) -> Vec<u8> {
    characters(random, &['a', 'b', ' ', '\t', 'ä', '中'], 11)
}

/// Few different bytes, zeros among them.
fn few(random: &mut Rng) -> Vec<u8> {
    bytes(random).into_iter().map(|byte| byte % 3).collect()
}

const COLUMNS: &[Column] = &[
    column("float", None, approximate),
    column("double", None, approximate),
    column("decimal(12,4)", None, decimal),
    column("varbinary(14)", None, few),
    column("varchar(12)", Some("utf8mb4"), text),
    column("char(10)", Some("utf8mb4"), text),
    column("bit(10)", None, bits),
    column("enum('a','B','it''s')", Some("latin1"), member),
    column("set('a','B','it''s')", Some("latin1"), members),
];

const fn column(
    definition: &'static str,
    charset: Option<&'static str>,
    text: fn(&mut Rng) -> Vec<u8>,
) -> Column {
    Column {
        definition,
        charset,
        members: &["a", "B", "it's"],
        text,
    }
}

const KEYS: &str = "KEY f (c0), KEY d (c1 DESC), KEY m (c2, id), KEY b (c3), KEY t (c4), \
    KEY tp (c4(3)), KEY c (c5), KEY cp (c5(2) DESC, c0), KEY y (c6), KEY se (c8, c7 DESC), \
    UNIQUE KEY u (u)";

/// Builds rows, compares the file with that of the server, and uses the table.
fn built(kind: ServerKind, definition: &str, rows: impl Fn(&crate::common::Exported) -> Rows) {
    let mut conn = create(servers::server(kind), "ordered", definition);
    let exported = export(&mut conn, "built");
    let rows = rows(&exported);
    load(&mut conn, "loaded", &rows);
    exported.build(&rows);
    is_as_the_servers_own(&mut conn, &exported, definition);
    conn.exec("ALTER TABLE built IMPORT TABLESPACE").unwrap();
    assert_sound(&mut conn, "built");
    assert_same(&mut conn);
    lives_on(&mut conn);
}

type Rows = Vec<Vec<Value>>;

fn orders(kind: ServerKind) {
    let columns: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let collation = column.charset.map(|name| format!(" COLLATE {name}_bin"));
            column.sql(&format!("c{at}")) + &collation.unwrap_or_default()
        })
        .collect();
    let definition = format!(
        "(id INT NOT NULL PRIMARY KEY, u INT, {}, {KEYS})",
        columns.join(", ")
    );
    built(kind, &definition, |exported| {
        let mut random = Rng::new(11);
        (0..3000)
            .map(|id| {
                // A unique key may have NULL any number of times.
                let unique = if id % 3 == 0 {
                    Value::int(id)
                } else {
                    Value::null()
                };
                let mut row = vec![Value::int(id), unique];
                for (at, column) in COLUMNS.iter().enumerate() {
                    let described = &exported.description.columns[at + 2];
                    let value = column.value(described, &mut random);
                    row.push(value.unwrap_or_else(Value::null));
                }
                row
            })
            .collect()
    });

    // The key is a prefix of a text that is stored elsewhere.
    let definition = "(t TEXT NOT NULL, id INT NOT NULL, x INT, PRIMARY KEY (t(5), id), \
        KEY x (x)) DEFAULT CHARSET=latin1 COLLATE=latin1_bin";
    built(kind, definition, |_| {
        let row = |n: i32| {
            let text = format!("{:05}{}", n / 3, "x".repeat((n as usize * 37) % 12_000));
            vec![Value::text(&text), Value::int(n), Value::int(n % 9)]
        };
        (0..400).map(row).collect()
    });

    let definition = "(id INT NOT NULL, x INT, PRIMARY KEY (id DESC), KEY x (x DESC))";
    built(kind, definition, |_| {
        let row = |n: i32| vec![Value::int(5000 - n), Value::int(n % 7)];
        (0..4000).map(row).collect()
    });

    // Rows around the length from which on a value is stored elsewhere.
    for format in ["DYNAMIC", "COMPACT"] {
        let definition = format!(
            "(id INT NOT NULL PRIMARY KEY, a VARCHAR(4100), b VARCHAR(4100)) \
            DEFAULT CHARSET=latin1 ROW_FORMAT={format}"
        );
        built(kind, &definition, |_| {
            let row = |n: i32| {
                let b = "b".repeat(4040 + n as usize);
                vec![
                    Value::int(n),
                    Value::text(&"a".repeat(4000)),
                    Value::text(&b),
                ]
            };
            (0..60).map(row).collect()
        });
    }
}

#[test]
fn mariadb_10_11_has_the_same_order() {
    orders(ServerKind::MariaDb1011);
}

#[test]
fn mariadb_11_8_has_the_same_order() {
    orders(ServerKind::MariaDb118);
}

#[test]
fn mysql_9_7_has_the_same_order() {
    orders(ServerKind::MySql97);
}
