//! Checks that the account has the privileges that the dump needs, and names all missing ones at
//! once.

use refloat_run::Refusal;
use refloat_run::settings::Facts;
use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Vendor};

use super::definers;
use crate::options::{ExistingPolicy, IndexMode, LoadOptions, OnError};
use crate::outline::{Content, Outline};
use crate::programs::Contents;

/// Needed for rows.
const ROWS: [&str; 2] = ["SELECT", "INSERT"];
/// Needed in addition for the definition of a table.
const TABLES: [&str; 4] = ["CREATE", "DROP", "ALTER", "REFERENCES"];

/// Connections besides those of the writers: the dump's own session, and one that looks up what
/// the server has.
const OTHER_CONNECTIONS: usize = 2;

/// Refuses an account that may not have as many connections as this load needs.
pub fn connections(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
) -> Result<Option<Refusal>, refloat_wire::Error> {
    let of_session =
        conn.query("SELECT @@SESSION.max_user_connections, @@GLOBAL.max_user_connections")?;
    let limit = |column| {
        let text = of_session.str(0, column);
        text.and_then(|text| text.parse::<usize>().ok())
            .unwrap_or(0)
    };
    let (limit, usual) = (limit(0), limit(1));
    // On MariaDB the server's own limit does not hold for them.
    let exempt = facts.vendor == Vendor::MariaDb
        && limit == usual
        && facts.may(&["SUPER", "CONNECTION ADMIN"]);
    let needed = options.threads + OTHER_CONNECTIONS;
    if limit == 0 || limit >= needed || exempt {
        return Ok(None);
    }
    let fewer = match limit.checked_sub(OTHER_CONNECTIONS) {
        None | Some(0) => String::new(),
        Some(threads) => format!("--threads {threads} needs no more. Or: "),
    };
    Ok(Some(Refusal {
        reason: format!(
            "the account may have {limit} connections at a time, and this load needs {needed}"
        ),
        hint: format!(
            "{fewer}load with another account, or ALTER USER … WITH MAX_USER_CONNECTIONS {needed}."
        ),
    }))
}

/// Returns a refusal for every missing privilege.
pub fn missing(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: Option<&Outline>,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    let Some(outline) = outline else {
        // If the dump cannot be examined beforehand, at most its target database is known.
        let database = options
            .database
            .as_ref()
            .or(options.target.database.as_ref());
        if let Some(database) = database {
            let mut needed = ROWS.to_vec();
            if options.existing != ExistingPolicy::Append {
                needed.extend(definition(options));
            }
            let lacking = needed
                .into_iter()
                .filter(|one| !facts.grants.on_database(one, database));
            refusals.extend(lacks(facts, database, &lacking.collect::<Vec<_>>()));
        }
        return Ok(refusals);
    };
    for (database, content) in outline.by_database(options) {
        let lacking = on_database(options, conn, facts, database, content)?;
        refusals.extend(lacks(facts, database, &lacking));
    }
    refusals.extend(definers::others(conn, facts, outline)?);
    // A load that continues lists such programs, and loads everything else.
    if options.on_error == OnError::Stop {
        refusals.extend(definers::system_users(conn, facts, outline)?);
    }
    refusals.extend(creators(options, facts, outline));
    Ok(refusals)
}

fn definition(options: &LoadOptions) -> impl Iterator<Item = &'static str> {
    let index = (options.indexes != IndexMode::Inline).then_some("INDEX");
    TABLES.into_iter().chain(index)
}

fn lacks(facts: &Facts, database: &str, lacking: &[&str]) -> Option<Refusal> {
    if lacking.is_empty() {
        return None;
    }
    let (account, list) = (facts.grants.account(), lacking.join(", "));
    Some(Refusal {
        reason: format!("the account {account} lacks {list} on database {database}"),
        hint: format!("GRANT {list} ON {}.* TO {account};", quote_ident(database)),
    })
}

/// Privileges that are missing in one database, each named once.
fn on_database(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    database: &str,
    content: &Content,
) -> Result<Vec<&'static str>, refloat_wire::Error> {
    let mut lacking: Vec<&'static str> = Vec::new();
    let mut need = |privilege: &'static str, has: bool| {
        if !has && !lacking.contains(&privilege) {
            lacking.push(privilege);
        }
    };
    let grants = &facts.grants;
    // Either on the whole database, or on each of the tables that the dump concerns.
    let has = |privilege: &str, mut tables: Box<dyn Iterator<Item = &String> + '_>| {
        grants.on_database(privilege, database)
            || tables.all(|table| grants.on_table(privilege, database, table))
    };
    let (created, filled) = (content.created.all(), content.filled.all());
    let there = match options.existing {
        ExistingPolicy::Append if !content.created.is_empty() => {
            Contents::read(conn, database, false)?.map(|found| found.tables)
        }
        _ => None,
    };
    if !content.created.is_empty() || !content.filled.is_empty() {
        for privilege in ROWS {
            let ok = match (created, filled) {
                (Some(created), Some(filled)) => has(privilege, Box::new(created.union(filled))),
                _ => grants.on_database(privilege, database),
            };
            need(privilege, ok);
        }
    }
    if !content.created.is_empty() {
        for privilege in definition(options) {
            let ok = match created {
                // With --append, tables that exist are not created.
                Some(created) => {
                    let kept = |table: &&String| {
                        there.as_ref().is_some_and(|there| there.contains(*table))
                    };
                    has(
                        privilege,
                        Box::new(created.iter().filter(move |table| !kept(table))),
                    )
                }
                None => grants.on_database(privilege, database),
            };
            need(privilege, ok);
        }
    }
    if options.database.as_deref() == Some(database)
        && !grants.on_database("CREATE", database)
        && Contents::read(conn, database, false)?.is_none()
    {
        need("CREATE", false);
    }
    for (wanted, privilege) in [
        (content.database, "CREATE"),
        (content.routines, "CREATE ROUTINE"),
        (content.routines, "ALTER ROUTINE"),
        (content.events, "EVENT"),
        (content.views, "CREATE VIEW"),
    ] {
        if wanted {
            need(privilege, grants.on_database(privilege, database));
        }
    }
    if content.triggers {
        let ok = match created {
            Some(created) if !created.is_empty() => has("TRIGGER", Box::new(created.iter())),
            _ => grants.on_database("TRIGGER", database),
        };
        need("TRIGGER", ok);
    }
    Ok(lacking)
}

/// Functions and triggers that a server with a binary log accepts only from trusted accounts
/// (`log_bin_trust_function_creators`).
fn creators(options: &LoadOptions, facts: &Facts, outline: &Outline) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if facts
        .get("log_bin_trust_function_creators")
        .is_none_or(|_| facts.is_on("log_bin_trust_function_creators"))
    {
        return refusals;
    }
    let allow = "SET GLOBAL log_bin_trust_function_creators = ON allows it";
    let logs = facts.is_on("log_bin");
    let any = |what: fn(&Content) -> bool| outline.by_database(options).any(|(_, one)| what(one));
    let triggers = any(|one| one.triggers);
    let functions = any(|one| one.functions);
    let watched = (logs && (triggers || functions)) || (facts.is_on("wsrep_on") && triggers);
    if watched && !facts.may(&["SUPER"]) {
        let what = match (triggers, functions && logs) {
            (true, true) => "triggers and functions",
            (true, false) => "triggers",
            _ => "functions",
        };
        let account = facts.grants.account();
        refusals.push(Refusal {
            reason: format!(
                "the account {account} lacks SUPER, and the server writes a binary log and has log_bin_trust_function_creators off: it refuses the dump's {what}"
            ),
            hint: format!("{allow}, and so does GRANT SUPER ON *.* TO {account};"),
        });
    }
    if let Some(function) = outline.undeclared.as_ref().filter(|_| logs && functions) {
        refusals.push(Refusal {
            reason: format!(
                "function {function} is not declared DETERMINISTIC, NO SQL or READS SQL DATA, and the server writes a binary log and has log_bin_trust_function_creators off: it refuses such functions"
            ),
            hint: format!("{allow}."),
        });
    }
    refusals
}
