//! The server's settings for a load: which to change, what to advise, and how to restore them.

use refloat_run::machine::Machine;
use refloat_run::settings::{
    Advice, AppliedSettings, Durability, Facts, Hints, JournalEntry, SettingsPlan,
};
use refloat_run::{Cancel, Run};
use refloat_wire::Vendor;

use super::options::{BinlogMode, LoadOptions, WritePath};
use super::outcome::LoadOutcome;
use super::preflight::Preflight;
use super::{LoadError, connect};

/// Bytes of text below which a load takes less time than changing, journalling and restoring
/// settings.
const SMALL: u64 = 1 << 20;

/// How far settings may be changed: as requested, or relaxed if nobody else's data is at stake and
/// the dump is worth it.
pub fn durability(
    options: &LoadOptions,
    facts: &Facts,
    preflight: &Preflight,
    dump_bytes: Option<u64>,
) -> Durability {
    let is_relaxed = preflight.empty_server && !is_small(options, facts, dump_bytes);
    options.durability.unwrap_or(if is_relaxed {
        Durability::Relaxed
    } else {
        Durability::Keep
    })
}

/// Whether a dump is so small that settings make no difference. Never for `LOAD DATA`, which may be
/// possible only with a changed setting; on MySQL that is the usual path.
fn is_small(options: &LoadOptions, facts: &Facts, dump_bytes: Option<u64>) -> bool {
    facts.vendor == Vendor::MariaDb
        && options.write_path != WritePath::LoadData
        && dump_bytes.is_some_and(|bytes| bytes < SMALL)
}

/// What a plan for a server is based on besides its own variables. `near` says that the server runs
/// on this machine, whose memory `here` servers share.
pub fn hints(facts: &Facts, near: bool, dump_bytes: Option<u64>, here: usize) -> Hints {
    let datadir = facts.get("datadir").map(std::path::PathBuf::from);
    Hints {
        dump_bytes,
        server_memory_available: Machine::here()
            .filter(|_| near)
            .map(|machine| machine.memory_available / here.max(1) as u64),
        server_disk_available: datadir
            .filter(|_| near)
            .and_then(|path| refloat_run::machine::disk_available(&path)),
        ..Hints::default()
    }
}

/// What to change on the server for this load; `here` servers share its machine.
pub fn plan(
    options: &LoadOptions,
    facts: &Facts,
    preflight: &Preflight,
    dump_bytes: Option<u64>,
    here: usize,
) -> SettingsPlan {
    let level = durability(options, facts, preflight, dump_bytes);
    let hints = Hints {
        allow_local_infile: match options.write_path.over_sql() {
            // The array-bound insert does not need it.
            WritePath::Auto => {
                preflight.write_path != WritePath::Bulk && !super::galera::splits_load_data(facts)
            }
            WritePath::LoadData => true,
            WritePath::Bulk | WritePath::Insert | WritePath::Tablespace => false,
        },
        skip_binlog: options.binlog == BinlogMode::Off,
        ..hints(facts, preflight.server_is_local, dump_bytes, here)
    };
    let mut plan = refloat_run::settings::plan_for(facts, level, &hints);
    if options.binlog == BinlogMode::Keep {
        plan.session.retain(|change| change.name != "sql_log_bin");
    }
    if options.durability.is_none() && is_small(options, facts, dump_bytes) {
        plan.advice.clear();
    }
    plan
}

/// A change, for display.
pub fn change_line(change: &JournalEntry) -> String {
    format!(
        "{}: {} -> {} ({})",
        change.name, change.old, change.new, change.reason
    )
}

/// A piece of advice, for display.
pub fn advice_line(advice: &Advice) -> String {
    let restart = if advice.restart {
        ", needs a restart of the server"
    } else {
        ""
    };
    format!(
        "{} = {} would be better than {}: {} ({}{restart})",
        advice.name, advice.better, advice.now, advice.reason, advice.gain
    )
}

/// Restores the settings.
pub fn put_back(
    options: &LoadOptions,
    run: &Run,
    outcome: &mut LoadOutcome,
    applied: &mut AppliedSettings,
) -> Result<(), LoadError> {
    // Settings are restored even after Ctrl-C.
    let (left, result) = applied.put_back(run, || connect(options, &Cancel::new()));
    outcome.settings_left = left;
    result
}
