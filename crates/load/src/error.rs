//! Why a load stopped.

use refloat_run::settings::SettingsError;
use refloat_run::{Cancel, Refusal};
use refloat_source::cutter::ITEM_MAX;
use refloat_source::items::ItemsError;
use refloat_source::script::CUT;
use refloat_sqltext::Item;
use refloat_store::InputError;

use super::options::{LoadOptions, WritePath};
use super::outcome::{LoadOutcome, OrphanRows, StatementFailure};

/// Advice for a load that cannot be resumed.
pub const START_OVER: &str = "Start over with --restart (and --replace for existing tables).";

/// A row that was sent to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRow {
    /// The file of the dump.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Byte of the decompressed text, from 0.
    pub offset: u64,
    /// Database and table, as `db.table`.
    pub table: String,
    /// The path that it was sent by.
    pub path: WritePath,
}

/// A value that a write path stores differently from what the dump has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherValue {
    /// The row that has it.
    pub row: SentRow,
    /// The column whose value differs.
    pub column: String,
    /// The value that the path stores, shortened.
    pub by_path: String,
    /// The value that the dump's own `INSERT` stores, shortened.
    pub as_text: String,
}

/// Why a load stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Preflight found something; the server was not changed.
    #[error("{}", refusals(.0))]
    Refused(Vec<Refusal>),
    /// The dump contains something that is refused, and parts of it were already loaded.
    #[error("{}", stopped(.0))]
    Stopped(Vec<Refusal>),
    /// The file changed while it was being loaded.
    #[error(
        "{file}: the file was changed while it was being loaded ({change}), so what was loaded may \
        mix both versions"
    )]
    SourceChanged {
        /// The file of the dump.
        file: String,
        /// What is different, in words.
        change: String,
    },
    /// `--tables` names tables that the dump does not contain.
    #[error("no table of the dump is called {}; all other requested tables are loaded", patterns.join(" or "))]
    NoSuchTable {
        /// The patterns without a match.
        patterns: Vec<String>,
    },
    /// A table has more or fewer rows in its files than the source states.
    #[error(
        "table {table}: the source says that it has {expected} rows, but its files hold {found}"
    )]
    RowsMissing {
        /// Database and table, as `db.table`.
        table: String,
        /// Rows that the source states.
        expected: u64,
        /// Rows in its files.
        found: u64,
    },
    /// The reading side of a copy stopped; its own error says why.
    #[error("the source stopped before its end")]
    SourceEnded,
    /// The fields of a file do not fit its table.
    #[error("{file}: line {line}, byte {offset}: table {table}: {message}")]
    Fields {
        /// The file of the dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table, as `db.table`.
        table: String,
        /// What is wrong, in words.
        message: String,
    },
    /// On resume, the source has other rows than those that the load began with.
    #[error(
        "{file}: line {line}, byte {offset}: the rows of table {table} here are not those that were here when the load began, so the load cannot be resumed from this source"
    )]
    SourceDiffers {
        /// The file of the dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table, as `db.table`.
        table: String,
    },
    /// Everything is loaded, but the progress marks could not be removed.
    #[error("everything is loaded, but the progress marks of the load could not be removed")]
    MarksLeft(#[source] Box<LoadError>),
    /// On resume, the source lacks rows that the load has already written.
    #[error(
        "table {table} has loaded rows that this source does not hold: it is not the source that \
        the load began with"
    )]
    SourceLacks {
        /// Database and table, as `db.table`.
        table: String,
    },
    /// The server restarted during the load.
    #[error("the server {server} was restarted during the load")]
    Restarted {
        /// Identity of the server.
        server: String,
    },
    /// The source cannot be read as a set of files.
    #[error(transparent)]
    Source(refloat_source::SourceError),
    /// A bug in Refloat.
    #[error("a defect of this program, please report it: {0}")]
    Defect(String),
    /// The source could not be read to its end.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The text of the dump is malformed.
    #[error("{file}: line {line}, byte {offset}: {message}")]
    Text {
        /// The file of the dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// What is wrong there, in words.
        message: String,
    },
    /// The text of the dump cannot be split into statements.
    #[error("{file}: {source}")]
    Scan {
        /// The file of the dump.
        file: String,
        /// What is wrong, and where.
        source: refloat_sqltext::ScanError,
    },
    /// The dump ended without its closing comment.
    #[error(
        "{file}: the dump ends at byte {offset}, and may be truncated: {}",
        CUT
    )]
    MissingTrailer {
        /// The file of the dump.
        file: String,
        /// Bytes of text that there were.
        offset: u64,
    },
    /// The server refused a statement or row.
    #[error("{file}: {failure}")]
    Statement {
        /// The file of the dump.
        file: String,
        /// Which statement or row, and the server's error.
        failure: Box<StatementFailure>,
    },
    /// Statements or rows were refused and the load continued, as asked (`--on-error continue`).
    #[error("{total} {} refused and left out", if *total == 1 { "statement or row was" } else { "statements or rows were" })]
    Failures {
        /// Number of refused statements and rows.
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
        /// Database and table, as `db.table`.
        table: String,
        /// The clauses of `ALTER TABLE` that failed.
        what: String,
        /// The server's error.
        #[source]
        source: refloat_wire::Error,
    },
    /// The tablespace of a table could not be built.
    #[error("table {table}: {doing} failed")]
    Tablespace {
        /// Database and table, as `db.table`.
        table: String,
        /// What was being done.
        doing: &'static str,
        /// What is wrong.
        #[source]
        source: refloat_tablespace::table::BuildError,
    },
    /// Rows refer to parents that do not exist, and the dump's session checks foreign keys.
    #[error("{}", orphaned(.0))]
    Orphans(Vec<OrphanRows>),
    /// The server reported rows as committed, but they are not there, even after retries where rows
    /// can be written again.
    #[error("rows of table {table} are missing, although the server reported them as committed")]
    CommitLost {
        /// Database and table, as `db.table`.
        table: String,
    },
    /// The first rows of a table would not be stored as the dump has them.
    #[error(
        "{}: line {}, byte {}: column {} of table {} would hold {} by {}, but holds {} by the \
        dump's own INSERT (tried on temporary tables); none of these rows was written",
        .0.row.file, .0.row.line, .0.row.offset, .0.column, .0.row.table, .0.by_path, .0.row.path,
        .0.as_text
    )]
    StoredOtherwise(Box<OtherValue>),
    /// The first rows of a table were not stored as the dump has them.
    #[error(
        "{}: line {}, byte {}: after its rows were written by {}, table {} did not hold this row \
        as the dump's own INSERT stores it; they were rolled back",
        .0.file, .0.line, .0.offset, .0.path, .0.table
    )]
    RowNotFound(Box<SentRow>),
    /// A setting could not be journalled, changed or restored.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A row is larger than the server accepts in one packet.
    #[error(
        "{file}: line {line}, byte {offset}: a row of table {table} needs a packet of {size} bytes; the server's max_allowed_packet is {limit}"
    )]
    RowTooLarge {
        /// The file of the dump.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Byte of the decompressed text, from 0.
        offset: u64,
        /// Database and table, as `db.table`.
        table: String,
        /// Bytes needed.
        size: usize,
        /// Bytes allowed, the server's `max_allowed_packet`.
        limit: usize,
    },
    /// The run was cancelled; the text is the reason.
    #[error("{0}")]
    Interrupted(String),
    /// The run folder could not be written.
    #[error("could not write the run's records")]
    Records(#[source] std::io::Error),
}

/// Text about the first table and foreign key, and the number of others.
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

/// Runs `work` so that a panic in it, which is always a bug, ends like any other error: settings
/// must still be restored, and no other thread may wait forever.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(LoadError::defect(panic.as_ref())))
}

/// A load that did not reach its end, and what it did until then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct LoadFailure {
    /// Why it stopped.
    #[source]
    pub error: LoadError,
    /// What the load did before it stopped.
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
    /// Refuses a file that begins as a dump tool begins it and lacks the tool's ending (`is_cut`),
    /// unless the user accepts that. Its text ends at `offset`.
    pub(crate) fn refuse_cut(
        options: &LoadOptions,
        is_cut: bool,
        (file, offset): (&str, u64),
    ) -> Result<(), Self> {
        if is_cut && !options.accept_missing_trailer {
            return Err(Self::MissingTrailer {
                file: file.to_owned(),
                offset,
            });
        }
        Ok(())
    }

    /// The error of a file that cannot be read to its end.
    pub fn of_items(file: &str, error: ItemsError) -> Self {
        let file = file.to_owned();
        match error {
            ItemsError::Input(error) => error.into(),
            ItemsError::Scan(source) => Self::Scan { file, source },
            ItemsError::Text {
                line,
                offset,
                message,
            } => Self::Text {
                file,
                line,
                offset,
                message,
            },
        }
    }

    /// The error of a cancelled run.
    pub fn interrupted(cancel: &Cancel) -> Self {
        Self::Interrupted(
            cancel
                .reason()
                .map_or_else(|| "stopped".to_owned(), |reason| reason.to_string()),
        )
    }

    /// The error of a panic, which is always a bug in Refloat.
    pub fn defect(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Defect(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }

    /// The error of delimited text in which a row does not end.
    pub fn row_without_end(file: String, line: u64, offset: u64) -> Self {
        Self::Text {
            file,
            line,
            offset,
            message: format!("no row ends within {ITEM_MAX} bytes from here on"),
        }
    }

    /// The error for rows that are not the ones that an earlier process found in this place.
    pub fn source_differs(file: &str, line: u64, offset: u64, table: String) -> Self {
        Self::SourceDiffers {
            file: file.to_owned(),
            line,
            offset,
            table,
        }
    }

    /// The error of a last statement without a delimiter: the dump may be truncated inside it.
    pub fn unterminated(file: &str, item: &Item) -> Self {
        Self::Text {
            file: file.to_owned(),
            line: item.line,
            offset: item.offset,
            message: "the dump ends in the middle of a statement: no delimiter follows it"
                .to_owned(),
        }
    }

    /// A server error, with what was being done.
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
