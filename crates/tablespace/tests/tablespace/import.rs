//! Tables of many shapes and sizes are built, imported, checked and changed.

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers;
use refloat_wire::Connection;

use crate::common::{Exported, Value, assert_same, assert_sound, create, export, load, read};
use crate::reader::Reader;
use refloat_tablespace::description::Description;
use refloat_tablespace::record;
use refloat_tablespace::space::Pages;

/// A shape of a table, and its rows.
struct Shape {
    definition: &'static str,
    row: fn(i32) -> Vec<Value>,
}

/// A number that looks random, but is the same for the same row.
fn mixed(number: i32) -> u32 {
    let mut mixed = (number as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1);
    mixed ^= mixed >> 15;
    mixed.wrapping_mul(0x85eb_ca6b) >> 3
}

/// Text of up to so many letters.
fn word(number: i32, most: u32) -> String {
    let len = (mixed(number) % (most + 1)).cast_signed();
    (0..len)
        .map(|at| char::from(b'a' + (mixed(number.wrapping_mul(31) + at) % 26) as u8))
        .collect()
}

const SHAPES: [Shape; 6] = [
    Shape {
        definition: "(id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, \
            KEY k (k)) DEFAULT CHARSET=latin1",
        row: |n| {
            vec![
                Value::int(n * 3 - 1000),
                Value::int((mixed(n) % 5000).cast_signed() - 2500),
                Value::padded(&word(n, 100), 120),
            ]
        },
    },
    Shape {
        definition: "(id INT NOT NULL, a INT, b VARCHAR(20), c VARCHAR(300), d VARCHAR(700), \
            PRIMARY KEY (id), KEY a (a), KEY b (b, a), KEY c (c(7)), UNIQUE KEY u (id, b)) \
            DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
        row: |n| {
            vec![
                Value::int(n),
                if n % 3 == 0 {
                    Value::null()
                } else {
                    Value::int(n / 7)
                },
                if n % 5 == 0 {
                    Value::null()
                } else {
                    Value::text(&word(n, 20))
                },
                if n % 7 == 0 {
                    Value::null()
                } else {
                    Value::text(&word(n + 1, 300))
                },
                if n % 2 == 0 {
                    Value::null()
                } else {
                    Value::text(&word(n + 2, 150))
                },
            ]
        },
    },
    Shape {
        definition: "(a INT, b VARCHAR(200)) DEFAULT CHARSET=latin1",
        row: |n| vec![Value::int(n % 11), Value::text(&word(n, 200))],
    },
    Shape {
        definition: "(a VARCHAR(40) NOT NULL, b INT NOT NULL, c VARCHAR(260), \
            PRIMARY KEY (b, a), KEY c (c), KEY a (a)) DEFAULT CHARSET=latin1 \
            COLLATE=latin1_bin ROW_FORMAT=COMPACT",
        row: |n| {
            vec![
                Value::text(&word(n, 40)),
                Value::int(n),
                if n % 4 == 0 {
                    Value::null()
                } else {
                    Value::text(&word(n, 260))
                },
            ]
        },
    },
    Shape {
        definition: "(id INT NOT NULL PRIMARY KEY, a LONGBLOB, b TEXT, c VARCHAR(3000), \
            KEY a (a(10)), KEY b (b(20))) DEFAULT CHARSET=latin1 COLLATE=latin1_bin",
        row: long,
    },
    Shape {
        definition: "(id INT NOT NULL PRIMARY KEY, a LONGBLOB, b TEXT, c VARCHAR(3000)) \
            DEFAULT CHARSET=latin1 COLLATE=latin1_bin ROW_FORMAT=COMPACT",
        row: long,
    },
];

/// A row of which most values have no room in it: one in a hundred is long enough for more than one
/// page of MySQL's list of its parts.
fn long(n: i32) -> Vec<Value> {
    let most = match mixed(n) % 100 {
        0 => 3_000_000,
        1..10 => 100_000,
        _ => 3_000,
    };
    vec![
        Value::int(n),
        Value::text(&word(n, most)),
        Value::text(&word(n + 1, 5_000)),
        if n % 2 == 0 {
            Value::null()
        } else {
            Value::text(&word(n + 2, 3_000))
        },
    ]
}

/// How many rows: none, one page, two levels, more than single pages.
const SIZES: [i32; 5] = [0, 1, 9, 700, 9_000];

fn imports(kind: ServerKind) {
    imports_into(servers::server(kind), &SHAPES, &SIZES);
}

fn imports_into(server: &Instance, shapes: &[Shape], sizes: &[i32]) {
    for shape in shapes {
        for &size in sizes {
            // Of long rows, a hundredth is as much.
            let size = if shape.definition.contains("BLOB") {
                size / 100
            } else {
                size
            };
            let what = format!("{} rows of {}", size, shape.definition);
            let mut conn = create(server, "shapes", shape.definition);
            let rows: Vec<Vec<Value>> = (0..size).map(shape.row).collect();
            load(&mut conn, "loaded", &rows);
            let exported = export(&mut conn, "built");
            exported.build(&rows);
            is_as_the_servers_own(&mut conn, &exported, &what);
            conn.exec("ALTER TABLE built IMPORT TABLESPACE")
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_sound(&mut conn, "built");
            assert_same(&mut conn);
            lives_on(&mut conn);
        }
    }
}

/// The built file holds the records of the one that the server has filled, in the same order, and
/// all in both files belongs together.
pub fn is_as_the_servers_own(conn: &mut Connection, exported: &Exported, what: &str) {
    let (loaded, of_server) = read(conn, "loaded");
    let built = exported.built();
    let of_server = Reader::new(&of_server, &loaded, false);
    let built = Reader::new(&built, &exported.description, true);
    of_server.check_space();
    built.check_space();
    for (own, others) in exported.description.indexes.iter().zip(&loaded.indexes) {
        let (own, others) = (built.records(own), of_server.records(others));
        assert_eq!(own.len(), others.len(), "{what}");
        let differs = own
            .iter()
            .zip(&others)
            .position(|(own, others)| own != others);
        assert_eq!(differs, None, "{what}");
    }
}

/// What changes both tables in the same way leaves them sound and equal.
pub fn lives_on(conn: &mut Connection) {
    for table in ["built", "loaded"] {
        let columns = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() \
            AND table_name = '{table}' AND data_type = 'int' ORDER BY ordinal_position LIMIT 1"
        );
        let Some(numeric) = conn.query_value(columns).unwrap() else {
            return;
        };
        for statement in [
            format!("DELETE FROM {table} WHERE {numeric} % 7 = 3"),
            format!("UPDATE {table} SET {numeric} = {numeric} + 10000000 WHERE {numeric} % 3 = 1"),
            format!(
                "ALTER TABLE {table} ADD COLUMN later INT NOT NULL DEFAULT 7, ADD KEY later (later, {numeric})"
            ),
        ] {
            conn.exec(&statement)
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
    assert_sound(conn, "built");
    assert_same(conn);
}

#[test]
fn mariadb_10_11_takes_what_is_built() {
    imports(ServerKind::MariaDb1011);
}

#[test]
fn mariadb_11_8_takes_what_is_built() {
    imports(ServerKind::MariaDb118);
}

#[test]
fn mysql_9_7_takes_what_is_built() {
    imports(ServerKind::MySql97);
}

/// The shortest records: in pages of 64 KiB, their numbers on a page would not have room.
const SHORTEST: Shape = Shape {
    definition: "(id SMALLINT UNSIGNED NOT NULL PRIMARY KEY, KEY k (id))",
    row: |n| {
        vec![Value {
            sql: n.to_string(),
            stored: Some((n as u16).to_be_bytes().to_vec()),
        }]
    },
};

/// A server whose pages have another size, with the other checksum of MariaDB, too. In pages of 4
/// KiB, the larger table has several groups of extents.
fn pages_of(kind: ServerKind, size: &str, checksum: &str) {
    let options = servers::quick(kind)
        .option("innodb_page_size", size)
        .option("innodb_checksum_algorithm", checksum);
    eprintln!("{kind}, {size}, {checksum}");
    let server = servers::start(&options);
    // Three values of which 768 bytes stay in the row have no room in a page of 4 KiB.
    let shapes = if size == "4k" { 5 } else { 6 };
    imports_into(&server, &SHAPES[..shapes], &[0, 2000]);
    match size {
        "4k" => imports_into(&server, &SHAPES[1..2], &[80_000]),
        "64k" => imports_into(&server, &[SHORTEST], &[30_000]),
        _ => {}
    }
}

#[test]
fn small_pages_and_large_ones() {
    pages_of(ServerKind::MariaDb1011, "4k", "full_crc32");
    pages_of(ServerKind::MariaDb118, "64k", "crc32");
    pages_of(ServerKind::MySql97, "8k", "crc32");
}

#[test]
#[ignore = "slow: five more servers of their own"]
fn pages_of_all_sizes() {
    pages_of(ServerKind::MariaDb1011, "32k", "crc32");
    pages_of(ServerKind::MariaDb118, "8k", "full_crc32");
    pages_of(ServerKind::MySql97, "4k", "crc32");
    pages_of(ServerKind::MySql97, "32k", "crc32");
    pages_of(ServerKind::MySql97, "64k", "crc32");
}

/// A description or a template that is cut or changed is refused, or read as something else, but
/// never ends the program.
#[test]
fn damaged_templates_are_refused() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let server = servers::server(kind);
        let mut conn = create(server, "damaged", SHAPES[1].definition);
        let exported = export(&mut conn, "built");
        let cfg = &exported.cfg;
        for end in 0..cfg.len() {
            Description::read(&cfg[..end]).expect_err("a description that ends early");
        }
        for at in 0..cfg.len() {
            for mask in [1, 0x80, 0xff] {
                let mut changed = cfg.clone();
                changed[at] ^= mask;
                if let Ok(description) = Description::read(&changed) {
                    for index in &description.indexes {
                        let _ = record::Shape::of(&description, index);
                    }
                }
            }
        }
        let begins = |file: &[u8]| {
            let sink = Box::new(tempfile::tempfile().unwrap());
            Pages::new(file.to_vec(), sink).is_ok()
        };
        let mut file = exported.file.clone();
        assert!(begins(&file));
        for at in (0..file.len()).step_by(997) {
            let covered = file[at];
            file[at] ^= 0x55;
            let page = at / 16384 * 16384;
            // MySQL's checksum leaves out what no page here uses.
            let left_out = kind.is_mariadb() || !(26..38).contains(&(at - page));
            let is_empty = exported.file[page..page + 16384]
                .iter()
                .all(|byte| *byte == 0);
            assert!(!left_out || is_empty || !begins(&file), "{at}");
            file[at] = covered;
        }
        assert!(!begins(&file[..file.len() - 1]) && !begins(&[]));
    }
}
