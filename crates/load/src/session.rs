//! The session state of a dump, and how writers adopt it.
//!
//! A dump is a program: its `SET` statements decide how its rows are read. Those statements run as
//! they are on the control connection; before rows flow, the loader reads the state back from the
//! server and gives it to the writers. So a variable need not be understood to be honoured; it is
//! enough to know that it exists.

use std::collections::BTreeSet;

use refloat_sqltext::{CharsetFamily, LexMode};
use refloat_wire::codes::UNKNOWN_VARIABLE;
use refloat_wire::{Column, Connection, Error, Vendor};

/// Variables that affect what an `INSERT` stores, exist on both vendors, and can be set by every
/// account. Those that need a privilege (`sql_log_bin`, MySQL's `explicit_defaults_for_timestamp`,
/// MariaDB's `system_versioning_insert_history`) are tracked from the dump's own `SET` on: before
/// it, every connection has the same value.
const TRACKED: &[&str] = &[
    "character_set_client",
    "character_set_connection",
    "collation_connection",
    "sql_mode",
    "time_zone",
    "foreign_key_checks",
];
/// More of them on MariaDB; those that a version does not have are skipped.
const TRACKED_MARIADB: &[&str] = &["check_constraint_checks"];
/// Session variables that a dump may set, but that do not affect rows of literals on another
/// connection; rows with expressions that read other rows run on the control connection. Writers
/// keep their own values, so that their other queries (marks, counts, warnings) are not cut short,
/// refused as too large, or given up too early.
const IGNORED: &[&str] = &[
    "autocommit",
    "big_tables",
    "character_set_results",
    "completion_type",
    "error_count",
    "group_concat_max_len",
    "idle_transaction_timeout",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lc_messages",
    "lock_wait_timeout",
    "low_priority_updates",
    "max_error_count",
    "max_execution_time",
    "max_join_size",
    "max_statement_time",
    "min_examined_row_limit",
    "names",
    "net_read_timeout",
    "net_write_timeout",
    "note_verbosity",
    "profiling",
    "resultset_metadata",
    "session_track_gtids",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
    "show_create_table_verbosity",
    "show_gipk_in_create_table_and_information_schema",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_buffer_result",
    "sql_log_off",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "sql_warnings",
    "system_versioning_asof",
    "transaction_isolation",
    "tx_isolation",
    "unique_checks",
    "wait_timeout",
    "warning_count",
];
/// Variables that are restored on the control connection as soon as a dump has set them: they do
/// not affect what is stored, but would hide from the loader what the server reports. The values
/// are those of every connection of a load.
const KEPT: &[(&str, &str)] = &[
    ("character_set_results", "utf8mb4"),
    ("completion_type", "0"),
    ("max_error_count", "65535"),
];
/// Words of `sql_mode` that affect the values of generated columns and of keys over expressions
/// when the server copies a table. All others concern how text is parsed, or what is refused.
const COMPUTING_MODES: &[&str] = &[
    "NO_UNSIGNED_SUBTRACTION",
    "PAD_CHAR_TO_FULL_LENGTH",
    "TIME_ROUND_FRACTIONAL",
    "TIME_TRUNCATE_FRACTIONAL",
];
/// Variables that make a statement depend on its connection: rows after them stay on the control
/// connection.
const PER_STATEMENT: &[&str] = &[
    "insert_id",
    "last_insert_id",
    "identity",
    "timestamp",
    "rand_seed1",
    "rand_seed2",
    "pseudo_thread_id",
];

/// What a `SET` of one variable means for the rows that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableEffect {
    /// Read back, and set on every writer.
    Tracked,
    /// Irrelevant to other connections.
    None,
    /// The rows that follow must run on the control connection.
    ControlOnly,
}

/// The names of the variables that writers follow.
#[derive(Debug, Clone)]
pub struct Tracker {
    names: BTreeSet<String>,
}

impl Tracker {
    /// Asks the server which of the known variables it has.
    pub fn new(conn: &mut Connection) -> Result<Self, Error> {
        let more: &[&str] = if conn.server().vendor == Vendor::MariaDb {
            TRACKED_MARIADB
        } else {
            &[]
        };
        let known: Vec<&str> = TRACKED.iter().chain(more).copied().collect();
        let rows = conn.query(format!(
            "SHOW SESSION VARIABLES WHERE Variable_name IN ('{}')",
            known.join("', '")
        ))?;
        let names = rows.texts(0).map(str::to_ascii_lowercase).collect();
        Ok(Self { names })
    }

    /// Says what a successful `SET` of session variable `name` (any case) means, and tracks the
    /// variable from now on if necessary.
    pub fn note_set(&mut self, conn: &mut Connection, name: &str) -> Result<VariableEffect, Error> {
        let name = name.to_ascii_lowercase();
        if PER_STATEMENT.contains(&name.as_str()) {
            return Ok(VariableEffect::ControlOnly);
        }
        if IGNORED.contains(&name.as_str()) && name != "names" {
            return Ok(VariableEffect::None);
        }
        if name != "names" && name != "character set" && name != "charset" {
            if !self.names.contains(&name) {
                match conn.query_value(format!("SELECT @@session.`{name}`")) {
                    // The SET was in a conditional comment for another version or vendor, which the
                    // server ignored.
                    Err(error) if error.server_code() == Some(UNKNOWN_VARIABLE) => {
                        return Ok(VariableEffect::None);
                    }
                    other => other.map(drop)?,
                }
            }
            self.names.insert(name);
        }
        Ok(VariableEffect::Tracked)
    }

    /// The `SET` that undoes on the control connection a dump's `SET` of `name` (any case) that
    /// must not take effect.
    pub fn kept(name: &str) -> Option<String> {
        let names = matches!(name, "names" | "character set" | "charset");
        let name = if names { "character_set_results" } else { name };
        KEPT.iter()
            .find(|(kept, _)| kept.eq_ignore_ascii_case(name))
            .map(|(name, value)| format!("SET SESSION {name} = {value}"))
    }

    /// The `SET` that resets the variables that are tracked only since `start` was read, and that
    /// `start` therefore lacks.
    pub fn reset(&self, start: &Session) -> Option<String> {
        start.defaults_beside(self.names.iter().map(String::as_str))
    }

    /// Reads the state of the control connection.
    pub fn read(&self, control: &mut Connection, force_binlog_off: bool) -> Result<Session, Error> {
        let names: Vec<&String> = self.names.iter().collect();
        let list: Vec<String> = names
            .iter()
            .map(|name| format!("@@session.`{name}`"))
            .collect();
        // Otherwise the dump's own sql_select_limit would decide how many rows are returned.
        let result = control.query(format!("SELECT DATABASE(), {} LIMIT 1", list.join(", ")))?;
        let row = result.rows.first().cloned().unwrap_or_default();
        let text = |index: usize| {
            row.get(index)
                .and_then(|cell| cell.as_ref())
                .map(|cell| String::from_utf8_lossy(cell).into_owned())
        };
        let database = text(0);
        let mut variables: Vec<Variable> = names
            .iter()
            .zip(1..)
            .map(|(name, index)| Variable {
                name: (*name).clone(),
                value: text(index),
                is_number: result.columns.get(index).is_some_and(Column::is_number),
            })
            .collect();
        if force_binlog_off
            && let Some(one) = variables.iter_mut().find(|one| one.name == "sql_log_bin")
        {
            one.value = Some("0".to_owned());
        }
        Ok(Session::new(database, variables))
    }
}

/// A session variable and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    value: Option<String>,
    /// Whether the server takes a number, and no text, for it.
    is_number: bool,
}

/// The session state at some point of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub database: Option<String>,
    variables: Vec<Variable>,
}

impl Session {
    fn new(database: Option<String>, variables: Vec<Variable>) -> Self {
        Self {
            database,
            variables,
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .iter()
            .find(|one| one.name == name)
            .and_then(|one| one.value.as_deref())
    }

    /// Whether a `TIMESTAMP` of the dump is in UTC.
    pub fn is_utc(&self) -> bool {
        self.get("time_zone")
            .is_some_and(|zone| ["+00:00", "UTC"].contains(&zone))
    }

    /// Whether rows of system-versioned tables keep their row start and end times.
    pub fn writes_history(&self) -> bool {
        self.get("system_versioning_insert_history")
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("on"))
    }

    /// Character set of the dump's text.
    pub fn charset(&self) -> &str {
        self.get("character_set_client").unwrap_or("utf8mb4")
    }

    /// Whether `sql_mode` contains this word.
    pub fn has_mode(&self, word: &str) -> bool {
        self.get("sql_mode")
            .is_some_and(|mode| mode.split(',').any(|one| one.eq_ignore_ascii_case(word)))
    }

    /// Whether the dump's own session is strict: it refuses values that it would otherwise change
    /// with a warning.
    pub fn is_strict(&self) -> bool {
        self.has_mode("STRICT_ALL_TABLES")
            || self.has_mode("STRICT_TRANS_TABLES")
            || self.has_mode("TRADITIONAL")
    }

    /// The `sql_mode` of a writer without its strictness, as a literal: the dump's own, but with
    /// dates kept as they are.
    pub fn lenient_mode(&self) -> String {
        let mode = self.get("sql_mode").unwrap_or_default();
        literal(&with_words(mode, &["ALLOW_INVALID_DATES"]))
    }

    /// Whether a literal of the dump means exactly its bytes. If the connection's character set
    /// differs from the client's (`SET CHARACTER SET`), the server first converts every literal,
    /// and characters that the connection's character set lacks become `?`.
    pub fn keeps_literals(&self) -> bool {
        let connection = self.get("character_set_connection").unwrap_or("utf8mb4");
        connection == self.charset()
    }

    /// Whether its statements are written to the binary log, if there is one.
    pub fn logs(&self) -> bool {
        !matches!(self.get("sql_log_bin"), Some("0" | "OFF"))
    }

    /// Whether foreign keys are checked for the dump's rows.
    pub fn foreign_key_checks(&self) -> bool {
        matches!(self.get("foreign_key_checks"), Some("1" | "ON"))
    }

    /// How the lexer must read text in this state.
    pub fn lex_mode(&self) -> LexMode {
        let charset_family = CharsetFamily::from_charset_name(self.charset().as_bytes());
        LexMode {
            charset_family,
            ..LexMode::default()
        }
        .with_sql_mode(self.get("sql_mode").unwrap_or_default().as_bytes())
    }

    /// The `SET SESSION` that gives a writer this state.
    ///
    /// Writers are stricter than the dump's own session: what the stock client would change with a
    /// warning (a value out of range, a truncated text) must be an error here. Dates that the
    /// source allowed are kept as they are. Foreign keys are not checked, because another writer
    /// may be about to write a row's parents.
    pub fn writer_set(&self) -> String {
        self.set_statement(|name, value| {
            if name == "foreign_key_checks" {
                "0".to_owned()
            } else if name == "sql_mode" {
                strict_mode(value)
            } else {
                value.to_owned()
            }
        })
    }

    /// The `SET` that takes a connection out of what only `last` says, the state it was in.
    pub fn reset_of(&self, last: &Self) -> Option<String> {
        self.defaults_beside(last.variables.iter().map(|one| one.name.as_str()))
    }

    /// The `SET` that resets those of the variables that this state lacks.
    fn defaults_beside<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<String> {
        let parts: Vec<String> = names
            .filter(|name| !self.variables.iter().any(|known| known.name == *name))
            .map(|name| format!("SESSION `{name}` = DEFAULT"))
            .collect();
        (!parts.is_empty()).then(|| format!("SET {}", parts.join(", ")))
    }

    /// The `SET` that gives a connection the part of this state that matters for changing a table
    /// that has rows, when the statement is in the server's own words. Dates that the source
    /// allowed are kept as they are if the server copies the rows.
    pub fn altering_set(&self) -> String {
        let mut mode = vec!["ALLOW_INVALID_DATES"];
        mode.extend(COMPUTING_MODES.iter().filter(|word| self.has_mode(word)));
        let zone = self.get("time_zone").map_or(String::new(), |zone| {
            format!(", SESSION time_zone = {}", literal(zone))
        });
        format!(
            "SET NAMES utf8mb4, SESSION sql_mode = {}, SESSION foreign_key_checks = 0{zone}",
            literal(&mode.join(","))
        )
    }

    /// The `SET SESSION` that takes a writer in this state out of strict mode, for rows that the
    /// server accepts in no other way. It changes nothing else: some variables cannot be set in an
    /// open transaction (MySQL's `explicit_defaults_for_timestamp`).
    pub fn lenient_set(&self) -> String {
        format!("SET SESSION sql_mode = {}", self.lenient_mode())
    }

    /// The `SET SESSION` that returns the writer to strict mode.
    pub fn strict_set(&self) -> String {
        let mode = strict_mode(self.get("sql_mode").unwrap_or_default());
        format!("SET SESSION sql_mode = {}", literal(&mode))
    }

    /// The `SET SESSION` that gives a connection exactly this state, for definitions that run later
    /// than their place in the dump.
    pub fn exact_set(&self) -> String {
        self.set_statement(|_, value| value.to_owned())
    }

    fn set_statement(&self, adjust: impl Fn(&str, &str) -> String) -> String {
        // Setting character_set_connection changes collation_connection, so that one comes after
        // it.
        let order = |name: &str| match name {
            "character_set_client" => 0,
            "character_set_connection" => 1,
            "collation_connection" => 2,
            _ => 3,
        };
        let mut variables: Vec<&Variable> = self.variables.iter().collect();
        variables.sort_by_key(|one| order(&one.name));
        let parts: Vec<String> = variables
            .into_iter()
            .map(
                |Variable {
                     name,
                     value,
                     is_number,
                 }| match value {
                    None => format!("SESSION `{name}` = NULL"),
                    Some(value) if *is_number => {
                        format!("SESSION `{name}` = {}", adjust(name, value))
                    }
                    Some(value) => {
                        format!("SESSION `{name}` = {}", literal(&adjust(name, value)))
                    }
                },
            )
            .collect();
        format!("SET {}", parts.join(", "))
    }
}

/// The dump's `sql_mode`, made as strict as a writer's.
fn strict_mode(mode: &str) -> String {
    with_words(mode, &["STRICT_ALL_TABLES", "ALLOW_INVALID_DATES"])
}

/// The `sql_mode` with these words added if it lacks them.
fn with_words(mode: &str, wanted: &[&'static str]) -> String {
    let mut words: Vec<&str> = mode.split(',').filter(|word| !word.is_empty()).collect();
    for word in wanted {
        if !words.iter().any(|one| one.eq_ignore_ascii_case(word)) {
            words.push(word);
        }
    }
    words.join(",")
}

/// A literal with a character set of its own: in a two-byte one (`character_set_connection=ucs2`)
/// no server recognizes a time zone.
fn literal(text: &str) -> String {
    format!("_utf8mb4'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let variable = |(name, value): (&str, &str)| Variable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            is_number: value == "0",
        };
        let variables = [
            ("collation_connection", "utf8mb4_bin"),
            ("character_set_connection", "utf8mb4"),
            ("character_set_client", "utf8mb4"),
            ("sql_mode", "NO_AUTO_VALUE_ON_ZERO"),
            ("time_zone", "+00:00"),
            ("foreign_key_checks", "0"),
        ];
        Session::new(
            Some("shop".to_owned()),
            variables.into_iter().map(variable).collect(),
        )
    }

    #[test]
    fn collation_is_set_after_the_character_set_that_would_reset_it() {
        let set = session().exact_set();
        assert!(
            set.find("character_set_connection") < set.find("collation_connection"),
            "{set}"
        );
    }

    #[test]
    fn writers_are_strict_and_keep_the_dumps_own_words() {
        let set = session().writer_set();
        assert!(
            set.contains("_utf8mb4'NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,ALLOW_INVALID_DATES'"),
            "{set}"
        );
        assert!(!session().exact_set().contains("STRICT_ALL_TABLES"));
    }

    #[test]
    fn numbers_stand_bare_and_words_are_quoted() {
        let set = session().writer_set();
        assert!(set.contains("`foreign_key_checks` = 0"), "{set}");
        assert!(set.contains("`time_zone` = _utf8mb4'+00:00'"), "{set}");
    }
}
