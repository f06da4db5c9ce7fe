//! Definitions as SQL that the stock client runs.
//!
//! Comments never contain names from the server: a newline in one would end the comment, and the
//! rest would run.

use std::fmt::Write as _;

use refloat_read::catalog::{
    Database, Program, Programs, ShowCreate, Table, View, show_create, show_create_database,
};
use refloat_read::strip;
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::error::DumpError;
use super::options::DumpOptions;

/// Start of every SQL file. Fixes how values are read, and makes the server accept unusual ones.
pub const HEAD: &str = "SET NAMES utf8mb4;\nSET time_zone = '+00:00';\nSET foreign_key_checks = 0;\n\
                    SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n";
/// Delimiters for programs. The first that occurs in none of them is used.
const DELIMITERS: &[&str] = &[";;", "$$", "//", "@@@@", "$refloat$"];

/// The file that creates a database with its sequences and tables.
pub fn of_database(
    conn: &mut Connection,
    database: &Database,
    tables: &[Table],
) -> Result<Vec<u8>, DumpError> {
    let name = quote_ident(&database.name);
    let mut sql = HEAD.as_bytes().to_vec();
    statement(&mut sql, &show_create_database(conn, &database.name)?);
    statement(&mut sql, format!("USE {name}").as_bytes());
    for sequence in &database.sequences {
        let quoted = format!("{name}.{}", quote_ident(sequence));
        let label = format!("sequence {}.{sequence}", database.name);
        let create = show_create(
            conn,
            &label,
            &format!("SHOW CREATE SEQUENCE {quoted}"),
            &["Create Table"],
        )?;
        statement(&mut sql, &create.text);
        let value = conn
            .query_value(format!("SELECT next_not_cached_value FROM {quoted}"))
            .map_err(|error| DumpError::server(format!("reading the value of {label}"), error))?;
        if let Some(value) = value {
            // Not from the snapshot, but safe: a sequence never returns a value twice, so a later
            // value is fine.
            let set = format!("DO SETVAL({}, {value}, 0)", quote_ident(sequence));
            statement(&mut sql, set.as_bytes());
        }
    }
    for table in tables {
        statement(&mut sql, &table.definition);
    }
    Ok(sql)
}

fn statement(sql: &mut Vec<u8>, text: &[u8]) {
    sql.extend_from_slice(text);
    sql.extend_from_slice(b";\n");
}

/// The file with all programs: routines first, because views may call them, then views, triggers
/// and events.
pub fn of_programs(
    options: &DumpOptions,
    databases: &[(String, String)],
    programs: &Programs,
) -> Option<Vec<u8>> {
    if programs.is_empty() {
        return None;
    }
    let mut writer = ProgramWriter {
        options,
        databases,
        delimiter: delimiter(programs),
        sql: HEAD.as_bytes().to_vec(),
        database: None,
    };
    writer.line(&format!("DELIMITER {}", writer.delimiter));
    programs
        .routines
        .iter()
        .for_each(|program| writer.program(program));
    programs.views.iter().for_each(|view| writer.view(view));
    programs
        .triggers
        .iter()
        .for_each(|program| writer.program(program));
    programs
        .events
        .iter()
        .for_each(|program| writer.program(program));
    writer.line("DELIMITER ;");
    Some(writer.sql)
}

/// A delimiter that occurs in no program.
fn delimiter(programs: &Programs) -> String {
    let texts = || {
        let all = programs
            .routines
            .iter()
            .chain(&programs.triggers)
            .chain(&programs.events);
        all.map(|program| &program.create.text)
            .chain(programs.views.iter().map(|view| &view.create.text))
    };
    let free =
        |wanted: &str| texts().all(|text| memchr::memmem::find(text, wanted.as_bytes()).is_none());
    DELIMITERS
        .iter()
        .map(|&delimiter| delimiter.to_owned())
        .chain((0..=u32::MAX).map(|number| format!("$refloat{number}$")))
        .find(|delimiter| free(delimiter))
        .unwrap_or_default()
}

struct ProgramWriter<'a> {
    options: &'a DumpOptions,
    /// Names and collations of the databases.
    databases: &'a [(String, String)],
    delimiter: String,
    sql: Vec<u8>,
    database: Option<String>,
}

impl ProgramWriter<'_> {
    fn line(&mut self, text: &str) {
        self.sql.extend_from_slice(text.as_bytes());
        self.sql.push(b'\n');
    }

    fn run(&mut self, text: &[u8]) {
        self.sql.extend_from_slice(text);
        self.sql.push(b' ');
        self.sql.extend_from_slice(self.delimiter.as_bytes());
        self.sql.push(b'\n');
    }

    fn enter(&mut self, database: &str) {
        if self.database.as_deref() != Some(database) {
            self.run(format!("USE {}", quote_ident(database)).as_bytes());
            self.database = Some(database.to_owned());
        }
    }

    /// Sets the session variables that the definition was created under.
    fn session(&mut self, create: &ShowCreate) {
        let mut set = String::from("SET ");
        if let Some(client) = &create.client {
            let _ = write!(set, "character_set_client = {client}, ");
        }
        if let Some(connection) = &create.connection {
            let _ = write!(set, "collation_connection = {connection}, ");
        }
        if let Some(zone) = &create.time_zone {
            let _ = write!(set, "time_zone = '{zone}', ");
        }
        let mode = create
            .sql_mode
            .as_deref()
            .unwrap_or("NO_AUTO_VALUE_ON_ZERO");
        let _ = write!(set, "sql_mode = '{mode}'");
        self.run(set.as_bytes());
    }

    fn view(&mut self, view: &View) {
        self.enter(&view.database);
        self.session(&view.create);
        let text = if self.options.strip_definer {
            strip::definer(&view.create.text)
        } else {
            view.create.text.clone()
        };
        self.run(&text);
    }

    fn program(&mut self, program: &Program) {
        self.enter(&program.database);
        // A program keeps the database collation that it was created under. If the database has
        // another one now, switch back for the duration of the statement.
        let now = self
            .databases
            .iter()
            .find(|(name, _)| *name == program.database)
            .map(|(_, collation)| collation.clone());
        let then = program.create.database.clone();
        let other = match (&now, &then) {
            (Some(now), Some(then)) if now != then => Some((now.clone(), then.clone())),
            _ => None,
        };
        let name = quote_ident(&program.database);
        if let Some((_, then)) = &other {
            self.run(format!("ALTER DATABASE {name} COLLATE {then}").as_bytes());
        }
        self.session(&program.create);
        if self.options.strip_definer {
            self.run(&strip::definer(&program.create.text));
            if matches!(program.kind.as_str(), "FUNCTION" | "PROCEDURE") {
                let invoker = format!(
                    "ALTER {} {} SQL SECURITY INVOKER",
                    program.kind,
                    quote_ident(&program.name)
                );
                self.run(invoker.as_bytes());
            }
        } else {
            self.run(&program.create.text);
        }
        if let Some((now, _)) = &other {
            self.run(format!("ALTER DATABASE {name} COLLATE {now}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> Program {
        Program {
            database: "d".into(),
            kind: "PROCEDURE".into(),
            name: "p".into(),
            create: ShowCreate {
                text: text.into(),
                sql_mode: Some("ANSI_QUOTES".into()),
                client: Some("latin1".into()),
                connection: Some("latin1_swedish_ci".into()),
                database: Some("utf8mb4_bin".into()),
                time_zone: None,
            },
        }
    }

    fn written(options: &DumpOptions, text: &str) -> String {
        let programs = Programs {
            routines: vec![program(text)],
            ..Programs::default()
        };
        let databases = [("d".to_owned(), "utf8mb4_general_ci".to_owned())];
        String::from_utf8(of_programs(options, &databases, &programs).unwrap()).unwrap()
    }

    fn options() -> DumpOptions {
        DumpOptions::new(refloat_wire::ConnectOptions::tcp("h", 1, "u"), "out")
    }

    #[test]
    fn a_program_stands_in_its_own_session() {
        let sql = written(&options(), "CREATE PROCEDURE p() SELECT ';;'");
        assert!(sql.contains("DELIMITER $$\n"), "{sql}");
        let set = sql.find("SET character_set_client = latin1, collation_connection = latin1_swedish_ci, sql_mode = 'ANSI_QUOTES' $$");
        let create = sql.find("CREATE PROCEDURE p() SELECT ';;' $$");
        let before = sql.find("ALTER DATABASE `d` COLLATE utf8mb4_bin $$");
        let after = sql.find("ALTER DATABASE `d` COLLATE utf8mb4_general_ci $$");
        assert!(before < set && set < create && create < after, "{sql}");
        assert!(before.is_some());
    }

    #[test]
    fn without_its_definer_a_routine_has_the_callers_rights() {
        let mut options = options();
        options.strip_definer = true;
        let sql = written(&options, "CREATE DEFINER=`a`@`b` PROCEDURE `p`() SELECT 1");
        assert!(sql.contains("CREATE PROCEDURE `p`() SELECT 1"), "{sql}");
        assert!(
            sql.contains("ALTER PROCEDURE `p` SQL SECURITY INVOKER"),
            "{sql}"
        );
    }
}
