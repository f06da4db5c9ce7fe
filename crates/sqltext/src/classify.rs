//! What a statement does, from its leading words.

use std::mem::discriminant;

use crate::mode::LexMode;
use crate::token::{TokenKind, tokens};

mod words;

use words::Words;

/// A name that may be qualified; unquoted bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Database, when the name is qualified.
    pub database: Option<Vec<u8>>,
    /// The name itself.
    pub name: Vec<u8>,
}

/// Why a statement must not run unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Danger {
    /// `LOAD DATA`, `LOAD XML`: reads files of the server or of the client.
    LoadData,
    /// `SELECT … INTO OUTFILE` or `DUMPFILE`: writes files of the server.
    OutFile,
    /// `INSTALL`, `UNINSTALL`: plugins and components.
    Plugin,
    /// `CREATE FUNCTION … SONAME`: runs a library.
    LoadableFunction,
    /// `SHUTDOWN`, `RESTART`, `KILL`, `ALTER INSTANCE`, `CLONE`, `LOCK INSTANCE`, `FLUSH … WITH READ LOCK`, `FLUSH … FOR
    /// EXPORT`, `BACKUP`.
    Instance,
    /// `HANDLER`, `BINLOG`, `IMPORT TABLE`, `XA`: bypass what the loader knows.
    LowLevel,
    /// `PREPARE`, `EXECUTE`: the text that runs cannot be seen.
    DynamicSql,
    /// Conditional comments make it one statement for one server and another for the next.
    Ambiguous,
}

/// What a statement does. Names are unquoted bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatementKind {
    /// `SET` of session and user variables; see [`crate::parse_set`].
    Set,
    /// `SET GLOBAL`, `PERSIST`, `@@GLOBAL`; `RESET PERSIST`.
    SetGlobal,
    /// `SET @@GLOBAL.GTID_PURGED = …`.
    SetGtidPurged,
    /// `USE db`.
    Use {
        /// The database.
        database: Vec<u8>,
    },
    /// `CREATE DATABASE`.
    CreateDatabase {
        /// The database.
        database: Vec<u8>,
        /// With `IF NOT EXISTS`.
        if_not_exists: bool,
    },
    /// `DROP DATABASE`.
    DropDatabase {
        /// The database.
        database: Vec<u8>,
    },
    /// `ALTER DATABASE`; without a name it is the current one.
    AlterDatabase {
        /// The database.
        database: Option<Vec<u8>>,
    },
    /// `CREATE TABLE`.
    CreateTable {
        /// The table.
        table: ObjectName,
        /// With `IF NOT EXISTS`.
        if_not_exists: bool,
        /// With `TEMPORARY`.
        temporary: bool,
        /// `CREATE TABLE … LIKE …`.
        like: bool,
        /// `CREATE TABLE … SELECT …`.
        select: bool,
    },
    /// `DROP TABLE`.
    DropTable {
        /// The tables.
        tables: Vec<ObjectName>,
    },
    /// `DROP VIEW`.
    DropView {
        /// The views.
        views: Vec<ObjectName>,
    },
    /// `CREATE VIEW`.
    CreateView {
        /// The view.
        view: ObjectName,
    },
    /// `CREATE TRIGGER`.
    CreateTrigger {
        /// The trigger.
        trigger: ObjectName,
        /// The table it belongs to.
        table: ObjectName,
    },
    /// `CREATE FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY`, `LIBRARY`.
    CreateRoutine {
        /// `FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY` or `LIBRARY`.
        what: &'static str,
        /// The routine.
        routine: ObjectName,
    },
    /// `CREATE EVENT`.
    CreateEvent {
        /// The event.
        event: ObjectName,
    },
    /// `DROP TRIGGER`.
    DropTrigger {
        /// The trigger.
        trigger: ObjectName,
    },
    /// `DROP FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY`, `LIBRARY`.
    DropRoutine {
        /// As in [`StatementKind::CreateRoutine`].
        what: &'static str,
        /// The routine.
        routine: ObjectName,
    },
    /// `DROP EVENT`.
    DropEvent {
        /// The event.
        event: ObjectName,
    },
    /// `CREATE SEQUENCE` (MariaDB).
    CreateSequence {
        /// The sequence.
        sequence: ObjectName,
    },
    /// `DROP SEQUENCE` (MariaDB).
    DropSequence {
        /// The sequences.
        sequences: Vec<ObjectName>,
    },
    /// `ALTER TABLE t DISABLE KEYS` or `ENABLE KEYS`, alone.
    AlterTableKeys {
        /// The table.
        table: ObjectName,
        /// `ENABLE`.
        enable: bool,
    },
    /// Any other `ALTER TABLE`.
    AlterTable {
        /// The table.
        table: ObjectName,
    },
    /// `CREATE INDEX` and `DROP INDEX`.
    Index,
    /// `RENAME TABLE`.
    RenameTable,
    /// `LOCK TABLES`.
    LockTables,
    /// `UNLOCK TABLES`.
    UnlockTables,
    /// `INSERT` and `REPLACE` in a form that is not cut into rows.
    Insert,
    /// `START TRANSACTION`, `BEGIN`.
    StartTransaction,
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `GRANT`, `REVOKE`, `CREATE USER`, `SET PASSWORD`, roles and the like.
    Account,
    /// `CHANGE MASTER`, `START SLAVE`, `RESET`, `PURGE` and the like.
    Replication,
    /// Must not run unseen.
    Dangerous(Danger),
    /// `TRUNCATE`.
    Truncate {
        /// The table.
        table: ObjectName,
    },
    /// `DELETE`.
    Delete,
    /// `UPDATE`.
    Update,
    /// `SELECT`, `WITH`, `TABLE`, `VALUES`, `SHOW`, `DESCRIBE`, `EXPLAIN`.
    Select,
    /// `DO`.
    Do,
    /// `CALL`.
    Call,
    /// `ANALYZE`, `OPTIMIZE`, `CHECK`, `REPAIR`, `CHECKSUM`, `FLUSH`, `CACHE`.
    Maintenance,
    /// Only comments.
    Empty,
    /// None of these.
    Other,
}

/// Says what a statement does, looking through comments and into conditional comments.
///
/// A statement that is one thing with its conditional comments and another without them is
/// [`Danger::Ambiguous`].
pub fn classify(text: &[u8], mode: LexMode) -> StatementKind {
    let kind = classify_from(text, 0, mode);
    let mut stream = tokens(text, mode);
    if stream
        .next()
        .is_none_or(|t| t.kind != TokenKind::OpenConditional)
    {
        return kind;
    }
    // All before `start` may be skipped by some server: what would the rest be, alone?
    let mut depth = 1_u32;
    for token in stream {
        let start = match token.kind {
            TokenKind::OpenConditional => {
                depth += 1;
                (depth == 1).then_some(token.range.end)
            }
            TokenKind::CloseConditional => {
                depth -= 1;
                None
            }
            _ => (depth == 0).then_some(token.range.start),
        };
        if let Some(start) = start {
            let rest = classify_from(text, start, mode);
            // A query changes nothing; `WITH CASCADED CHECK OPTION` at the end of a view looks like one.
            if !matches!(
                rest,
                StatementKind::Other | StatementKind::Empty | StatementKind::Select
            ) && discriminant(&rest) != discriminant(&kind)
            {
                return StatementKind::Dangerous(Danger::Ambiguous);
            }
            if token.kind != TokenKind::OpenConditional {
                break;
            }
        }
    }
    kind
}

fn classify_from(text: &[u8], start: usize, mode: LexMode) -> StatementKind {
    let text = &text[start..];
    let mut reader = Words {
        text,
        mode,
        stream: tokens(text, mode).code(),
    };
    match reader.peek() {
        None => StatementKind::Empty,
        Some(_) => reader.statement().unwrap_or(StatementKind::Other),
    }
}
