//! Progress marks: what of the source is loaded, recorded on the target.
//!
//! A mark commits in the transaction of the rows that it describes. So either both are there or
//! neither is, whatever is killed, and whenever: this program, its machine, the server. Marks live
//! in tables of their own schema, [`SCHEMA`], and are removed when the load has ended.
//! `docs/design/resume.md` describes what a load does with the marks it finds.

mod digest;
mod found;
mod left;
mod source;
mod takeover;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use refloat_run::Owner;
use refloat_run::ghost::{GHOST, drop_ghost, sync_definitions};
use refloat_run::own_tables::MARKS_SCHEMA;
use refloat_run::settings::Grants;
use refloat_wire::{Connection, Error};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::chunk::Piece;
use super::options::LoadOptions;
use super::table::{Table, TableDetail};
use super::writer::Written;
use digest::Growing;
pub use digest::{Digest, whole};
pub use found::{Counted, Cover, Found, Met, TableFound, parsed};
pub use left::LeftMarks;
pub use source::Fingerprint;
pub use takeover::{Gone, hold_or_end, take_over};

/// The schema that marks live in.
pub const SCHEMA: &str = MARKS_SCHEMA;
/// The tables of marks: one for the committed rows of each unfinished load, and one for everything
/// else, starting with what the load is.
const ROWS: &str = "`refloat_load`.`marks`";
const STEPS: &str = "`refloat_load`.`steps`";
/// Columns of a step.
const STEP: &str = "(run, kind, name, detail)";
/// `ER_BAD_DB_ERROR`, `ER_NO_SUCH_TABLE`, the errors for an account that may not look there, and
/// [`GHOST`].
const ABSENT: &[u16] = &[1049, 1146, 1044, 1142, GHOST];

/// What is recorded about a load as a whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// The source, as the user named it.
    pub source: String,
    /// Tells this source from others.
    pub fingerprint: Fingerprint,
    /// The options that decide what goes where, from [`deciding`].
    pub options: String,
    /// When it began, in UTC.
    pub begun: String,
    /// The process that works on it.
    pub owner: Owner,
    /// Connections that hold a lock while they live, not counting the first.
    pub slots: usize,
    /// Whether the server held nothing else when the load began.
    pub empty_server: bool,
}

/// The options that decide which rows go where, as text. Only a load with the same ones can resume
/// an earlier one.
pub fn deciding(options: &LoadOptions) -> String {
    format!(
        "database {:?}, tables {:?}, existing {:?}, collations {:?}, sql_mode {:?}, system schema {:?}, format {:?}, fields {:?}",
        options.database,
        options.tables,
        options.existing,
        options.map_collation,
        options.map_sql_mode,
        options.system_schema,
        options.source_format,
        options.delimited,
    )
}

/// The rows between two places in one file, all of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the file, from [`Marks::file`].
    pub file: u64,
    /// Byte offset at which its first row begins.
    pub begin: u64,
    /// Byte offset at which its last row ends.
    pub end: u64,
    /// How many rows it covers.
    pub rows: u64,
    /// Hash of the numbers of its pieces, in order. The `digest` module explains them.
    pub digest: u64,
}

/// The marks of one load, as all of its threads write them.
#[derive(Debug, Clone)]
pub struct Marks {
    run: String,
    about: Arc<About>,
    /// Files are named relative to this, so that the source may be elsewhere next time.
    root: PathBuf,
}

impl Marks {
    /// Marks of the load `run`. Files of its source are under `root`.
    pub fn new(run: &str, about: About, root: &Path) -> Self {
        Self {
            run: run.to_owned(),
            about: Arc::new(about),
            root: root.to_owned(),
        }
    }

    /// The id of the load that began these marks.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// What must be removed at the end. The flags say whether rows, and the tables of marks, were
    /// written to the binary log.
    pub fn left(&self, rows_logged: bool, tables_logged: bool) -> LeftMarks {
        LeftMarks {
            run: self.run.clone(),
            rows_logged,
            tables_logged,
        }
    }

    /// Creates the tables, and the step that says what this load is.
    ///
    /// # Errors
    /// Those of the server.
    pub fn begin(&self, conn: &mut Connection) -> Result<(), Error> {
        // Keep other loads out: the last one to end removes the tables.
        takeover::with_schema(conn, |conn| self.make(conn))
    }

    fn make(&self, conn: &mut Connection) -> Result<(), Error> {
        conn.exec(format!("CREATE DATABASE IF NOT EXISTS `{SCHEMA}`"))?;
        for table in [ROWS, STEPS] {
            drop_ghost(conn, table)?;
        }
        conn.exec(format!(
            "CREATE TABLE IF NOT EXISTS {ROWS} (run VARBINARY(64) NOT NULL, file BIGINT UNSIGNED NOT NULL, begins BIGINT UNSIGNED NOT NULL, \
             ends BIGINT UNSIGNED NOT NULL, db VARBINARY(256) NOT NULL, tbl VARBINARY(256) NOT NULL, sent_rows BIGINT UNSIGNED NOT NULL, \
             stored_rows BIGINT UNSIGNED NOT NULL, ignored_rows BIGINT UNSIGNED NOT NULL, refused_rows BIGINT UNSIGNED NOT NULL, \
             digest BIGINT UNSIGNED NOT NULL, detail LONGBLOB, PRIMARY KEY (run, file, begins)) ENGINE=InnoDB"
        ))?;
        conn.exec(format!(
            "CREATE TABLE IF NOT EXISTS {STEPS} (run VARBINARY(64) NOT NULL, kind VARBINARY(16) NOT NULL, name VARBINARY(300) NOT NULL, \
             detail LONGBLOB, PRIMARY KEY (run, kind, name)) ENGINE=InnoDB"
        ))?;
        let load = self.step(StepKind::Load, "", &*self.about);
        conn.exec(format!("INSERT IGNORE INTO {STEPS} {STEP} VALUES {load}"))
            .map(drop)
    }

    /// Flushes the definitions made so far to disk, because a mark that says they exist may reach
    /// it at any time. Returns whether they are on disk.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn sync_definitions(conn: &mut Connection) -> Result<bool, Error> {
        sync_definitions(conn, SCHEMA)
    }

    /// Whether an account may keep marks on its server.
    pub fn are_allowed(grants: &Grants) -> bool {
        ["CREATE", "SELECT", "INSERT", "UPDATE", "DELETE", "DROP"]
            .iter()
            .all(|privilege| grants.on_database(privilege, SCHEMA))
    }

    /// Records who works on the load now. Replicas need not know.
    pub fn note_owner(&self, conn: &mut Connection) -> Result<(), Error> {
        let logged = log(conn, false);
        let result = self.note_step(conn, StepKind::Load, "", &*self.about);
        if logged {
            log(conn, true);
        }
        result
    }

    /// The number of a source file, from its name below the root.
    pub fn file(&self, name: &str) -> u64 {
        let path = Path::new(name);
        match path.strip_prefix(&self.root) {
            // The source is this one file, or standard input.
            Ok(below) if below.as_os_str().is_empty() => 0,
            Ok(below) => XxHash3_64::oneshot(below.as_os_str().as_encoded_bytes()),
            Err(_) => XxHash3_64::oneshot(name.as_bytes()),
        }
    }

    /// The stretches of the source that the pieces of a chunk make up.
    pub fn stretches(&self, pieces: &[Piece]) -> Vec<Stretch> {
        stretches_of(pieces, |name| self.file(name))
    }

    /// Begins the transaction of these stretches and writes their marks.
    pub fn open(
        &self,
        conn: &mut Connection,
        table: &Table,
        stretches: &[Stretch],
    ) -> Result<(), Error> {
        let detail = table.detail();
        let mark = self.insert(stretches, (&table.db, &table.name), detail.as_deref());
        let statements = if table.is_transactional() {
            ["START TRANSACTION", mark.as_str()]
        } else {
            // Rows that stay after a rollback must not be without a mark.
            [mark.as_str(), "START TRANSACTION"]
        };
        for statement in statements {
            conn.exec(statement)?;
        }
        Ok(())
    }

    /// Adds marks to the transaction that [`Marks::open`] has begun.
    pub fn add(
        &self,
        conn: &mut Connection,
        table: &Table,
        stretches: &[Stretch],
    ) -> Result<(), Error> {
        let mark = self.insert(stretches, (&table.db, &table.name), None);
        conn.exec(mark).map(drop)
    }

    /// The statement that marks these stretches of a table as done. Run it in the transaction of
    /// their rows.
    fn insert(
        &self,
        stretches: &[Stretch],
        (db, table): (&str, &str),
        detail: Option<&TableDetail>,
    ) -> String {
        let mut sql = format!(
            "INSERT INTO {ROWS} (run, file, begins, ends, db, tbl, sent_rows, stored_rows, ignored_rows, refused_rows, digest, detail) VALUES "
        );
        let (run, db, table) = (
            hex(self.run.as_bytes()),
            hex(db.as_bytes()),
            hex(table.as_bytes()),
        );
        let mut detail = detail.map_or_else(|| "NULL".to_owned(), json);
        for (at, one) in stretches.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            if at == 1 {
                // Once is enough.
                "NULL".clone_into(&mut detail);
            }
            let _ = write!(
                sql,
                "{comma}({run}, {}, {}, {}, {db}, {table}, {rows}, {rows}, 0, 0, {}, {detail})",
                one.file,
                one.begin,
                one.end,
                one.digest,
                rows = one.rows,
            );
        }
        sql
    }

    /// Corrects the counts of rows that were not all stored. The first stretch gets all of the
    /// counts.
    pub fn correct(
        &self,
        conn: &mut Connection,
        stretches: &[Stretch],
        written: Written,
        refused: u64,
    ) -> Result<(), Error> {
        let sent: u64 = stretches.iter().map(|one| one.rows).sum();
        let Some(first) = stretches.first() else {
            return Ok(());
        };
        if written.rows == sent && written.ignored == 0 && refused == 0 {
            return Ok(());
        }
        let of_first = format!("begins = {} AND file = {}", first.begin, first.file);
        conn.exec(format!(
            "UPDATE {ROWS} SET stored_rows = IF({of_first}, {}, 0), ignored_rows = IF({of_first}, {}, 0), \
             refused_rows = IF({of_first}, {refused}, 0) WHERE run = {} AND ({})",
            written.rows,
            written.ignored,
            hex(self.run.as_bytes()),
            places(stretches),
        ))
        .map(drop)
    }

    /// Looks for the result of a commit whose answer was lost: what was written of these stretches,
    /// and how many rows were refused. `None` if they are not committed. Locks what it reads,
    /// because a proxy that sends plain reads to replicas sends locking ones to the server that was
    /// written to.
    pub fn committed(
        &self,
        conn: &mut Connection,
        stretches: &[Stretch],
    ) -> Result<Option<(Written, u64)>, Error> {
        // This may run in the dump's own session, whose sql_select_limit may be 0. The limit
        // overrides that.
        let result = conn.query(format!(
            "SELECT COUNT(*), CAST(SUM(stored_rows) AS UNSIGNED), CAST(SUM(ignored_rows) AS UNSIGNED), CAST(SUM(refused_rows) AS UNSIGNED) FROM {ROWS} WHERE run = {} AND ({}) LIMIT 1 LOCK IN SHARE MODE",
            hex(self.run.as_bytes()),
            places(stretches)
        ))?;
        let number = |column| result.u64(0, column).unwrap_or(0);
        Ok((number(0) == stretches.len() as u64).then(|| {
            let written = Written {
                rows: number(1),
                ignored: number(2),
                ..Written::default()
            };
            (written, number(3))
        }))
    }

    /// Removes the marks of a table whose rows will all be written again.
    pub fn forget_table(
        &self,
        conn: &mut Connection,
        (db, table): (&str, &str),
    ) -> Result<(), Error> {
        conn.exec(format!(
            "DELETE FROM {ROWS} WHERE run = {} AND db = {} AND tbl = {}",
            hex(self.run.as_bytes()),
            hex(db.as_bytes()),
            hex(table.as_bytes())
        ))
        .map(drop)
    }

    /// Writes a step, replacing what was recorded for it before.
    pub fn note_step(
        &self,
        conn: &mut Connection,
        kind: StepKind,
        name: &str,
        detail: &impl Serialize,
    ) -> Result<(), Error> {
        let step = self.step(kind, name, detail);
        conn.exec(format!("REPLACE INTO {STEPS} {STEP} VALUES {step}"))
            .map(drop)
    }

    /// [`Marks::note_step`] for a statement whose definition may not be on disk yet. `started` is
    /// when the server was started.
    pub fn note_unsettled(
        &self,
        conn: &mut Connection,
        (name, detail): (&str, &impl Serialize),
        started: i64,
    ) -> Result<(), Error> {
        let step = self.step(StepKind::Statement, name, detail);
        let unsettled = self.step(StepKind::Unsettled, "", &started);
        conn.exec(format!(
            "REPLACE INTO {STEPS} {STEP} VALUES {step}, {unsettled}"
        ))
        .map(drop)
    }

    /// Records that the definitions of all statements are on disk.
    pub fn note_settled(&self, conn: &mut Connection) -> Result<(), Error> {
        conn.exec(format!(
            "DELETE FROM {STEPS} WHERE run = {} AND kind = {}",
            hex(self.run.as_bytes()),
            hex(StepKind::Unsettled.word().as_bytes())
        ))
        .map(drop)
    }

    /// The SQL values of a step.
    fn step(&self, kind: StepKind, name: &str, detail: &impl Serialize) -> String {
        format!(
            "({}, {}, {}, {})",
            hex(self.run.as_bytes()),
            hex(kind.word().as_bytes()),
            hex(name.as_bytes()),
            json(detail)
        )
    }
}

/// Kinds of steps, which is everything but rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The load itself: its [`About`]. Marks without it belong to no load.
    Load,
    /// A statement that runs alone, by its place.
    Statement,
    /// A database, before the first change in it.
    Database,
    /// A table whose tablespace is built, with its database. Without marks of its rows, it is in no
    /// known state.
    Import,
    /// Definitions of statements that are marked done may not be on disk. Holds the time at which
    /// the server that ran them started.
    Unsettled,
}

impl StepKind {
    fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Statement => "statement",
            Self::Database => "database",
            Self::Import => "import",
            Self::Unsettled => "unsettled",
        }
    }
}

/// Switches the session's binary log off or on, if the account may. Returns whether this changed
/// it.
fn log(conn: &mut Connection, on: bool) -> bool {
    let before = conn.query_value("SELECT @@SESSION.sql_log_bin");
    let other = matches!(&before, Ok(Some(value)) if (value == "1") != on);
    other
        && conn
            .exec(format!("SET SESSION sql_log_bin = {}", u8::from(on)))
            .is_ok()
}

/// Whether there are no marks at all, as far as the account can see.
fn is_absent(error: &Error) -> bool {
    error
        .server_code()
        .is_some_and(|code| ABSENT.contains(&code))
}

fn places(stretches: &[Stretch]) -> String {
    let each: Vec<String> = stretches
        .iter()
        .map(|one| format!("file = {} AND begins = {}", one.file, one.begin))
        .collect();
    each.join(" OR ")
}

/// [`Marks::stretches`], with `file` numbering the files.
fn stretches_of(pieces: &[Piece], file: impl Fn(&str) -> u64) -> Vec<Stretch> {
    let joins =
        |last: &Piece, next: &Piece| !next.after_gap && Arc::ptr_eq(&last.source, &next.source);
    let each = pieces.chunk_by(joins).map(|joined| {
        let (first, last) = (&joined[0], &joined[joined.len() - 1]);
        let mut growing = Growing::default();
        for piece in joined {
            growing.add(piece.digest);
        }
        Stretch {
            file: file(&first.source),
            begin: first.offset,
            end: last.offset + last.len() as u64,
            rows: joined.iter().map(|piece| piece.rows).sum(),
            digest: growing.digest(),
        }
    });
    each.collect()
}

/// A literal that every session reads the same way, whatever its modes and character sets are.
fn hex(bytes: &[u8]) -> String {
    let mut literal = String::with_capacity(bytes.len() * 2 + 3);
    literal.push_str("x'");
    for byte in bytes {
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push('\'');
    literal
}

fn json(value: &impl Serialize) -> String {
    // These types contain nothing that JSON cannot express.
    hex(&serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use refloat_run::own_tables::{MARKS_TABLES, is_own_table};

    use super::{ROWS, SCHEMA, STEPS};

    #[test]
    fn tables_of_marks_are_known_as_our_own() {
        let names = MARKS_TABLES.map(|table| format!("`{SCHEMA}`.`{table}`"));
        assert_eq!(names, [ROWS, STEPS]);
        assert!(MARKS_TABLES.iter().all(|table| is_own_table(SCHEMA, table)));
    }
}
