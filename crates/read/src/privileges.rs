//! Checks privileges before a dump: the catalog silently hides what the account may not see, so it
//! would be missing without notice.

use refloat_run::Refusal;
use refloat_run::settings::Facts;
use refloat_wire::Vendor;

use super::catalog::Database;
use super::error::ReadError;
use super::options::{Kind, ReadOptions};

/// How many databases a refusal names for each privilege.
const NAMED: usize = 5;

/// A privilege that is missing, and what would be missing with it.
struct Lack<'a> {
    privilege: &'static str,
    databases: Vec<&'a str>,
    hidden: &'static str,
    /// How to do without it.
    way: String,
}

/// Refuses a dump that would miss objects which the account cannot see, and names every privilege
/// that is missing. Returns notes about what cannot be checked.
pub fn check(
    options: &ReadOptions,
    facts: &Facts,
    databases: &[Database],
) -> Result<Vec<String>, ReadError> {
    let mut lacks: Vec<Lack<'_>> = Vec::new();
    for database in databases {
        for lack in of_database(options, facts, database) {
            match lacks.iter_mut().find(|one| one.privilege == lack.privilege) {
                Some(known) => known.databases.extend(lack.databases),
                None => lacks.push(lack),
            }
        }
    }
    if options.accounts && !facts.grants.on_database("SELECT", "mysql") {
        lacks.push(Lack {
            privilege: "SELECT",
            databases: vec!["mysql"],
            hidden: "accounts cannot be read",
            way: "leave accounts out: no --users".to_owned(),
        });
    }
    if !lacks.is_empty() {
        return Err(refusal(&lacks));
    }
    let mut notes = Vec::new();
    if options.databases.is_empty()
        && options.tables.is_empty()
        && !facts.grants.sees_all_databases()
    {
        notes.push("databases that the account may not see (it lacks SHOW DATABASES) are not in the dump, if there are any".to_owned());
    }
    Ok(notes)
}

fn refusal(lacks: &[Lack<'_>]) -> ReadError {
    let descriptions: Vec<String> = lacks.iter().map(Lack::describe).collect();
    let mut ways: Vec<&str> = Vec::new();
    for lack in lacks {
        if !ways.contains(&lack.way.as_str()) {
            ways.push(&lack.way);
        }
    }
    let it = if lacks.len() == 1 { "it" } else { "them" };
    ReadError::Refused(Refusal {
        reason: format!("the account lacks {}", descriptions.join("; it lacks ")),
        hint: format!("Grant {it}, or {}.", ways.join("; ")),
    })
}

impl Lack<'_> {
    fn describe(&self) -> String {
        let list = self.databases[..self.databases.len().min(NAMED)].join(", ");
        let (databases, more) = match self.databases.len() {
            1 => ("database", String::new()),
            count if count > NAMED => ("databases", format!(" and {} more", count - NAMED)),
            _ => ("databases", String::new()),
        };
        let (privilege, hidden) = (self.privilege, self.hidden);
        format!("{privilege} on {databases} {list}{more}, so {hidden}")
    }
}

fn of_database<'a>(
    options: &ReadOptions,
    facts: &Facts,
    database: &'a Database,
) -> impl Iterator<Item = Lack<'a>> {
    let name = database.name.as_str();
    let all = options.tables.is_empty();
    let has = |privilege: &str| facts.grants.on_database(privilege, name);
    let without = |kind: &str| {
        options.skip_flag.map_or_else(
            || "compare rows alone with --rows-only".to_owned(),
            |flag| format!("leave {kind} out with {flag} {kind}"),
        )
    };
    let routines = match facts.vendor {
        Vendor::MySql => "SHOW_ROUTINE (or SELECT on everything), and with it rights",
        Vendor::MariaDb => "SELECT on mysql.proc, and with it rights",
    };
    let needs = [
        (
            (all && !has("SELECT")) || database.hidden,
            "SELECT",
            "tables that it may not read would be left out",
            "name the tables that are wanted with --tables".to_owned(),
        ),
        (
            options.wants(Kind::Triggers) && !has("TRIGGER"),
            "TRIGGER",
            "triggers would be left out",
            without("triggers"),
        ),
        (
            all && options.wants(Kind::Views) && !has("SHOW VIEW"),
            "SHOW VIEW",
            "definitions of views are hidden",
            without("views"),
        ),
        (
            all && options.wants(Kind::Events) && !has("EVENT"),
            "EVENT",
            "events would be left out",
            without("events"),
        ),
        (
            all && options.wants(Kind::Routines) && !sees_routines(facts, name),
            routines,
            "routines of others would be left out",
            without("routines"),
        ),
    ];
    let lack = move |(lacks, privilege, hidden, way): (bool, _, _, _)| {
        lacks.then(|| Lack {
            privilege,
            databases: vec![name],
            hidden,
            way,
        })
    };
    needs.into_iter().filter_map(lack)
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use refloat_run::settings::Grants;
    use refloat_wire::ConnectOptions;

    use super::*;

    fn facts(rights: &[&str]) -> Facts {
        Facts {
            vendor: Vendor::MySql,
            version: (9, 7, 4),
            variables: BTreeMap::new(),
            startup_only: BTreeSet::new(),
            grants: Grants::on_everything(rights.iter().copied()),
            redo_enabled: None,
            replicas: None,
        }
    }

    fn options() -> ReadOptions {
        ReadOptions::new(ConnectOptions::tcp("127.0.0.1", 3306, "a"))
    }

    fn database(name: &str, hidden: bool) -> Database {
        Database {
            name: name.to_owned(),
            hidden,
            ..Database::default()
        }
    }

    #[track_caller]
    fn refused(options: &ReadOptions, rights: &[&str], databases: &[Database]) -> (String, String) {
        match check(options, &facts(rights), databases) {
            Err(ReadError::Refused(Refusal { reason, hint })) => (reason, hint),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let databases = [database("shop", false), database("shop2", true)];
        let mut options = options();
        options.accounts = true;
        let (reason, hint) = refused(&options, &["SHOW DATABASES"], &databases);
        for right in ["SELECT", "TRIGGER", "SHOW VIEW", "EVENT"] {
            let expected = format!("lacks {right} on databases shop, shop2, so ");
            assert!(reason.contains(&expected), "{expected}: {reason}");
        }
        assert!(reason.contains("SHOW_ROUTINE"), "{reason}");
        assert!(
            reason.contains("SELECT on database mysql, so accounts"),
            "{reason}"
        );
        for way in ["--tables", "--skip triggers", "--skip events", "--users"] {
            assert!(hint.contains(way), "{way}: {hint}");
        }
        let rights = ["SELECT", "TRIGGER", "SHOW VIEW", "EVENT"];
        assert!(check(&options, &facts(&rights), &databases[..1]).is_ok());
        let (reason, hint) = refused(&options, &rights[..3], &databases[..1]);
        assert_eq!(
            reason,
            "the account lacks EVENT on database shop, so events would be left out"
        );
        assert_eq!(hint, "Grant it, or leave events out with --skip events.");
    }

    #[test]
    fn what_has_no_flag_to_leave_objects_out_names_none() {
        let mut options = options();
        options.skip_flag = None;
        let (_, hint) = refused(&options, &["SELECT"], &[database("shop", false)]);
        assert_eq!(hint, "Grant them, or compare rows alone with --rows-only.");
        options.skip = vec![Kind::Views, Kind::Routines, Kind::Triggers, Kind::Events];
        assert!(check(&options, &facts(&["SELECT"]), &[database("shop", false)]).is_ok());
    }

    #[test]
    fn tables_that_may_be_in_a_hidden_database_are_not_taken_for_missing() {
        let mut options = options();
        options.skip = vec![Kind::Triggers];
        options.tables = vec!["items".to_owned()];
        assert!(check(&options, &facts(&[]), &[database("other", false)]).is_ok());
        let (reason, _) = refused(&options, &[], &[database("other", true)]);
        assert!(reason.contains("SELECT on database other"), "{reason}");
    }
}
