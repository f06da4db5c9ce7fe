//! Checks that the account may create programs that run as other accounts.

use refloat_run::settings::Facts;
use refloat_sqltext::literal;
use refloat_wire::{Connection, Vendor};

use crate::error::Refusal;
use crate::outline::{Account, Outline};

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
