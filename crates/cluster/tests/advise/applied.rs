//! Writes the advice into option files, as users do, and makes a copy with it.

// Hazard of copies: All suggestions, TLS too, written into the option files of a donor and an empty
//   joiner: used, reported by the servers, and not suggested again; the way back of applier threads
// Hazard of copies: Encryption on one side only keeps a node from coming by IST too
// Hazard of copies: G-11 a stage of a copy that is killed, on the donor (whose script does not
//   notice) and on the joiner: the node does not come up, and its next start takes a copy again

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_cluster::advise::{
    Advice, AdviseOptions, Effect, MistakeKind, Suggestion, advise, fragment,
};
use refloat_sandbox::{EphemeralCluster, GaleraNode, NodeStart};

use crate::pair::*;

/// A joiner whose copies nobody has thought about: little memory, little patience, and a single
/// donor that no longer exists.
const POOR: &str = "[mysqld]\nwsrep_sst_donor=gone\n[sst]\nuse-memory=10M\nsst-initial-timeout=5";
/// Bytes of write-sets to keep: twice what the sandbox's nodes keep by themselves.
const KEPT: f64 = 48e6;
/// Limit for every wait.
const LONG: Duration = Duration::from_secs(60);

pub fn applied() {
    let cluster = two_nodes();
    let [donor, joiner] = [1, 2].map(|number| cluster.node(number).unwrap());
    let _poor = Lines::add(joiner, POOR);
    exec(joiner, "SET GLOBAL wsrep_sst_donor = 'gone'");
    write_a_lot(donor);

    let rate = look(&cluster, None).nodes[0]
        .state
        .as_ref()
        .unwrap()
        .gcache
        .bytes_per_second;
    let window = Duration::from_secs_f64(KEPT / rate);
    let advice = look(&cluster, Some(window));
    found(&advice, MistakeKind::DonorName, Effect::Fails, "names gone");
    let advised_lines = fragment(&advice);
    let certificates = tempfile::tempdir().unwrap();
    let tls = certificate(certificates.path(), 2);
    let [advised, advised_too] = [donor, joiner].map(|node| include(node, &advised_lines, &tls));
    donor.stop().unwrap();
    donor.start().unwrap();
    joiner.stop().unwrap();
    for entry in fs::read_dir(joiner.datadir()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    joiner.start().unwrap();

    let rows = "SELECT COUNT(*), SUM(LENGTH(v)) FROM shop.t";
    assert_eq!(joiner.query(rows).unwrap(), donor.query(rows).unwrap());
    let logs = [donor, joiner].map(|node| fs::read_to_string(node.error_log()).unwrap());
    let of = |node: &GaleraNode| {
        let name = node.name().to_owned();
        advice
            .suggestions
            .iter()
            .filter(move |one| one.nodes.contains(&name))
    };
    for (node, log) in [donor, joiner].into_iter().zip(&logs) {
        for one in of(node) {
            used(node, one, log, &logs);
        }
    }
    for option in [
        "wsrep_sst_donor",
        "sst-initial-timeout",
        "use-memory",
        "compressor",
        "decompressor",
        "time",
        "ssl-mode",
        "gcache.size",
        "wsrep_slave_threads",
    ] {
        suggestion(&advice, option);
    }

    // Nothing that was applied is advised again.
    let again = look(&cluster, Some(window));
    assert!(!again.fails(), "{:#?}", again.mistakes);
    for one in &again.suggestions {
        let asked = advice
            .suggestions
            .iter()
            .any(|before| before.option == one.option);
        let applied = [donor, joiner]
            .iter()
            .any(|node| one.nodes.contains(&node.name().to_owned()));
        assert!(!(asked && applied), "{one:#?}");
    }
    let plain = again
        .mistakes
        .iter()
        .find(|one| one.kind == MistakeKind::NoTls && one.effect == Effect::Unsafe);
    assert_eq!(plain, None);
    back(donor, joiner, suggestion(&advice, "wsrep_slave_threads"));

    // TLS on one side only prevents IST as well: the SST scripts must understand each other.
    joiner.stop().unwrap();
    exec(donor, "INSERT INTO shop.t (v) VALUES ('missed')");
    drop(advised);
    let differs = look(&cluster, None);
    let stops = differs.keeps_away(joiner.name());
    assert!(
        stops.iter().any(|one| one.kind == MistakeKind::Encryption),
        "{:#?}",
        differs.mistakes
    );
    joiner.begin(&NodeStart::join()).unwrap();
    let error = joiner.wait_ready(LONG).unwrap_err();
    assert!(error.to_string().contains("it ended"), "{error}");
    let log = fs::read_to_string(joiner.error_log()).unwrap();
    let (_, last) = log.rsplit_once("WSREP: Found saved state").unwrap();
    assert!(last.contains("Prepared IST receiver"), "{last}");
    drop(advised_too);
    a_stage_that_is_killed(donor, joiner, certificates.path());
}

/// The donor's script checks only the ends of its pipeline, so it calls a copy good although the
/// compressor was killed. The joiner detects that, and never comes up with half of the data.
fn a_stage_that_is_killed(donor: &GaleraNode, joiner: &GaleraNode, folder: &Path) {
    let (killed, cut) = (folder.join("killed"), folder.join("cut"));
    // The messages before the copy are shorter than this, so only the copy is cut.
    let script = format!(
        "#!/bin/sh\nhead -c 300000\n[ -z \"$(head -c 1 | tr '\\0' x)\" ] || {{ : >'{}'; kill -9 $$; }}\n",
        cut.display()
    );
    fs::write(&killed, script).unwrap();
    fs::set_permissions(&killed, fs::Permissions::from_mode(0o755)).unwrap();
    // SST scripts run under the server's account.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let killed = killed.to_str().unwrap();
    for [packs, unpacks] in [[killed, "cat"], ["cat", killed]] {
        let _lines = [
            Lines::add(donor, &format!("[sst]\ncompressor={packs}")),
            Lines::add(joiner, &format!("[sst]\ndecompressor={unpacks}")),
        ];
        let _ = fs::remove_file(joiner.grastate());
        // The option file names a donor that is gone, so name one here.
        let donor = donor.name().to_owned();
        let joins = NodeStart::join().argument("wsrep_sst_donor", donor);
        joiner.begin(&joins).unwrap();
        let error = joiner.wait_ready(LONG).unwrap_err();
        assert!(error.to_string().contains("it ended"), "{error}");
        assert!(cut.exists(), "no copy went through the stage");
        fs::remove_file(&cut).unwrap();
        // Its data belongs to no history, so the next start takes a copy again.
        let state = joiner.state();
        assert!(
            state.as_ref().is_none_or(|state| !state.is_known()),
            "{state:?}"
        );
    }
}

fn look(cluster: &EphemeralCluster, window: Option<Duration>) -> Advice {
    let options = AdviseOptions {
        joiner: Some(cluster.node(2).unwrap().name().to_owned()),
        window,
        sample: Duration::from_millis(50),
    };
    advise("test", &candidates(cluster), &options).unwrap()
}

/// Writes write-sets that do not depend on each other.
fn write_a_lot(node: &GaleraNode) {
    let mut conn = connect(node);
    for sql in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)",
    ] {
        conn.exec(sql).unwrap();
    }
    for _ in 0..40 {
        conn.exec("INSERT INTO shop.t (v) VALUES (REPEAT('x', 250000))")
            .unwrap();
    }
}

/// Creates a CA and a certificate for the nodes, which ends after so many days. Returns the option
/// file lines that name them.
pub fn certificate(folder: &Path, days: i32) -> String {
    let script = "set -e; cd \"$1\"; chmod 755 .\n\
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem\n\
        openssl req -newkey rsa:2048 -nodes -subj /CN=node -keyout key.pem -out request.pem\n\
        openssl x509 -req -days \"$2\" -CAcreateserial -in request.pem -CA ca.pem -CAkey ca-key.pem -out cert.pem\n\
        chmod 644 *.pem";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(folder)
        .arg(days.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let at = folder.display();
    format!("[sst]\nssl-ca={at}/ca.pem\nssl-cert={at}/cert.pem\nssl-key={at}/key.pem\n")
}

/// Includes the advice in the node's option file. Lines that are commented out for this node are
/// enabled, as users who have decided would do.
fn include(node: &GaleraNode, advised_lines: &str, tls: &str) -> Lines {
    let mut text = tls.to_owned();
    for paragraph in advised_lines.split("\n\n") {
        let names = paragraph.trim_start().strip_prefix("# For ");
        let names = names.and_then(|rest| rest.split('.').next());
        let is_for = names.is_some_and(|names| names.split(", ").any(|one| one == node.name()));
        for line in paragraph.lines() {
            match line.strip_prefix('#') {
                Some(decided) if is_for && !decided.starts_with(' ') && !decided.is_empty() => {
                    text.push_str(decided);
                }
                _ => text.push_str(line),
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let file = node.config().with_file_name("advised.cnf");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    Lines::add(node, &format!("!include {}", file.display()))
}

/// Asserts that the server or its scripts use the suggestion.
fn used(node: &GaleraNode, one: &Suggestion, log: &str, logs: &[String; 2]) {
    let better = &one.better;
    let is_donor = node.number() == 1;
    let words = match one.option.as_str() {
        "backup-threads" => format!("--parallel={better}"),
        "use-memory" => format!("--use-memory={better}"),
        // Each side runs only its own half.
        "compressor" if !is_donor => return,
        "decompressor" if is_donor => return,
        "compressor" | "decompressor" => better.clone(),
        "ssl-mode" => format!("MODE='{better}'"),
        "time" => "seconds".to_owned(),
        "sst-initial-timeout" => {
            let read = crate::well::defaults(&node.config(), one.group);
            assert!(
                read.lines().any(|line| line.ends_with(&one.line)),
                "{one:?}: {read}"
            );
            return;
        }
        "gcache.size" => {
            let bytes = node.query("SELECT @@wsrep_provider_options").unwrap();
            assert!(
                bytes.contains(&format!("gcache.size = {better}")),
                "{one:?}: {bytes}"
            );
            return;
        }
        "wsrep_sst_donor" | "wsrep_slave_threads" => {
            let value = node
                .query(&format!("SELECT @@GLOBAL.{}", one.option))
                .unwrap();
            assert_eq!(value.trim(), better, "{one:?}");
            return;
        }
        _ => panic!("nobody looks whether it was used: {one:#?}"),
    };
    assert!(
        log.contains(&words),
        "{words} was not used on {}: {}",
        node.name(),
        logs[1]
    );
}

/// Reverts a setting that is meant only for catching up.
fn back(donor: &GaleraNode, joiner: &GaleraNode, threads: &Suggestion) {
    let running = threads.running.as_ref().unwrap();
    let now = threads.now.as_ref().unwrap();
    let statement = format!("SET GLOBAL wsrep_slave_threads = {now}");
    assert!(
        running.contains(&format!(
            "{statement} when wsrep_local_state_comment is Synced"
        )),
        "{running}"
    );
    let appliers = || {
        let count = joiner.query("SHOW STATUS LIKE 'wsrep_applier_thread_count'");
        let count = count.unwrap();
        count.split('\t').nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(appliers(), threads.better);
    exec(joiner, &statement);
    let begun = Instant::now();
    while appliers() != *now {
        assert!(begun.elapsed() < LONG, "{} are left", appliers());
        exec(donor, "INSERT INTO shop.t (v) VALUES ('y')");
    }
}
