//! Writes dump directories like mydumper 1.x, after its source code: `mydumper_jobs.c`
//! (definitions), `mydumper_write.c` (rows), `mydumper_start_dump.c` (metadata),
//! `mydumper_common.c` (names), `mydumper_stream.c` (streams).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_wire::Connection;

use crate::bench::{Bench, run};

/// A default server's SQL mode as mydumper writes it: without strict mode.
pub const MODE: &str = "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION";

/// Variables that are set around the definitions of stored programs and views.
const SESSION: [&str; 3] = [
    "character_set_client",
    "character_set_results",
    "collation_connection",
];

/// The format of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Insert,
    LoadData,
    Csv,
}

/// How the rows of a table are split into files.
#[derive(Clone, Copy)]
pub enum Files {
    One,
    /// One file per this many rows, as with `--rows`.
    Chunks(usize),
    /// One chunk in parts of this many rows, as with `--chunk-filesize`.
    Parts(usize),
}

impl Files {
    /// The most rows in a file.
    fn rows(self) -> usize {
        match self {
            Self::One => usize::MAX,
            Self::Chunks(rows) | Self::Parts(rows) => rows,
        }
    }

    /// The numbers in a file's name.
    fn numbers(self, file: usize) -> String {
        match self {
            Self::Chunks(_) => format!("{:05}", file + 1),
            Self::One | Self::Parts(_) if file == 0 => "00000".to_owned(),
            Self::One | Self::Parts(_) => format!("00000.{file:05}"),
        }
    }
}

/// The options of a dump.
#[derive(Clone, Copy)]
pub struct Way {
    pub rows: Rows,
    /// The compressor's file extension.
    pub pack: &'static str,
    pub files: Files,
    /// Triggers in one file per table, as with `--regex`, or else in one per database.
    pub triggers_of_tables: bool,
    /// The server runs in the mode `ANSI_QUOTES`; then nothing that keeps its own mode is dumped.
    pub ansi: bool,
    /// Sequences are not recognised, and dumped as tables.
    pub sequences_as_tables: bool,
}

/// What mydumper writes without options.
pub const DEFAULT: Way = Way {
    rows: Rows::Insert,
    pack: "",
    files: Files::One,
    triggers_of_tables: false,
    ansi: false,
    sequences_as_tables: false,
};

/// A dump directory in the making.
struct Writer<'a> {
    bench: &'a Bench,
    conn: Connection,
    way: Way,
    root: PathBuf,
    /// The sections of `metadata`.
    sections: String,
    sequences: usize,
    /// Replacements in file names for names that are unsuitable for them.
    replaced: RefCell<BTreeMap<String, usize>>,
}

/// Dumps these databases of the server.
pub fn write(bench: &Bench, way: Way, databases: &[&str]) -> PathBuf {
    let root = bench.path("dump");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).unwrap();
    let mut conn = bench.connect();
    let mode = if way.ansi { "ANSI_QUOTES" } else { "" };
    conn.exec("SET NAMES binary").unwrap();
    conn.exec(format!(
        "SET SESSION sql_mode = '{mode}', time_zone = '+00:00'"
    ))
    .unwrap();
    let mut writer = Writer {
        bench,
        conn,
        way,
        root,
        sections: String::new(),
        sequences: 0,
        replaced: RefCell::default(),
    };
    for database in databases {
        writer.database(database);
    }
    writer.metadata(databases);
    writer.pack();
    writer.root
}

impl Writer<'_> {
    /// A database or table name as it appears in file names.
    fn in_files(&self, name: &str) -> String {
        let fit = |c: char| c.is_ascii_alphanumeric() || "_- ".contains(c);
        if name.chars().all(fit) && !name.starts_with("mydumper_") {
            return name.to_owned();
        }
        let mut replaced = self.replaced.borrow_mut();
        let next = replaced.len();
        let number = replaced.entry(name.to_owned()).or_insert(next);
        format!("mydumper_{number}")
    }

    fn quote(&self) -> char {
        if self.way.ansi { '"' } else { '`' }
    }

    fn quoted(&self, name: &str) -> String {
        let quote = self.quote();
        let doubled = format!("{quote}{quote}");
        format!("{quote}{}{quote}", name.replace(quote, &doubled))
    }

    /// The first statements of every SQL file.
    fn head(&self) -> String {
        let ansi = if self.way.ansi { ",ANSI_QUOTES" } else { "" };
        format!(
            "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET SQL_MODE='{MODE}{ansi}'*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"
        )
    }

    fn file(&self, name: &str, text: &[u8]) {
        fs::write(
            self.root.join(name),
            [self.head().as_bytes(), text].concat(),
        )
        .unwrap();
    }

    /// A value from the first row.
    fn shown(&mut self, sql: &str, column: &str) -> String {
        let found = self.conn.query(sql).unwrap();
        found.get(0, column).unwrap().to_owned()
    }

    /// A definition between the statements that set and restore its character sets. `before` goes
    /// directly in front of it.
    fn program(&mut self, sql: &str, column: &str, before: &str) -> String {
        let found = self.conn.query(sql).unwrap();
        let value = |name| found.get(0, name).unwrap();
        let create = value(column).replace(";\n", "; \n");
        let values = [
            "character_set_client",
            "character_set_client",
            "collation_connection",
        ];
        let mut text = String::new();
        for name in SESSION {
            let upper = name.to_uppercase();
            let _ = writeln!(text, "SET @PREV_{upper}=@@{upper};");
        }
        for (name, of) in SESSION.iter().zip(values) {
            let _ = writeln!(text, "SET {name} = {};", value(of));
        }
        let _ = writeln!(text, "{before}{create};");
        for name in SESSION {
            let _ = writeln!(text, "SET {name} = @PREV_{};", name.to_uppercase());
        }
        text
    }

    /// The first `N` columns as text.
    fn list<const N: usize>(&mut self, sql: &str) -> Vec<[String; N]> {
        let found = self.conn.query(sql).unwrap();
        let text = |row, column| found.str(row, column).unwrap_or_default().to_owned();
        (0..found.len())
            .map(|row| std::array::from_fn(|column| text(row, column)))
            .collect()
    }

    fn database(&mut self, database: &str) {
        let base = self.in_files(database);
        self.conn
            .exec(format!("USE {}", self.quoted(database)))
            .unwrap();
        let create = format!(
            "SHOW CREATE DATABASE IF NOT EXISTS {}",
            self.quoted(database)
        );
        let create = self.shown(&create, "Create Database");
        self.file(
            &format!("{base}-schema-create.sql"),
            format!("{create};\n").as_bytes(),
        );
        let tables: Vec<[String; 2]> = self.list(&format!("SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' ORDER BY 1"));
        for [table, kind] in tables {
            let file = format!("{base}.{}", self.in_files(&table));
            match kind.as_str() {
                "VIEW" => self.view(&file, &table),
                "SEQUENCE" if !self.way.sequences_as_tables => self.sequence(&file, &table),
                _ => self.table(&file, &table),
            }
        }
        if !self.way.ansi {
            self.triggers(database, &base);
            self.programs(database, &base);
        }
    }

    /// Writes a section of `metadata`.
    fn section(&mut self, file: &str, table: &str, rows: usize, more: &str) {
        let (database, name) = file.rsplit_once('.').unwrap();
        let quote = self.quote();
        let real = self.quoted(table);
        let real = &real[1..real.len() - 1];
        let _ = write!(
            self.sections,
            "\n[{quote}{database}{quote}.{quote}{name}{quote}]\nreal_table_name={real}\nrows = {rows}\n{more}schema_checksum = 922479af\n"
        );
    }

    fn view(&mut self, file: &str, view: &str) {
        let quoted = self.quoted(view);
        let columns: Vec<[String; 2]> = self.list(&format!("SHOW FIELDS FROM {quoted}"));
        // Only the first column keeps its type.
        let columns: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, [name, of])| {
                let of = if at == 0 { of } else { "int" };
                format!("{} {of}", self.quoted(name))
            })
            .collect();
        let encryption = if self.bench.kind.is_mariadb() {
            ""
        } else {
            " ENCRYPTION='N'"
        };
        let place = format!(
            "CREATE TABLE IF NOT EXISTS {quoted}(\n{}\n) ENGINE=MEMORY{encryption};\n",
            columns.join(",\n")
        );
        self.file(&format!("{file}-schema.sql"), place.as_bytes());
        let create = self.program(&format!("SHOW CREATE VIEW {quoted}"), "Create View", "");
        let text =
            format!("DROP TABLE IF EXISTS {quoted};\nDROP VIEW IF EXISTS {quoted};\n{create}");
        self.file(&format!("{file}-schema-view.sql"), text.as_bytes());
        self.section(file, view, 0, "is_view = 1\n");
    }

    fn sequence(&mut self, file: &str, sequence: &str) {
        let quoted = self.quoted(sequence);
        let create = self.shown(&format!("SHOW CREATE SEQUENCE {quoted}"), "Create Table");
        let next = self.shown(
            &format!("SELECT next_not_cached_value FROM {quoted}"),
            "next_not_cached_value",
        );
        let text = format!(
            "DROP TABLE IF EXISTS {quoted};\nDROP VIEW IF EXISTS {quoted};\n{create};\nDO SETVAL({quoted}, {next}, 0);\n"
        );
        self.file(&format!("{file}-schema-sequence.sql"), text.as_bytes());
        self.section(file, sequence, 0, "is_sequence = 1\n");
        self.sequences += 1;
    }

    fn table(&mut self, file: &str, table: &str) {
        let quoted = self.quoted(table);
        let create = self.shown(&format!("SHOW CREATE TABLE {quoted}"), "Create Table");
        self.file(
            &format!("{file}-schema.sql"),
            format!("{create};\n").as_bytes(),
        );
        let columns: Vec<[String; 3]> = self.list(&format!("SELECT COLUMN_NAME, DATA_TYPE, EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"));
        let stored: Vec<(String, String)> = columns
            .iter()
            .filter(|[.., extra]| !extra.ends_with("GENERATED"))
            .map(|[name, of, _]| (name.clone(), of.clone()))
            .collect();
        let listed = stored.len() < columns.len();
        let names: Vec<String> = stored.iter().map(|(name, _)| self.quoted(name)).collect();
        let found = self
            .conn
            .query(format!("SELECT {} FROM {quoted}", names.join(",")))
            .unwrap();
        let rows: Vec<Vec<u8>> = (0..found.len())
            .map(|row| {
                let fields = stored.iter().enumerate();
                let fields =
                    fields.map(|(column, (_, of))| self.field(of, found.bytes(row, column)));
                let between: &[u8] = match self.way.rows {
                    Rows::LoadData => b"\t",
                    _ => b",",
                };
                fields.collect::<Vec<_>>().join(between)
            })
            .collect();
        for (number, rows) in rows.chunks(self.way.files.rows()).enumerate() {
            let part = self.way.files.numbers(number);
            self.rows(&format!("{file}.{part}"), table, &stored, listed, rows);
        }
        let more = "data_checksum = 4279966034\nindexes_checksum = 0\n";
        self.section(file, table, rows.len(), more);
    }

    /// Writes a file of rows.
    fn rows(
        &self,
        file: &str,
        table: &str,
        columns: &[(String, String)],
        listed: bool,
        rows: &[Vec<u8>],
    ) {
        let quoted = self.quoted(table);
        let names: Vec<String> = columns.iter().map(|(name, _)| self.quoted(name)).collect();
        if self.way.rows == Rows::Insert {
            let list = if listed {
                format!(" ({})", names.join(","))
            } else {
                String::new()
            };
            let mut text = format!("INSERT INTO {quoted}{list} VALUES(").into_bytes();
            text.extend(rows.join(&b")\n,("[..]));
            text.extend(b")\n;\n");
            return self.file(&format!("{file}.sql"), &text);
        }
        let json = |(_, of): &&(String, String)| of == "json" && !self.bench.kind.is_mariadb();
        let fields: Vec<String> = columns
            .iter()
            .zip(&names)
            .map(|(column, name)| {
                if json(&column) {
                    format!("@{}", column.0)
                } else {
                    name.clone()
                }
            })
            .collect();
        let set: Vec<String> = columns
            .iter()
            .filter(json)
            .map(|(name, _)| format!("{}=CONVERT(@{name} USING UTF8MB4)", self.quoted(name)))
            .collect();
        let set = if set.is_empty() {
            String::new()
        } else {
            format!("SET {}", set.join(","))
        };
        let (between, enclosed, ignored) = match self.way.rows {
            Rows::Csv => (",", "\"", "IGNORE 1 LINES "),
            _ => ("\\t", "", ""),
        };
        let statement = format!(
            "LOAD DATA LOCAL INFILE '{file}.dat{}' INTO TABLE {quoted} FIELDS TERMINATED BY '{between}' ENCLOSED BY '{enclosed}' ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' {ignored}({}){set};\n",
            self.way.pack,
            fields.join(",")
        );
        self.file(&format!("{file}.sql"), statement.as_bytes());
        let mut text = Vec::new();
        if self.way.rows == Rows::Csv {
            let names: Vec<String> = columns
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            text.extend(names.join(",").bytes().chain([b'\n']));
        }
        for row in rows {
            text.extend(row.iter().chain(b"\n"));
        }
        fs::write(self.root.join(format!("{file}.dat")), text).unwrap();
    }

    /// Formats a value.
    fn field(&self, of: &str, value: Option<&[u8]>) -> Vec<u8> {
        let quote = match (self.way.rows, self.way.ansi) {
            (Rows::Insert, true) => "'",
            (Rows::Insert, false) | (Rows::Csv, _) => "\"",
            (Rows::LoadData, _) => "",
        };
        let whole = matches!(of, "int" | "bigint" | "tinyint");
        let Some(value) = value else {
            let null: &[u8] = match self.way.rows {
                Rows::Insert => b"NULL",
                _ => b"\\N",
            };
            return null.to_vec();
        };
        if whole || (of == "decimal" && self.way.rows == Rows::Insert) {
            return value.to_vec();
        }
        let between = match self.way.rows {
            Rows::Insert => None,
            Rows::LoadData => Some(b'\t'),
            Rows::Csv => Some(b','),
        };
        let text = [quote.as_bytes(), &escaped(value, between), quote.as_bytes()].concat();
        let (before, behind) = match (self.way.rows, of) {
            (Rows::Insert, "json") => ("CONVERT(", " USING UTF8MB4)"),
            (Rows::Insert, "varbinary" | "blob") if !value.is_empty() => ("_binary ", ""),
            _ => ("", ""),
        };
        [before.as_bytes(), &text, behind.as_bytes()].concat()
    }

    fn triggers(&mut self, database: &str, base: &str) {
        let found: Vec<[String; 2]> = self.list(&format!("SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '{database}' ORDER BY 1"));
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for [trigger, table] in found {
            let quoted = self.quoted(&trigger);
            let text = self.program(
                &format!("SHOW CREATE TRIGGER {quoted}"),
                "SQL Original Statement",
                &format!("DROP TRIGGER IF EXISTS {quoted};\n"),
            );
            let file = if self.way.triggers_of_tables {
                format!("{base}.{}", self.in_files(&table))
            } else {
                base.to_owned()
            };
            files.entry(file).or_default().push_str(&text);
        }
        if !self.way.triggers_of_tables {
            files.entry(base.to_owned()).or_default();
        }
        for (file, text) in files {
            self.file(&format!("{file}-schema-triggers.sql"), text.as_bytes());
        }
    }

    /// Writes routines and events.
    fn programs(&mut self, database: &str, base: &str) {
        let found: Vec<[String; 2]> = self.list(&format!("SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '{database}' ORDER BY 1, 2"));
        let events: Vec<[String; 1]> = self.list(&format!(
            "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = '{database}' ORDER BY 1"
        ));
        let events = events.into_iter().map(|[name]| ["EVENT".to_owned(), name]);
        let mut text = String::new();
        for [kind, name] in found.into_iter().chain(events) {
            let quoted = self.quoted(&name);
            let title = format!("Create {}{}", &kind[..1], kind[1..].to_lowercase());
            text.push_str(&self.program(
                &format!("SHOW CREATE {kind} {quoted}"),
                &title,
                &format!("DROP {kind} IF EXISTS {quoted};\n"),
            ));
        }
        if !text.is_empty() {
            self.file(&format!("{base}-schema-post.sql"), text.as_bytes());
        }
    }

    fn metadata(&self, databases: &[&str]) {
        let (quote, ansi) = if self.way.ansi {
            ("DOUBLE_QUOTE", ",ANSI_QUOTES")
        } else {
            ("BACKTICK", "")
        };
        let local = match self.way.rows {
            Rows::Insert => "",
            _ => "local-infile = 1\n",
        };
        let mut text = format!(
            "# Started dump at: 2026-01-01 00:00:00\n[config]\nquote-character = {quote}\n{local}\n[myloader_session_variables]\nSQL_MODE='{MODE}{ansi}' /*!40101\n\n[source]\n# Channel_Name = '' # It can be use to setup replication FOR CHANNEL\n# SOURCE_LOG_FILE = \"binlog.000002\"\n# SOURCE_LOG_POS = 4\n{}",
            self.sections
        );
        for database in databases {
            let _ = write!(
                text,
                "\n[{0}{database}{0}]\nschema_checksum = FDF2173B\npost_checksum = DB11C4DD\nevents_checksum = A93CB91B\ntriggers_checksum = 0\n",
                self.quote()
            );
        }
        let _ = write!(
            text,
            "[config]\nmax-statement-size = 422\nnum-sequences = {}\n# Finished dump at: 2026-01-01 00:00:01\n",
            self.sequences
        );
        fs::write(self.root.join("metadata"), text).unwrap();
    }

    /// Compresses every file but `metadata`.
    fn pack(&self) {
        for path in files(&self.root) {
            if path.ends_with("metadata") {
                continue;
            }
            match self.way.pack {
                ".zst" => run(Command::new("zstd").args(["-q", "--rm"]).arg(&path)),
                ".gz" => run(Command::new("gzip").arg(&path)),
                _ => {}
            }
        }
    }
}

/// Escapes text like `mysql_real_escape_string`, and the character that ends a field too.
fn escaped(value: &[u8], between: Option<u8>) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in value {
        let letter = match byte {
            0 => b'0',
            b'\n' => b'n',
            b'\r' => b'r',
            0x1A => b'Z',
            b'\\' | b'\'' | b'"' => *byte,
            _ if Some(*byte) == between => *byte,
            _ => {
                text.push(*byte);
                continue;
            }
        };
        text.extend([b'\\', letter]);
    }
    text
}

/// The files of a directory, sorted by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The stream that `--stream` makes of a directory: all files with names and sizes. The head of
/// `metadata` comes first, later what was known of the tables at that time, and the rest at the
/// end.
pub fn stream(folder: &Path) -> Vec<u8> {
    let metadata = fs::read_to_string(folder.join("metadata")).unwrap();
    let sections = metadata.find("\n[`").unwrap();
    let (head, rest) = metadata.split_at(sections);
    let mut out = Vec::new();
    let mut add = |name: &str, content: &[u8]| {
        out.extend_from_slice(format!("\n-- {name} {}\n", content.len()).as_bytes());
        out.extend_from_slice(content);
    };
    add("metadata.header", head.as_bytes());
    let all = files(folder);
    let (definitions, rows): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|path| !path.ends_with("metadata"))
        .partition(|path| path.to_str().unwrap().contains("-schema"));
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    for path in definitions {
        add(&name(path), &fs::read(path).unwrap());
    }
    // At that time, no rows were counted.
    let early = rest.split("\n[config]").next().unwrap();
    let early: Vec<&str> = early
        .lines()
        .map(|line| {
            if line.starts_with("rows") {
                "rows = 0"
            } else {
                line
            }
        })
        .collect();
    add("metadata.partial.0", early.join("\n").as_bytes());
    for path in rows {
        add(&name(path), &fs::read(path).unwrap());
    }
    add("metadata", rest.as_bytes());
    out
}
