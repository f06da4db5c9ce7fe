//! The quick comparison: tables, row counts, and checksums of tables that have changed since a
//! server started.
//!
//! A table that differs may have been written to in between, so this decides nothing: it names the
//! tables to compare row by row.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use refloat_run::settings::Grants;
use refloat_sqltext::ident::quote_ident;
use refloat_wire::{Connection, Error};

use super::{VerifyNodesError, Verifying};
use crate::member::Member;

/// Tables, and whether they have changed since the server started. InnoDB does not keep the time of
/// a table's last change across restarts.
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, UPDATE_TIME IS NOT NULL FROM information_schema.TABLES \
    WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";
/// Each node waits until it has applied what the other has committed.
const CAUSAL: &str = "SET SESSION wsrep_sync_wait = 1";
/// How often progress is reported.
const TELL: Duration = Duration::from_secs(10);

/// The result of a quick comparison.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Number of tables that both have.
    pub tables: u64,
    /// Number of these that were compared by checksum.
    pub checksums: u64,
    /// Whether the account can read every table. Others would be missed silently.
    pub reads_all: bool,
    /// Tables that differ, or that only one of them has.
    pub suspects: Vec<String>,
    /// Whether a suspect's name cannot be used as a filter for a comparison.
    all: bool,
}

impl Looked {
    /// The tables to compare row by row. Empty means all of them.
    pub fn to_compare(&self) -> Vec<String> {
        if self.all {
            Vec::new()
        } else {
            self.suspects.clone()
        }
    }
}

type Tables = BTreeMap<(String, String), bool>;

impl Verifying<'_> {
    /// Compares all tables of two nodes quickly.
    pub(super) fn look(&self, from: usize, at: usize) -> Result<Looked, VerifyNodesError> {
        let members = [&self.members[from], &self.members[at]];
        let mut conns = both(members, |member| {
            let mut conn = Connection::connect(&member.connect)?;
            conn.exec(CAUSAL)?;
            Ok(conn)
        })?;
        let [ours, theirs] = on_both(members, &mut conns, tables)?;
        let reads_all = on_both(members, &mut conns, |conn| {
            Grants::read(conn).map(|grants| grants.reads_everything())
        })?;
        let mut looked = Looked {
            reads_all: reads_all == [true, true],
            ..Looked::default()
        };
        let mut last_report = Instant::now();
        let all: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for (database, table) in all.iter().copied() {
            if self.run.cancel.is_cancelled() {
                return Err(VerifyNodesError::Interrupted);
            }
            if last_report.elapsed() > TELL {
                last_report = Instant::now();
                self.run.events.note(format!(
                    "{} of {} tables are counted",
                    looked.tables,
                    all.len()
                ));
            }
            let key = (database.clone(), table.clone());
            let name = format!("{database}.{table}");
            let (Some(here), Some(there)) = (ours.get(&key), theirs.get(&key)) else {
                // Created or dropped just now, or present on only one of them.
                looked.suspect(name);
                continue;
            };
            looked.tables += 1;
            looked.checksums += u64::from(*here || *there);
            let quoted = format!("{}.{}", quote_ident(database), quote_ident(table));
            let mut asked = vec![(format!("SELECT COUNT(*) FROM {quoted}"), 0)];
            if *here || *there {
                // The first column is the name of the table.
                asked.push((format!("CHECKSUM TABLE {quoted}"), 1));
            }
            let [here, there] = on_both(members, &mut conns, |conn| {
                asked
                    .iter()
                    .map(|(sql, column)| value(conn, sql, *column))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            if !known_and_equal(&here, &there) {
                looked.suspect(name);
            }
        }
        Ok(looked)
    }
}

impl Looked {
    fn suspect(&mut self, name: String) {
        // Another dot, a wildcard or a comma in a name would select other tables.
        self.all |= name.matches('.').count() != 1 || name.contains(['*', '?', ',']);
        self.suspects.push(name);
    }
}

fn tables(conn: &mut Connection) -> Result<Tables, Error> {
    let rows = conn.query(TABLES)?;
    let text = |row, column| rows.str(row, column).unwrap_or_default().to_owned();
    Ok((0..rows.len())
        .map(|row| ((text(row, 0), text(row, 1)), text(row, 2) == "1"))
        .collect())
}

/// A value of the first row. `None`: it is NULL, like the checksum of a table that cannot be read,
/// or the server refused the query, perhaps because the table is gone.
fn value(conn: &mut Connection, sql: &str, column: usize) -> Result<Option<String>, Error> {
    match conn.query(sql) {
        Ok(rows) => Ok(rows.str(0, column).map(str::to_owned)),
        Err(Error::Server { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether both gave the same answer. If neither could answer, nothing is proven.
fn known_and_equal(here: &[Option<String>], there: &[Option<String>]) -> bool {
    here == there && here.iter().all(Option::is_some)
}

fn both<T: Send>(
    members: [&Member; 2],
    ask: impl Fn(&Member) -> Result<T, Error> + Sync,
) -> Result<[T; 2], VerifyNodesError> {
    let [a, b] = members.map(|member| ask(member).map_err(|error| asking(member, error)));
    Ok([a?, b?])
}

/// Queries both nodes at the same time.
fn on_both<T: Send>(
    members: [&Member; 2],
    conns: &mut [Connection; 2],
    ask: impl Fn(&mut Connection) -> Result<T, Error> + Sync,
) -> Result<[T; 2], VerifyNodesError> {
    let [first, second] = conns;
    let (a, b) = thread::scope(|scope| {
        let other = scope.spawn(|| ask(second));
        let a = ask(first);
        (a, other.join())
    });
    let b = b.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let a = a.map_err(|error| asking(members[0], error))?;
    Ok([a, b.map_err(|error| asking(members[1], error))?])
}

fn asking(member: &Member, error: Error) -> VerifyNodesError {
    VerifyNodesError::Server {
        node: member.name.clone(),
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::known_and_equal;

    #[test]
    fn what_neither_node_can_say_is_not_the_same() {
        let row = |values: &[&str]| -> Vec<Option<String>> {
            let value = |value: &&str| (*value != "NULL").then(|| (*value).to_owned());
            values.iter().map(value).collect()
        };
        assert!(known_and_equal(&row(&["2", "77"]), &row(&["2", "77"])));
        assert!(!known_and_equal(&row(&["2", "77"]), &row(&["2", "78"])));
        assert!(!known_and_equal(&row(&["2", "NULL"]), &row(&["2", "NULL"])));
        assert!(!known_and_equal(&row(&["NULL"]), &row(&["NULL"])));
    }
}
