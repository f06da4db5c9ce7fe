//! Makes every mistake that breaks a full copy on a real cluster, and checks that `advise` finds it
//! before a copy is tried.

#[path = "advise/applied.rs"]
mod applied;
#[path = "advise/pair.rs"]
mod pair;
#[path = "advise/well.rs"]
mod well;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_cluster::advise::{
    AdviseOptions, Effect, Mistake, MistakeKind, Suggestion, advise, fragment,
};
use refloat_sandbox::{GaleraNode, NodeStart};
use refloat_testkit::EXPIRED_CERTIFICATE;

use pair::*;
use well::{unseen, well, written};

#[test]
fn what_makes_a_copy_fail_is_found_before() {
    let cluster = two_nodes();
    let pair = Pair {
        cluster: &cluster,
        donor: cluster.node(1).unwrap(),
        joiner: cluster.node(2).unwrap(),
    };
    well(&pair);
    written(&pair);
    unseen(&pair);
    compressors(&pair);
    tools(&pair);
    streams(&pair);
    accounts(&pair);
    ports(&pair);
    donors(&pair);
    leftovers(&pair);
    rsync(&pair);
    // A down server that no package installed: only its option file says where its programs are.
    let base = pair.joiner.query("SELECT @@basedir").unwrap();
    let base = format!("[mysqld]\nbasedir={}", base.trim());
    let _base = Lines::add(pair.joiner, &base);
    down(&pair);
    // Last: these overwrite the joiner's data.
    a_copy_with_what_is_suggested_works(&pair);
    a_copy_with_a_compressor_on_one_side_fails(&pair);
    the_certificate_of_the_cluster_is_over(&pair);
}

#[test]
fn what_is_advised_is_applied_and_not_asked_for_again() {
    applied::applied();
}

// Hazard of copies: G-26 methods, stream format, encryption, programs that differ or are missing |
//   , `tools`, `streams`, `rsync`
fn compressors(pair: &Pair) {
    let _packs = Lines::add(pair.donor, "[sst]\ncompressor=gzip -1");
    let one = pair.finds(
        MistakeKind::Compressor,
        Effect::Fails,
        "has no decompressor",
    );
    assert_eq!(one.nodes, [pair.donor.name(), pair.joiner.name()]);
    {
        let _other = Lines::add(pair.joiner, "[sst]\ndecompressor=zstd -dc");
        pair.finds(MistakeKind::Compressor, Effect::Fails, "expects zstd");
    }
    {
        let _same = Lines::add(pair.joiner, "[sst]\ndecompressor=gzip -1");
        pair.finds(
            MistakeKind::Compressor,
            Effect::Fails,
            "compresses instead of taking apart",
        );
    }
    let _unpacks = Lines::add(pair.joiner, "[sst]\ndecompressor=gzip -dc");
    pair.finds_nothing_that_fails();
}

fn tools(pair: &Pair) {
    let packs = Lines::add(pair.donor, "[sst]\ncompressor=/opt/none/pack -3");
    let unpacks = Lines::add(pair.joiner, "[sst]\ndecompressor=no-such-unpacker");
    let advice = pair.advise();
    let one = found(
        &advice,
        MistakeKind::MissingTool,
        Effect::Fails,
        "as a donor it needs /opt/none/pack",
    );
    assert_eq!(one.nodes, [pair.donor.name()]);
    found(
        &advice,
        MistakeKind::MissingTool,
        Effect::Fails,
        "as a joiner it needs no-such-unpacker",
    );
    drop((packs, unpacks));
    // An SST method whose script is not installed.
    exec(
        pair.joiner,
        "SET GLOBAL wsrep_sst_method = 'no_such_method'",
    );
    let advice = pair.advise();
    let missing = advice
        .mistakes
        .iter()
        .filter(|one| one.text.contains("needs wsrep_sst_no_such_method"));
    assert_eq!(missing.count(), 2, "{:#?}", advice.mistakes);
    found(
        &advice,
        MistakeKind::Method,
        Effect::Unsafe,
        "no_such_method",
    );
    exec(pair.joiner, "SET GLOBAL wsrep_sst_method = 'mariabackup'");
}

fn streams(pair: &Pair) {
    let lines = Lines::add(pair.joiner, "[sst]\nstreamfmt=tar");
    pair.finds(MistakeKind::Format, Effect::Fails, "expects tar");
    drop(lines);
    let lines = Lines::add(pair.donor, "[mariabackup]\nencrypt=1");
    pair.finds(
        MistakeKind::Encryption,
        Effect::Fails,
        "encrypts with a key",
    );
    drop(lines);
    let _lines = Lines::add(
        pair.joiner,
        "[sst]\nencrypt=3\ntcert=/nowhere/c.pem\ntkey=/nowhere/k.pem",
    );
    pair.finds(MistakeKind::Encryption, Effect::Fails, "/nowhere/c.pem");
    certificates(pair);
}

/// A certificate in the option file has expired.
fn certificates(pair: &Pair) {
    let file = pair.joiner.datadir().join("over.pem");
    fs::write(&file, EXPIRED_CERTIFICATE).unwrap();
    let _lines = Lines::add(pair.joiner, "[sst]\nssl-cert=over.pem");
    let words = "its certificate over.pem ended at Jan  1 00:00:00 2021 GMT: since then";
    let one = pair.finds(MistakeKind::Certificate, Effect::Unsafe, words);
    assert_eq!(one.nodes, [pair.joiner.name()]);
    fs::remove_file(file).unwrap();
}

/// Logs in at the donor with the account that the option file names.
// Hazard of copies: Wrong credentials, missing rights, an account in no file
fn accounts(pair: &Pair) {
    let config = fs::read_to_string(pair.donor.config()).unwrap();
    let password = config
        .lines()
        .find_map(|line| line.strip_prefix("wsrep_sst_auth=sst:"))
        .unwrap()
        .to_owned();
    exec(
        pair.donor,
        "ALTER USER sst@localhost IDENTIFIED BY 'another'",
    );
    let one = pair.finds(MistakeKind::Account, Effect::Fails, "Access denied");
    assert_eq!(one.nodes, [pair.donor.name()]);
    assert!(one.text.contains("wsrep_sst_auth names \"sst\""), "{one:?}");
    exec(
        pair.donor,
        &format!("ALTER USER sst@localhost IDENTIFIED BY '{password}'"),
    );

    exec(
        pair.donor,
        "REVOKE PROCESS, RELOAD ON *.* FROM sst@localhost",
    );
    pair.finds(
        MistakeKind::Privileges,
        Effect::Fails,
        "lacks RELOAD, PROCESS",
    );
    exec(pair.donor, "GRANT PROCESS, RELOAD ON *.* TO sst@localhost");

    // Set at run time and in no file.
    let without = config.replace("wsrep_sst_auth", "#wsrep_sst_auth");
    fs::write(pair.donor.config(), without).unwrap();
    pair.finds(
        MistakeKind::Account,
        Effect::Unsafe,
        "after a restart it cannot give a copy",
    );
    fs::write(pair.donor.config(), &config).unwrap();
    pair.finds_nothing_that_fails();

    // Another one in the server than in the file.
    exec(pair.donor, "SET GLOBAL wsrep_sst_auth = 'other:secret'");
    let words = "its wsrep_sst_auth was set while it ran: copies log in by that";
    pair.finds(MistakeKind::Account, Effect::Unsafe, words);
    exec(
        pair.donor,
        &format!("SET GLOBAL wsrep_sst_auth = 'sst:{password}'"),
    );
}

// Hazard of copies: A port that a donor cannot reach
fn ports(pair: &Pair) {
    // Another process listens at the port.
    let listen = format!(
        "TCP-LISTEN:{},fork",
        pair.joiner.sst_address().rsplit_once(':').unwrap().1
    );
    let mut other = within(pair.joiner, &["socat", &listen, "/dev/null"])
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let one = loop {
        let advice = pair.advise();
        if let Some(one) = advice
            .mistakes
            .into_iter()
            .find(|one| one.kind == MistakeKind::PortTaken)
        {
            break one;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "a taken port is not found"
        );
    };
    assert_eq!(one.effect, Effect::Fails);
    assert!(
        one.text
            .contains(&format!("socat (process {})", other.id())),
        "{one:?}"
    );
    other.kill().unwrap();
    other.wait().unwrap();

    // Like a firewall that drops outgoing packets: no answer comes from the port.
    let rule = |what: &str| {
        let words = [
            "ip",
            "rule",
            what,
            "ipproto",
            "tcp",
            "sport",
            "4444",
            "blackhole",
        ];
        assert!(within(pair.joiner, &words).status().unwrap().success());
    };
    rule("add");
    let one = pair.finds(
        MistakeKind::PortClosed,
        Effect::Fails,
        "no answer within 4 s",
    );
    assert_eq!(one.nodes, [pair.donor.name(), pair.joiner.name()]);
    rule("del");

    // An address of a documentation network (192.0.2.0/24), which no machine has.
    let before = pair
        .joiner
        .query("SELECT @@wsrep_sst_receive_address")
        .unwrap();
    exec(
        pair.joiner,
        "SET GLOBAL wsrep_sst_receive_address = '192.0.2.1:4444'",
    );
    pair.finds(
        MistakeKind::PortClosed,
        Effect::Unsafe,
        "192.0.2.1:4444, and its machine has no such address",
    );
    exec(
        pair.joiner,
        &format!("SET GLOBAL wsrep_sst_receive_address = '{}'", before.trim()),
    );
    pair.finds_nothing_that_fails();
}

fn donors(pair: &Pair) {
    let donor = pair.donor.name();
    for (list, effect) in [
        ("nosuch".to_owned(), Effect::Fails),
        ("nosuch,".to_owned(), Effect::Unsafe),
        (format!("nosuch,{donor}"), Effect::Unsafe),
        (donor.to_owned(), Effect::Unsafe),
    ] {
        let set = format!("SET GLOBAL wsrep_sst_donor = '{list}'");
        exec(pair.joiner, &set);
        let advice = pair.advise();
        if list != donor {
            found(&advice, MistakeKind::DonorName, effect, "names nosuch,");
        }
        // A name that no node has is never proposed.
        let one = suggestion(&advice, "wsrep_sst_donor");
        assert_eq!(one.better, format!("{donor},"), "{list}");
        assert_eq!(one.line, format!("wsrep_sst_donor={donor},"), "{list}");
        assert!(!one.running.as_ref().unwrap().contains("nosuch"), "{one:?}");
        let file = fragment(&advice);
        let mut lines = file.lines().map(|line| line.trim_start_matches('#'));
        assert!(
            !lines.any(|line| line.starts_with("wsrep_sst_donor=nosuch")),
            "{file}"
        );
    }
    exec(pair.joiner, "SET GLOBAL wsrep_sst_donor = ''");
}

// Hazard of copies: G-12 leftovers and scripts of an earlier copy; the port taken; too little
//   space, on a small file system | , `ports`, `down`
fn leftovers(pair: &Pair) {
    let datadir = pair.joiner.datadir();
    fs::write(datadir.join("sst_in_progress"), "").unwrap();
    fs::create_dir(datadir.join(".sst")).unwrap();
    fs::write(
        datadir.join("wsrep_sst.pid"),
        std::process::id().to_string(),
    )
    .unwrap();
    let advice = pair.advise();
    found(
        &advice,
        MistakeKind::Leftover,
        Effect::Unsafe,
        "sst_in_progress and .sst",
    );
    found(
        &advice,
        MistakeKind::Leftover,
        Effect::Fails,
        "an earlier copy still runs",
    );
    // A zombie, which has ended and only awaits its parent, is in nobody's way.
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", ended.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::write(datadir.join("wsrep_sst.pid"), ended.id().to_string()).unwrap();
    pair.finds_nothing_that_fails();
    ended.wait().unwrap();
    for name in ["sst_in_progress", "wsrep_sst.pid"] {
        fs::remove_file(datadir.join(name)).unwrap();
    }
    fs::remove_dir(datadir.join(".sst")).unwrap();
}

/// rsync has other needs: no account, and another program for TLS.
fn rsync(pair: &Pair) {
    for node in [pair.donor, pair.joiner] {
        exec(node, "SET GLOBAL wsrep_sst_method = 'rsync'");
    }
    exec(pair.donor, "ALTER USER sst@localhost ACCOUNT LOCK");
    pair.finds_nothing_that_fails();
    let _lines = Lines::add(pair.joiner, "[sst]\nssl-mode=REQUIRED");
    let advice = pair.advise();
    found(
        &advice,
        MistakeKind::Encryption,
        Effect::Fails,
        "does not encrypt",
    );
    let has_stunnel = advice.nodes[1]
        .machine
        .as_ref()
        .unwrap()
        .programs
        .contains_key("stunnel");
    // If the machine has stunnel, nothing is missing.
    let missed = advice.mistakes.iter().any(|one| {
        one.kind == MistakeKind::MissingTool
            && one.effect == Effect::Fails
            && one.text.contains("needs stunnel")
    });
    assert_eq!(missed, !has_stunnel, "{:#?}", advice.mistakes);
    exec(pair.donor, "ALTER USER sst@localhost ACCOUNT UNLOCK");
    for node in [pair.donor, pair.joiner] {
        exec(node, "SET GLOBAL wsrep_sst_method = 'mariabackup'");
    }
}

/// For a joiner that is down, its option file and file system have the answers.
// Hazard of copies: G-26 page size, data file path, names' case, cluster name, of a node that is
//   down too
fn down(pair: &Pair) {
    pair.joiner.stop().unwrap();
    let advice = pair.advise();
    assert!(!advice.fails(), "{:#?}", advice.mistakes);
    assert!(advice.nodes[1].unreachable.is_some());
    {
        let datadir = pair.joiner.datadir();
        let _small = Small::mount(&datadir, 16);
        let one = pair.finds(
            MistakeKind::Space,
            Effect::Fails,
            "there is room for 16 MiB",
        );
        assert_eq!(one.nodes, [pair.joiner.name()]);
    }
    let settings = "[mysqld]\ninnodb_page_size=8k\nlower_case_table_names=1\ninnodb-data-file-path=ibdata1:24M:autoextend\nwsrep_cluster_name=other";
    let _lines = Lines::add(pair.joiner, settings);
    let advice = pair.advise();
    for words in [
        "innodb_page_size is 16384",
        "lower_case_table_names is 0",
        "innodb_data_file_path is ibdata1:12M:autoextend",
        "wsrep_cluster_name",
    ] {
        let one = found(&advice, MistakeKind::Setting, Effect::Fails, words);
        assert_eq!(one.nodes, [pair.donor.name(), pair.joiner.name()]);
    }
    // With the roles swapped, no node is left to give a copy.
    let options = AdviseOptions {
        joiner: Some(pair.donor.name().to_owned()),
        sample: Duration::from_millis(50),
        window: None,
    };
    let advice = advise("test", &candidates(pair.cluster), &options).unwrap();
    found(
        &advice,
        MistakeKind::NoDonor,
        Effect::Fails,
        "none could give it a copy",
    );
}

/// The SST scripts understand the suggestions: a copy succeeds with them, compressed if both nodes
/// have a compressor.
// Hazard of copies: The suggestions work: a copy is made with them
fn a_copy_with_what_is_suggested_works(pair: &Pair) {
    let advice = pair.advise();
    let decided = |one: &&Suggestion| one.sure || one.option.ends_with("compressor");
    let lines: Vec<String> = advice
        .suggestions
        .iter()
        .filter(decided)
        .filter(|one| one.group != "mysqld")
        .map(|one| format!("[{}]\n{}", one.group, one.line))
        .collect();
    for option in ["compressor", "decompressor", "time"] {
        let one = suggestion(&advice, option);
        assert!(lines.iter().any(|line| line.ends_with(&one.line)));
    }
    let _tuned = [pair.donor, pair.joiner].map(|node| Lines::add(node, &lines.join("\n")));
    let again = pair.advise();
    assert!(!again.fails(), "{:#?}", again.mistakes);
    let left = again.suggestions.iter().find(|one| one.sure);
    assert_eq!(left, None);
    fs::remove_file(pair.joiner.grastate()).unwrap();
    pair.joiner.start().unwrap();
    let logs = [pair.donor, pair.joiner].map(|node| fs::read_to_string(node.error_log()).unwrap());
    for one in advice.suggestions.iter().filter(decided) {
        // What the scripts log for each option.
        let words = match one.option.as_str() {
            "backup-threads" => format!("--parallel={}", one.better),
            "use-memory" => format!("--use-memory={}", one.better),
            "compressor" | "decompressor" => one.better.clone(),
            "time" => "seconds".to_owned(),
            _ => continue,
        };
        let is_there = logs.iter().any(|log| log.contains(&words));
        assert!(is_there, "{words} was not used: {}", logs[1]);
    }
    let count = "SELECT COUNT(*) FROM shop.t";
    assert_eq!(pair.joiner.query(count).unwrap().trim(), "1");
    pair.joiner.stop().unwrap();
}

/// Proves the finding: a copy with the mistake fails. (Without it one worked: the joiner joined its
/// cluster by one.)
// Hazard of copies: G-12 a donor that is still sending for a copy that failed
// Hazard of copies: A finding is true: the copy really fails
fn a_copy_with_a_compressor_on_one_side_fails(pair: &Pair) {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(folder.path());
    let [packs, go] = ["packs", "go"].map(|name| folder.path().join(name));
    // Sends everything but does not exit. Until it does, the donor does not know that nobody
    // listens any more.
    let script = format!(
        "#!/bin/sh\ngzip -1\nexec >&-\nwhile [ ! -e {} ]; do sleep 0.1; done\n",
        go.display()
    );
    fs::write(&packs, script).unwrap();
    open(&packs);
    let lines = format!("[sst]\ncompressor={}", packs.display());
    let lines = Lines::add(pair.donor, &lines);
    pair.finds(
        MistakeKind::Compressor,
        Effect::Fails,
        "has no decompressor",
    );
    fs::remove_file(pair.joiner.grastate()).unwrap();
    pair.joiner.begin(&NodeStart::join()).unwrap();
    let error = pair.joiner.wait_ready(Duration::from_secs(60)).unwrap_err();
    assert!(error.to_string().contains("it ended"), "{error}");
    drop(lines);
    // The leftover sender would feed the rest of its stream to the next joiner.
    let advice = pair.advise();
    let one = found(
        &advice,
        MistakeKind::Busy,
        Effect::Unsafe,
        "it spoils the next one",
    );
    assert_eq!(one.nodes, [pair.donor.name()]);
    assert!(!advice.fails(), "{:#?}", advice.mistakes);
    fs::write(&go, "").unwrap();
    let begun = Instant::now();
    let is_busy = |one: &Mistake| one.kind == MistakeKind::Busy;
    while pair.advise().mistakes.iter().any(is_busy) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is busy still"
        );
    }
}

/// The certificate for connections within the cluster has ended. A node that runs goes on, and one
/// that starts is not let in.
// Hazard of copies: A certificate of the provider that is over: the node really is not let in
fn the_certificate_of_the_cluster_is_over(pair: &Pair) {
    let folder = tempfile::tempdir().unwrap();
    applied::certificate(folder.path(), -1);
    let at = folder.path().display();
    let tls = |node: &GaleraNode| {
        let config = fs::read_to_string(node.config()).unwrap();
        let options = config
            .lines()
            .find_map(|line| line.strip_prefix("wsrep_provider_options="))
            .unwrap();
        let options = options.trim_matches('"');
        Lines::add(
            node,
            &format!(
                "[mysqld]\nwsrep_provider_options=\"{options};pc.wait_prim_timeout=PT3S;\
                 socket.ssl_ca={at}/ca.pem;socket.ssl_cert={at}/cert.pem;socket.ssl_key={at}/key.pem\""
            ),
        )
    };
    let _tls = [pair.donor, pair.joiner].map(tls);
    pair.donor.stop().unwrap();
    pair.donor.start_with(&NodeStart::bootstrap()).unwrap();
    let advice = pair.advise();
    // The one runs with it, the other has it in its option file. The authority's ends in two days.
    let mut over = advice.mistakes.iter();
    for (file, effect, words) in [
        ("cert.pem", Effect::Fails, "since then no node that starts"),
        ("ca.pem", Effect::Unsafe, "from then on no node that starts"),
    ] {
        for node in [pair.donor, pair.joiner] {
            let one = over.find(|one| one.kind == MistakeKind::Certificate);
            let one = one.unwrap_or_else(|| panic!("{file}: {:#?}", advice.mistakes));
            assert_eq!(one.nodes, [node.name()]);
            assert_eq!(one.effect, effect);
            let begins = format!("its certificate {at}/{file} end");
            assert!(one.text.starts_with(&begins), "{one:?}");
            assert!(one.text.contains(words), "{one:?}");
        }
    }
    pair.joiner.begin(&NodeStart::join()).unwrap();
    let error = pair.joiner.wait_ready(Duration::from_secs(60)).unwrap_err();
    assert!(error.to_string().contains("it ended"), "{error}");
    let log = fs::read_to_string(pair.joiner.error_log()).unwrap();
    let words = "certificate verify failed: certificate has expired";
    assert!(log.contains(words), "{log}");
}
