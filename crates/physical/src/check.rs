//! Lets a private server check the tables of a backup.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use refloat_repository::Repository;
use refloat_run::Run;
use refloat_run::progress::Phase;
use refloat_sqltext::quote_ident;
use refloat_wire::{ConnectOptions, Connection};

use crate::error::PhysicalError;
use crate::outcome::CheckedBackup;
use crate::private::{Candidate, PrivateOptions, why_lost};

/// All tables with rows of their own.
const TABLES: &str = "\
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
WHERE TABLE_TYPE NOT LIKE '%VIEW' \
AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema') ORDER BY 1, 2";
/// What the servers say about an intact table (`sql_admin.cc`, `mysql_admin_table`).
const WHOLE: [&str; 2] = ["OK", "Table is already up to date"];
/// What they say about a table that they cannot check.
const CANNOT: [&str; 2] = ["doesn't support check", "Unknown storage engine"];

/// The verdict on one table.
enum Verdict {
    Whole,
    Damaged(String),
    /// Its engine cannot check tables, or is not available.
    Unchecked(String),
}

/// Restores a backup into a private server and has it check every table.
///
/// # Errors
/// It was cancelled, or there is no server on these files. Damaged tables are not an error.
pub fn check(
    candidate: &Candidate,
    options: &PrivateOptions,
    repository: &Repository,
    run: &Run,
) -> Result<CheckedBackup, PhysicalError> {
    let begun = Instant::now();
    let mut server = candidate.start(options, repository, run)?;
    run.progress.set_phase(Phase::Proof);
    let asked = PhysicalError::server("asking for its tables");
    let tables = Connection::connect(server.connect()).and_then(|mut conn| conn.query(TABLES));
    let tables = tables.map_err(asked)?;
    let names: Vec<(String, String)> = (0..tables.len())
        .filter_map(|row| {
            Some((
                tables.str(row, 0)?.to_owned(),
                tables.str(row, 1)?.to_owned(),
            ))
        })
        .collect();
    run.progress.set_tables_total(names.len() as u64);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let connect = server.connect().clone();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, names.len().max(1)) {
            scope.spawn(|| check_some(&connect, &names, &next, &found));
        }
    });
    if let Some(reason) = run.cancel.reason() {
        return Err(PhysicalError::Cancelled(reason));
    }
    let mut checked = CheckedBackup {
        label: candidate.manifest.label.clone(),
        ..CheckedBackup::default()
    };
    let all = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (name, verdict) in all {
        match verdict {
            Ok(Verdict::Whole) => checked.tables += 1,
            Ok(Verdict::Damaged(why)) => drop(checked.damaged.insert(name, why)),
            Ok(Verdict::Unchecked(why)) => drop(checked.unchecked.insert(name, why)),
            Err(error) => drop(checked.damaged.insert(name, why_lost(&mut server, &error))),
        }
    }
    let seen = checked.tables + (checked.damaged.len() + checked.unchecked.len()) as u64;
    checked.left = names.len() as u64 - seen;
    checked.seconds = begun.elapsed().as_secs_f64();
    Ok(checked)
}

type Found = Mutex<Vec<(String, Result<Verdict, refloat_wire::Error>)>>;

/// Checks one table after the other, until there are no more or the server has ended.
fn check_some(
    connect: &ConnectOptions,
    names: &[(String, String)],
    next: &AtomicUsize,
    found: &Found,
) {
    let mut conn = None;
    while let Some((database, table)) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
        let verdict = (|| {
            let conn = match &mut conn {
                Some(conn) => conn,
                none => none.insert(Connection::connect(connect)?),
            };
            let name = format!("{}.{}", quote_ident(database), quote_ident(table));
            let result = conn.query(format!("CHECK TABLE {name}"))?;
            let rows = (0..result.len()).map(|row| {
                let text = |column| result.str(row, column).unwrap_or_default().to_owned();
                (text(2), text(3))
            });
            Ok(verdict(&rows.collect::<Vec<_>>()))
        })();
        let is_over = verdict.is_err();
        let entry = (format!("{database}.{table}"), verdict);
        found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
        if is_over {
            return;
        }
    }
}

/// What the rows of `CHECK TABLE` mean: kinds and texts.
fn verdict(rows: &[(String, String)]) -> Verdict {
    let last = rows.last().map(|(_, text)| text.as_str());
    if last.is_some_and(|text| WHOLE.contains(&text)) {
        return Verdict::Whole;
    }
    let texts: Vec<&str> = rows
        .iter()
        .filter(|(kind, _)| !kind.eq_ignore_ascii_case("status"))
        .map(|(_, text)| text.as_str())
        .collect();
    let texts = if texts.is_empty() {
        last.unwrap_or("it says nothing").to_owned()
    } else {
        texts.join("; ")
    };
    if CANNOT.iter().any(|words| texts.contains(words)) {
        Verdict::Unchecked(texts)
    } else {
        Verdict::Damaged(texts)
    }
}

impl CheckedBackup {
    /// What is wrong with it, in words. `None`: nothing.
    pub(crate) fn wrong(&self) -> Option<String> {
        let all: Vec<String> = named(&self.damaged);
        let count = match self.damaged.len() {
            0 => return None,
            1 => "a table is damaged".to_owned(),
            count => format!("{count} tables are damaged"),
        };
        let left = match self.left {
            0 => String::new(),
            left => format!("; {left} were no longer checked"),
        };
        Some(format!("{count}: {}{left}", all.join(", ")))
    }
}

/// Tables, each with what the server said about it.
pub(crate) fn named(tables: &BTreeMap<String, String>) -> Vec<String> {
    let each = tables.iter().map(|(name, why)| format!("{name} ({why})"));
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_of_tables() {
        let of = |rows: &[(&str, &str)]| {
            let rows: Vec<_> = rows
                .iter()
                .map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned()))
                .collect();
            verdict(&rows)
        };
        let open = (
            "warning",
            "1 client is using or hasn't closed the table properly",
        );
        assert!(matches!(of(&[open, ("status", "OK")]), Verdict::Whole));
        let note = (
            "note",
            "The storage engine for the table doesn't support check",
        );
        assert!(matches!(of(&[note]), Verdict::Unchecked(_)));
        let broken = [("Error", "Index 'a' is corrupted"), ("status", "Corrupt")];
        assert!(matches!(of(&broken), Verdict::Damaged(why) if why == "Index 'a' is corrupted"));
        let status = [("status", "Operation failed")];
        assert!(matches!(of(&status), Verdict::Damaged(why) if why == "Operation failed"));
        assert!(matches!(of(&[]), Verdict::Damaged(_)));
    }
}
