//! The quick form: which tables there are, how many rows they have, and checksums of those that have changed since a server has started.
//!
//! What differs by that may have been written in between, so it decides nothing: it names the tables that are compared row by row.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use refloat_sqltext::ident::quote_ident;
use refloat_wire::{Connection, Error};

use super::{VerifyNodesError, Verifying};
use crate::member::Member;

/// Tables, and whether they have changed since the server has started. InnoDB forgets when a table was changed when its server ends.
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, UPDATE_TIME IS NOT NULL FROM information_schema.TABLES \
    WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";
/// What one node has applied the other waits for.
const CAUSAL: &str = "SET SESSION wsrep_sync_wait = 1";
/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(10);

/// What a quick look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Tables that both have.
    pub tables: u64,
    /// Of these, tables of which checksums were made.
    pub checksums: u64,
    /// Tables that differ, or that only one of them has.
    pub suspects: Vec<String>,
    /// Whether something cannot be named to a comparison.
    all: bool,
}

impl Looked {
    /// The tables that are compared row by row; all of them where there are none.
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
    /// Looks at all tables of two nodes.
    pub(super) fn look(&self, from: usize, at: usize) -> Result<Looked, VerifyNodesError> {
        let members = [&self.members[from], &self.members[at]];
        let mut conns = both(members, |member| {
            let mut conn = Connection::connect(&member.connect)?;
            conn.exec(CAUSAL)?;
            Ok(conn)
        })?;
        let [ours, theirs] = on_both(members, &mut conns, tables)?;
        let mut looked = Looked::default();
        let mut told = Instant::now();
        let all: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for (database, table) in all.iter().copied() {
            if self.run.cancel.is_cancelled() {
                return Err(VerifyNodesError::Interrupted);
            }
            if told.elapsed() > TELL {
                told = Instant::now();
                self.run.events.note(format!(
                    "{} of {} tables are counted",
                    looked.tables,
                    all.len()
                ));
            }
            let key = (database.clone(), table.clone());
            let name = format!("{database}.{table}");
            let (Some(here), Some(there)) = (ours.get(&key), theirs.get(&key)) else {
                // Made or dropped just now, or on one of them only.
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
            if !known_same(&here, &there) {
                looked.suspect(name);
            }
        }
        Ok(looked)
    }
}

impl Looked {
    fn suspect(&mut self, name: String) {
        // A name with a point or a character that stands for others would mean other tables.
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

/// A value of the first row. `None`: it is NULL, as the checksum of a table is that cannot be read, or the server has refused: that table may have
/// gone meanwhile.
fn value(conn: &mut Connection, sql: &str, column: usize) -> Result<Option<String>, Error> {
    match conn.query(sql) {
        Ok(rows) => Ok(rows.str(0, column).map(str::to_owned)),
        Err(Error::Server { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether both have said the same. That neither could say anything proves nothing.
fn known_same(here: &[Option<String>], there: &[Option<String>]) -> bool {
    here == there && here.iter().all(Option::is_some)
}

fn both<T: Send>(
    members: [&Member; 2],
    ask: impl Fn(&Member) -> Result<T, Error> + Sync,
) -> Result<[T; 2], VerifyNodesError> {
    let [a, b] = members.map(|member| ask(member).map_err(|error| asking(member, error)));
    Ok([a?, b?])
}

/// Asks both at the same time.
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
    use super::known_same;

    #[test]
    fn what_neither_node_can_say_is_not_the_same() {
        let said = |values: &[&str]| -> Vec<Option<String>> {
            let value = |value: &&str| (*value != "NULL").then(|| (*value).to_owned());
            values.iter().map(value).collect()
        };
        assert!(known_same(&said(&["2", "77"]), &said(&["2", "77"])));
        assert!(!known_same(&said(&["2", "77"]), &said(&["2", "78"])));
        assert!(!known_same(&said(&["2", "NULL"]), &said(&["2", "NULL"])));
        assert!(!known_same(&said(&["NULL"]), &said(&["NULL"])));
    }
}
