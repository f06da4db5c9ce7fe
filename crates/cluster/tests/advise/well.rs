//! The advice for a healthy cluster, as reported and as written to a file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use refloat_cluster::advise::{
    AdviseOptions, Effect, GainSource, MistakeKind, Suggestion, advise, fragment,
};

use crate::pair::*;

/// A healthy cluster: nothing fails, improvements are suggested, and looking changes nothing.
// Hazard of copies: G-23 copies without TLS, or with certificates that nobody verifies, are named |
//   , unit tests
// Hazard of copies: G-24 the password for copies is in no message, record or file
pub fn well(pair: &Pair) {
    let before = [pair.donor, pair.joiner].map(all_of);
    let advice = pair.advise();
    assert!(!advice.fails(), "{:#?}", advice.mistakes);
    assert_eq!([pair.donor, pair.joiner].map(all_of), before);
    let no_tls = found(&advice, MistakeKind::NoTls, Effect::Unsafe, "without TLS");
    assert_eq!(no_tls.nodes, [pair.donor.name(), pair.joiner.name()]);
    for (facts, node) in advice.nodes.iter().zip(pair.cluster.nodes()) {
        assert_eq!(facts.unseen, Vec::<String>::new());
        let machine = facts.machine.as_ref().unwrap();
        assert_eq!(machine.pid, node.pid().unwrap());
        assert_eq!(machine.defaults_file.as_deref(), node.config().to_str());
        assert_eq!(machine.options.get(&["sst"], "ssl-mode"), Some("DISABLED"));
        assert_eq!(
            machine.options.get(&["server"], "wsrep-sst-auth"),
            Some("set")
        );
        assert!(
            machine.space.data() > Some(10 << 20) && machine.space.has_gcache,
            "{machine:?}"
        );
        assert!(
            machine.memory.total > machine.memory.available
                && machine.memory.server > Some(1 << 20),
            "{machine:?}"
        );
        let account = machine.account.as_ref().unwrap();
        assert_eq!((account.name.as_str(), &account.refused), ("sst", &None));
        assert!(
            account.grants.iter().any(|grant| grant.contains("RELOAD")),
            "{account:?}"
        );
    }
    // The output and records contain no password, nor its hash as the server shows it (`SHOW
    // GRANTS`).
    let config = fs::read_to_string(pair.donor.config()).unwrap();
    let password = config
        .lines()
        .find_map(|line| line.strip_prefix("wsrep_sst_auth=sst:"))
        .unwrap();
    for text in [
        format!("{advice:?}"),
        serde_json::to_string(&advice).unwrap(),
        fragment(&advice),
    ] {
        assert!(
            !text.contains(password) && !text.contains("IDENTIFIED"),
            "{text}"
        );
    }
    let machine = advice.nodes[0].machine.as_ref().unwrap();
    let cores = machine.cores.unwrap();
    let threads = advice
        .suggestions
        .iter()
        .find(|one| one.option == "backup-threads");
    assert_eq!(
        threads.map(|one| one.better.clone()),
        (cores > 1).then(|| cores.min(16).to_string())
    );
    // The speed of this network is unknown, so compression is the user's decision.
    assert!(machine.programs.contains_key("zstd"), "{machine:?}");
    for (option, better) in [
        ("compressor", format!("zstd -1 -T{}", cores.min(16))),
        ("decompressor", "zstd -dc".to_owned()),
    ] {
        let one = suggestion(&advice, option);
        assert_eq!((one.sure, &one.better), (false, &better));
    }

    let error = advise(
        "test",
        &candidates(pair.cluster),
        &AdviseOptions {
            joiner: Some("nobody".to_owned()),
            ..AdviseOptions::default()
        },
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("has no node \"nobody\"")
    );
}

/// The options that the server's own tool, `my_print_defaults`, reads from a file.
pub fn defaults(file: &Path, group: &str) -> String {
    let output = Command::new("my_print_defaults")
        .arg(format!("--defaults-file={}", file.display()))
        .arg(group)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The fragment is a valid option file and holds the suggestions.
pub fn written(pair: &Pair) {
    exec(pair.donor, "CREATE DATABASE shop");
    exec(
        pair.donor,
        "CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)",
    );
    exec(
        pair.donor,
        "INSERT INTO shop.t (v) VALUES (REPEAT('x', 1000000))",
    );
    let arrived = || {
        pair.joiner
            .query("SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM shop.t")
    };
    assert_eq!(arrived().unwrap().trim(), "1");
    // An absence so long that the node must keep more than it does, whatever the write rate.
    let advice = pair.advise_with(Some(Duration::from_secs(360 * 86_400)));
    let cache = suggestion(&advice, "gcache.size");
    assert_eq!(
        (cache.gain.source, cache.sure),
        (GainSource::Measured, true),
        "{cache:?}"
    );
    let kept = pair.donor.query("SELECT @@wsrep_provider_options").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.cnf");
    fs::write(&file, fragment(&advice)).unwrap();
    for one in advice
        .suggestions
        .iter()
        .filter(|one| one.sure && one.option != "gcache.size")
    {
        let line = format!("--{}={}", one.option, one.better);
        let read = defaults(&file, one.group);
        assert!(read.lines().any(|seen| seen == line), "{line}: {read}");
    }
    // The nodes differ in their provider options, so each has its own line, commented out.
    assert_eq!(defaults(&file, "mysqld"), "", "{:#?}", advice.suggestions);
    // For one node alone the line is active, and keeps the node's other provider options.
    let mut alone = advice.clone();
    let is_donors = |one: &Suggestion| one.nodes[0] == pair.donor.name();
    alone
        .suggestions
        .retain(|one| one.option != "gcache.size" || is_donors(one));
    let cache = suggestion(&alone, "gcache.size").clone();
    fs::write(&file, fragment(&alone)).unwrap();
    let read = defaults(&file, "mysqld");
    assert!(
        read.contains(&format!("gcache.size={}", cache.better)),
        "{read}"
    );
    let address = kept
        .split("; ")
        .find(|one| one.starts_with("gmcast.listen_addr"))
        .unwrap();
    assert!(read.contains(&address.replace(" = ", "=")), "{read}");
}

/// What could not be examined is reported.
pub fn unseen(pair: &Pair) {
    let mut candidates = candidates(pair.cluster);
    candidates[0].member.host = None;
    let options = AdviseOptions {
        sample: Duration::from_millis(50),
        ..AdviseOptions::default()
    };
    let advice = advise("test", &candidates, &options).unwrap();
    let node = &advice.nodes[0];
    assert!(
        node.machine.is_none() && node.unseen[0].contains("no ssh is given"),
        "{node:?}"
    );
    assert!(advice.nodes[1].machine.is_some());
}
