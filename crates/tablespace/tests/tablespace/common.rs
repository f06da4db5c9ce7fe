//! A table whose rows are known twice: as SQL, and as InnoDB stores them.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use refloat_sandbox::Instance;
use refloat_tablespace::description::Description;
use refloat_tablespace::order::by_bytes;
use refloat_tablespace::record::Row;
use refloat_tablespace::space::Pages;
use refloat_tablespace::table::TableBuilder;
use refloat_testkit::servers;
use refloat_wire::Connection;

/// A value as SQL and as bytes in a row.
pub struct Value {
    pub sql: String,
    pub stored: Option<Vec<u8>>,
}

impl Value {
    pub fn null() -> Self {
        Self {
            sql: "NULL".to_owned(),
            stored: None,
        }
    }

    pub fn int(value: i32) -> Self {
        let stored = (value as u32 ^ 0x8000_0000).to_be_bytes().to_vec();
        Self {
            sql: value.to_string(),
            stored: Some(stored),
        }
    }

    /// Text that needs no escaping.
    pub fn text(text: &str) -> Self {
        Self {
            sql: format!("'{text}'"),
            stored: Some(text.as_bytes().to_vec()),
        }
    }

    /// Text of a column of a fixed length.
    pub fn padded(text: &str, len: usize) -> Self {
        let mut stored = text.as_bytes().to_vec();
        stored.resize(len, b' ');
        Self {
            sql: format!("'{text}'"),
            stored: Some(stored),
        }
    }
}

/// Rows of a part.
const PART: usize = 700;

/// What an export of an empty table leaves: description and file.
pub struct Exported {
    pub description: Description,
    pub cfg: Vec<u8>,
    pub file: Vec<u8>,
    path: PathBuf,
}

/// Where the server's files are.
pub fn datadir(conn: &mut Connection) -> PathBuf {
    let path = conn.query_value("SELECT @@datadir").unwrap().unwrap();
    PathBuf::from(path)
}

/// The description and the file of a table of the current database.
pub fn read(conn: &mut Connection, table: &str) -> (Description, Vec<u8>) {
    let (path, cfg, file) = flush(conn, table);
    assert!(path.exists());
    (Description::read(&cfg).unwrap(), file)
}

/// Has the server write a table to its file and describe it.
fn flush(conn: &mut Connection, table: &str) -> (PathBuf, Vec<u8>, Vec<u8>) {
    let database = conn.query_value("SELECT DATABASE()").unwrap().unwrap();
    let path = datadir(conn).join(database).join(table);
    conn.exec(format!("FLUSH TABLES {table} FOR EXPORT"))
        .unwrap();
    let cfg = fs::read(path.with_extension("cfg")).unwrap();
    let path = path.with_extension("ibd");
    let file = fs::read(&path).unwrap();
    conn.exec("UNLOCK TABLES").unwrap();
    (path, cfg, file)
}

/// Exports an empty table of the current database, and discards its file.
pub fn export(conn: &mut Connection, table: &str) -> Exported {
    let (path, cfg, file) = flush(conn, table);
    conn.exec(format!("ALTER TABLE {table} DISCARD TABLESPACE"))
        .unwrap();
    Exported {
        description: Description::read(&cfg).unwrap(),
        cfg,
        file,
        path,
    }
}

impl Exported {
    /// Builds the tablespace with these rows, all indexes of the table included.
    pub fn build(&self, rows: &[Vec<Value>]) {
        let owner = self.path.parent().unwrap().metadata().unwrap();
        let file = File::create(&self.path).unwrap();
        let pages = Pages::new(self.file.clone(), Box::new(file)).unwrap();
        let folder = std::env::temp_dir();
        let table =
            TableBuilder::new(&self.description, pages, by_bytes, 1 << 20, &folder).unwrap();
        let table = Arc::new(table);
        let next = AtomicUsize::new(0);
        let build = || {
            let mut row = Row::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(rows) = rows.chunks(PART).nth(number) else {
                    return;
                };
                let mut part = table.part(number, (number * PART) as u64);
                for values in rows {
                    part.begin(&mut row);
                    for value in values {
                        match &value.stored {
                            Some(stored) => row.push(stored),
                            None => row.push_null(),
                        }
                    }
                    part.push(&row).unwrap();
                }
                part.finish().unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(build);
            }
        });
        let (count, size) = table.finish().unwrap();
        assert_eq!(count, rows.len() as u64);
        assert_eq!(self.path.metadata().unwrap().len(), size);
        give(&self.path, owner.uid(), owner.gid());
        let cfg = self.path.with_extension("cfg");
        fs::write(&cfg, &self.cfg).unwrap();
        give(&cfg, owner.uid(), owner.gid());
    }

    /// The file that was built.
    pub fn built(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }
}

fn give(path: &Path, user: u32, group: u32) {
    chown(path, Some(user), Some(group)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
}

/// Creates a table in an empty database as `built`, and once more as `loaded`.
pub fn create(server: &Instance, database: &str, definition: &str) -> Connection {
    let mut conn = servers::connect(server);
    for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE", "USE"] {
        conn.exec(format!("{statement} {database}")).unwrap();
    }
    // Rows may be too long for a page.
    conn.exec("SET innodb_strict_mode = 0").unwrap();
    for table in ["built", "loaded"] {
        conn.exec(format!("CREATE TABLE {table} {definition}"))
            .unwrap();
    }
    conn
}

/// Loads rows by SQL.
pub fn load(conn: &mut Connection, table: &str, rows: &[Vec<Value>]) {
    for rows in rows.chunks(1000) {
        let rows: Vec<String> = rows
            .iter()
            .map(|row| {
                let values: Vec<&str> = row.iter().map(|value| value.sql.as_str()).collect();
                format!("({})", values.join(","))
            })
            .collect();
        conn.exec(format!("INSERT INTO {table} VALUES {}", rows.join(",")))
            .unwrap();
    }
}

/// Asserts that a table is sound, with every record in its place.
pub fn assert_sound(conn: &mut Connection, table: &str) {
    let result = conn.query(format!("CHECK TABLE {table} EXTENDED")).unwrap();
    let lines: Vec<String> = result
        .rows
        .iter()
        .map(|row| {
            let words = row.iter().map(|value| match value {
                Some(value) => String::from_utf8_lossy(value).into_owned(),
                None => "NULL".to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        line.ends_with(&format!(".{table} check status OK")),
        "{line}"
    );
}

/// Asserts that both tables hold the same rows.
pub fn assert_same(conn: &mut Connection) {
    let mut sum = |table: &str| {
        let result = conn.query(format!("CHECKSUM TABLE {table}")).unwrap();
        result.rows[0][1].clone()
    };
    assert_eq!(sum("built"), sum("loaded"));
}
