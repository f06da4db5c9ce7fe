//! `wsrep_provider_options`: the options of Galera's replication library, in one text. They are
//! changed one at a time, and each is a setting of its own in a journal.
//!
//! MariaDB has a plugin (`wsrep_provider`, loaded by default in 11.8) that turns each option into a
//! variable. While it is loaded, the text can be read, but an option can only be changed by its
//! variable (error 1210).

use std::collections::BTreeMap;

use refloat_wire::Connection;

use super::SettingsError;

/// Memory in which a node keeps write-sets, in bytes.
pub const GCACHE_MEMORY: &str = "gcache.mem_size";
/// The seqno from which write-sets are not purged; -1 keeps none. Percona XtraDB Cluster's provider
/// has this option.
pub const GCACHE_PURGE: &str = "gcache.freeze_purge_at_seqno";
/// The variable that holds all options.
const VARIABLE: &str = "wsrep_provider_options";

/// Whether a setting is an option of the provider: only these have a dot in their names.
pub(super) fn is_provider_option(name: &str) -> bool {
    [GCACHE_MEMORY, GCACHE_PURGE].contains(&name)
}

/// Current value of an option, sizes in bytes. `None` if the provider has no such option, or there
/// is no provider.
pub(super) fn read(conn: &mut Connection, name: &str) -> Result<Option<String>, SettingsError> {
    let all = conn.query(format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name = '{VARIABLE}'"
    ))?;
    let options = ProviderOptions::parse(all.str(0, 1).unwrap_or_default());
    Ok(options.bytes(name).map_or_else(
        || options.get(name).map(str::to_owned),
        |bytes| Some(bytes.to_string()),
    ))
}

/// The statement that sets an option on this server. `value` was checked to need no quoting.
pub(super) fn statement(
    conn: &mut Connection,
    name: &str,
    value: &str,
) -> Result<String, SettingsError> {
    let variable = provider_variable(name);
    let there = conn.query(format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name = '{variable}'"
    ))?;
    Ok(if there.is_empty() {
        format!("SET GLOBAL {VARIABLE} = '{name}={value}'")
    } else {
        format!("SET GLOBAL {variable} = {value}")
    })
}

/// The variable that changes an option where MariaDB's plugin is loaded:
/// `wsrep_provider_gcache_mem_size`.
pub fn provider_variable(option: &str) -> String {
    format!("wsrep_provider_{}", option.replace('.', "_"))
}

/// The options of a provider, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderOptions(BTreeMap<String, String>);

impl ProviderOptions {
    /// Parses the text from `SHOW VARIABLES`: `name = value; name = value; `.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    /// An option as it is written in the text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// An option that is a size, in bytes: `128M`, `1G`, `134217728`.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        size_in_bytes(self.get(name)?)
    }
}

/// Parses a size as written in option files and Galera's options, in bytes: `128M`, `1g`,
/// `134217728`. `None` if it is not a size, or too large for `u64`.
pub fn size_in_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1_u64 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_texts() {
        let options = ProviderOptions::parse(
            "base_port = 24001; gcache.size = 128M; gcache.mem_size = 0; gcache.page_size = 1G; evs.evict = ; pc.weight = x1Q; ",
        );
        assert_eq!(options.get("base_port"), Some("24001"));
        assert_eq!(options.get("evs.evict"), Some(""));
        assert_eq!(options.bytes("gcache.size"), Some(128 << 20));
        assert_eq!(options.bytes("gcache.mem_size"), Some(0));
        assert_eq!(options.bytes("gcache.page_size"), Some(1 << 30));
        assert_eq!(options.bytes("pc.weight"), None);
        assert_eq!(options.bytes("none"), None);
        assert_eq!(
            provider_variable(GCACHE_MEMORY),
            "wsrep_provider_gcache_mem_size"
        );
        assert_eq!(size_in_bytes(" 16k"), Some(16384));
        assert_eq!(size_in_bytes("99999999999T"), None);
    }
}
