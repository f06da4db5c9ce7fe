//! The transaction that a dump's own session would be in.
//!
//! Rows are committed chunk by chunk, whatever transactions the dump puts around them: if the dump
//! commits them, the result at its end is the same as with the stock client. A transaction that it
//! leaves open is rolled back when the stock client disconnects. Statements that commit implicitly:
//! <https://dev.mysql.com/doc/refman/9.7/en/implicit-commit.html>.

use refloat_sqltext::{SetAssignment, SetScope, StatementKind, head};

/// The statement that starts a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Its line in the file.
    pub line: u64,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its first characters.
    pub head: String,
}

impl Begun {
    /// From the statement `text`.
    pub fn new(text: &[u8], line: u64, offset: u64) -> Self {
        Self {
            line,
            offset,
            head: head(text),
        }
    }
}

/// The state of the transaction.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The statement that started one explicitly.
    begun: Option<Begun>,
    /// The statement that turned `autocommit` off: from then on every change starts a transaction.
    autocommit_off: Option<Begun>,
    /// Whether `LOCK TABLES` is in effect: only then does `UNLOCK TABLES` commit.
    locked: bool,
    /// Rows since the last commit.
    rows: u64,
    /// Whether other statements have changed rows since then.
    changed: bool,
}

/// A transaction that a dump has left open.
#[derive(Debug, PartialEq, Eq)]
pub struct Open<'t> {
    /// Where it begins.
    pub begun: &'t Begun,
    /// Rows that would be rolled back.
    pub rows: u64,
}

impl Open<'_> {
    /// The reason for the refusal.
    pub fn reason(&self) -> String {
        let what = match self.rows {
            0 => "its changes".to_owned(),
            1 => "its row".to_owned(),
            rows => format!("its {rows} rows"),
        };
        format!(
            "the file ends in the transaction that begins here, without a COMMIT: the stock client would lose {what}, which a load has committed by then"
        )
    }
}

/// What to do about it.
pub const OPEN_HINT: &str = "Write COMMIT; behind the last row if the rows belong to the dump, or take them out of it and of the server; --on-error continue lists the transaction and continues.";

/// Whether a statement changes rows. One that is left out changes none.
pub fn changes(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete | StatementKind::Call
    )
}

impl Transaction {
    /// Tracks a statement that is neither a `SET` nor rows.
    pub fn statement(&mut self, kind: &StatementKind, text: &[u8], line: u64, offset: u64) {
        match kind {
            StatementKind::StartTransaction => {
                self.commit();
                self.locked = false;
                self.begun = Some(Begun::new(text, line, offset));
            }
            StatementKind::Commit | StatementKind::Rollback => {
                self.commit();
                if chains(text) {
                    self.begun = Some(Begun::new(text, line, offset));
                }
            }
            StatementKind::LockTables => {
                self.commit();
                self.locked = true;
            }
            StatementKind::UnlockTables if std::mem::take(&mut self.locked) => self.commit(),
            kind if changes(kind) => self.changed = true,
            _ if commits(kind, text) => self.commit(),
            _ => {}
        }
    }

    /// Tracks a `SET` that leaves `autocommit` on or off.
    pub fn autocommit(&mut self, on: bool, at: Begun) {
        if !on {
            self.autocommit_off.get_or_insert(at);
        } else if self.autocommit_off.take().is_some() {
            self.commit();
        }
    }

    /// Counts rows of a table whose engine can roll back.
    pub fn rows(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// The open transaction, if anything was changed and not committed.
    pub fn open(&self) -> Option<Open<'_>> {
        let begun = self.begun.as_ref().or(self.autocommit_off.as_ref())?;
        (self.changed || self.rows > 0).then_some(Open {
            begun,
            rows: self.rows,
        })
    }

    fn commit(&mut self) {
        (self.begun, self.rows, self.changed) = (None, 0, false);
    }
}

/// The value that an assignment gives to `autocommit`, if it concerns it. Only a literal can be
/// read from the text; a variable is assumed to have the value that dump tools restore.
pub fn autocommit_by(assignment: &SetAssignment) -> Option<bool> {
    let about = assignment.scope == SetScope::Session && assignment.name == b"autocommit";
    let off = |literal: &Vec<u8>| {
        let words: [&[u8]; 3] = [b"0", b"off", b"false"];
        words.iter().any(|word| literal.eq_ignore_ascii_case(word))
    };
    about.then(|| !assignment.literal.as_ref().is_some_and(off))
}

/// Whether `COMMIT` or `ROLLBACK` starts the next transaction at once.
fn chains(text: &[u8]) -> bool {
    let text = text.to_ascii_uppercase();
    let words: Vec<&[u8]> = text
        .split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words
        .windows(2)
        .any(|pair| pair == [b"AND".as_slice(), b"CHAIN"])
}

/// Whether a statement commits what was changed before it.
fn commits(kind: &StatementKind, text: &[u8]) -> bool {
    let temporary = || memchr::memmem::find(&text.to_ascii_uppercase(), b"TEMPORARY").is_some();
    match kind {
        StatementKind::CreateTable { temporary, .. } => !temporary,
        StatementKind::DropTable { .. } => !temporary(),
        StatementKind::CreateDatabase { .. }
        | StatementKind::DropDatabase { .. }
        | StatementKind::AlterDatabase { .. }
        | StatementKind::CreateView { .. }
        | StatementKind::DropView { .. }
        | StatementKind::CreateTrigger { .. }
        | StatementKind::DropTrigger { .. }
        | StatementKind::CreateRoutine { .. }
        | StatementKind::DropRoutine { .. }
        | StatementKind::CreateEvent { .. }
        | StatementKind::DropEvent { .. }
        | StatementKind::CreateSequence { .. }
        | StatementKind::DropSequence { .. }
        | StatementKind::AlterTableKeys { .. }
        | StatementKind::AlterTable { .. }
        | StatementKind::Truncate { .. }
        | StatementKind::Index
        | StatementKind::RenameTable { .. }
        | StatementKind::Account
        | StatementKind::Replication
        | StatementKind::Maintenance => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::{LexMode, classify, parse_set};

    use super::*;

    /// Number of rows left open after these statements, of which `row` stands for a row.
    fn open(statements: &[&str]) -> Option<u64> {
        let mut transaction = Transaction::default();
        for (at, text) in statements.iter().enumerate() {
            let text = text.as_bytes();
            let line = at as u64;
            match classify(text, LexMode::default()) {
                _ if text == b"row" => transaction.rows(1),
                StatementKind::Set => {
                    let set = parse_set(text, LexMode::default()).unwrap();
                    if let Some(on) = set.iter().find_map(autocommit_by) {
                        transaction.autocommit(on, Begun::new(text, line, 0));
                    }
                }
                kind => transaction.statement(&kind, text, line, 0),
            }
        }
        transaction.open().map(|open| open.rows)
    }

    #[test]
    fn what_is_left_open() {
        assert_eq!(open(&["row"]), None);
        assert_eq!(open(&["BEGIN", "row", "row"]), Some(2));
        assert_eq!(open(&["START TRANSACTION"]), None);
        assert_eq!(open(&["START TRANSACTION", "DELETE FROM t"]), Some(0));
        assert_eq!(open(&["SET autocommit=0", "row"]), Some(1));
        assert_eq!(
            open(&["SET @old = @@autocommit, autocommit = OFF", "row"]),
            Some(1)
        );
        assert_eq!(open(&["BEGIN", "row", "COMMIT AND CHAIN", "row"]), Some(1));
        assert_eq!(open(&["BEGIN", "row", "UNLOCK TABLES"]), Some(1));
        assert_eq!(open(&["BEGIN", "row", "SET autocommit=1"]), Some(1));
        assert_eq!(open(&["BEGIN", "row", "DROP TEMPORARY TABLE t"]), Some(1));
    }

    #[test]
    fn what_is_committed() {
        assert_eq!(open(&["BEGIN", "row", "COMMIT"]), None);
        assert_eq!(open(&["BEGIN", "row", "COMMIT AND NO CHAIN", "row"]), None);
        assert_eq!(
            open(&["SET autocommit=0", "row", "SET autocommit=@old"]),
            None
        );
        assert_eq!(
            open(&["SET autocommit=0", "row", "CREATE TABLE t (a INT)"]),
            None
        );
        let tool = [
            "LOCK TABLES t WRITE",
            "SET autocommit=0",
            "row",
            "UNLOCK TABLES",
        ];
        assert_eq!(open(&tool), None);
    }
}
