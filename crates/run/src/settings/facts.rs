//! What the server reports about itself.

mod grants;

use std::collections::{BTreeMap, BTreeSet};

use refloat_wire::{Connection, Vendor};

use super::SettingsError;
pub use grants::Grants;

/// Pseudo-setting for MySQL's redo log, which is a state of the instance, not a variable.
pub const REDO_LOG: &str = "redo_log";

/// A server's settings, as far as plans need them.
#[derive(Debug, Clone)]
pub struct Facts {
    /// MariaDB or MySQL.
    pub vendor: Vendor,
    /// Major, minor and patch version.
    pub version: (u16, u16, u16),
    /// All global variables, by name in lower case.
    pub variables: BTreeMap<String, String>,
    /// Variables that only a restart can change, where the server reports that (MariaDB).
    pub startup_only: BTreeSet<String>,
    /// Privileges of the account.
    pub grants: Grants,
    /// Whether MySQL's redo log is enabled; `None` where there is no such state.
    pub redo_enabled: Option<bool>,
    /// Number of replicas reading the binary log now; `None` if the account may not see that.
    pub replicas: Option<u64>,
}

impl Facts {
    /// Queries the server. Changes nothing.
    pub fn read(conn: &mut Connection) -> Result<Self, SettingsError> {
        let (vendor, version) = (conn.server().vendor, conn.server().version);
        let mut variables = BTreeMap::new();
        let mut startup_only = BTreeSet::new();
        // On MariaDB this query takes half the time, and returns more.
        let all = conn.query(match vendor {
            Vendor::MariaDb => "SELECT VARIABLE_NAME, GLOBAL_VALUE, READ_ONLY FROM information_schema.SYSTEM_VARIABLES",
            Vendor::MySql => "SHOW GLOBAL VARIABLES",
        })?;
        for row in 0..all.len() {
            let Some(name) = all.str(row, 0).map(str::to_ascii_lowercase) else {
                continue;
            };
            if all.str(row, 2) == Some("YES") {
                startup_only.insert(name.clone());
            }
            if let Some(value) = all.str(row, 1) {
                variables.insert(name, value.to_owned());
            }
        }
        let named = |name: &str, values: &[&str]| {
            let value = variables.get(name).map_or("", String::as_str);
            values.iter().any(|one| one.eq_ignore_ascii_case(value))
        };
        let grants = Grants::read(conn)?.with_names(
            named("partial_revokes", &["ON", "1"]),
            named("lower_case_table_names", &["1", "2"]),
        );
        let redo = conn.query("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'")?;
        let redo_enabled = redo.str(0, 1).map(|v| super::value::same(v, "ON"));
        let mut facts = Self {
            vendor,
            version,
            variables,
            startup_only,
            grants,
            redo_enabled,
            replicas: None,
        };
        if facts.may(&["PROCESS"]) {
            let dumps = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
            facts.replicas = conn.query(dumps)?.u64(0, 0);
        }
        Ok(facts)
    }

    /// A variable's value as text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A variable's value as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Whether a boolean variable is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| super::value::same(v, "ON"))
    }

    /// Whether the server may apply writes of other Galera nodes: it has a provider.
    pub fn is_node(&self) -> bool {
        let provider = self.get("wsrep_provider").unwrap_or_default();
        !provider.is_empty() && !provider.eq_ignore_ascii_case("none")
    }

    /// Whether the account has one of these privileges globally.
    pub fn may(&self, any: &[&str]) -> bool {
        self.grants.may(any)
    }

    /// Whether it is a MySQL of at least this version.
    pub fn mysql_since(&self, version: (u16, u16, u16)) -> bool {
        self.vendor == Vendor::MySql && self.version >= version
    }
}
