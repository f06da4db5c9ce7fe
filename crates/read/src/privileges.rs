//! Checks privileges before a dump: the catalog silently hides what the account may not see, so it
//! would be missing without notice.

use refloat_run::settings::Facts;
use refloat_wire::Vendor;

use super::catalog::Database;
use super::error::ReadError;
use super::options::{Kind, ReadOptions};

/// Refuses a dump that would miss objects which the account cannot see. Returns notes about what
/// cannot be checked.
pub fn check(
    options: &ReadOptions,
    facts: &Facts,
    databases: &[Database],
) -> Result<Vec<String>, ReadError> {
    let mut notes = Vec::new();
    if options.databases.is_empty()
        && options.tables.is_empty()
        && !facts.grants.sees_all_databases()
    {
        notes.push("databases that the account may not see (it lacks SHOW DATABASES) are not in the dump, if there are any".to_owned());
    }
    for database in databases {
        let name = database.name.as_str();
        let lacks = |privilege: &str| !facts.grants.on_database(privilege, name);
        let refuse = |privilege: &str, hidden: &str, way: &str| {
            Err(ReadError::Refused {
                reason: format!("the account lacks {privilege} on database {name}, so {hidden}"),
                hint: format!("Grant it{way}."),
            })
        };
        if options.tables.is_empty() && lacks("SELECT") {
            return refuse(
                "SELECT",
                "tables that it may not read would be left out",
                ", or name the tables that are wanted with --tables",
            );
        }
        if options.wants(Kind::Triggers) && lacks("TRIGGER") {
            return refuse(
                "TRIGGER",
                "triggers would be left out",
                ", or leave them out with --skip triggers",
            );
        }
        if !options.tables.is_empty() {
            continue;
        }
        if options.wants(Kind::Views) && lacks("SHOW VIEW") {
            return refuse(
                "SHOW VIEW",
                "definitions of views are hidden",
                ", or leave them out with --skip views",
            );
        }
        if options.wants(Kind::Events) && lacks("EVENT") {
            return refuse(
                "EVENT",
                "events would be left out",
                ", or leave them out with --skip events",
            );
        }
        if options.wants(Kind::Routines) && !sees_routines(facts, name) {
            let privilege = match facts.vendor {
                Vendor::MySql => "SHOW_ROUTINE (or SELECT on everything), and with it rights",
                Vendor::MariaDb => "SELECT on mysql.proc, and with it rights",
            };
            return refuse(
                privilege,
                "routines of others would be left out",
                ", or leave them out with --skip routines",
            );
        }
    }
    Ok(notes)
}

fn sees_routines(facts: &Facts, database: &str) -> bool {
    match facts.vendor {
        Vendor::MySql => facts.may(&["SHOW_ROUTINE", "SELECT"]),
        Vendor::MariaDb => {
            facts.grants.on_table("SELECT", "mysql", "proc")
                || facts.grants.on_database("SHOW CREATE ROUTINE", database)
        }
    }
}
