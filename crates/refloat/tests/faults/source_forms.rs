//! One database in every form that a load accepts, for tests that kill loads.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot};
use refloat_testkit::servers;
use serde_json::json;

use crate::support::{Desk, ask, finish};

/// Tables that are also loaded from single files: with deferred keys, with no key at all, and in an
/// engine without transactions.
const FLAT: [&str; 3] = ["customers", "no_key", "old_no_key"];
/// Rows per file, for tools that write several files for a table.
const FILE_ROWS: usize = 20_000;
const DROP_ROUTINES: &str = "USE shop; DROP FUNCTION doubled; DROP PROCEDURE clean";
/// Timeout for mydumper, in seconds.
const MYDUMPER_SECONDS: &str = "60";

/// How a dump is written and given to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Plain,
    Mydumper,
    Tab,
    Compressed,
    Shell,
    MydumperInfile,
    Folder,
    Csv,
    Pipe,
}

impl Way {
    pub const ALL: [Self; 9] = [
        Self::Plain,
        Self::Mydumper,
        Self::Tab,
        Self::Compressed,
        Self::Shell,
        Self::MydumperInfile,
        Self::Folder,
        Self::Csv,
        Self::Pipe,
    ];
}

/// One command, and its input.
#[derive(Default)]
pub struct Part {
    pub args: Vec<String>,
    pub stdin: Option<PathBuf>,
}

impl Part {
    fn new(path: &Path, more: &[&str]) -> Self {
        let mut args = vec![path.to_str().unwrap().to_owned()];
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        Self { args, stdin: None }
    }
}

/// How to load a dump, and what must be there afterwards.
pub struct Given {
    /// Commands, to be run one after the other.
    pub parts: Vec<Part>,
    /// Statements to run on the server before the first command.
    pub needs: String,
    /// What must be there after the last.
    pub wanted: Rc<Snapshot>,
}

/// The sources in all forms.
pub struct Sources {
    given: Vec<(Way, Given)>,
}

impl Sources {
    pub fn of(&self, way: Way) -> &Given {
        let found = self.given.iter().find(|(one, _)| *one == way);
        &found.expect("every way is given").1
    }

    /// Dumps the database `shop` of a server in every form. Only the tables of [`FLAT`] remain on
    /// the server.
    pub fn dump(desk: &Desk, server: &Instance, kind: ServerKind) -> Self {
        // The server, which may run as another user, writes files there.
        fs::set_permissions(desk.path("."), Permissions::from_mode(0o755)).unwrap();
        let maker = Maker { desk, server, kind };
        let mut given = Vec::new();
        let wanted = maker.snapshot();
        let mut add = |way, wanted: &Rc<Snapshot>, needs: &str, parts| {
            given.push((
                way,
                Given {
                    parts,
                    needs: needs.to_owned(),
                    wanted: Rc::clone(wanted),
                },
            ));
        };
        let plain = maker.plain();
        add(Way::Plain, &wanted, "", vec![Part::new(&plain, &[])]);
        let compressed = desk.file("shop.sql.zst", Desk::compressed("zstd", &plain));
        add(
            Way::Compressed,
            &wanted,
            "",
            vec![Part::new(&compressed, &[])],
        );
        let mut pipe = Part::new(Path::new("-"), &[]);
        pipe.stdin = Some(compressed);
        add(Way::Pipe, &wanted, "", vec![pipe]);
        let folder = desk.path("folder");
        let out = folder.to_str().unwrap();
        finish(desk.refloat(["dump", "--from", &server.url(), "--out", out])).exits(0);
        add(Way::Folder, &wanted, "", vec![Part::new(&folder, &[])]);
        add(
            Way::Shell,
            &wanted,
            "",
            vec![Part::new(&maker.shell(), &[])],
        );
        let mut wanted = wanted;
        if !kind.is_mariadb() {
            // For a routine it would write `SET character_set_client = ;`, because SHOW FUNCTION
            // STATUS has a column that it does not know.
            ask(server, DROP_ROUTINES);
            wanted = maker.snapshot();
        }
        add(
            Way::Mydumper,
            &wanted,
            "",
            vec![Part::new(&maker.mydumper("mydumper"), &[])],
        );
        let infile = maker.with_load_data(&maker.mydumper("infile"));
        add(
            Way::MydumperInfile,
            &wanted,
            "",
            vec![Part::new(&infile, &[])],
        );
        if kind.is_mariadb() {
            ask(server, DROP_ROUTINES);
        }
        // `--tab` leaves it out as well.
        ask(server, "DROP EVENT shop.nightly");
        let wanted = maker.snapshot();
        let tab = Part::new(&maker.tab(), &["--database", "shop"]);
        add(Way::Tab, &wanted, "", vec![tab]);
        let parts = FLAT.map(|table| {
            let path = maker.csv(table);
            let name = format!("shop.{table}");
            let form = ["--table", &name, "--source-format", "csv", "--null", "NULL"];
            Part::new(&path, &form)
        });
        maker.keep_only(&FLAT);
        let needs = format!(
            "CREATE DATABASE shop; USE shop; {}",
            maker.tool(&["--no-data", "--skip-triggers", "--compact", "shop"])
        );
        add(Way::Csv, &maker.snapshot(), &needs, parts.into());
        Self { given }
    }
}

/// Makes dumps of one server.
struct Maker<'a> {
    desk: &'a Desk,
    server: &'a Instance,
    kind: ServerKind,
}

impl Maker<'_> {
    fn snapshot(&self) -> Rc<Snapshot> {
        let mut conn = servers::connect(self.server);
        Rc::new(Snapshot::take(&mut conn, Scope::default()).unwrap())
    }

    /// The server's own dump tool.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.server.dump_command().unwrap();
        if !self.kind.is_mariadb() {
            command.arg("--set-gtid-purged=OFF");
        }
        command.args(args);
        command
    }

    fn tool(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn plain(&self) -> PathBuf {
        let path = self.desk.path("shop.sql");
        let mut command = self.command(&["--single-transaction", "--routines", "--events"]);
        command.args(["--triggers", "--databases", "shop"]);
        let status = command.stdout(File::create(&path).unwrap()).status();
        assert!(status.unwrap().success(), "the dump failed");
        path
    }

    /// A folder that the server may write to.
    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.desk.path(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        folder
    }

    /// Tables with their columns, generated ones left out.
    fn tables(&self) -> Vec<(String, Vec<String>)> {
        let columns = "SELECT c.TABLE_NAME, GROUP_CONCAT(c.COLUMN_NAME ORDER BY c.ORDINAL_POSITION) \
             FROM information_schema.COLUMNS c JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME) \
             WHERE c.TABLE_SCHEMA = 'shop' AND t.TABLE_TYPE = 'BASE TABLE' AND COALESCE(c.GENERATION_EXPRESSION, '') = '' GROUP BY 1";
        let split = |line: &str| {
            let (table, columns) = line.split_once('\t')?;
            Some((
                table.to_owned(),
                columns.split(',').map(str::to_owned).collect(),
            ))
        };
        ask(self.server, columns)
            .lines()
            .filter_map(split)
            .collect()
    }

    /// Has the server write the rows of a table to a file.
    fn outfile(&self, path: &Path, (table, columns): (&str, &str), form: &str) {
        let path = path.display();
        let sql = format!(
            "SELECT {columns} FROM shop.`{table}` INTO OUTFILE '{path}' CHARACTER SET binary {form}"
        );
        ask(self.server, &sql);
    }

    /// A folder written by mydumper 0.10.
    fn mydumper(&self, name: &str) -> PathBuf {
        let folder = self.desk.path(name);
        let rows = FILE_ROWS.to_string();
        // mydumper may deadlock, so retry.
        let done = (0..3).any(|_| {
            let _ = fs::remove_dir_all(&folder);
            let mut command = Command::new("timeout");
            command.args([MYDUMPER_SECONDS, "mydumper", "--user", "root", "--socket"]);
            command.arg(self.server.socket()).arg("--outputdir");
            command.arg(&folder).args(["--database", "shop", "--rows"]);
            command.args([rows.as_str(), "--triggers", "--events", "--routines"]);
            let output = command.stdout(Stdio::null()).output().unwrap();
            assert!(
                output.status.success() || output.status.code() == Some(124),
                "{output:?}"
            );
            output.status.success()
        });
        assert!(done, "mydumper is not done after {MYDUMPER_SECONDS} s");
        folder
    }

    /// The same folder, with its rows in the form that mydumper 1.x writes for `LOAD DATA`: two
    /// files per table.
    fn with_load_data(&self, folder: &Path) -> PathBuf {
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name != "metadata" && !name.contains("-schema") {
                fs::remove_file(folder.join(name)).unwrap();
            }
        }
        let written = self.folder("infile-rows");
        for (table, columns) in self.tables() {
            let rows = written.join(&table);
            self.outfile(&rows, (&table, &columns.join(",")), "");
            let text = fs::read(&rows).unwrap();
            for (number, chunk) in chunks(&text).iter().enumerate() {
                let file = format!("shop.{table}.{number:05}");
                let statement = format!(
                    "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n\
                     LOAD DATA LOCAL INFILE '{file}.dat' INTO TABLE `{table}` CHARACTER SET binary FIELDS TERMINATED BY '\\t' ENCLOSED BY '' \
                     ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' (`{}`);\n",
                    columns.join("`,`")
                );
                fs::write(folder.join(format!("{file}.sql")), statement).unwrap();
                fs::write(folder.join(format!("{file}.dat")), chunk).unwrap();
            }
        }
        folder.to_owned()
    }

    /// A folder in the format of MySQL Shell's `util.dumpSchemas`, which is not installed here:
    /// written after its source code.
    fn shell(&self) -> PathBuf {
        let (folder, written) = (self.folder("shell"), self.folder("shell-rows"));
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let options = ["--skip-comments", "--compact", "--no-data"];
        let sql = |args: &[&str]| self.tool(&[&options[..], args].concat());
        let create = ask(self.server, "SHOW CREATE DATABASE IF NOT EXISTS shop");
        let (_, create) = create.split_once('\t').unwrap();
        let programs = ["--routines", "--events", "--no-create-info"];
        let programs = sql(&[&programs[..], &["--skip-triggers", "shop"]].concat());
        write("shop.sql", &format!("{create};\n{programs}"));
        let (mut names, mut bases, mut counts) = (Vec::new(), json!({}), json!({}));
        for (table, columns) in self.tables() {
            let base = format!("shop@{table}");
            write(
                &format!("{base}.sql"),
                &sql(&["--skip-triggers", "shop", &table]),
            );
            let triggers = sql(&["--triggers", "--no-create-info", "shop", &table]);
            if !triggers.is_empty() {
                write(&format!("{base}.triggers.sql"), &triggers);
            }
            let meta = json!({
                "options": {"schema": "shop", "table": table, "columns": columns, "defaultCharacterSet": "utf8mb4",
                    "fieldsTerminatedBy": "\t", "fieldsEnclosedBy": "", "fieldsOptionallyEnclosed": false,
                    "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n"},
                "triggers": [], "includesData": true, "includesDdl": true, "extension": "tsv.zst", "chunking": true,
                "compression": "zstd", "primaryIndex": [], "partitions": [], "basenames": {},
            });
            write(&format!("{base}.json"), &meta.to_string());
            let rows = written.join(&table);
            self.outfile(&rows, (&table, &columns.join(",")), "");
            let text = fs::read(&rows).unwrap();
            let chunks = chunks(&text);
            for (number, chunk) in chunks.iter().enumerate() {
                let last = if number + 1 == chunks.len() { "@" } else { "" };
                let name = format!("{base}@{last}{number}.tsv");
                let packed = Desk::compressed("zstd", &self.desk.file(&name, chunk));
                fs::write(folder.join(format!("{name}.zst")), packed).unwrap();
                // For such a small chunk, the index holds only the end offset.
                let end = u64::to_be_bytes(chunk.len() as u64);
                fs::write(folder.join(format!("{name}.zst.idx")), end).unwrap();
            }
            counts[&table] = text.split_inclusive(|&byte| byte == b'\n').count().into();
            bases[&table] = base.into();
            names.push(table);
        }
        let views = ["rich", "richest"];
        for view in views {
            let drop = format!("/*!50001 DROP VIEW IF EXISTS `{view}`*/;\n");
            let place = format!("/*!50001 CREATE VIEW `{view}` AS SELECT 1 AS `total`*/;\n");
            write(&format!("shop@{view}.pre.sql"), &format!("{drop}{place}"));
            let create = ask(self.server, &format!("SHOW CREATE VIEW shop.{view}"));
            let create = create.split('\t').nth(1).unwrap();
            write(&format!("shop@{view}.sql"), &format!("{drop}{create};\n"));
            bases[view] = format!("shop@{view}").into();
        }
        let schema = json!({
            "schema": "shop", "includesDdl": true, "includesViewsDdl": true, "includesData": true, "tables": names, "views": views,
            "events": ["nightly"], "functions": ["doubled"], "procedures": ["clean"], "basenames": bases,
        });
        write("shop.json", &schema.to_string());
        let top = json!({
            "dumper": "mysqlsh Ver 9.2.0", "version": "2.0.1", "origin": "dumpSchemas", "schemas": ["shop"],
            "basenames": {"shop": "shop"}, "defaultCharacterSet": "utf8mb4", "tzUtc": true, "consistent": true,
            "begin": "2026-01-01 00:00:00",
        });
        write("@.json", &top.to_string());
        let done = json!({"end": "2026-01-01 00:00:01", "dataBytes": 1, "tableDataBytes": {}, "tableRows": {"shop": counts}, "chunkFileBytes": {}});
        write("@.done.json", &done.to_string());
        folder
    }

    /// A folder written by `--tab`.
    fn tab(&self) -> PathBuf {
        let folder = self.folder("tab");
        self.tool(&[&format!("--tab={}", folder.display()), "shop"]);
        folder
    }

    /// The rows of a table as CSV.
    fn csv(&self, table: &str) -> PathBuf {
        let path = self.folder(&format!("csv-{table}")).join("rows.csv");
        let form = r#"FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\n'"#;
        self.outfile(&path, (table, "*"), form);
        path
    }

    /// Drops everything in the database except these tables.
    fn keep_only(&self, kept: &[&str]) {
        let mut drops = "USE shop; SET foreign_key_checks = 0; DROP VIEW rich, richest; DROP TRIGGER customers_ai; DROP TRIGGER old_bi;".to_owned();
        for (table, _) in self.tables() {
            if !kept.contains(&table.as_str()) {
                let _ = write!(drops, " DROP TABLE {table};");
            }
        }
        ask(self.server, &drops);
    }
}

/// Splits text into pieces of [`FILE_ROWS`] lines; a table without rows gives one empty piece.
fn chunks(text: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut begin, mut lines) = (Vec::new(), 0, 0);
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        lines += 1;
        if lines % FILE_ROWS == 0 {
            pieces.push(&text[begin..=at]);
            begin = at + 1;
        }
    }
    if begin < text.len() || pieces.is_empty() {
        pieces.push(&text[begin..]);
    }
    pieces
}
