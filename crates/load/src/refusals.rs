//! Refusals that several places give.

use refloat_run::Refusal;

/// How many names to show of a database that is not empty.
const NAMES_SHOWN: usize = 5;

/// A database is not empty (it holds `names`), and no option says what to do with that.
pub fn not_empty(database: &str, names: &[String]) -> Refusal {
    let more = if names.len() > NAMES_SHOWN {
        ", …"
    } else {
        ""
    };
    let shown = names
        .iter()
        .take(NAMES_SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    Refusal {
        reason: format!(
            "database {database} is not empty: {} tables, views, routines and events ({shown}{more})",
            names.len()
        ),
        hint: "Use --replace to let the dump's tables replace those of the same name, --append to add rows to them, or another --database.".to_owned(),
    }
}

/// A table that the dump has rows for, but did not create, holds rows.
pub fn holds_rows(database: &str, table: &str) -> Refusal {
    Refusal {
        reason: format!(
            "table {database}.{table} already holds rows, and the dump would add to them"
        ),
        hint: "Use --append to add the dump's rows to those that are there.".to_owned(),
    }
}

/// Rows would fire triggers of a table that was there before.
pub fn fires_triggers(database: &str, table: &str, triggers: &[String]) -> Refusal {
    Refusal {
        reason: format!(
            "table {database}.{table} has triggers that the dump's rows would fire: {}",
            triggers.join(", ")
        ),
        hint: "Drop them before the load and create them again after it.".to_owned(),
    }
}

/// The dump names another database than the target database: in this line, or in statements for
/// tables.
pub fn other_database(name: &str, line: Option<u64>, wanted: &str) -> Refusal {
    let names = match line {
        Some(line) => format!("the dump names its own database {name} (line {line})"),
        None => format!("the dump has statements for tables of database {name}"),
    };
    Refusal {
        reason: format!("{names}, but it is to go into database {wanted}"),
        hint: "Leave out --database, and the database in the URL, to load into the databases that \
            the dump names; databases are not renamed."
            .to_owned(),
    }
}

/// Two names in the dump are the same name to the server.
pub fn same_name(first: &str, second: &str) -> Refusal {
    Refusal {
        reason: format!("{first} and {second} are different names in the dump, but the same name \
            to this server (lower_case_table_names is not 0)"),
        hint: "Load into a server with lower_case_table_names = 0, or rename one of them at the source and dump again.".to_owned(),
    }
}

/// The dump contains one of the server's own schemas, and no option says what to do with it.
pub fn system_schema(database: &str) -> Refusal {
    Refusal {
        reason: format!("the dump holds the server's own schema {database}: accounts, privileges \
            and other server-wide data"),
        hint: "Leave it out with --system-schema skip, or load it unchanged with --system-schema load.".to_owned(),
    }
}
