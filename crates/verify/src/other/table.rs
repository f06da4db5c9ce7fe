//! A table of a dump, and how it changes while the dump is read.

use refloat_digest::literals::{Domain, LiteralColumn};
use refloat_digest::rows::Digest;
use refloat_schema::columns::Column;
use refloat_schema::members::has_empty_member;

use super::described::compared;
use super::session::Session;

/// A table that a dump creates or has rows for.
#[derive(Debug, Clone, Default)]
pub struct OtherTable {
    /// As the dump or the command names it, unquoted.
    pub database: String,
    /// Name without the database, unquoted.
    pub name: String,
    /// Columns that are compared, in the order in which a row is hashed.
    pub columns: Vec<LiteralColumn>,
    /// Digest of its rows.
    pub digest: Digest,
    /// Bytes of its rows, as written in the dump.
    pub bytes: u64,
    /// Why its rows cannot be compared.
    pub problem: Option<String>,
    /// Columns that are not compared, and why.
    pub notes: Vec<String>,
    /// How often it was created or emptied: rows of earlier epochs are gone.
    pub epoch: u32,
    /// Whether it exists at this point of the dump.
    pub exists: bool,
    /// The verb of rows that may take the place of others, or be left out for them.
    pub overwrites: Option<&'static str>,
    /// It is a sequence: what looks like its row is its state.
    pub sequence: bool,
    /// All its columns; empty while they are unknown.
    pub described: Vec<Column>,
    /// Names of the columns in a row that does not list any, as the dump creates the table; empty
    /// if it does not create it.
    pub listed: Vec<String>,
    /// Character set and time zone of its first rows, once `columns` is decided.
    decided: Option<(String, Option<String>)>,
    /// `columns` come from an earlier reading and do not change.
    fixed: bool,
}

impl OtherTable {
    /// A table of which nothing but the name is known.
    pub fn new(database: &str, name: &str) -> Self {
        Self {
            database: database.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Its name for messages: `database.table`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// The same table at the start of another reading, which must compare the same columns.
    pub fn for_another_reading(&self) -> Self {
        Self {
            epoch: 0,
            exists: false,
            problem: None,
            fixed: true,
            ..self.clone()
        }
    }

    /// Applies a `CREATE TABLE`; returns whether it makes a new table.
    pub fn created(&mut self, if_not_exists: bool, or_replace: bool) -> bool {
        if self.exists && !or_replace {
            if !if_not_exists {
                self.doubt("the dump creates it twice");
            }
            return false;
        }
        self.dropped();
        self.exists = true;
        true
    }

    /// Applies a `DROP TABLE`.
    pub fn dropped(&mut self) {
        self.emptied();
        self.exists = false;
        if !self.fixed {
            self.decided = None;
            self.columns.clear();
            self.notes.clear();
            self.described.clear();
            self.listed.clear();
        }
    }

    /// Removes its rows.
    pub fn emptied(&mut self) {
        self.epoch += 1;
        self.problem = None;
        self.overwrites = None;
    }

    /// Marks its rows as impossible to compare; the first reason is kept.
    pub fn doubt(&mut self, why: impl Into<String>) {
        if self.problem.is_none() {
            self.problem = Some(why.into());
        }
    }

    /// Whether it is decided which columns are compared.
    pub fn is_decided(&self) -> bool {
        self.fixed || self.decided.is_some()
    }

    /// Decides which columns are compared: those that its rows name, or all visible ones if they
    /// name none.
    pub fn decide(&mut self, names: Option<&[String]>, session: &Session) {
        let (charset, zone) = (session.charset_of_values(), session.time_zone());
        self.decided = Some((charset.to_owned(), zone.map(str::to_owned)));
        let label = self.label();
        for name in names.unwrap_or(&self.listed) {
            let known = |column: &Column| column.name.eq_ignore_ascii_case(name);
            if !self.described.iter().any(known) {
                let note = format!("column {name} of table {label}: only the dump has it");
                self.notes.push(note);
            }
        }
        for column in &self.described {
            let is_own = |name: &String| name.eq_ignore_ascii_case(&column.name);
            let has_values = match names {
                Some(names) => names.iter().any(is_own),
                None if self.listed.is_empty() => !column.invisible,
                None => self.listed.iter().any(is_own),
            };
            if column.generated || !has_values {
                continue;
            }
            // Numbers may stand for members, whose names are in the character set of the text.
            let by_number = matches!(column.data_type.as_str(), "enum" | "set");
            let by_number = by_number && session.keeps_charsets();
            let charset = if by_number {
                session.charset()
            } else {
                charset
            };
            match compared(column, charset, zone) {
                Ok(mut compared) => {
                    if by_number && has_empty_member(&column.type_text) {
                        compared.by_number();
                    }
                    self.columns.push(compared);
                }
                Err(why) => self
                    .notes
                    .push(format!("column {} of table {label}: {why}", column.name)),
            }
        }
    }

    /// Whether rows of this session mean the same as the first ones.
    pub fn is_as_decided(&self, session: &Session) -> bool {
        let Some((charset, zone)) = &self.decided else {
            return true;
        };
        (charset == session.charset_of_values() && zone.as_deref() == session.time_zone())
            || !self.columns.iter().any(|column| {
                matches!(
                    column.domain,
                    Domain::Text | Domain::Names | Domain::DateTime
                )
            })
    }

    /// The compared column that each value of a row belongs to.
    pub fn targets(&self, names: Option<&[String]>) -> Result<Vec<Option<usize>>, String> {
        let place = |name: &String| {
            let mut columns = self.columns.iter();
            columns.position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let visible = self.described.iter().filter(|column| !column.invisible);
        let targets: Vec<Option<usize>> = match names {
            Some(names) => names.iter().map(place).collect(),
            None if self.listed.is_empty() => visible.map(|column| place(&column.name)).collect(),
            None => self.listed.iter().map(place).collect(),
        };
        if targets.is_empty() {
            return Err("its columns are not known".to_owned());
        }
        let missing = (0..self.columns.len()).find(|at| !targets.contains(&Some(*at)));
        match missing {
            Some(at) => Err(format!(
                "some of its rows have no value for column {}",
                self.columns[at].name
            )),
            None => Ok(targets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_are_there_at_the_end_count() {
        let mut table = OtherTable::default();
        assert!(table.created(false, false));
        let first = table.epoch;
        assert!(!table.created(true, false), "it is there");
        assert_eq!((table.epoch, &table.problem), (first, &None));
        assert!(table.created(true, true), "it is replaced");
        assert!(table.epoch > first);
        table.doubt("one");
        table.doubt("another");
        assert_eq!(table.problem.as_deref(), Some("one"));
        let second = table.epoch;
        table.emptied();
        assert!(table.epoch > second && table.problem.is_none() && table.exists);
        assert!(!table.created(false, false));
        assert!(table.problem.is_some(), "a load would stop there");
        table.dropped();
        assert!(!table.exists && table.problem.is_none());
        // Another reading arrives at the same epochs.
        let mut again = table.for_another_reading();
        again.created(false, false);
        again.created(true, true);
        again.emptied();
        again.dropped();
        assert_eq!(again.epoch, table.epoch);
    }
}
