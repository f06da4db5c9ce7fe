//! What a donor and a joiner must have in common so that the joiner can use the donor's files.

use refloat_run::settings::size_in_bytes;

use super::facts::{ALL, NodeFacts, size};
use super::mistake::{Effect, Found, MistakeKind};

/// Settings that affect the data files, with the server's default if it is the same in all
/// versions.
const SETTINGS: [(&str, Option<&str>, &str); 5] = [
    (
        "innodb_page_size",
        Some("16384"),
        "pages of another size cannot be read",
    ),
    (
        "innodb_data_file_path",
        Some("ibdata1:12M:autoextend"),
        "the system tablespace is not found, or refused",
    ),
    (
        "lower_case_table_names",
        Some("0"),
        "tables are not found under their names",
    ),
    (
        "innodb_undo_tablespaces",
        None,
        "undo tablespaces are not found, or there are too many",
    ),
    (
        "wsrep_cluster_name",
        None,
        "the joiner is refused by the cluster",
    ),
];

/// Compares a donor with a joiner.
pub(super) fn compare(from: &NodeFacts, to: &NodeFacts, method: &str, found: &mut Found) {
    if let Some(from_method) = from.method().filter(|other| *other != method) {
        // Sorted, so that both sides give the same text.
        let mut sides = [
            (from.name.as_str(), from_method),
            (to.name.as_str(), method),
        ];
        sides.sort_unstable();
        let [(one, this), (other, that)] = sides;
        found.add(
            MistakeKind::Method,
            Effect::Unsafe,
            &[one, other],
            format!("{one} receives copies by {this}, and {other} by {that}: the joiner's counts, and the donor may not be prepared for it"),
            "set the same wsrep_sst_method on all nodes",
        );
    }
    settings(from, to, found);
    versions(from, to, found);
    tool_versions(from, to, method, found);
    space(from, to, method, found);
}

/// Normalizes values that mean the same.
fn normal(name: &str, value: &str) -> String {
    let value = value.trim();
    match (name, size_in_bytes(value)) {
        ("innodb_page_size" | "innodb_undo_tablespaces", Some(number)) => number.to_string(),
        _ => value.to_owned(),
    }
}

fn settings(from: &NodeFacts, to: &NodeFacts, found: &mut Found) {
    for (name, usual, meaning) in SETTINGS {
        let of = |node: &NodeFacts| {
            let value = match (&node.state, name) {
                (Some(state), "wsrep_cluster_name") => Some(state.cluster_name.as_str()),
                _ => node.setting(name),
            };
            // The option files were read and do not set it, so the server's default applies.
            let usual = usual.filter(|_| node.machine.is_some() && node.state.is_none());
            value.or(usual).map(|value| normal(name, value))
        };
        if let (Some(given), Some(taken)) = (of(from), of(to))
            && given != taken
        {
            let mut values = [(&from.name, given), (&to.name, taken)];
            // Sorted, so that both sides give the same text.
            values.sort();
            let [(one, this), (other, that)] = &values;
            found.fails(
                MistakeKind::Setting,
                &[one, other],
                format!("{name} is {this} on {one} and {that} on {other}: {meaning}"),
                format!("set the same {name} on all nodes before a copy is made"),
            );
        }
    }
}

/// `10.11` of `10.11.19-MariaDB-log`.
pub(super) fn series(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn versions(from: &NodeFacts, to: &NodeFacts, found: &mut Found) {
    let (Some(given), Some(taken)) = (&from.state, &to.state) else {
        return;
    };
    let (Some(old), Some(new)) = (series(&given.version), series(&taken.version)) else {
        return;
    };
    let both = [from.name.as_str(), to.name.as_str()];
    let comparison = format!(
        "{} is {} and {} is {}",
        from.name, given.version, to.name, taken.version
    );
    if new < old {
        found.fails(
            MistakeKind::Version,
            &both,
            format!(
                "{comparison}: an older server cannot be relied on to read a newer one's files"
            ),
            "let newer nodes be joiners only, and choose an older donor by wsrep_sst_donor",
        );
    } else if new > old {
        found.add(
            MistakeKind::Version,
            Effect::Unsafe,
            &both,
            format!("{comparison}: the joiner upgrades the files that it gets, and has to be told so (mariadb-upgrade)"),
            "fine while an upgrade is under way: finish it",
        );
    }
}

/// The backup program reads and prepares only files of its own server series.
fn tool_versions(from: &NodeFacts, to: &NodeFacts, method: &str, found: &mut Found) {
    const TOOL: &str = "mariadb-backup";
    if method != "mariabackup" {
        return;
    }
    let of = |node: &NodeFacts| {
        let machine = node
            .machine
            .as_ref()
            .filter(|one| !one.programs_elsewhere)?;
        let version = machine.versions.get(TOOL)?;
        let at = version.find(|c: char| c.is_ascii_digit())?;
        series(&version[at..])
    };
    let Some(server) = from.state.as_ref().and_then(|state| series(&state.version)) else {
        return;
    };
    for node in [from, to] {
        if let Some(tool) = of(node).filter(|tool| *tool != server) {
            found.fails(
                MistakeKind::Version,
                &[&node.name],
                format!("its {TOOL} is of {}.{}, and the server of {} is of {}.{}: it reads files of its own series only", tool.0, tool.1, from.name, server.0, server.1),
                format!("install the {TOOL} of the servers' version"),
            );
        }
    }
}

/// Checks that the joiner has room for a donor's data.
fn space(from: &NodeFacts, to: &NodeFacts, method: &str, found: &mut Found) {
    let Some(machine) = &to.machine else { return };
    let (Some(data), Some(free)) = (from.data_bytes(), machine.space.free) else {
        return;
    };
    // The old data goes before the new data comes: the scripts delete it, and rsync overwrites it.
    let freed = machine.space.data().unwrap_or(0);
    let (mut need, mut why) = (data, String::new());
    if method == "mariabackup"
        && from
            .option(ALL, "compress")
            .is_some_and(|how| how != "none")
    {
        // Files compressed by the backup program itself stay beside their content until all of them
        // are decompressed.
        need = data.saturating_add(data / 2);
        why.push_str(" and half of that for compressed files beside them (compress)");
    }
    if !machine.space.has_gcache
        && let Some(ring) = gcache_size(to).or_else(|| gcache_size(from))
    {
        need = need.saturating_add(ring);
        why = format!("{why} and {} for write-sets (gcache.size)", size(ring));
    }
    if need > free.saturating_add(freed) {
        found.fails(
            MistakeKind::Space,
            &[&to.name],
            format!(
                "there is too little space for a copy of {}: its data take {}{why}, and there is room for {} ({} free, {} of its own old data)",
                from.name,
                size(data),
                size(free.saturating_add(freed)),
                size(free),
                size(freed)
            ),
            "make room, or move its data directory to a larger file system; the old data are deleted before the copy has come",
        );
    }
}

fn gcache_size(node: &NodeFacts) -> Option<u64> {
    if let Some(state) = &node.state {
        return Some(state.gcache.ring);
    }
    let options = node.option(&["server"], "wsrep-provider-options")?;
    refloat_run::settings::ProviderOptions::parse(options.trim_matches(['"', '\'']))
        .bytes("gcache.size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_and_values() {
        assert_eq!(series("10.11.19-MariaDB-log"), Some((10, 11)));
        assert_eq!(series("8.0"), Some((8, 0)));
        assert_eq!(series("x"), None);
        assert_eq!(normal("innodb_page_size", "16k"), "16384");
        assert_eq!(
            normal("innodb_data_file_path", "ibdata1:12M:autoextend"),
            "ibdata1:12M:autoextend"
        );
    }
}
