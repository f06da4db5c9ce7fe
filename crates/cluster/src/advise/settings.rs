//! Suggests settings that would make state transfers faster or safer, computed from the machines.

use std::time::Duration;

use refloat_run::settings::{provider_variable, size_in_bytes};

use super::encryption::{self, Encryption};
use super::facts::{ALL, NodeFacts, TEXT_MOST, clean, size};
use super::inspect::Facts;
use super::suggestion::{GainSource, Suggestion};
use super::transfer::{compression, memory, rate, threads, time_limits};
use crate::advise::suggestion::assignment;
use crate::node::names_of;

/// Applier threads per processor:
/// <https://galeracluster.com/library/kb/parallel-applier-threads.html>.
const APPLIERS_PER_CORE: u64 = 4;
/// More applier threads than this only wait for each other.
const APPLIERS_MOST: u64 = 64;
/// A smaller copy ends before a blocked donor delays anybody.
const LARGE: u64 = 1 << 30;
/// Spare room beyond the measured rate, which is only a snapshot.
const WINDOW_SPARE: f64 = 1.25;
/// Sizes for gcache are multiples of this.
const GCACHE_STEP: u64 = 64 << 20;

/// The suggestions. Those that are the same for several nodes are merged.
pub(super) fn suggest(
    facts: &Facts,
    joiner: Option<&str>,
    window: Option<Duration>,
) -> Vec<Suggestion> {
    let mut all: Vec<Suggestion> = Vec::new();
    let mut add = |one: Suggestion| {
        let twin = all.iter_mut().find(|other| {
            (other.group, &other.option, &other.now, &other.line)
                == (one.group, &one.option, &one.now, &one.line)
                && other.reason == one.reason
        });
        match twin {
            Some(twin) => {
                for node in one.nodes {
                    if !twin.nodes.contains(&node) {
                        twin.nodes.push(node);
                    }
                }
            }
            None => all.push(one),
        }
    };
    for to in facts
        .nodes
        .iter()
        .filter(|node| joiner.is_none_or(|name| node.name == name))
    {
        let donors: Vec<&NodeFacts> = facts
            .nodes
            .iter()
            .filter(|node| node.name != to.name && node.can_give())
            .collect();
        let Some(method) = to.method() else { continue };
        method_of(to, &donors, method)
            .into_iter()
            .for_each(&mut add);
        donor(facts, to, &donors).into_iter().for_each(&mut add);
        if method == "mariabackup" {
            memory(to, &donors).into_iter().for_each(&mut add);
            for node in std::iter::once(to).chain(donors.iter().copied()) {
                threads(node, method).into_iter().for_each(&mut add);
            }
            compression(facts, to, &donors)
                .into_iter()
                .for_each(&mut add);
            for from in &donors {
                rate(facts, from, to).into_iter().for_each(&mut add);
            }
            time_limits(to).into_iter().for_each(&mut add);
        }
        for node in std::iter::once(to).chain(donors.iter().copied()) {
            tls(node, method).into_iter().for_each(&mut add);
        }
        appliers(facts, to).into_iter().for_each(&mut add);
        if let Some(window) = window {
            // A node rejoins with the write-sets of the others.
            for node in std::iter::once(to).chain(donors.iter().copied()) {
                gcache(node, window).into_iter().for_each(&mut add);
            }
        }
    }
    all
}

/// The preferred donor for a copy, with a trailing comma so that other nodes are possible too.
fn donor(facts: &Facts, to: &NodeFacts, donors: &[&NodeFacts]) -> Option<Suggestion> {
    let state = to.state.as_ref();
    let setting = match state {
        Some(state) => state.sst.donor.clone(),
        None => to.option(&["server"], "wsrep-sst-donor").map(str::to_owned),
    };
    let now = setting.filter(|list| !list.trim().is_empty());
    let running = |value: &str| {
        Some(format!(
            "SET GLOBAL wsrep_sst_donor = '{}'",
            clean(value, TEXT_MOST)
                .replace('\\', r"\\")
                .replace('\'', "''")
        ))
    };
    // A comma does not help with a name that no node has.
    let list = now.as_deref().unwrap_or_default();
    let known: Vec<&str> = names_of(list).filter(|name| !facts.lacks(name)).collect();
    if !known.is_empty() {
        if list.trim_end().ends_with(',') {
            return None;
        }
        let better = format!("{},", known.join(","));
        let mut one = Suggestion::new(to, "mysqld", "wsrep_sst_donor", Some(list), better.as_str())
            .because(
                "without a comma at the end no other node may give a copy, even if all that \
                are named are down",
            )
            .gains(
                GainSource::Documented,
                "a copy comes from another node instead of from none",
            );
        one.running = running(&better);
        return Some(one);
    }
    // With one possible donor there is no choice, unless the setting names none.
    if donors.is_empty() || (donors.len() < 2 && now.is_none()) {
        return None;
    }
    let mut best: Vec<&&NodeFacts> = donors.iter().collect();
    let segment = to.segment();
    best.sort_by_key(|node| {
        let far = node.segment() != segment && segment.is_some();
        let busy = node.state.as_ref().map_or(0, |seen| {
            seen.receive_queue
                .now
                .saturating_add(seen.flow_control.sent)
        });
        // A node that takes no writes disturbs applications least.
        let writes = node.state.as_ref().is_none_or(|seen| !seen.read_only);
        (far, writes, busy)
    });
    let names: Vec<String> = best
        .iter()
        .map(|node| clean(node.cluster_name(), 64))
        .collect();
    let better = format!("{},", names.join(","));
    let mut one = Suggestion::new(to, "mysqld", "wsrep_sst_donor", now.as_deref(), better.as_str())
        .because("the nearest first, then those that take no writes, then those that lag least; the comma at the end lets any other node give when none of them can")
        .gains(GainSource::Documented, "the node that serves clients is not the donor by chance");
    if now.is_none() {
        one = one.if_decided();
    }
    one.running = running(&better);
    Some(one)
}

/// Suggests mariabackup instead of rsync: a donor accepts no writes while rsync copies.
fn method_of(to: &NodeFacts, donors: &[&NodeFacts], method: &str) -> Option<Suggestion> {
    let data = donors.iter().filter_map(|from| from.data_bytes()).max()?;
    let there = |node: &&NodeFacts| {
        node.has("mariadb-backup") == Some(true) && node.has("socat") == Some(true)
    };
    let all = std::iter::once(to).chain(donors.iter().copied());
    if method != "rsync" || data < LARGE || !all.clone().all(|node| there(&node)) {
        return None;
    }
    Some(
        Suggestion::new(to, "mysqld", "wsrep_sst_method", Some(method), "mariabackup")
            .because(format!(
                "rsync keeps the donor from writing for as long as {} take, and what mariadb-backup needs is there. It needs an account for copies (wsrep_sst_auth), and the same method on all nodes",
                size(data)
            ))
            .gains(GainSource::Documented, "the donor goes on while it gives a copy")
            .if_decided(),
    )
}

/// Suggests encryption of copies.
fn tls(node: &NodeFacts, method: &str) -> Option<Suggestion> {
    if encryption::of(node, method) != Encryption::None {
        return None;
    }
    let has = |name: &str| node.option(ALL, name).is_some();
    let named = has("ssl-ca") && has("ssl-cert") && has("ssl-key");
    let (mode, reason) = if named {
        (
            "VERIFY_CA",
            "the server has a certificate, a key and an authority, and copies do not use them. Set it on all nodes at the same time: on some only no node comes by a copy, nor by IST",
        )
    } else {
        (
            "VERIFY_CA",
            "copies are not encrypted. It takes ssl-ca, ssl-cert and ssl-key in [mysqld] or [sst] first, on all nodes; ssl-mode on some of them only keeps nodes from coming by a copy, and by IST",
        )
    };
    let reason = if method == "rsync" {
        format!("{reason}. With rsync it takes stunnel too")
    } else {
        reason.to_owned()
    };
    let group = node.group(ALL, "ssl-mode", "sst");
    Some(
        Suggestion::new(node, group, "ssl-mode", node.option(ALL, "ssl-mode"), mode)
            .because(reason)
            .gains(
                GainSource::Documented,
                "nobody on the way reads the data or gives other data; it costs processor time",
            )
            .if_decided(),
    )
}

/// Suggests more applier threads for catching up.
fn appliers(facts: &Facts, to: &NodeFacts) -> Option<Suggestion> {
    let cores = to.machine.as_ref()?.cores?;
    let now = match &to.state {
        Some(state) => state.appliers,
        None => to
            .option(&["server"], "wsrep-slave-threads")
            .and_then(|count| count.parse().ok())
            .unwrap_or(1),
    };
    let distance = facts
        .nodes
        .iter()
        .filter_map(|node| node.deps_distance)
        .fold(0.0_f64, f64::max);
    let mut better = (cores * APPLIERS_PER_CORE).min(APPLIERS_MOST);
    let mut reason = format!(
        "{cores} processors, {APPLIERS_PER_CORE} threads each, while nothing else runs on the node"
    );
    if distance >= 1.0 && distance.ceil() < better as f64 {
        better = distance.ceil() as u64;
        reason = format!(
            "about {better} write-sets could be applied at the same time here (wsrep_cert_deps_distance), and no more"
        );
    }
    (better > now).then(|| {
        let mut one = Suggestion::new(to, "mysqld", "wsrep_slave_threads", Some(&now.to_string()), better.to_string())
            .because(format!("for the time of catching up: {reason}. Its start reads the line; take it out again when the node is synced, or the next start has as many"))
            .gains(GainSource::Documented, "write-sets that came during the copy are applied in parallel")
            .if_decided();
        one.running = Some(format!(
            "SET GLOBAL wsrep_slave_threads = {better} while it catches up, if the line was not there when it started; SET GLOBAL wsrep_slave_threads = {now} when wsrep_local_state_comment is Synced, also if it was: each thread that is too many ends with the next write-set that it applies"
        ));
        one
    })
}

/// Suggests a gcache size for the wanted absence.
fn gcache(node: &NodeFacts, window: Duration) -> Option<Suggestion> {
    let cache = node.state.as_ref()?.gcache;
    let wanted = cache.bytes_per_second * window.as_secs_f64() * WINDOW_SPARE;
    if wanted <= cache.capacity as f64 || wanted >= 1e18 {
        return None;
    }
    let better = (wanted as u64).div_ceil(GCACHE_STEP) * GCACHE_STEP;
    // If memory is set, the ring is not used besides.
    let option = if cache.memory > 0 {
        "gcache.mem_size"
    } else {
        "gcache.size"
    };
    let new_size = format!("{}M", better >> 20);
    let mut reason = format!(
        "{} of write-sets a second ({}) for {} s, and a quarter more; kept are {} now",
        size(cache.bytes_per_second as u64),
        if cache.measured {
            "measured just now: take it at the busiest hour"
        } else {
            "average since its start"
        },
        window.as_secs(),
        size(cache.capacity)
    );
    let set = |option: &str, value: &str| {
        if cache.by_variables {
            // These variables take no units.
            let bytes = size_in_bytes(value).map_or(value.to_owned(), |bytes| bytes.to_string());
            format!("SET GLOBAL {} = {bytes}", provider_variable(option))
        } else {
            format!("SET GLOBAL wsrep_provider_options = '{option}={value}'")
        }
    };
    let free = node.machine.as_ref().and_then(|machine| machine.space.free);
    if option == "gcache.size" && free.is_some_and(|free| free < better.saturating_sub(cache.ring))
    {
        reason.push_str(". The file system of its data directory has less than that free");
    }
    let current = node.option(&["server"], "wsrep-provider-options");
    let mut one = Suggestion::new(
        node,
        "mysqld",
        option,
        Some(&size(cache.capacity)),
        new_size.as_str(),
    )
    .because(reason)
    .gains(
        GainSource::Measured,
        "a node that was away comes back by the write-sets it missed (IST) instead of a full copy",
    );
    one.line = assignment(
        "wsrep_provider_options",
        &with_option(current.unwrap_or_default(), option, &new_size),
    );
    // If the option files were not read, this line would drop all other provider options.
    one.sure = node.machine.is_some() && node.unseen.is_empty();
    one.running = Some(if option == "gcache.size" {
        format!(
            "gcache.size takes a restart; until then {} keeps write-sets in memory",
            set("gcache.mem_size", "…")
        )
    } else {
        set(option, &new_size)
    });
    Some(one)
}

/// The provider options with one of them changed.
fn with_option(all: &str, name: &str, value: &str) -> String {
    let text = all.trim().trim_matches(['"', '\'']);
    let mut parts: Vec<String> = text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty() && part.split('=').next().map(str::trim) != Some(name))
        .map(str::to_owned)
        .collect();
    parts.push(format!("{name}={value}"));
    parts.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_options_of_the_provider_stay() {
        assert_eq!(
            with_option(
                "\"gmcast.segment=1; gcache.size = 32M;pc.weight=2\"",
                "gcache.size",
                "1G"
            ),
            "gmcast.segment=1;pc.weight=2;gcache.size=1G"
        );
        assert_eq!(with_option("", "gcache.size", "1G"), "gcache.size=1G");
    }
}
