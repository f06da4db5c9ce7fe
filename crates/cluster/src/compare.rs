//! Compares two nodes of a cluster while applications write to it.
//!
//! Each node is read at a different moment, so rows written in between differ. A real difference
//! shows every time. So only what differed every time stays suspect, and the comparison repeats
//! until nothing is left, or until both nodes were read at the same write-set.

use std::collections::BTreeSet;
use std::time::Duration;

use refloat_run::Run;
use refloat_verify::{
    self, Endpoint, RowDifference, VerifyError, VerifyFailure, VerifyOptions, VerifyOutcome,
};

use crate::member::Member;

/// Maximum number of comparisons of two nodes.
const ATTEMPTS: u32 = 8;
/// Maximum number of differing rows listed per table.
const ROWS: usize = 1000;
/// Pause after the first comparison; it grows with each attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of differing names in a message.
const TOLD: usize = 5;

/// What may differ: tables and definitions by name, rows by table and key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suspects {
    /// The table or definition, and the row; the row is empty for a definition.
    all: BTreeSet<(String, String)>,
    /// More differed than was listed.
    more: bool,
}

impl Suspects {
    fn of(outcome: &VerifyOutcome) -> Self {
        let definitions = outcome.schema_differences.first.iter();
        let mut all: BTreeSet<_> = definitions
            .map(|one| (one.about.clone(), String::new()))
            .collect();
        let mut more =
            outcome.schema_differences.total > outcome.schema_differences.first.len() as u64;
        more |= outcome.table_differences.total > outcome.table_differences.first.len() as u64;
        for table in &outcome.table_differences.first {
            more |= table.more;
            let rows = table.rows.iter();
            all.extend(rows.map(|row| (table.table.clone(), name_of(row))));
        }
        Self { all, more }
    }

    /// What is still suspect after another comparison.
    fn again(self, now: Self) -> Self {
        match (self.more, now.more) {
            // An unlisted difference, before or now, may be any of them.
            (true, true) => Self {
                all: self.all.union(&now.all).cloned().collect(),
                more: true,
            },
            (true, false) => now,
            (false, true) => self,
            (false, false) => Self {
                all: self.all.intersection(&now.all).cloned().collect(),
                more: false,
            },
        }
    }

    fn is_clear(&self) -> bool {
        self.all.is_empty() && !self.more
    }

    /// Names of tables and definitions.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.all.iter().map(|(name, _)| name.clone()).collect();
        names.dedup();
        names
    }

    /// The tables to compare again, as filters for a comparison. `None`: all of them.
    fn tables(&self) -> Option<Vec<String>> {
        let rows_only = self.all.iter().all(|(_, row)| !row.is_empty());
        // Another dot, a wildcard or a comma in a name would select other tables.
        let plain = |name: &str| name.matches('.').count() == 1 && !name.contains(['*', '?', ',']);
        let names: BTreeSet<&String> = self.all.iter().map(|(name, _)| name).collect();
        (rows_only && !self.more && names.iter().all(|name| plain(name)))
            .then(|| names.into_iter().cloned().collect())
    }
}

/// What identifies a row: its key, or all its values if it has none.
fn name_of(row: &RowDifference) -> String {
    let values = if row.key.is_empty() {
        &row.values
    } else {
        &row.key
    };
    let values: Vec<String> = values
        .iter()
        .map(|one| format!("{}={}", one.column, one.value))
        .collect();
    format!("row {}", values.join(", "))
}

/// Whether both nodes were read at the same write-set.
fn at_one_moment(outcome: &VerifyOutcome) -> bool {
    let (a, b) = (&outcome.a.snapshot.galera, &outcome.b.snapshot.galera);
    a.is_some() && a == b
}

/// A row-by-row comparison of two nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    /// All nodes; `compare` takes indexes into it.
    pub members: &'a [Member],
    /// Connections to each of the two nodes. `None`: the default.
    pub threads: Option<usize>,
    pub run: &'a Run,
}

/// Why two nodes do not hold the same data, or why that is unknown.
#[derive(Debug)]
pub(crate) enum Apart {
    /// They differ in these tables and definitions.
    Differs(Vec<String>),
    /// Every comparison found differences in these, and none read both nodes at the same write-set.
    Unsettled(Vec<String>),
    /// They could not be compared.
    Failed(Box<VerifyError>),
    /// Stopped on request.
    Stopped,
}

impl Comparison<'_> {
    /// Compares two nodes and returns the number of tables whose rows were compared. If `tables` is
    /// empty, it compares all of them.
    ///
    /// # Errors
    /// [`Apart`].
    pub fn compare(&self, from: usize, at: usize, tables: Vec<String>) -> Result<u64, Apart> {
        let endpoint = |at: usize| Endpoint::Server(Box::new(self.members[at].connect.clone()));
        let mut options = VerifyOptions::new(endpoint(from), endpoint(at));
        options.threads = self.threads.unwrap_or(options.threads);
        options.rows_shown = ROWS;
        options.tables = tables;
        let mut suspects: Option<Suspects> = None;
        let mut compared = None;
        for attempt in 1..=ATTEMPTS {
            let outcome = refloat_verify::verify(&options, self.run).map_err(
                |VerifyFailure { error, .. }| {
                    if self.run.cancel.is_cancelled() {
                        Apart::Stopped
                    } else {
                        Apart::Failed(Box::new(error))
                    }
                },
            )?;
            let compared = *compared.get_or_insert(outcome.tables);
            if outcome.same {
                return Ok(compared);
            }
            let now = Suspects::of(&outcome);
            if at_one_moment(&outcome) {
                return Err(Apart::Differs(now.names()));
            }
            let left = match suspects.take() {
                None => now,
                Some(before) => before.again(now),
            };
            if left.is_clear() {
                return Ok(compared);
            }
            self.run.events.note(format!(
                "{}: written between the two moments, or different; comparing again ({attempt} of {ATTEMPTS})",
                brief(&left.names())
            ));
            options.tables = left.tables().unwrap_or(options.tables);
            suspects = Some(left);
            if self.run.cancel.is_cancelled() {
                return Err(Apart::Stopped);
            }
            std::thread::sleep(PAUSE * attempt);
        }
        Err(Apart::Unsettled(
            suspects.map_or_else(Vec::new, |left| left.names()),
        ))
    }
}

/// The first few of these names, for a message.
pub(crate) fn brief(names: &[String]) -> String {
    let shown = names.iter().take(TOLD).map(String::as_str);
    let shown: Vec<&str> = shown.collect();
    match names.len().saturating_sub(TOLD) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspects(rows: &[(&str, &str)], more: bool) -> Suspects {
        let all = rows
            .iter()
            .map(|(table, row)| ((*table).to_owned(), (*row).to_owned()));
        Suspects {
            all: all.collect(),
            more,
        }
    }

    #[test]
    fn only_what_differs_every_time_is_suspected() {
        let first = suspects(&[("d.t", "row id=1"), ("d.t", "row id=2")], false);
        let then = suspects(&[("d.t", "row id=2"), ("d.u", "row id=1")], false);
        let left = first.clone().again(then);
        assert_eq!(left, suspects(&[("d.t", "row id=2")], false));
        assert_eq!(left.tables(), Some(vec!["d.t".to_owned()]));
        assert!(
            left.again(suspects(&[("d.t", "row id=3")], false))
                .is_clear()
        );
        // A difference that was not listed may be anything.
        let many = suspects(&[("d.t", "row id=9")], true);
        assert_eq!(many.clone().again(first.clone()), first);
        assert_eq!(first.clone().again(many.clone()), first);
        assert!(!many.clone().again(many.clone()).is_clear());
        assert_eq!(many.tables(), None);
        assert_eq!(suspects(&[("table d.t", "")], false).tables(), None);
        assert_eq!(suspects(&[("a.b.t", "row id=1")], false).tables(), None);
    }
}
