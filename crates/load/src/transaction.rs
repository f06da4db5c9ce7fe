//! The transaction that a dump's own session is in.
//!
//! Rows are committed chunk by chunk, whatever transactions the dump writes around them: as the stock client reads it they are in at its
//! end just the same, if it commits them. One that it leaves open the server takes back when the stock client goes away. What
//! commits without a word: <https://dev.mysql.com/doc/refman/9.7/en/implicit-commit.html>.

use refloat_sqltext::{SetAssignment, SetScope, StatementKind, head};

/// The statement that a transaction begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Its line.
    pub line: u64,
    /// Its first byte.
    pub offset: u64,
    /// Its first characters.
    pub head: String,
}

impl Begun {
    /// Of the statement `text`.
    pub fn new(text: &[u8], line: u64, offset: u64) -> Self {
        Self {
            line,
            offset,
            head: head(text),
        }
    }
}

/// What is known of it.
#[derive(Debug, Default)]
pub struct Transaction {
    /// Of one that a statement has begun.
    begun: Option<Begun>,
    /// What has switched `autocommit` off: every change begins one then.
    autocommit_off: Option<Begun>,
    /// Whether `LOCK TABLES` is in force: only then `UNLOCK TABLES` commits.
    locked: bool,
    /// Rows since the last commit.
    rows: u64,
    /// Whether other statements have changed rows since then.
    changed: bool,
}

/// What a dump has left open.
#[derive(Debug, PartialEq, Eq)]
pub struct Open<'t> {
    /// Where it begins.
    pub begun: &'t Begun,
    /// Rows that would be taken back.
    pub rows: u64,
}

impl Open<'_> {
    /// What is wrong with that.
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
pub const OPEN_HINT: &str = "Write COMMIT; behind the last row if the rows belong to the dump, or take them out of it and of the server; --on-error continue lists the transaction and goes on.";

impl Transaction {
    /// Follows a statement that is no `SET` and no rows.
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
            StatementKind::Insert
            | StatementKind::Update
            | StatementKind::Delete
            | StatementKind::Call => self.changed = true,
            _ if commits(kind, text) => self.commit(),
            _ => {}
        }
    }

    /// Follows a `SET` that leaves `autocommit` on or off.
    pub fn autocommit(&mut self, on: bool, at: Begun) {
        if !on {
            self.autocommit_off.get_or_insert(at);
        } else if self.autocommit_off.take().is_some() {
            self.commit();
        }
    }

    /// Rows of a table that the server can take back.
    pub fn rows(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// What was changed and not committed.
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

/// What an assignment makes of `autocommit`, if it is about it: only a literal can be told from the text, and a variable is taken for the
/// value that dump tools put back.
pub fn autocommit_by(assignment: &SetAssignment) -> Option<bool> {
    let about = assignment.scope == SetScope::Session && assignment.name == b"autocommit";
    let off = |literal: &Vec<u8>| {
        let words: [&[u8]; 3] = [b"0", b"off", b"false"];
        words.iter().any(|word| literal.eq_ignore_ascii_case(word))
    };
    about.then(|| !assignment.literal.as_ref().is_some_and(off))
}

/// Whether `COMMIT` or `ROLLBACK` begins the next transaction at once.
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
        | StatementKind::RenameTable
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

    /// Rows left open after these statements; `row` stands for a row.
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
