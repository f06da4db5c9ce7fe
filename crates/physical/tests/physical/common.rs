//! A server with data, a repository, and runs.

use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use refloat_physical::backup::{BackupOptions, backup};
use refloat_physical::restore::{RestoreOptions, restore};
use refloat_physical::{
    BackupOutcome, DonorOptions, PhysicalError, PrivateOptions, RestoreOutcome, TargetOptions,
    VerifyOutcome, verify,
};
use refloat_repository::Repository;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_store::storage::LocalFolder;
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;
use refloat_wire::Connection;
use tempfile::TempDir;

/// The servers that mariadb-backup copies.
pub const KINDS: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

/// A server with a repository of its own.
pub struct Place {
    pub server: Ephemeral,
    pub folder: TempDir,
    pub repository: Repository,
    /// Empty: the server copies itself.
    pub tool: PathBuf,
}

impl Place {
    pub fn new(kind: ServerKind) -> Self {
        Self::with(&servers::quick(kind))
    }

    pub fn with(options: &refloat_sandbox::StartOptions) -> Self {
        let server = servers::start(options);
        let folder = tempfile::tempdir_in(server.folder()).unwrap();
        let storage = Arc::new(LocalFolder::new(&folder.path().join("repository")));
        let repository = Repository::init(storage, None).unwrap();
        let tool = match options.kind {
            ServerKind::MySql97 => PathBuf::new(),
            _ => servers::program(&server, "mariadb-backup", folder.path()),
        };
        Self {
            server,
            folder,
            repository,
            tool,
        }
    }

    pub fn run(&self, command: &str) -> Run {
        Run {
            dir: RunDir::create(&self.folder.path().join("state"), command).unwrap(),
            cancel: Cancel::new(),
            events: Events::new(),
            progress: Progress::new(),
        }
    }

    pub fn options(&self, label: &str) -> BackupOptions {
        BackupOptions {
            donor: DonorOptions {
                source: servers::target(&self.server),
                host: None,
                tool: self.named_tool(),
                clones: true,
                parallel: 2,
                max_rate: None,
                gentle: false,
                desync: false,
            },
            label: Some(label.to_owned()),
            threads: 2,
            level: refloat_repository::LEVEL,
        }
    }

    fn named_tool(&self) -> Option<PathBuf> {
        Some(self.tool.clone()).filter(|tool| !tool.as_os_str().is_empty())
    }

    pub fn back_up(&self, label: &str) -> Result<BackupOutcome, PhysicalError> {
        let run = self.run("backup");
        backup(&self.options(label), &self.repository, &run).map_err(|(error, _)| error)
    }

    /// Backs the server up while a page of `shop.NAME` is damaged, and mends it. Returns why that
    /// failed. `page` is the size of a page in bytes.
    pub fn fails_with_a_damaged_page(&mut self, name: &str, page: usize) -> String {
        let path = self.server.datadir().join(format!("shop/{name}.ibd"));
        self.server.stop().unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, with_a_damaged_page(&whole, page)).unwrap();
        self.server.restart().unwrap();
        let words = refloat_host::chain(&self.back_up("one").unwrap_err());
        self.server.stop().unwrap();
        fs::write(&path, whole).unwrap();
        self.server.restart().unwrap();
        words
    }

    /// Restarts the server when it has nothing left to do in its tables. It then neither reads nor
    /// writes their files until somebody wants their rows.
    pub fn settle(&mut self) {
        self.sql(
            "SET GLOBAL innodb_fast_shutdown = 0, GLOBAL innodb_buffer_pool_dump_at_shutdown = OFF",
        );
        self.server.stop().unwrap();
        self.server.restart().unwrap();
    }

    /// Backs the server up while a bit of the byte `at` of a file is another one, of a server that
    /// [has settled](Self::settle). Returns why that failed.
    pub fn fails_with_a_flipped_bit(&self, file: &str, at: u64, bit: usize) -> String {
        let path = self.server.datadir().join(file);
        let flip = || {
            let mut options = fs::OpenOptions::new();
            let file = options.read(true).write(true).open(&path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
        };
        flip();
        let result = self.back_up("one");
        flip();
        match result {
            Err(error) => refloat_host::chain(&error),
            Ok(_) => panic!("bit {bit} of byte {at} of {file} was another one, and nobody saw it"),
        }
    }

    /// A tool that does something else instead, or afterwards.
    pub fn instead(&self, script: &str) -> PathBuf {
        let path = self.folder.path().join("other-tool");
        let real = self.tool.display();
        let text = format!(
            "#!/bin/bash\nset -o pipefail\nreal='{real}'\n[ \"$1\" != --version ] || exec \"$real\" --version\n{script}\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Neither a backup nor a pack of one is in the repository.
    pub fn assert_no_backup(&self) {
        assert_eq!(self.repository.labels().unwrap(), Vec::<String>::new());
        let packs = self.repository.storage().list("packs/").unwrap();
        assert_eq!(packs, [], "what was written is taken back");
    }

    pub fn restoring(&self, label: &str) -> RestoreOptions {
        RestoreOptions {
            label: label.to_owned(),
            target: TargetOptions {
                datadir: self.server.datadir(),
                replace: true,
                tool: self.named_tool(),
                ..TargetOptions::default()
            },
            until: None,
            restart: false,
            threads: 2,
        }
    }

    /// Verifies all backups, with servers of their own that check the tables.
    pub fn check(&self) -> VerifyOutcome {
        self.try_check().unwrap()
    }

    /// Like [`Self::check`], where it may be refused.
    pub fn try_check(&self) -> Result<VerifyOutcome, PhysicalError> {
        let name = if self.tool.as_os_str().is_empty() {
            "mysqld"
        } else {
            "mariadbd"
        };
        let scratch = self.server.folder().to_owned();
        let private = PrivateOptions {
            server: Some(servers::program(&self.server, name, self.folder.path())),
            tool: self.named_tool(),
            threads: 2,
            folder: scratch.clone(),
            ..PrivateOptions::default()
        };
        let backups = self.repository.backups().unwrap();
        let run = self.run("verify");
        let outcome = verify(&self.repository, &backups, Some(&private), 2, &run);
        let left = fs::read_dir(scratch).unwrap();
        for entry in left {
            let name = entry.unwrap().file_name();
            assert!(
                !name.to_string_lossy().contains("private"),
                "{}",
                name.display()
            );
        }
        outcome
    }

    /// The numbers in the only row of a query, and the row as it was answered.
    pub fn numbers(&self, sql: &str) -> (Vec<u64>, String) {
        let found = self.server.query(sql).unwrap();
        let words = found.split_whitespace();
        (words.map(|word| word.parse().unwrap()).collect(), found)
    }

    pub fn restore(&self, options: &RestoreOptions) -> Result<RestoreOutcome, PhysicalError> {
        restore(options, &self.repository, &self.run("restore")).map_err(|(error, _)| error)
    }

    /// All that the server holds.
    pub fn snapshot(&self) -> Snapshot {
        let mut conn = servers::connect(&self.server);
        Snapshot::take(&mut conn, Scope::default()).unwrap()
    }

    pub fn sql(&self, text: &str) {
        servers::client(&self.server, &[], text.as_bytes()).unwrap();
    }

    /// Commits one number after the other into `shop.sequence` and `shop.copy`, until it is `over`.
    /// Before each, it goes into these tables without transactions.
    pub fn write_sequence(&self, plain: &[&str], committed: &AtomicU64, over: &AtomicBool) {
        let mut conn = servers::connect(&self.server);
        while !over.load(Ordering::Relaxed) {
            let next = committed.load(Ordering::Relaxed) + 1;
            for table in plain {
                let sql = format!("INSERT INTO shop.{table} VALUES ({next})");
                conn.exec(sql).unwrap();
            }
            for sql in [
                "BEGIN".to_owned(),
                format!("INSERT INTO shop.sequence VALUES ({next})"),
                format!("INSERT INTO shop.copy VALUES ({next})"),
                "COMMIT".to_owned(),
            ] {
                conn.exec(sql).unwrap();
            }
            committed.store(next, Ordering::Relaxed);
        }
    }

    /// Numbers of [`Self::write_sequence`] that are in the tables: up to the same one in both, and
    /// one that was committed between these moments.
    pub fn assert_of_one_moment(&self, between: RangeInclusive<u64>) -> u64 {
        let (numbers, found) = self.numbers(
            "SELECT COUNT(*), MAX(id), (SELECT COUNT(*) FROM shop.copy) FROM shop.sequence",
        );
        let last = numbers[0];
        assert!(numbers.iter().all(|number| *number == last), "{found}");
        assert!(between.contains(&last), "{found} {between:?}");
        last
    }

    /// The server finds nothing wrong with any table.
    pub fn assert_sound(&self) {
        let mut conn = servers::connect(&self.server);
        for table in self.snapshot().rows.keys() {
            let (database, name) = table.split_once('.').unwrap();
            let quoted = format!("`{}`.`{}`", database, name.trim_matches('`'));
            let checked = conn
                .query(format!("CHECK TABLE {quoted} EXTENDED"))
                .unwrap();
            assert_eq!(checked.str(checked.len() - 1, 3), Some("OK"), "{quoted}");
        }
    }

    pub fn assert_holds(&self, expected: &Snapshot) {
        let found = differences(expected, &self.snapshot());
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Up to where a server has written its redo log, in bytes.
pub fn lsn(conn: &mut Connection) -> u64 {
    let answer = conn.query("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'");
    answer.unwrap().u64(0, 1).unwrap()
}

/// A folder with a server's own program and its tool for binary logs.
pub fn programs(server: &Ephemeral, folder: &Path) -> PathBuf {
    let names = match server.installation().unwrap().kind() {
        ServerKind::MySql97 => ["mysqld", "mysqlbinlog"],
        _ => ["mariadbd", "mariadb-binlog"],
    };
    let folder = folder.join("programs");
    fs::create_dir(&folder).unwrap();
    for name in names {
        servers::program(server, name, &folder);
    }
    folder
}

/// Tables of every engine that a backup copies, and of every shape that its files have.
pub const TABLES: &str = "\
CREATE DATABASE shop; USE shop;
CREATE TABLE inno (id INT PRIMARY KEY, text VARCHAR(200), KEY (text)) ENGINE=InnoDB;
CREATE TABLE aria (id INT PRIMARY KEY, text VARCHAR(200)) ENGINE=Aria;
CREATE TABLE myisam (id INT PRIMARY KEY, text VARCHAR(200)) ENGINE=MyISAM;
CREATE TABLE parts (id INT PRIMARY KEY, text VARCHAR(200)) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE squeezed (id INT PRIMARY KEY, text TEXT) ENGINE=InnoDB ROW_FORMAT=COMPRESSED;
CREATE TABLE `a b/ä` (id INT PRIMARY KEY) ENGINE=InnoDB;
CREATE VIEW seen AS SELECT id FROM inno;
CREATE PROCEDURE hello() SELECT 1;
INSERT INTO inno SELECT seq, MD5(seq) FROM seq_1_to_40000;
INSERT INTO aria SELECT seq, MD5(seq) FROM seq_1_to_5000;
INSERT INTO myisam SELECT seq, MD5(seq) FROM seq_1_to_5000;
INSERT INTO parts SELECT seq, MD5(seq) FROM seq_1_to_5000;
INSERT INTO squeezed SELECT seq, REPEAT(MD5(seq), 5) FROM seq_1_to_5000;
INSERT INTO `a b/ä` VALUES (1);
CREATE TABLE holes (id INT PRIMARY KEY, text TEXT) ENGINE=InnoDB PAGE_COMPRESSED=1;
INSERT INTO holes SELECT seq, REPEAT(MD5(seq), 20) FROM seq_1_to_5000;
FLUSH TABLES holes FOR EXPORT; UNLOCK TABLES;
";

/// A file of a table, with a bit changed in the last page that is in use: soon behind its header,
/// because a compressed page may be short.
fn with_a_damaged_page(file: &[u8], page: usize) -> Vec<u8> {
    let mut file = file.to_vec();
    let damaged = (4..file.len() / page)
        .rev()
        .find(|at| file[at * page + 4..][..34].iter().any(|byte| *byte != 0));
    file[damaged.expect("a page") * page + 50] ^= 1;
    file
}
