//! Determines what a statement does from its leading words.

use std::mem::discriminant;

use crate::mode::LexMode;
use crate::token::{TokenKind, tokens};

mod words;

use words::Words;

/// A name, qualified or not; unquoted bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// The database; `None` when the name is not qualified.
    pub database: Option<Vec<u8>>,
    /// The name without its database.
    pub name: Vec<u8>,
}

/// Why a statement must not run unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Danger {
    /// `LOAD DATA`, `LOAD XML`: reads files on the server or the client.
    LoadData,
    /// `SELECT … INTO OUTFILE` or `DUMPFILE`: writes files on the server.
    OutFile,
    /// `INSTALL`, `UNINSTALL`: plugins and components.
    Plugin,
    /// `CREATE FUNCTION … SONAME`: loads a shared library into the server.
    LoadableFunction,
    /// `SHUTDOWN`, `RESTART`, `KILL`, `ALTER INSTANCE`, `CLONE`, `LOCK INSTANCE`,
    /// `FLUSH … WITH READ LOCK`, `FLUSH … FOR EXPORT`, `BACKUP`.
    Instance,
    /// `HANDLER`, `BINLOG`, `IMPORT TABLE`, `XA`: bypass the state that the loader tracks.
    LowLevel,
    /// `PREPARE`, `EXECUTE`: the text that runs is not visible.
    DynamicSql,
    /// Conditional comments make it different statements on different servers.
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
        /// Name of the database, unquoted.
        database: Vec<u8>,
    },
    /// `CREATE DATABASE` or `SCHEMA`.
    CreateDatabase {
        /// Name of the database, unquoted.
        database: Vec<u8>,
        /// With `IF NOT EXISTS`: one that exists stays as it is.
        if_not_exists: bool,
    },
    /// `DROP DATABASE` or `SCHEMA`, with `IF EXISTS` or without.
    DropDatabase {
        /// Name of the database, unquoted.
        database: Vec<u8>,
    },
    /// `ALTER DATABASE` or `SCHEMA`, with any options.
    AlterDatabase {
        /// The database; `None` for the current one.
        database: Option<Vec<u8>>,
    },
    /// `CREATE TABLE` in all its forms, `OR REPLACE` too.
    CreateTable {
        /// Name of the table, possibly qualified.
        table: ObjectName,
        /// With `IF NOT EXISTS`: one that exists stays as it is.
        if_not_exists: bool,
        /// With `TEMPORARY`: it is gone when the session ends.
        temporary: bool,
        /// `CREATE TABLE … LIKE …`.
        like: bool,
        /// `CREATE TABLE … SELECT …`.
        select: bool,
    },
    /// `DROP TABLE`, temporary or not, with `IF EXISTS` or without.
    DropTable {
        /// Names of the tables, in the order of the statement.
        tables: Vec<ObjectName>,
    },
    /// `DROP VIEW`, with `IF EXISTS` or without.
    DropView {
        /// Names of the views, in the order of the statement.
        views: Vec<ObjectName>,
    },
    /// `CREATE VIEW`, whatever its algorithm, definer and security.
    CreateView {
        /// Name of the view, possibly qualified.
        view: ObjectName,
    },
    /// `CREATE TRIGGER`, up to the name of its table: the body is not read.
    CreateTrigger {
        /// Name of the trigger, possibly qualified.
        trigger: ObjectName,
        /// The table that the trigger belongs to.
        table: ObjectName,
    },
    /// `CREATE FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY`, `LIBRARY`.
    CreateRoutine {
        /// `FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY` or `LIBRARY`.
        what: &'static str,
        /// Name of the routine, possibly qualified.
        routine: ObjectName,
    },
    /// `CREATE EVENT`, up to its name: neither schedule nor body is read.
    CreateEvent {
        /// Name of the event, possibly qualified.
        event: ObjectName,
    },
    /// `DROP TRIGGER`, which does not name the table.
    DropTrigger {
        /// Name of the trigger, possibly qualified.
        trigger: ObjectName,
    },
    /// `DROP FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY`, `LIBRARY`.
    DropRoutine {
        /// As in [`StatementKind::CreateRoutine`].
        what: &'static str,
        /// Name of the routine, possibly qualified.
        routine: ObjectName,
    },
    /// `DROP EVENT`, with `IF EXISTS` or without.
    DropEvent {
        /// Name of the event, possibly qualified.
        event: ObjectName,
    },
    /// `CREATE SEQUENCE` (MariaDB).
    CreateSequence {
        /// Name of the sequence, possibly qualified.
        sequence: ObjectName,
    },
    /// `DROP SEQUENCE` (MariaDB).
    DropSequence {
        /// Names of the sequences, in the order of the statement.
        sequences: Vec<ObjectName>,
    },
    /// `ALTER TABLE t DISABLE KEYS` or `ENABLE KEYS`, alone.
    AlterTableKeys {
        /// Name of the table, possibly qualified.
        table: ObjectName,
        /// `ENABLE KEYS`, not `DISABLE KEYS`.
        enable: bool,
    },
    /// Any other `ALTER TABLE`.
    AlterTable {
        /// Name of the table, possibly qualified.
        table: ObjectName,
        /// The name that it gets.
        renamed: Option<ObjectName>,
    },
    /// `CREATE INDEX` and `DROP INDEX`.
    Index,
    /// `RENAME TABLE`, which renames views, too.
    RenameTable {
        /// The old and the new name of each table or view, in the order of the statement; empty
        /// if they cannot be read.
        names: Vec<(ObjectName, ObjectName)>,
    },
    /// `LOCK TABLES`, as mysqldump writes it before the rows of a table.
    LockTables,
    /// `UNLOCK TABLES`, as mysqldump writes it after them.
    UnlockTables,
    /// `INSERT` and `REPLACE` in a form that the scanner does not cut into rows.
    Insert,
    /// `START TRANSACTION`, `BEGIN`.
    StartTransaction,
    /// `COMMIT`, with `WORK`, `AND CHAIN` or alone.
    Commit,
    /// `ROLLBACK`, also to a savepoint.
    Rollback,
    /// `GRANT`, `REVOKE`, `CREATE USER`, `SET PASSWORD`, roles and similar.
    Account,
    /// `CHANGE MASTER`, `START SLAVE`, `RESET`, `PURGE` and similar.
    Replication,
    /// Must not run unchecked.
    Dangerous(Danger),
    /// `TRUNCATE`, with the word `TABLE` or without.
    Truncate {
        /// Name of the table, possibly qualified.
        table: ObjectName,
    },
    /// `DELETE`, of one table or several.
    Delete,
    /// `UPDATE`, of one table or several.
    Update,
    /// `SELECT`, `WITH`, `TABLE`, `VALUES`, `SHOW`, `DESCRIBE`, `EXPLAIN`.
    Select,
    /// `DO`: expressions for their side effects.
    Do,
    /// `CALL`: a procedure may do anything.
    Call,
    /// `ANALYZE`, `OPTIMIZE`, `CHECK`, `REPAIR`, `CHECKSUM`, `FLUSH`, `CACHE`.
    Maintenance,
    /// Nothing but comments.
    Empty,
    /// None of the above.
    Other,
}

/// Classifies a statement, ignoring plain comments and reading the content of conditional ones.
///
/// A statement that changes its kind when its conditional comments are skipped is
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
    // Some server may skip everything before `start`: classify what remains.
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
            // A query changes nothing, and the `WITH CASCADED CHECK OPTION` of a view looks like
            // one.
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
