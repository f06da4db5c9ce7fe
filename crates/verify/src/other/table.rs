//! A table of a dump, and what becomes of it while the dump is read.

use super::cells::{Domain, OtherColumn};
use super::described::Described;
use super::session::Session;
use crate::digest::Digest;

/// A table of a dump.
#[derive(Debug, Clone, Default)]
pub struct OtherTable {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Columns that are compared, in the order in which a row is hashed.
    pub columns: Vec<OtherColumn>,
    /// The digest of its rows.
    pub digest: Digest,
    /// Bytes of its rows, as they are written.
    pub bytes: u64,
    /// Why nothing can be said of its rows.
    pub problem: Option<String>,
    /// Columns that are not compared, and why.
    pub notes: Vec<String>,
    /// How often it was created or emptied: rows of before are gone.
    pub epoch: u32,
    /// Whether it is there.
    pub exists: bool,
    /// It is a sequence: what looks like its row is its state.
    pub sequence: bool,
    /// All columns; none where they are not known yet.
    pub described: Vec<Described>,
    /// Names of the columns of a row that names none, as the dump creates the table; empty where it does not.
    pub listed: Vec<String>,
    /// Character set and time zone of its first rows, once `columns` says what is compared.
    decided: Option<(String, Option<String>)>,
    /// `columns` are those of an earlier reading, and stay.
    fixed: bool,
}

impl OtherTable {
    /// One of which nothing is known but its name.
    pub fn new(database: &str, name: &str) -> Self {
        Self {
            database: database.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// For people.
    pub fn label(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// The same table at the beginning of another reading, which compares what the first one did.
    pub fn anew(&self) -> Self {
        Self {
            epoch: 0,
            exists: false,
            problem: None,
            fixed: true,
            ..self.clone()
        }
    }

    /// It is created; whether that makes it another table than it was.
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

    /// It is dropped.
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

    /// Its rows go.
    pub fn emptied(&mut self) {
        self.epoch += 1;
        self.problem = None;
    }

    /// Nothing can be said of its rows any more.
    pub fn doubt(&mut self, why: impl Into<String>) {
        if self.problem.is_none() {
            self.problem = Some(why.into());
        }
    }

    /// Whether it is known what is compared.
    pub fn is_decided(&self) -> bool {
        self.fixed || self.decided.is_some()
    }

    /// Decides what is compared, by the columns that its rows have; all visible ones where they name none.
    pub fn decide(&mut self, names: Option<&[String]>, session: &Session) {
        let (charset, zone) = (session.charset(), session.time_zone());
        self.decided = Some((charset.to_owned(), zone.map(str::to_owned)));
        let label = self.label();
        for name in names.unwrap_or(&self.listed) {
            let known = |column: &Described| column.name.eq_ignore_ascii_case(name);
            if !self.described.iter().any(known) {
                let note = format!("column {name} of table {label}: only the dump has it");
                self.notes.push(note);
            }
        }
        for column in &self.described {
            let is_own = |name: &String| name.eq_ignore_ascii_case(&column.name);
            let told = match names {
                Some(names) => names.iter().any(is_own),
                None if self.listed.is_empty() => column.visible,
                None => self.listed.iter().any(is_own),
            };
            if column.generated || !told {
                continue;
            }
            match column.compared(charset, zone) {
                Ok(compared) => self.columns.push(compared),
                Err(why) => self
                    .notes
                    .push(format!("column {} of table {label}: {why}", column.name)),
            }
        }
    }

    /// Whether rows of this session mean what the first ones did.
    pub fn is_as_decided(&self, session: &Session) -> bool {
        let Some((charset, zone)) = &self.decided else {
            return true;
        };
        (charset == session.charset() && zone.as_deref() == session.time_zone())
            || !self.columns.iter().any(|column| {
                matches!(
                    column.domain,
                    Domain::Text | Domain::Names | Domain::DateTime
                )
            })
    }

    /// Which compared column each value of a row is for.
    pub fn targets(&self, names: Option<&[String]>) -> Result<Vec<Option<usize>>, String> {
        let place = |name: &String| {
            let mut columns = self.columns.iter();
            columns.position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let visible = self.described.iter().filter(|column| column.visible);
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
        // Another reading counts alike.
        let mut again = table.anew();
        again.created(false, false);
        again.created(true, true);
        again.emptied();
        again.dropped();
        assert_eq!(again.epoch, table.epoch);
    }
}
