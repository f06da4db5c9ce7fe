//! Checks that the account may create programs that run as other accounts.

use refloat_run::settings::Facts;
use refloat_sqltext::literal;
use refloat_wire::{Connection, Vendor};

use crate::outline::{Account, Outline};
use refloat_run::Refusal;

/// How many definers a refusal names.
const DEFINERS_SHOWN: usize = 3;

/// The privileges any one of which allows another account as `DEFINER`.
fn definer_privileges(facts: &Facts) -> &'static [&'static str] {
    match facts.vendor {
        // SET_ANY_DEFINER was added in 8.2.0, SET_USER_ID removed in 8.4.0.
        Vendor::MySql if facts.version >= (8, 4, 0) => &["SET_ANY_DEFINER", "SUPER"],
        Vendor::MySql if facts.version >= (8, 2, 0) => &["SET_ANY_DEFINER", "SET_USER_ID", "SUPER"],
        Vendor::MySql if facts.version >= (8, 0, 0) => &["SET_USER_ID", "SUPER"],
        // SUPER covers less since 11.0.
        Vendor::MariaDb if facts.version >= (11, 0, 0) => &["SET USER"],
        Vendor::MariaDb if facts.version >= (10, 5, 2) => &["SET USER", "SUPER"],
        _ => &["SUPER"],
    }
}

/// Refuses programs that are to run as another account, if that is not allowed.
pub fn others(
    conn: &mut Connection,
    facts: &Facts,
    outline: &Outline,
) -> Result<Option<Refusal>, refloat_wire::Error> {
    let foreign: Vec<(&Account, &String)> = outline
        .definers
        .iter()
        .filter(|(account, _)| !is_own(facts, account))
        .collect();
    if foreign.is_empty() {
        return Ok(None);
    }
    let account = facts.grants.account();
    let any = definer_privileges(facts);
    if !facts.may(any) {
        return Ok(Some(Refusal {
            reason: format!(
                "the account {account} lacks {}, which programs of other accounts need: {}",
                any.join(" or "),
                listed(&foreign)
            ),
            hint: format!(
                "GRANT {} ON *.* TO {account}; or load as the account that they belong to.",
                any[0]
            ),
        }));
    }
    if !facts.mysql_since((8, 2, 0)) || facts.may(&["ALLOW_NONEXISTENT_DEFINER", "SUPER"]) {
        return Ok(None);
    }
    let mut orphans = Vec::new();
    for one in foreign {
        let host = if one.0.host.is_empty() {
            "%"
        } else {
            &one.0.host
        };
        let sql = format!(
            "SELECT COUNT(*) FROM mysql.user WHERE User = {} AND Host = {}",
            literal(&one.0.user),
            literal(host)
        );
        match conn.query_value(sql) {
            Ok(Some(count)) if count == "0" => orphans.push(one),
            Ok(_) => {}
            // The account may not read the list of accounts, so this is unknown.
            Err(error) if error.is_access_denied() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if orphans.is_empty() {
        return Ok(None);
    }
    Ok(Some(Refusal {
        reason: format!(
            "the account {account} lacks ALLOW_NONEXISTENT_DEFINER, which programs of accounts that the server does not have need: {}",
            listed(&orphans)
        ),
        hint: format!(
            "Create those accounts first, or GRANT ALLOW_NONEXISTENT_DEFINER ON *.* TO {account};"
        ),
    }))
}

/// Refuses programs of accounts with `SYSTEM_USER` (MySQL), for which that privilege is needed
/// besides those of [`definer_privileges`] (1227).
pub fn system_users(
    conn: &mut Connection,
    facts: &Facts,
    outline: &Outline,
) -> Result<Option<Refusal>, refloat_wire::Error> {
    let nobody = outline.definers.is_empty();
    if nobody || !facts.mysql_since((8, 0, 16)) || facts.may(&["SYSTEM_USER"]) {
        return Ok(None);
    }
    let query = "SELECT USER, HOST FROM mysql.global_grants WHERE PRIV = 'SYSTEM_USER'";
    let found = match conn.query(query) {
        // The account may not read who has it, so this is unknown.
        Err(error) if error.is_access_denied() => return Ok(None),
        found => found?,
    };
    let text = |row, column| found.str(row, column).unwrap_or_default().to_owned();
    let system: Vec<Account> = (0..found.len())
        .map(|row| Account {
            user: text(row, 0),
            host: text(row, 1),
        })
        .collect();
    Ok(of_system_users(facts, outline, &system))
}

fn of_system_users(facts: &Facts, outline: &Outline, system: &[Account]) -> Option<Refusal> {
    let is_system = |account: &Account| {
        let host = Some(account.host.as_str()).filter(|host| !host.is_empty());
        system
            .iter()
            .any(|one| one.user == account.user && one.host == host.unwrap_or("%"))
    };
    let theirs: Vec<(&Account, &String)> = outline
        .definers
        .iter()
        .filter(|(account, _)| is_system(account) && !is_own(facts, account))
        .collect();
    let account = facts.grants.account();
    (!theirs.is_empty()).then(|| Refusal {
        reason: format!(
            "the account {account} lacks SYSTEM_USER, which programs of accounts that have it need: {}",
            listed(&theirs)
        ),
        hint: format!(
            "GRANT SYSTEM_USER ON *.* TO {account}; or load as an account that has it."
        ),
    })
}

fn is_own(facts: &Facts, account: &Account) -> bool {
    let no_host = account.host.is_empty();
    facts.grants.is_own(&account.user, &account.host)
        || (no_host && facts.grants.is_own(&account.user, "%"))
}

fn listed(foreign: &[(&Account, &String)]) -> String {
    let mut list: Vec<String> = foreign
        .iter()
        .take(DEFINERS_SHOWN)
        .map(|(account, what)| format!("{what} of {account}"))
        .collect();
    if foreign.len() > DEFINERS_SHOWN {
        list.push("…".to_owned());
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use refloat_run::settings::Grants;

    use super::*;

    #[test]
    fn programs_of_accounts_with_system_user_are_named() {
        let facts = Facts {
            vendor: Vendor::MySql,
            version: (9, 7, 4),
            variables: BTreeMap::new(),
            startup_only: BTreeSet::new(),
            grants: Grants::on_everything(["SET_ANY_DEFINER"]),
            redo_enabled: None,
            replicas: None,
        };
        let account = |user: &str, host: &str| Account {
            user: user.to_owned(),
            host: host.to_owned(),
        };
        let mut outline = Outline::default();
        for (user, what) in [("root", "view v"), ("app", "procedure p")] {
            let definer = account(user, "localhost");
            outline.definers.insert(definer, what.to_owned());
        }
        let refusal = |system: &[Account]| of_system_users(&facts, &outline, system);
        assert_eq!(refusal(&[account("root", "%")]), None);
        let refused = refusal(&[account("root", "localhost")]).unwrap();
        assert!(
            refused.reason.contains("lacks SYSTEM_USER"),
            "{}",
            refused.reason
        );
        assert!(
            refused.reason.ends_with("view v of 'root'@'localhost'"),
            "{}",
            refused.reason
        );
    }
}
