//! What a statement does, from its leading words.

use std::mem::discriminant;

use crate::mode::LexMode;
use crate::set::{SetScope, parse_set};
use crate::token::{Token, TokenKind, tokens};

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
    /// `SHUTDOWN`, `RESTART`, `KILL`, `ALTER INSTANCE`, `CLONE`, `LOCK INSTANCE`.
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
    /// `SET` of session and user variables; see [`parse_set`].
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
            if !matches!(rest, StatementKind::Other | StatementKind::Empty)
                && discriminant(&rest) != discriminant(&kind)
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

struct Words<'a, I> {
    text: &'a [u8],
    mode: LexMode,
    stream: I,
}

impl<I: Iterator<Item = Token> + Clone> Words<'_, I> {
    fn peek(&self) -> Option<Token> {
        self.stream.clone().next()
    }

    /// Takes the word if it comes next.
    fn word(&mut self, keyword: &str) -> bool {
        let hit = self.peek().is_some_and(|t| t.is(self.text, keyword));
        if hit {
            self.stream.next();
        }
        hit
    }

    fn any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|k| self.word(k))
    }

    fn punct(&mut self, byte: u8) -> bool {
        let hit = self.peek().is_some_and(|t| t.is_punct(byte));
        if hit {
            self.stream.next();
        }
        hit
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        self.stream.next()?.name(self.text)
    }

    fn object(&mut self) -> Option<ObjectName> {
        let name = self.name()?;
        if self.punct(b'.') {
            return Some(ObjectName {
                database: Some(name),
                name: self.name()?,
            });
        }
        Some(ObjectName {
            database: None,
            name,
        })
    }

    fn objects(&mut self) -> Option<Vec<ObjectName>> {
        let mut list = vec![self.object()?];
        while self.punct(b',') {
            list.push(self.object()?);
        }
        Some(list)
    }

    fn if_exists(&mut self) -> bool {
        if !self.word("IF") {
            return false;
        }
        self.word("NOT");
        self.word("EXISTS")
    }

    fn remaining(&self, keyword: &str) -> bool {
        self.stream.clone().any(|t| t.is(self.text, keyword))
    }

    fn statement(&mut self) -> Option<StatementKind> {
        use StatementKind as K;
        let first = self.stream.next()?;
        if first.is_punct(b'(') {
            return Some(self.select());
        }
        if first.kind != TokenKind::Word {
            return None;
        }
        let word = self.text[first.range.clone()].to_ascii_uppercase();
        Some(match word.as_slice() {
            b"SET" => self.set(),
            b"USE" => K::Use {
                database: self.name()?,
            },
            b"CREATE" => self.create()?,
            b"DROP" => self.drop_object()?,
            b"ALTER" => self.alter()?,
            b"LOCK" if self.word("INSTANCE") => K::Dangerous(Danger::Instance),
            b"LOCK" => K::LockTables,
            b"UNLOCK" if self.word("INSTANCE") => K::Dangerous(Danger::Instance),
            b"UNLOCK" => K::UnlockTables,
            b"INSERT" | b"REPLACE" => K::Insert,
            b"START" if self.word("TRANSACTION") => K::StartTransaction,
            b"BEGIN" if self.word("NOT") => K::Other,
            b"BEGIN" => K::StartTransaction,
            b"COMMIT" => K::Commit,
            b"ROLLBACK" => K::Rollback,
            b"GRANT" | b"REVOKE" => K::Account,
            b"RENAME" if self.any(&["USER"]) => K::Account,
            b"RENAME" if self.any(&["TABLE", "TABLES"]) => K::RenameTable,
            b"RESET" if self.word("PERSIST") => K::SetGlobal,
            b"RESET" if self.word("QUERY") => K::Maintenance,
            b"START" | b"STOP" | b"CHANGE" | b"RESET" | b"PURGE" => K::Replication,
            b"LOAD" if self.any(&["DATA", "XML"]) => K::Dangerous(Danger::LoadData),
            b"INSTALL" | b"UNINSTALL" => K::Dangerous(Danger::Plugin),
            b"SHUTDOWN" | b"RESTART" | b"KILL" | b"CLONE" => K::Dangerous(Danger::Instance),
            b"HANDLER" | b"BINLOG" | b"IMPORT" | b"XA" => K::Dangerous(Danger::LowLevel),
            b"PREPARE" | b"EXECUTE" | b"DEALLOCATE" => K::Dangerous(Danger::DynamicSql),
            b"TRUNCATE" => {
                self.word("TABLE");
                K::Truncate {
                    table: self.object()?,
                }
            }
            b"DELETE" => K::Delete,
            b"UPDATE" => K::Update,
            b"SELECT" | b"WITH" | b"TABLE" | b"VALUES" | b"SHOW" | b"DESCRIBE" | b"DESC"
            | b"EXPLAIN" => self.select(),
            b"DO" => K::Do,
            b"CALL" => K::Call,
            b"ANALYZE" | b"OPTIMIZE" | b"CHECK" | b"REPAIR" | b"CHECKSUM" | b"FLUSH" | b"CACHE" => {
                K::Maintenance
            }
            _ => K::Other,
        })
    }

    fn select(&self) -> StatementKind {
        let file = self.remaining("OUTFILE") || self.remaining("DUMPFILE");
        if file {
            StatementKind::Dangerous(Danger::OutFile)
        } else {
            StatementKind::Select
        }
    }

    fn set(&mut self) -> StatementKind {
        match parse_set(self.text, self.mode) {
            Some(list) => {
                let global = |s: SetScope| matches!(s, SetScope::Global | SetScope::Persist);
                let gtid = |n: &[u8]| n == b"gtid_purged";
                if list.iter().any(|a| global(a.scope) && !gtid(&a.name)) {
                    StatementKind::SetGlobal
                } else if list.iter().any(|a| global(a.scope)) {
                    StatementKind::SetGtidPurged
                } else {
                    StatementKind::Set
                }
            }
            None if self.word("STATEMENT") => self.set_statement().unwrap_or(StatementKind::Other),
            None if self.remaining("PASSWORD") || self.any(&["ROLE", "DEFAULT"]) => {
                StatementKind::Account
            }
            None if self.any(&["GLOBAL", "PERSIST", "PERSIST_ONLY"]) => StatementKind::SetGlobal,
            None => StatementKind::Other,
        }
    }

    /// MariaDB's `SET STATEMENT … FOR statement` is what its statement is.
    fn set_statement(&mut self) -> Option<StatementKind> {
        while !self.word("FOR") {
            self.stream.next()?;
        }
        self.statement()
    }

    fn create(&mut self) -> Option<StatementKind> {
        use StatementKind as K;
        let mut temporary = false;
        // Modifiers in any order, up to the kind of object.
        loop {
            if self.word("DEFINER") {
                self.definer()?;
            } else if self.word("ALGORITHM") {
                self.punct(b'=');
                self.stream.next()?;
            } else if self.word("SQL") {
                self.word("SECURITY");
                self.stream.next()?;
            } else if self.word("TEMPORARY") {
                temporary = true;
            } else if !self.any(&["OR", "REPLACE", "AGGREGATE"]) {
                break;
            }
        }
        if self.any(&["DATABASE", "SCHEMA"]) {
            let if_not_exists = self.if_exists();
            return Some(K::CreateDatabase {
                database: self.name()?,
                if_not_exists,
            });
        }
        if self.word("TABLE") {
            let if_not_exists = self.if_exists();
            let table = self.object()?;
            let mut ahead = self.stream.clone();
            let next = ahead.next();
            let open = next.as_ref().is_some_and(|t| t.is_punct(b'('));
            let like =
                if open { ahead.next() } else { next }.is_some_and(|t| t.is(self.text, "LIKE"));
            let select = self.remaining("SELECT");
            return Some(K::CreateTable {
                table,
                if_not_exists,
                temporary,
                like,
                select,
            });
        }
        if self.word("VIEW") {
            self.if_exists();
            return Some(K::CreateView {
                view: self.object()?,
            });
        }
        if self.word("TRIGGER") {
            self.if_exists();
            let trigger = self.object()?;
            while !self.word("ON") {
                self.stream.next()?;
            }
            return Some(K::CreateTrigger {
                trigger,
                table: self.object()?,
            });
        }
        if let Some(what) = self.routine() {
            self.if_exists();
            let routine = self.object()?;
            if what == "FUNCTION"
                && self
                    .stream
                    .clone()
                    .take(4)
                    .any(|t| t.is(self.text, "SONAME"))
            {
                return Some(K::Dangerous(Danger::LoadableFunction));
            }
            return Some(K::CreateRoutine { what, routine });
        }
        if self.word("EVENT") {
            self.if_exists();
            return Some(K::CreateEvent {
                event: self.object()?,
            });
        }
        if self.word("SEQUENCE") {
            self.if_exists();
            return Some(K::CreateSequence {
                sequence: self.object()?,
            });
        }
        if self.any(&["USER", "ROLE"]) {
            return Some(K::Account);
        }
        if self.any(&["INDEX", "UNIQUE", "FULLTEXT", "VECTOR"])
            || (self.word("SPATIAL") && self.word("INDEX"))
        {
            return Some(K::Index);
        }
        None
    }

    /// `= user@host`, `= CURRENT_USER()`, `= role`.
    fn definer(&mut self) -> Option<()> {
        self.punct(b'=');
        self.stream.next()?;
        if self.punct(b'(') {
            self.punct(b')');
        }
        if self.punct(b'@') {
            self.stream.next()?;
            // A host without quotes has dots and dashes.
            while self.punct(b'.') || self.punct(b'-') {
                self.stream.next()?;
            }
        }
        Some(())
    }

    fn routine(&mut self) -> Option<&'static str> {
        if self.word("PACKAGE") {
            return Some(if self.word("BODY") {
                "PACKAGE BODY"
            } else {
                "PACKAGE"
            });
        }
        ["FUNCTION", "PROCEDURE", "LIBRARY"]
            .into_iter()
            .find(|k| self.word(k))
    }

    fn drop_object(&mut self) -> Option<StatementKind> {
        use StatementKind as K;
        self.word("TEMPORARY");
        if self.any(&["DATABASE", "SCHEMA"]) {
            self.if_exists();
            return Some(K::DropDatabase {
                database: self.name()?,
            });
        }
        if self.any(&["TABLE", "TABLES"]) {
            self.if_exists();
            return Some(K::DropTable {
                tables: self.objects()?,
            });
        }
        if self.word("VIEW") {
            self.if_exists();
            return Some(K::DropView {
                views: self.objects()?,
            });
        }
        if self.word("TRIGGER") {
            self.if_exists();
            return Some(K::DropTrigger {
                trigger: self.object()?,
            });
        }
        if let Some(what) = self.routine() {
            self.if_exists();
            return Some(K::DropRoutine {
                what,
                routine: self.object()?,
            });
        }
        if self.word("EVENT") {
            self.if_exists();
            return Some(K::DropEvent {
                event: self.object()?,
            });
        }
        if self.word("SEQUENCE") {
            self.if_exists();
            return Some(K::DropSequence {
                sequences: self.objects()?,
            });
        }
        if self.any(&["USER", "ROLE"]) {
            return Some(K::Account);
        }
        if self.word("PREPARE") {
            return Some(K::Dangerous(Danger::DynamicSql));
        }
        self.word("INDEX").then_some(K::Index)
    }

    fn alter(&mut self) -> Option<StatementKind> {
        use StatementKind as K;
        while self.any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
        if self.word("TABLE") {
            self.if_exists();
            let table = self.object()?;
            let mut ahead = self.stream.clone();
            let words = [ahead.next(), ahead.next(), ahead.next()];
            if let [Some(verb), Some(keys), None] = &words
                && keys.is(self.text, "KEYS")
            {
                let enable = verb.is(self.text, "ENABLE");
                if enable || verb.is(self.text, "DISABLE") {
                    return Some(K::AlterTableKeys { table, enable });
                }
            }
            return Some(K::AlterTable { table });
        }
        if self.any(&["DATABASE", "SCHEMA"]) {
            // Without a name an option comes first.
            let options = [
                "DEFAULT",
                "CHARACTER",
                "CHARSET",
                "COLLATE",
                "ENCRYPTION",
                "READ",
                "COMMENT",
            ];
            let unnamed = self
                .peek()
                .is_none_or(|t| options.iter().any(|o| t.is(self.text, o)));
            let database = if unnamed { None } else { Some(self.name()?) };
            return Some(K::AlterDatabase { database });
        }
        if self.any(&["USER", "ROLE"]) {
            return Some(K::Account);
        }
        self.word("INSTANCE")
            .then_some(K::Dangerous(Danger::Instance))
    }
}
