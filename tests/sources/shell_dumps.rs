//! Dump directories like those of MySQL Shell's `dumpInstance`, `dumpSchemas` and `dumpTables`,
//! after its source code: `dumper.cc` (contents of each file), `dump_writer.cc` (indexes),
//! `text_dump_writer.cc` (rows), `common/dump/utils.cc` (names).

// Hazard of sources: MySQL Shell's three commands: several databases, accounts, partitions, with
//   chunks and without, programs in files of their own; an index or a count of bytes that is not
//   the file's

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::ServerKind;
use refloat_source::{DelimitedOptions, inspect};
use serde_json::{Map, Value, json};

use crate::bench::{Bench, run};
use crate::shell::definitions;

/// Bytes of text between two entries of an index (`k_write_idx_every`).
const INDEX_EVERY: u64 = 1 << 20;
/// Two databases; partitions and subpartitions, names that need encoding, a table big enough for
/// more than one index entry, an empty table, stored programs.
const SETUP: &str = r"
SET NAMES utf8mb4; SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(20), b VARBINARY(20), KEY v (v)) DEFAULT CHARSET utf8mb4;
INSERT INTO t VALUES (0, 'é😀', 0x00095C0AFF), (1, NULL, NULL), (2, 'tab\tnl\ncr\rbs\\', ''), (3, '\\N', 'NULL');
CREATE TABLE part (id INT NOT NULL, v VARCHAR(20), PRIMARY KEY (id)) DEFAULT CHARSET utf8mb4
    PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION `p@1` VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN MAXVALUE);
INSERT INTO part VALUES (1, 'a'), (2, 'b'), (3, 'c'), (11, 'd'), (12, 'e'), (13, 'f'), (14, 'g');
CREATE TABLE large (id INT NOT NULL PRIMARY KEY, v TEXT) DEFAULT CHARSET latin1;
INSERT INTO large VALUES (1, REPEAT('x', 1100000 / 20)), (2, 'y');
INSERT INTO large SELECT large.id * 100 + t.id * 10 + u.id, large.v FROM large, t, t u WHERE large.id < 3;
INSERT INTO large SELECT id + 10000, v FROM large;
CREATE TABLE nothing (a INT);
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'fired';
CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC RETURN x + 1;
CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DO DELETE FROM t;
CREATE DATABASE `sp ace`;
CREATE TABLE `sp ace`.`o@d.%` (`a b` INT NOT NULL PRIMARY KEY, s VARCHAR(10) CHARACTER SET latin1) DEFAULT CHARSET utf8mb4;
INSERT INTO `sp ace`.`o@d.%` VALUES (1, 'ä'), (2, 'x');
";
/// An account that no server has.
const USERS: &str = "--\n-- Dumping user accounts\n--\n\n-- begin user 'shell_user'@'%'\nCREATE USER IF NOT EXISTS 'shell_user'@'%';\n-- end user 'shell_user'@'%'\n\n-- begin grants 'shell_user'@'%'\nGRANT USAGE ON *.* TO 'shell_user'@'%';\n-- end grants 'shell_user'@'%'\n\n-- End of dumping user accounts\n\n";
const HEAD: &str = "-- MySQLShell dump 2.0.1  Distrib Ver 9.6.0 for Linux on x86_64 - for MySQL 9.6.0 (MySQL Community Server (GPL)), for Linux (x86_64)\n--\n-- Host: localhost\n-- ------------------------------------------------------\n-- Server version\t9.6.0\n";

/// The options of a dump.
#[derive(Clone, Copy)]
pub struct Way {
    pub origin: &'static str,
    pub schemas: &'static [&'static str],
    /// Rows per chunk; `None` without chunks.
    pub chunk: Option<usize>,
    /// Files for each partition, as since 8.0.30; otherwise for each table.
    pub partitions: bool,
    /// Stored programs in files of their own.
    pub multifile: bool,
    pub users: bool,
    pub pack: &'static str,
}

pub const INSTANCE: Way = Way {
    origin: "dumpInstance",
    schemas: &["it", "sp ace"],
    chunk: Some(2),
    partitions: true,
    multifile: false,
    users: true,
    pack: ".zst",
};

/// A name as it appears in file names: ASCII characters other than letters, digits and `-._` are
/// percent-encoded.
fn encoded(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii() && !(c.is_ascii_alphanumeric() || "-._".contains(c)) {
            let _ = write!(text, "%{:02X}", u32::from(c));
        } else {
            text.push(c);
        }
        text
    })
}

/// A dump directory in the making.
struct Writer<'a> {
    bench: &'a Bench,
    way: Way,
    root: PathBuf,
    sizes: Map<String, Value>,
    rows: Map<String, Value>,
}

impl Writer<'_> {
    fn sql(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), format!("{HEAD}{text}")).unwrap();
    }

    fn json(&self, name: &str, value: &Value) {
        let text = serde_json::to_string_pretty(value).unwrap();
        fs::write(self.root.join(name), text).unwrap();
    }

    /// The first column as text.
    fn list(&self, sql: &str) -> Vec<String> {
        let found = self.bench.connect().query(sql).unwrap();
        (0..found.len())
            .map(|row| found.str(row, 0).unwrap().to_owned())
            .collect()
    }

    fn schema(&mut self, schema: &str) {
        let base = encoded(schema);
        let of = |what: &str, name: &str, and: &str| {
            self.list(&format!(
                "SELECT {name} FROM information_schema.{what} WHERE {and} ORDER BY 1"
            ))
        };
        let tables = of(
            "TABLES",
            "TABLE_NAME",
            &format!("TABLE_SCHEMA = '{schema}' AND TABLE_TYPE <> 'SEQUENCE'"),
        );
        let events = of(
            "EVENTS",
            "EVENT_NAME",
            &format!("EVENT_SCHEMA = '{schema}'"),
        );
        let functions = of(
            "ROUTINES",
            "ROUTINE_NAME",
            &format!("ROUTINE_SCHEMA = '{schema}'"),
        );
        let create = self
            .bench
            .connect()
            .query(format!("SHOW CREATE DATABASE IF NOT EXISTS `{schema}`"))
            .unwrap();
        let create = format!("\n{};\n\nUSE `{schema}`;\n", create.str(0, 1).unwrap());
        let none = ["--no-create-info", "--skip-triggers", schema];
        let programs = |what: &str| definitions(self.bench, &[&[what][..], &none].concat());
        let (routines, happenings) = (programs("--routines"), programs("--events"));
        if self.way.multifile {
            self.sql(&format!("{base}.sql"), &create);
            self.sql(&format!("{base}.libraries.sql"), "");
            self.sql(&format!("{base}.routines.sql"), &routines);
            self.sql(&format!("{base}.events.sql"), &happenings);
        } else {
            self.sql(
                &format!("{base}.sql"),
                &format!("{create}{happenings}{routines}"),
            );
        }
        let names: Map<String, Value> = tables
            .iter()
            .map(|table| (table.clone(), json!(format!("{base}@{}", encoded(table)))))
            .collect();
        self.json(&format!("{base}.json"), &json!({"schema": schema, "includesDdl": true, "includesViewsDdl": true, "includesData": true,
            "multifileDdl": self.way.multifile, "tables": tables, "views": [], "events": events, "functions": functions, "procedures": [],
            "libraries": [], "basenames": names}));
        let mut counts = Map::new();
        for table in tables {
            let rows = self.table(schema, &table, &format!("{base}@{}", encoded(&table)));
            counts.insert(table, json!(rows));
        }
        self.rows.insert(schema.to_owned(), Value::Object(counts));
    }

    /// Writes everything about a table, and returns its number of rows.
    fn table(&mut self, schema: &str, table: &str, base: &str) -> usize {
        let named = format!("TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'");
        let columns = self.list(&format!("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE {named} ORDER BY ORDINAL_POSITION"));
        let binary = self.list(&format!("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE {named} AND DATA_TYPE = 'varbinary'"));
        let triggers = self.list(&format!("SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = '{schema}' AND EVENT_OBJECT_TABLE = '{table}'"));
        let partitions = self.list(&format!("SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE {named} AND PARTITION_NAME IS NOT NULL ORDER BY PARTITION_ORDINAL_POSITION"));
        let partitions = if self.way.partitions {
            partitions
        } else {
            Vec::new()
        };
        self.sql(
            &format!("{base}.sql"),
            &definitions(self.bench, &["--skip-triggers", schema, table]),
        );
        if !triggers.is_empty() {
            let text = definitions(
                self.bench,
                &["--triggers", "--no-create-info", schema, table],
            );
            self.sql(&format!("{base}.triggers.sql"), &text);
        }
        let bases: Map<String, Value> = partitions
            .iter()
            .map(|name| (name.clone(), json!(format!("{base}@{}", encoded(name)))))
            .collect();
        let decode: Map<String, Value> = binary
            .iter()
            .map(|name| (name.clone(), json!("UNHEX")))
            .collect();
        let mut options = json!({"schema": schema, "table": table, "columns": columns, "defaultCharacterSet": "utf8mb4",
            "fieldsTerminatedBy": "\t", "fieldsEnclosedBy": "", "fieldsOptionallyEnclosed": false, "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n"});
        if !decode.is_empty() {
            options["decodeColumns"] = Value::Object(decode);
        }
        let extension = format!("tsv{}", self.way.pack);
        self.json(&format!("{base}.json"), &json!({"options": options, "triggers": triggers, "includesData": true, "includesDdl": true,
            "extension": extension, "chunking": self.way.chunk.is_some(), "compression": "zstd", "primaryIndex": [], "partitions": partitions,
            "basenames": bases}));
        let select: Vec<String> = columns
            .iter()
            .map(|name| {
                if binary.contains(name) {
                    format!("HEX(`{name}`)")
                } else {
                    format!("`{name}`")
                }
            })
            .collect();
        let from = format!("SELECT {} FROM `{schema}`.`{table}`", select.join(","));
        if partitions.is_empty() {
            return self.rows(base, &extension, &format!("{from} ORDER BY 1"));
        }
        partitions
            .iter()
            .map(|name| {
                let base = format!("{base}@{}", encoded(name));
                self.rows(
                    &base,
                    &extension,
                    &format!("{from} PARTITION (`{name}`) ORDER BY 1"),
                )
            })
            .sum()
    }

    fn rows(&mut self, base: &str, extension: &str, sql: &str) -> usize {
        let found = self.bench.connect().query(sql).unwrap();
        let lines: Vec<Vec<u8>> = (0..found.len())
            .map(|row| {
                let fields =
                    (0..found.columns.len()).map(|column| match found.bytes(row, column) {
                        None => b"\\N".to_vec(),
                        Some(bytes) => escaped(bytes),
                    });
                let mut line = fields.collect::<Vec<_>>().join(&b'\t');
                line.push(b'\n');
                line
            })
            .collect();
        let Some(size) = self.way.chunk else {
            self.chunk(&format!("{base}.{extension}"), &lines);
            return lines.len();
        };
        let last = lines.len().saturating_sub(1) / size;
        for index in 0..=last {
            let end = lines.len().min((index + 1) * size);
            let mark = if index == last { "@@" } else { "@" };
            let chunk = &lines[index * size..end];
            self.chunk(&format!("{base}{mark}{index}.{extension}"), chunk);
        }
        lines.len()
    }

    fn chunk(&mut self, name: &str, lines: &[Vec<u8>]) {
        let (mut index, mut total, mut since) = (Vec::new(), 0, 0);
        for line in lines {
            total += line.len() as u64;
            since += line.len() as u64;
            if since >= INDEX_EVERY {
                index.extend_from_slice(&u64::to_be_bytes(total));
                since %= INDEX_EVERY;
            }
        }
        index.extend_from_slice(&u64::to_be_bytes(total));
        fs::write(self.root.join(format!("{name}.idx")), index).unwrap();
        self.sizes.insert(name.to_owned(), json!(total));
        packed(&self.root, name, &lines.concat());
    }
}

/// Writes a file of rows, compressed as its name says.
fn packed(root: &Path, name: &str, text: &[u8]) {
    let path = root.join(name);
    let plain = path.with_extension("");
    match path.extension().and_then(|end| end.to_str()) {
        Some("zst") => {
            fs::write(&plain, text).unwrap();
            run(Command::new("zstd").args(["-q", "-f", "--rm"]).arg(&plain));
        }
        Some("gz") => {
            fs::write(&plain, text).unwrap();
            run(Command::new("gzip").arg("-f").arg(&plain));
        }
        _ => fs::write(&path, text).unwrap(),
    }
}

/// A field as the Shell writes it.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in bytes {
        let mark = match byte {
            0 => b'0',
            8 => b'b',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            26 => b'Z',
            b'\\' => b'\\',
            _ => {
                out.push(*byte);
                continue;
            }
        };
        out.extend([b'\\', mark]);
    }
    out
}

pub fn folder(bench: &Bench, way: Way) -> PathBuf {
    let root = bench.path("dump");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).unwrap();
    let mut writer = Writer {
        bench,
        way,
        root,
        sizes: Map::new(),
        rows: Map::new(),
    };
    let names: Map<String, Value> = way
        .schemas
        .iter()
        .map(|schema| ((*schema).to_owned(), json!(encoded(schema))))
        .collect();
    let mut top = json!({"dumper": "mysqlsh Ver 9.6.0 for Linux on x86_64 - for MySQL 9.6.0 (MySQL Community Server (GPL))", "version": "2.0.1",
        "origin": way.origin, "schemas": way.schemas, "basenames": names, "defaultCharacterSet": "utf8mb4", "tzUtc": true, "bytesPerChunk": 64_000_000,
        "user": "root", "consistent": true, "compatibilityOptions": [], "capabilities": [], "checksum": false, "begin": "2026-01-01 00:00:00"});
    if way.users {
        top["users"] = json!(["'shell_user'@'%'"]);
        writer.sql("@.users.sql", USERS);
    }
    writer.json("@.json", &top);
    writer.sql("@.sql", "");
    writer.sql("@.post.sql", "");
    for schema in way.schemas {
        writer.schema(schema);
    }
    writer.json("@.done.json", &json!({"end": "2026-01-01 00:00:01", "dataBytes": 1, "tableDataBytes": {}, "tableRows": writer.rows,
        "chunkFileBytes": writer.sizes}));
    writer.root
}

/// Changes a JSON metadata file.
pub fn change(root: &Path, name: &str, how: impl FnOnce(&mut Value)) {
    let path = root.join(name);
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    how(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

#[test]
fn instances_with_several_databases_partitions_and_accounts_come_back() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let ways = [
            INSTANCE,
            Way {
                chunk: None,
                pack: ".gz",
                ..INSTANCE
            },
            Way {
                origin: "dumpSchemas",
                partitions: false,
                multifile: true,
                users: false,
                pack: "",
                ..INSTANCE
            },
        ];
        for way in ways {
            bench.empty();
            bench.fill(SETUP);
            let folder = folder(&bench, way);
            let options = DelimitedOptions::default();
            let found = inspect(&folder, None, &options, &bench.path("scratch"), false).unwrap();
            assert!(found.whole, "{:?}", found.faults);
            let accounts = found.passed_over.contains(&"@.users.sql".to_owned());
            assert_eq!(accounts, way.users, "{:?}", found.passed_over);
            bench.loads_as(&folder, &wanted, |_| {});
            let accounts = "SELECT COUNT(*) FROM mysql.user WHERE user = 'shell_user'";
            let accounts = bench.connect().query_value(accounts).unwrap();
            assert_eq!(accounts.as_deref(), Some("0"), "accounts are not asked for");
        }
    }
}

#[test]
fn tables_without_chunks_come_back() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let way = Way {
            origin: "dumpTables",
            schemas: &["it"],
            chunk: None,
            users: false,
            ..INSTANCE
        };
        let programs =
            "DROP DATABASE `sp ace`; DROP EVENT it.e; DROP FUNCTION it.f; DROP TABLE it.large;";
        bench.fill(programs);
        let wanted = bench.snapshot();
        let folder = folder(&bench, way);
        assert!(folder.join("it@part@p%401.tsv.zst").exists());
        bench.loads_as(&folder, &wanted, |_| {});
    }
}

#[test]
fn indexes_of_chunks_are_believed() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill(SETUP);
    let folder = folder(
        &bench,
        Way {
            chunk: None,
            pack: "",
            ..INSTANCE
        },
    );
    bench.empty();
    let (rows, index) = (folder.join("it@large.tsv"), folder.join("it@large.tsv.idx"));
    let text = fs::read(&rows).unwrap();
    let offsets = fs::read(&index).unwrap();
    assert!(offsets.len() >= 16, "more than one entry");
    // A missing row in a dump without row counts: only the number of bytes shows it.
    let older = |value: &mut Value| {
        value.as_object_mut().unwrap().remove("tableRows");
    };
    change(&folder, "@.done.json", older);
    let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&rows, &text[first..]).unwrap();
    let message = format!(
        "the text ends here, but it@large.tsv.idx says that it has {} bytes",
        text.len()
    );
    bench.refuses(&folder, |_| {}, &message);
    bench.empty();
    fs::remove_file(&index).unwrap();
    let message = format!(
        "the text ends here, but @.done.json says that it has {} bytes",
        text.len()
    );
    bench.refuses(&folder, |_| {}, &message);
    bench.empty();
    fs::write(&rows, &text).unwrap();
    let mut falling = offsets.clone();
    falling[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    let mut more = offsets.clone();
    let last = more.len() - 1;
    more[last] ^= 1;
    for (bytes, message) in [
        (&offsets[..offsets.len() - 3], "it@large.tsv.idx is cut"),
        (&[][..], "it@large.tsv.idx is empty"),
        (&falling[..], "it@large.tsv.idx: its offsets do not rise"),
        (&more[..], "bytes of text, and @.done.json that it has"),
    ] {
        fs::write(&index, bytes).unwrap();
        bench.refuses(&folder, |_| {}, message);
    }
    fs::write(&index, &offsets).unwrap();
    assert!(bench.load(&folder, |_| {}).unwrap().proven);
}

#[test]
fn rows_that_are_cut_to_nothing_are_missed() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill(SETUP);
    let packed = folder(&bench, INSTANCE);
    let emptied = |folder: &Path, name: &str| fs::write(folder.join(name), "").unwrap();
    let without = |folder: &Path, key: &'static str| {
        change(folder, "@.done.json", |value| {
            value.as_object_mut().unwrap().remove(key);
        });
    };
    // In a dump without row counts, nothing but the file itself shows that rows are gone.
    without(&packed, "tableRows");
    bench.empty();
    assert!(bench.load(&packed, |_| {}).unwrap().proven);
    bench.empty();
    let chunk = "it@t@0.tsv.zst";
    emptied(&packed, chunk);
    let message = |by: &str| format!("{chunk}: the file is empty, and {by}");
    bench.is_not_whole(
        &packed,
        |_| {},
        &message(&format!("{chunk}.idx says that it")),
    );
    fs::remove_file(packed.join(format!("{chunk}.idx"))).unwrap();
    bench.is_not_whole(&packed, |_| {}, &message("@.done.json says that it has"));
    without(&packed, "chunkFileBytes");
    bench.is_not_whole(
        &packed,
        |_| {},
        &message("zstd writes some bytes even of nothing"),
    );

    bench.fill(SETUP);
    let plain = folder(
        &bench,
        Way {
            pack: "",
            ..INSTANCE
        },
    );
    without(&plain, "tableRows");
    assert_eq!(
        fs::metadata(plain.join("it@nothing@@0.tsv")).unwrap().len(),
        0
    );
    bench.empty();
    assert!(
        bench.load(&plain, |_| {}).unwrap().proven,
        "a table without rows has a file without bytes"
    );
    let chunk = "it@t@0.tsv";
    let text = fs::read(plain.join(chunk)).unwrap();
    let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(plain.join(chunk), &text[first..]).unwrap();
    let error = bench.compare(&plain, |_| {}).unwrap_err();
    assert!(
        error.contains("bytes of text, and it@t@0.tsv.idx says that it has"),
        "{error}"
    );
    bench.empty();
    emptied(&plain, chunk);
    bench.is_not_whole(
        &plain,
        |_| {},
        "it@t@0.tsv: the file is empty, and it@t@0.tsv.idx says",
    );
    fs::write(plain.join(chunk), &text).unwrap();
    emptied(&plain, "it@t.triggers.sql");
    bench.is_not_whole(&plain, |_| {}, "it@t.triggers.sql is empty");
}

#[test]
fn dumps_that_need_what_is_not_known_are_refused() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 2);");
    let way = Way {
        schemas: &["it"],
        users: false,
        ..INSTANCE
    };
    let folder = folder(&bench, way);
    bench.empty();
    let needs = |ids: &[&str]| {
        let list: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "description": "x", "versionRequired": "99.0.0"}))
            .collect();
        change(&folder, "@.json", |value| {
            value["capabilities"] = json!(list);
        });
    };
    let known = [
        "partition_awareness",
        "multifile_schema_ddl",
        "dump_dir_redirection",
    ];
    for other in [
        "innodb_vector_store",
        "dynamic_data_masking",
        "of_tomorrow",
        "",
    ] {
        needs(&[known[0], other]);
        let message = format!("@.json says that reading the dump needs {other:?}");
        bench.is_not_whole(&folder, |_| {}, &message);
    }
    needs(&known);
    assert!(bench.load(&folder, |_| {}).unwrap().proven);
}

#[test]
fn files_that_metadata_names_are_needed() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill(SETUP);
    let folder = folder(
        &bench,
        Way {
            multifile: true,
            ..INSTANCE
        },
    );
    bench.empty();
    for (name, message) in [
        ("it.sql", "it.sql is missing"),
        ("it.routines.sql", "it.routines.sql is missing"),
        ("it.events.sql", "it.events.sql is missing"),
        ("sp%20ace.json", "sp%20ace.json is missing"),
        ("it@t.triggers.sql", "it@t.triggers.sql is missing"),
        (
            "it@part@p%401@0.tsv.zst",
            "it@part@p%401@0.tsv.zst is missing",
        ),
        ("it@part@p2@@0.tsv.zst", "it@part@p2@0.tsv.zst is missing"),
    ] {
        let whole = fs::read(folder.join(name)).unwrap();
        fs::remove_file(folder.join(name)).unwrap();
        bench.refuses(&folder, |_| {}, message);
        fs::write(folder.join(name), whole).unwrap();
    }
    change(&folder, "@.json", |value| {
        value["redirectedDumpDir"] = json!("elsewhere");
    });
    bench.refuses(&folder, |_| {}, "the dump is in elsewhere");
}
