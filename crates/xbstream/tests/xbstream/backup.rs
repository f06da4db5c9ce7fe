//! Real backups, while definitions change.
//!
//! The reader takes nothing from the pipe meanwhile, so mariadb-backup stands in the middle of a
//! large table. What it sends about a table depends on how far it is with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{memory, servers};
use refloat_xbstream::{Dialect, Operation};

use crate::common;

/// The tool has to wait in the middle of it: the pipe and the reader hold less.
const LARGE: &str = "d/z_MyISAM.MYD";

/// Longest piece that the tools write, in bytes.
const PIECE: usize = 10 << 20;

fn run(server: &Ephemeral, statements: &[&str]) {
    let mut conn = servers::connect(server);
    // The backup would wait for the statements, and they for the backup.
    for sql in ["SET lock_wait_timeout = 60", "USE d"]
        .iter()
        .chain(statements)
    {
        conn.exec(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// A server with a database `d`, and large tables in it.
fn server(kind: ServerKind) -> Ephemeral {
    let server = servers::start(&servers::quick(kind).option("aria_log_file_size", "8M"));
    server.query("CREATE DATABASE d").unwrap();
    for engine in ["InnoDB", "Aria", "MyISAM"] {
        let create = format!("CREATE TABLE z_{engine} (id INT, t TEXT) ENGINE={engine}");
        let rows =
            format!("INSERT INTO z_{engine} SELECT seq, REPEAT('text', 2000) FROM seq_1_to_3000");
        run(&server, &[&create, &rows]);
    }
    server
}

fn program(server: &Ephemeral, name: &str) -> Command {
    let found = server
        .installation()
        .and_then(|installation| installation.other(name));
    found.unwrap_or_else(|error| panic!("scripts/install-servers installs it: {error}"))
}

/// Keeps what goes through it.
struct Kept<'a, R> {
    input: R,
    bytes: &'a mut Vec<u8>,
}

impl<R: Read> Read for Kept<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

struct Backup {
    folder: tempfile::TempDir,
    stream: Vec<u8>,
    /// Operations but data, as their `Debug` text.
    seen: Vec<String>,
}

impl Backup {
    /// Makes a backup, changes definitions while the tool copies [`LARGE`], and extracts it.
    fn make(server: &Ephemeral, changes: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(memory::folder()).unwrap();
        let log = folder.path().join("log");
        let mut child = program(server, "mariadb-backup")
            .args([
                "--no-defaults",
                "--backup",
                "--stream=xbstream",
                "--user=root",
            ])
            .arg(format!("--socket={}", server.socket().display()))
            .arg(format!("--datadir={}", server.datadir().display()))
            .arg(format!(
                "--target-dir={}",
                folder.path().join("unused").display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .expect("mariadb-backup starts");
        let ours = folder.path().join("ours");
        fs::create_dir(&ours).unwrap();
        let (mut stream, mut seen, mut done) = (Vec::new(), Vec::new(), false);
        let input = Kept {
            input: child.stdout.take().unwrap(),
            bytes: &mut stream,
        };
        let ended = common::extract(input, Dialect::MariaDb, &ours, |operation| {
            if let Operation::Data { path, bytes, .. } = operation {
                assert!(bytes.len() <= PIECE);
                if !done && *path == Path::new(LARGE) {
                    run(server, changes);
                    done = true;
                }
            } else {
                seen.push(format!("{operation:?}"));
            }
        });
        let status = child.wait().unwrap();
        let log = fs::read_to_string(log).unwrap();
        assert!(status.success() && log.contains("completed OK!"), "{log}");
        assert!(ended.is_ok(), "{ended:?}");
        assert!(done);
        Self {
            folder,
            stream,
            seen,
        }
    }

    fn ours(&self) -> PathBuf {
        self.folder.path().join("ours")
    }

    /// What mbstream of this server extracts.
    fn theirs(&self, server: &Ephemeral) -> BTreeMap<PathBuf, Vec<u8>> {
        let folder = self.folder.path().join("theirs");
        fs::create_dir(&folder).unwrap();
        let file = self.folder.path().join("stream");
        fs::write(&file, &self.stream).unwrap();
        let status = program(server, "mbstream")
            .arg("-x")
            .arg("-C")
            .arg(&folder)
            .stdin(fs::File::open(file).unwrap())
            .stderr(Stdio::null())
            .status()
            .expect("mbstream starts");
        assert!(status.success());
        common::files(&folder)
    }

    fn saw(&self, text: &str) {
        let found = self.seen.iter().any(|line| line.contains(text));
        assert!(found, "not seen: {text}\n{}", self.seen.join("\n"));
    }
}

fn definitions_change_meanwhile(kind: ServerKind) {
    let server = server(kind);
    let mut tables = vec!["CREATE DATABASE gone".to_owned()];
    tables.push("CREATE TABLE gone.t (id INT) ENGINE=Aria".to_owned());
    for (engine, names) in [
        (
            "Aria",
            "dropped renamed truncated written parts_dropped parts_renamed replaced",
        ),
        ("MyISAM", "dropped renamed truncated replaced"),
        ("InnoDB", "dropped renamed truncated replaced"),
    ] {
        for name in names.split(' ') {
            let parts = if name.starts_with("parts") {
                "PARTITION BY HASH (id) PARTITIONS 2"
            } else {
                ""
            };
            let table = format!("{engine}_{name}");
            tables.push(format!(
                "CREATE TABLE {table} (id INT, t TEXT) ENGINE={engine} {parts}"
            ));
            tables.push(format!(
                "INSERT INTO {table} SELECT seq, 'text' FROM seq_1_to_1000"
            ));
        }
    }
    run(
        &server,
        &tables.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let backup = Backup::make(
        &server,
        &[
            "RENAME TABLE Aria_renamed TO Aria_new, MyISAM_renamed TO MyISAM_new",
            "RENAME TABLE InnoDB_renamed TO InnoDB_new",
            "RENAME TABLE Aria_parts_renamed TO Aria_parts_new",
            "DROP TABLE Aria_dropped, MyISAM_dropped, InnoDB_dropped, Aria_parts_dropped",
            "TRUNCATE TABLE Aria_truncated",
            "TRUNCATE TABLE MyISAM_truncated",
            "TRUNCATE TABLE InnoDB_truncated",
            "CREATE OR REPLACE TABLE Aria_replaced (new INT) ENGINE=Aria",
            "CREATE OR REPLACE TABLE MyISAM_replaced (new INT) ENGINE=MyISAM",
            "CREATE OR REPLACE TABLE InnoDB_replaced (new INT) ENGINE=InnoDB",
            "CREATE TABLE Aria_never (id INT) ENGINE=Aria",
            "RENAME TABLE Aria_never TO Aria_never_ever",
            "DROP TABLE Aria_never_ever",
            "CREATE TABLE Aria_created (id INT) ENGINE=Aria",
            "CREATE TABLE MyISAM_created (id INT) ENGINE=MyISAM",
            "CREATE TABLE InnoDB_created (id INT) ENGINE=InnoDB",
            "DROP DATABASE gone",
            "CREATE DATABASE came",
            "CREATE TABLE came.t (id INT) ENGINE=Aria",
            // Several log files long.
            "INSERT INTO Aria_written SELECT seq, REPEAT('more', 2000) FROM seq_1_to_3000",
        ],
    );
    for what in [
        r#"Seek { path: "aria_log.00000001""#,
        r#"Rename { from: "d/Aria_renamed.MAD", to: "d/Aria_new.MAD" }"#,
        r#"Remove { path: "d/Aria_dropped.MAD" }"#,
        r#"Remove { path: "d/Aria_parts_renamed#P#p0.MAD" }"#,
        r#"Remove { path: "gone/t.MAD" }"#,
        r#"RemoveFolder { path: "gone" }"#,
        r#"Rewrite { path: "d/Aria_new.frm" }"#,
        r#"Rewrite { path: "d/Aria_parts_new#P#p0.MAD" }"#,
        r#"Rewrite { path: "came/db.opt" }"#,
        r#"Ignored { path: "d/Aria_never.MAD", why: NothingToRename }"#,
        r#"Ignored { path: "d/Aria_never_ever.MAD", why: NothingToRemove }"#,
    ] {
        backup.saw(what);
    }
    let ours = common::files(&backup.ours());
    let mut theirs = backup.theirs(&server);
    // mbstream takes the pattern for a name, and leaves the partitions of tables that are gone.
    let left: BTreeSet<PathBuf> = theirs
        .keys()
        .filter(|path| !ours.contains_key(*path))
        .cloned()
        .collect();
    let partitions = ["dropped", "renamed"].into_iter().flat_map(|table| {
        ["p0.MAD", "p0.MAI", "p1.MAD", "p1.MAI"]
            .map(|part| PathBuf::from(format!("d/Aria_parts_{table}#P#{part}")))
    });
    assert_eq!(left, partitions.collect());
    theirs.retain(|path, _| !left.contains(path));
    assert!(ours == theirs);
    assert!(!backup.ours().join("gone").exists());
    let output = program(&server, "mariadb-backup")
        .args(["--no-defaults", "--prepare"])
        .arg(format!("--target-dir={}", backup.ours().display()))
        .output()
        .expect("mariadb-backup starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

// Hazard of streams: tables are dropped, renamed, truncated, replaced and created, and logs rotate,
//   while mariadb-backup copies them
#[test]
fn definitions_change_meanwhile_on_10_11() {
    definitions_change_meanwhile(ServerKind::MariaDb1011);
}

#[test]
fn definitions_change_meanwhile_on_11_8() {
    definitions_change_meanwhile(ServerKind::MariaDb118);
}
