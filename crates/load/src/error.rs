//! Why a load stopped.

use std::fmt;

use refloat_run::Cancel;
use refloat_run::settings::SettingsError;
use refloat_source::cutter::ITEM_MAX;
use refloat_sqltext::Item;
use refloat_store::InputError;

use super::options::WritePath;
use super::outcome::{LoadOutcome, OrphanRows, StatementFailure};

/// What is to be done where a load cannot be resumed.
pub const START_OVER: &str =
    "Start over with --restart (and --replace for the tables that are there).";

/// One reason why a load was refused before anything was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// Names shown when a database is not empty.
const NAMES_SHOWN: usize = 5;

impl Refusal {
    /// A database holds something (`names`, all of it), and nobody said what is to become of that.
    pub(super) fn not_empty(database: &str, names: &[String]) -> Self {
        let more = if names.len() > NAMES_SHOWN {
            ", …"
        } else {
            ""
        };
        let shown = names
            .iter()
            .take(NAMES_SHOWN)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        Self {
            reason: format!(
                "database {database} is not empty: {} tables, views, routines and events ({shown}{more})",
                names.len()
            ),
            hint: "Use --replace to let the dump's tables replace those of the same name, --append to add rows to them, or another --database.".to_owned(),
        }
    }

    /// The dump, in this line, or statements for tables name another database than the one that it is to go into.
    pub(super) fn other_database(name: &str, line: Option<u64>, wanted: &str) -> Self {
        let names = match line {
            Some(line) => format!("the dump names its own database {name} (line {line})"),
            None => format!("the dump has statements for tables of database {name}"),
        };
        Self {
            reason: format!("{names}, and it is to go into database {wanted}"),
            hint: "Leave out --database, and the database in the URL, to load into the databases that the dump names; renaming a database is not done.".to_owned(),
        }
    }

    /// Two names of the dump are one to the server.
    pub(super) fn same_name(first: &str, second: &str) -> Self {
        Self {
            reason: format!("{first} and {second} are different names in the dump, and one to this server (lower_case_table_names is not 0)"),
            hint: "Load into a server with lower_case_table_names = 0, or rename one of them at the source and dump again.".to_owned(),
        }
    }

    /// The dump holds a schema of the server itself, and nobody said what is to become of it.
    pub(super) fn system_schema(database: &str) -> Self {
        Self {
            reason: format!("the dump holds the server's own schema {database}: accounts, privileges and other things of the whole server"),
            hint: "Leave it out with --system-schema skip, or run it as it stands with --system-schema load.".to_owned(),
        }
    }
}

/// A value that a write path stores as another one than the dump has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherValue {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Byte of the decompressed text, from 0.
    pub offset: u64,
    /// Database and table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The path.
    pub path: WritePath,
    /// What it stores, shortened.
    pub by_path: String,
    /// What the dump's own `INSERT` stores, shortened.
    pub as_text: String,
}

impl fmt::Display for OtherValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            offset,
            table,
            column,
            path,
            by_path,
            as_text,
        } = self;
        write!(
            f,
            "{file}: line {line}, byte {offset}: column {column} of table {table} would hold {by_path} by {path}, and holds {as_text} by the \
             dump's own INSERT (tried on temporary tables); nothing of these rows was written"
        )
    }
}

/// Why a load stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Preflight found something; nothing was changed on the server.
    #[error("{}", refusals(.0))]
    Refused(Vec<Refusal>),
    /// The dump asked for something that is refused, after parts of it were loaded already.
    #[error("{}", stopped(.0))]
    Stopped(Vec<Refusal>),
    /// The file was changed while it was being loaded.
    #[error(
        "{file}: the file was changed while it was being loaded ({change}), so what was loaded may be a mixture"
    )]
    SourceChanged {
        /// The dump.
        file: String,
        /// What is different.
        change: String,
    },
    /// `--tables` names what the dump does not have.
    #[error("no table of the dump is called {}; all others that were asked for are loaded", patterns.join(" or "))]
    NoSuchTable {
        /// The patterns without a match.
        patterns: Vec<String>,
    },
    /// A table has another number of rows in its files than its source says.
    #[error(
        "table {table}: the source says that it has {expected} rows, and its files hold {found}"
    )]
    RowsMissing {
        /// Database and table.
        table: String,
        /// Rows that the source speaks of.
        expected: u64,
        /// Rows in its files.
        found: u64,
    },
    /// The other side of a copy has stopped; why is its own to say.
    #[error("the source has stopped before its end")]
    SourceEnded,
    /// The fields of a file are not those of its table.
    #[error("{file}: line {line}, byte {offset}: table {table}: {message}")]
    Fields {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table.
        table: String,
        /// What is wrong.
        message: String,
    },
    /// A load that was begun before goes on with rows that are not the same ones.
    #[error(
        "{file}: line {line}, byte {offset}: the rows of table {table} here are not those that were here when the load began, so the load cannot be resumed from this source"
    )]
    SourceDiffers {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table.
        table: String,
    },
    /// All was done but for one thing.
    #[error("everything is loaded, but the progress marks of the load could not be removed")]
    MarksLeft(#[source] Box<LoadError>),
    /// A load that was begun before has written rows that its source does not have any more.
    #[error(
        "rows of table {table} are in that this source does not have: it is not the one that the load began with"
    )]
    SourceLacks {
        /// Database and table.
        table: String,
    },
    /// The server was started again in the middle of the load.
    #[error("the server {server} was started again in the middle of the load")]
    Restarted {
        /// The server.
        server: String,
    },
    /// The source cannot be laid out.
    #[error(transparent)]
    Source(refloat_source::SourceError),
    /// A defect of this program.
    #[error("a defect of this program, please report it: {0}")]
    Defect(String),
    /// The source could not be read to its end.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The text of the dump is broken.
    #[error("{file}: line {line}, byte {offset}: {message}")]
    Text {
        /// The dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// What is wrong there.
        message: String,
    },
    /// The text of the dump cannot be read as statements.
    #[error("{file}: {source}")]
    Scan {
        /// The dump.
        file: String,
        /// What is wrong, and where.
        source: refloat_sqltext::ScanError,
    },
    /// The dump ended without its closing comment.
    #[error(
        "{file}: the dump ends at byte {offset} without its closing line `-- Dump completed`, so it may be cut"
    )]
    MissingTrailer {
        /// The dump.
        file: String,
        /// Bytes of text that were there.
        offset: u64,
    },
    /// The server refused a statement or row.
    #[error("{file}: {failure}")]
    Statement {
        /// The dump.
        file: String,
        /// Where and what.
        failure: Box<StatementFailure>,
    },
    /// Statements or rows were refused and the load went on, as asked.
    #[error("{total} {} refused, and the load went on without", if *total == 1 { "statement or row was" } else { "statements or rows were" })]
    Failures {
        /// How many.
        total: u64,
    },
    /// The server or the connection to it failed.
    #[error("{context}")]
    Server {
        /// What was being done.
        context: String,
        /// The connection's error.
        #[source]
        source: refloat_wire::Error,
    },
    /// Building an index or a foreign key failed; the rows are in place.
    #[error("table {table}: could not build {what}")]
    Index {
        /// Database and table.
        table: String,
        /// The clauses.
        what: String,
        /// The server's words.
        #[source]
        source: refloat_wire::Error,
    },
    /// Rows name parents that are not there, and the dump's session checks foreign keys.
    #[error("{}", orphaned(.0))]
    Orphans(Vec<OrphanRows>),
    /// The server says that rows are committed, again and again where they can be written again, and they are not there.
    #[error("rows of table {table} are not there although the server said that they are committed")]
    CommitLost {
        /// Database and table.
        table: String,
    },
    /// The first rows of a table would not be stored as the dump has them.
    #[error("{0}")]
    StoredOtherwise(Box<OtherValue>),
    /// A setting could not be journalled, changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A row is larger than the server takes in one packet.
    #[error(
        "{file}: line {line}, byte {offset}: a row of table {table} needs a packet of {size} bytes; the server's max_allowed_packet is {limit}"
    )]
    RowTooLarge {
        /// The dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table.
        table: String,
        /// Bytes needed.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The caller cancelled the run.
    #[error("{0}")]
    Interrupted(String),
    /// The run folder could not be written.
    #[error("could not write the run's records")]
    Records(#[source] std::io::Error),
}

/// The first table and foreign key, and how many others.
fn orphaned(list: &[OrphanRows]) -> String {
    let Some(first) = list.first() else {
        return String::new();
    };
    let more = match list.len() {
        1 => String::new(),
        count => format!(", and so for {} more foreign keys", count - 1),
    };
    let rows = match first.rows {
        1 => "1 row has".to_owned(),
        rows => format!("{rows} rows have"),
    };
    format!(
        "table {}: a foreign key constraint fails: {rows} no parent by {} (for example {}){more}; the dump's session checks foreign keys",
        first.table,
        first.constraint,
        first.examples.join("; ")
    )
}

/// Text of a list of refusals, one per line.
fn refusals(list: &[Refusal]) -> String {
    listed("refused before anything was touched", list)
}

fn stopped(list: &[Refusal]) -> String {
    listed("stopped, with parts of the dump loaded already", list)
}

fn listed(head: &str, list: &[Refusal]) -> String {
    let mut text = String::from(head);
    for refusal in list {
        text.push_str("\n  - ");
        text.push_str(&refusal.reason);
    }
    text
}

/// Runs `work` so that a panic in it, which is a defect, ends like any other error: settings have to be put back after it, and
/// nobody may wait for it for ever.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(LoadError::defect(panic.as_ref())))
}

/// A load that did not reach its end, with what it did until then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct LoadFailure {
    /// Why it stopped.
    #[source]
    pub error: LoadError,
    /// What was done until then.
    pub outcome: Box<LoadOutcome>,
}

impl From<refloat_source::SourceError> for LoadError {
    fn from(error: refloat_source::SourceError) -> Self {
        match error {
            refloat_source::SourceError::Input(error) => Self::Input(error),
            error => Self::Source(error),
        }
    }
}

impl LoadError {
    /// The error of a cancelled run.
    pub fn interrupted(cancel: &Cancel) -> Self {
        Self::Interrupted(
            cancel
                .reason()
                .map_or_else(|| "stopped".to_owned(), |reason| reason.to_string()),
        )
    }

    /// A panic, which only a defect of this program can be.
    pub fn defect(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Defect(text.unwrap_or_else(|| "a panic without words".to_owned()))
    }

    /// The error of delimited text in which no row ends any more.
    pub fn row_without_end(file: String, line: u64, offset: u64) -> Self {
        Self::Text {
            file,
            line,
            offset,
            message: format!("no row ends within {ITEM_MAX} bytes from here on"),
        }
    }

    /// The error of a last statement that has no delimiter: the dump may be cut in the middle of it.
    pub fn unterminated(file: &str, item: &Item) -> Self {
        Self::Text {
            file: file.to_owned(),
            line: item.line,
            offset: item.offset,
            message: "the dump ends in the middle of a statement: no delimiter follows it"
                .to_owned(),
        }
    }

    /// A connection error with what was being done.
    pub fn server(context: impl Into<String>, source: refloat_wire::Error) -> Self {
        Self::Server {
            context: context.into(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_words() {
        let silent = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let list: Vec<u8> = Vec::new();
        let found = guarded(|| Ok(list[list.len()]));
        std::panic::set_hook(silent);
        let Err(LoadError::Defect(words)) = found else {
            panic!("{found:?}");
        };
        assert!(words.contains("out of bounds"), "{words}");
        assert!(matches!(guarded(|| Ok(1)), Ok(1)));
    }
}
