//! Parses the leading words of a statement.

use super::{Danger, ObjectName, StatementKind};
use crate::mode::{LexMode, is_blank};
use crate::set::{SetScope, parse_set};
use crate::token::{Token, TokenKind};

/// A cursor over the first words of a statement.
pub(super) struct Words<'a, I> {
    pub(super) text: &'a [u8],
    pub(super) mode: LexMode,
    pub(super) stream: I,
}

impl<I: Iterator<Item = Token> + Clone> Words<'_, I> {
    pub(super) fn peek(&self) -> Option<Token> {
        self.stream.clone().next()
    }

    /// Consumes the word if it comes next.
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

    /// The database of a `USE`. Unquoted, it is everything up to a blank, as in MariaDB's client:
    /// `USE my-db`.
    fn used(&mut self) -> Option<Vec<u8>> {
        let token = self.stream.next()?;
        if !matches!(token.kind, TokenKind::Word | TokenKind::Number) {
            return token.name(self.text);
        }
        let rest = &self.text[token.range.start..];
        let blank = rest.iter().position(|byte| is_blank(*byte));
        let rest = &rest[..blank.unwrap_or(rest.len())];
        let comment = memchr::memmem::find(rest, b"/*").or(memchr::memmem::find(rest, b"*/"));
        Some(rest[..comment.unwrap_or(rest.len())].to_vec())
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

    /// The names of a `RENAME TABLE`.
    fn renamed(&mut self) -> Option<Vec<(ObjectName, ObjectName)>> {
        self.if_exists();
        let mut list = Vec::new();
        loop {
            let from = self.object()?;
            if self.word("WAIT") {
                self.stream.next()?;
            }
            self.word("NOWAIT");
            if !self.word("TO") {
                return None;
            }
            list.push((from, self.object()?));
            if !self.punct(b',') {
                return Some(list);
            }
        }
    }

    /// The new name of the table in the rest of an `ALTER TABLE`.
    fn new_name(&mut self) -> Option<ObjectName> {
        let mut depth = 0_u32;
        loop {
            let token = self.stream.next()?;
            if token.is_punct(b'(') {
                depth += 1;
            } else if token.is_punct(b')') {
                depth = depth.saturating_sub(1);
            } else if depth == 0
                && token.is(self.text, "RENAME")
                && !self.any(&["COLUMN", "KEY", "INDEX"])
            {
                let _ = self.any(&["TO", "AS"]) || self.punct(b'=');
                return self.object();
            }
        }
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

    #[expect(
        clippy::match_same_arms,
        reason = "ordered as the manuals are, guards before their plain forms"
    )]
    pub(super) fn statement(&mut self) -> Option<StatementKind> {
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
                database: self.used()?,
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
            b"RENAME" if self.any(&["TABLE", "TABLES"]) => K::RenameTable {
                names: self.renamed().unwrap_or_default(),
            },
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
            b"FLUSH" if self.remaining("LOCK") || self.remaining("EXPORT") => {
                K::Dangerous(Danger::Instance)
            }
            b"BACKUP" => K::Dangerous(Danger::Instance),
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

    /// MariaDB's `SET STATEMENT … FOR statement` counts as the inner statement.
    fn set_statement(&mut self) -> Option<StatementKind> {
        while !self.word("FOR") {
            self.stream.next()?;
        }
        self.statement()
    }

    fn create(&mut self) -> Option<StatementKind> {
        use StatementKind as K;
        let mut temporary = false;
        // Modifiers come in any order, then the kind of object.
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
            let mut lookahead = self.stream.clone();
            let next = lookahead.next();
            let open = next.as_ref().is_some_and(|t| t.is_punct(b'('));
            let like =
                if open { lookahead.next() } else { next }.is_some_and(|t| t.is(self.text, "LIKE"));
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

    /// The rest of a definer: `= user@host`, `= CURRENT_USER()`, `= role`.
    fn definer(&mut self) -> Option<()> {
        self.punct(b'=');
        self.stream.next()?;
        if self.punct(b'(') {
            self.punct(b')');
        }
        if self.punct(b'@') {
            self.stream.next()?;
            // An unquoted host may contain dots and dashes.
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
            let mut lookahead = self.stream.clone();
            let words = [lookahead.next(), lookahead.next(), lookahead.next()];
            if let [Some(verb), Some(keys), None] = &words
                && keys.is(self.text, "KEYS")
            {
                let enable = verb.is(self.text, "ENABLE");
                if enable || verb.is(self.text, "DISABLE") {
                    return Some(K::AlterTableKeys { table, enable });
                }
            }
            let renamed = self.new_name();
            return Some(K::AlterTable { table, renamed });
        }
        if self.any(&["DATABASE", "SCHEMA"]) {
            // Without a name, an option comes first.
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
