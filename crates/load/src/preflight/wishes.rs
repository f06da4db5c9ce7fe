//! Settings that the user asked for explicitly: none of them is left out silently.

use refloat_run::settings::{Durability, Facts, Hints, SettingsPlan, Skipped};

use crate::options::{BinlogMode, LoadOptions};
use refloat_run::Refusal;

/// The session variable behind `--binlog`.
const LOG_BIN: &str = "sql_log_bin";

/// Refuses `--binlog off` if the account cannot do it: the rows would reach the binary log and
/// everyone who reads it.
pub fn binlog(options: &LoadOptions, facts: &Facts) -> Option<Refusal> {
    if options.binlog != BinlogMode::Off {
        return None;
    }
    let hints = Hints {
        skip_binlog: true,
        ..Hints::default()
    };
    let plan = refloat_run::settings::plan_for(facts, Durability::Keep, &hints);
    let skipped = plan.skipped.into_iter().find(|one| one.name == LOG_BIN)?;
    let hint = match &skipped.missing_privilege {
        Some(privilege) => format!(
            "GRANT {privilege} ON *.* TO {}; or omit --binlog off.",
            facts.grants.account()
        ),
        None => "Omit --binlog off, or stop the replicas first and bring the rows to them by other means.".to_owned(),
    };
    Some(Refusal {
        reason: format!("--binlog off is not possible: {}", skipped.reason),
        hint,
    })
}

/// Settings that an explicit `--durability` asks for and the account may not change, in words.
pub fn left_out(options: &LoadOptions, plan: &SettingsPlan, refused: &[Skipped]) -> Vec<String> {
    let Some(level) = options
        .durability
        .filter(|level| *level != Durability::Keep)
    else {
        return Vec::new();
    };
    plan.skipped
        .iter()
        .filter(|one| one.missing_privilege.is_some())
        .filter(|one| one.name != LOG_BIN || options.binlog != BinlogMode::Keep)
        .chain(refused)
        .map(|one| {
            format!(
                "{}: not changed for --durability {level}: {}",
                one.name, one.reason
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use refloat_run::settings::Grants;
    use refloat_wire::{ConnectOptions, Vendor};

    use super::*;

    fn facts(rights: &[&str], replicas: Option<u64>) -> Facts {
        Facts {
            vendor: Vendor::MariaDb,
            version: (10, 11, 6),
            variables: BTreeMap::from([("log_bin".to_owned(), "ON".to_owned())]),
            startup_only: BTreeSet::new(),
            grants: Grants::on_everything(rights.iter().copied()),
            redo_enabled: None,
            replicas,
        }
    }

    #[test]
    fn a_binary_log_that_cannot_be_left_out_is_a_refusal() {
        let target = ConnectOptions::tcp("127.0.0.1", 3306, "root");
        let mut options = LoadOptions::new("dump.sql", target);
        let all = ["ALL PRIVILEGES"];
        let replicated = facts(&all, Some(2));
        assert_eq!(binlog(&options, &replicated), None, "nobody asked");
        options.binlog = BinlogMode::Off;
        assert_eq!(binlog(&options, &facts(&all, Some(0))), None);
        let refusal_for = |facts: &Facts| {
            let refusal = binlog(&options, facts).unwrap();
            format!("{} {}", refusal.reason, refusal.hint)
        };
        assert!(refusal_for(&replicated).contains("2 replicas"));
        assert!(refusal_for(&facts(&["SELECT"], None)).contains("GRANT PROCESS"));
        assert!(refusal_for(&facts(&["PROCESS"], Some(0))).contains("GRANT BINLOG ADMIN"));
        let mut silent = facts(&[], None);
        silent.variables.clear();
        assert_eq!(binlog(&options, &silent), None, "there is no binary log");
    }
}
