//! Every mistake that makes a full copy fail is made on a real cluster, and found before a copy is tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_cluster::advise::{
    Advice, AdviseOptions, Candidate, Effect, GainSource, Mistake, MistakeKind, Suggestion, advise,
    fragment,
};
use refloat_cluster::{Host, Member};
use refloat_sandbox::{
    EphemeralCluster, GaleraNode, GaleraOptions, NodeStart, ServerKind, SstMethod,
};
use refloat_testkit::servers;
use refloat_wire::{ConnectOptions, Connection};

fn connect(node: &GaleraNode) -> Connection {
    Connection::connect(&ConnectOptions::from_url(&node.url()).unwrap()).unwrap()
}

fn exec(node: &GaleraNode, sql: &str) {
    connect(node)
        .exec(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn candidates(cluster: &EphemeralCluster) -> Vec<Candidate> {
    let of = |node: &GaleraNode| Candidate {
        member: Member {
            name: node.name().to_owned(),
            connect: ConnectOptions::from_url(&node.url()).unwrap(),
            host: Some(Host::Local),
            datadir: Some(node.datadir()),
        },
        defaults_file: Some(node.config()),
    };
    cluster.nodes().iter().map(of).collect()
}

/// The cluster: its first node gives, its second one receives.
struct Pair<'a> {
    cluster: &'a EphemeralCluster,
    donor: &'a GaleraNode,
    joiner: &'a GaleraNode,
}

impl Pair<'_> {
    fn advise(&self) -> Advice {
        self.advise_with(None)
    }

    fn advise_with(&self, window: Option<Duration>) -> Advice {
        let options = AdviseOptions {
            joiner: Some(self.joiner.name().to_owned()),
            window,
            sample: Duration::from_millis(50),
        };
        advise("test", &candidates(self.cluster), &options).unwrap()
    }

    /// What is found, which is the first thing of its kind.
    fn finds(&self, kind: MistakeKind, effect: Effect, words: &str) -> Mistake {
        let advice = self.advise();
        found(&advice, kind, effect, words)
    }

    fn finds_nothing_that_fails(&self) {
        let advice = self.advise();
        assert!(!advice.fails(), "{:#?}", advice.mistakes);
    }
}

fn found(advice: &Advice, kind: MistakeKind, effect: Effect, words: &str) -> Mistake {
    let one = advice
        .mistakes
        .iter()
        .find(|one| one.kind == kind && one.effect == effect && one.text.contains(words));
    one.unwrap_or_else(|| panic!("no {kind:?} says {words:?}: {:#?}", advice.mistakes))
        .clone()
}

fn suggestion<'a>(advice: &'a Advice, option: &str) -> &'a Suggestion {
    let one = advice.suggestions.iter().find(|one| one.option == option);
    one.unwrap_or_else(|| panic!("{option} is not suggested: {:#?}", advice.suggestions))
}

/// Lines at the end of a node's option file, until this goes away. The scripts read it anew for every copy.
struct Lines {
    file: PathBuf,
    before: String,
}

impl Lines {
    fn add(node: &GaleraNode, lines: &str) -> Self {
        let file = node.config();
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}\n{lines}\n")).unwrap();
        Self { file, before }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        fs::write(&self.file, &self.before).unwrap();
    }
}

/// A small file system in place of a directory, until this goes away.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(place: &'a Path, megabytes: u32) -> Self {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(place)
            .status()
            .unwrap();
        assert!(
            status.success(),
            "this test mounts a file system: it needs to be root"
        );
        Self(place)
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Everything that could be changed on a node: its settings, its accounts, its option file, the names in its data directory.
fn all_of(node: &GaleraNode) -> String {
    let mut names: Vec<_> = fs::read_dir(node.datadir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    // What runs changes by itself; the provider's options do not.
    let settings = node.query("SHOW GLOBAL VARIABLES WHERE Variable_name NOT IN ('gtid_binlog_pos', 'gtid_current_pos', 'timestamp')").unwrap();
    let accounts = node
        .query("SELECT * FROM mysql.global_priv ORDER BY 1, 2")
        .unwrap();
    format!(
        "{settings}\n{accounts}\n{}\n{names:?}",
        fs::read_to_string(node.config()).unwrap()
    )
}

#[test]
fn what_makes_a_copy_fail_is_found_before() {
    let options = GaleraOptions::new(ServerKind::MariaDb1011, 2)
        .sst(SstMethod::Mariabackup)
        .isolated();
    let cluster = servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
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
    down(&pair);
    // Last: it takes the joiner's data.
    a_copy_with_a_compressor_on_one_side_fails(&pair);
}

/// A cluster that is well: nothing fails, what could be better is said, and nothing was changed by looking.
fn well(pair: &Pair) {
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
    // No password is in what is told and kept, nor what the server makes of it.
    let config = fs::read_to_string(pair.donor.config()).unwrap();
    let password = config
        .lines()
        .find_map(|line| line.strip_prefix("wsrep_sst_auth=sst:"))
        .unwrap();
    let hash = pair
        .donor
        .query("SELECT PASSWORD('x')")
        .map(|_| "IDENTIFIED")
        .unwrap();
    for told in [
        format!("{advice:?}"),
        serde_json::to_string(&advice).unwrap(),
        fragment(&advice),
    ] {
        assert!(!told.contains(password) && !told.contains(hash), "{told}");
    }
    let cores = advice.nodes[0].machine.as_ref().unwrap().cores.unwrap();
    if cores > 1 {
        assert_eq!(
            suggestion(&advice, "backup-threads").better,
            cores.min(16).to_string()
        );
    }
    // How fast this network is nobody can tell, so compression is for people to decide.
    let programs = &advice.nodes[0].machine.as_ref().unwrap().programs;
    if programs.contains_key("zstd") || programs.contains_key("pigz") {
        for option in ["compressor", "decompressor"] {
            assert!(!suggestion(&advice, option).sure);
        }
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

/// What the server's own tool reads in a file that was written.
fn defaults(file: &Path, group: &str) -> String {
    let output = Command::new("my_print_defaults")
        .arg(format!("--defaults-file={}", file.display()))
        .arg(group)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The piece of an option file is one, and says what is suggested.
fn written(pair: &Pair) {
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
    // So long an absence that every rate needs more than is kept.
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
    // The nodes have options of the provider of their own, so each has a line of its own, and none of them counts.
    assert_eq!(defaults(&file, "mysqld"), "", "{:#?}", advice.suggestions);
    // Of one node alone it counts, and has all that the node had besides.
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

/// What could not be looked at is said.
fn unseen(pair: &Pair) {
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
    // A method whose script is not installed.
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
}

/// The account really logs in at the donor, as the option file has it.
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

    // Set while it runs, and in no file.
    let without = config.replace("wsrep_sst_auth", "#wsrep_sst_auth");
    fs::write(pair.donor.config(), without).unwrap();
    pair.finds(
        MistakeKind::Account,
        Effect::Unsafe,
        "after a restart it cannot give a copy",
    );
    fs::write(pair.donor.config(), &config).unwrap();
    pair.finds_nothing_that_fails();
}

/// A command in the network of a node.
fn within(node: &GaleraNode, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    let pid = node.pid().unwrap().expect("it runs");
    command
        .args(["--target", &pid.to_string(), "--net", "--"])
        .args(words);
    command
}

fn ports(pair: &Pair) {
    // Somebody else at the port.
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

    // What a firewall does that lets nothing out: no answer comes from the port.
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

    // An address of a network for documentation, which nobody has.
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
    exec(pair.joiner, "SET GLOBAL wsrep_sst_donor = 'nobody'");
    pair.finds(MistakeKind::DonorName, Effect::Fails, "names nobody");
    exec(pair.joiner, "SET GLOBAL wsrep_sst_donor = 'nobody,'");
    pair.finds(MistakeKind::DonorName, Effect::Unsafe, "names nobody");
    exec(
        pair.joiner,
        &format!("SET GLOBAL wsrep_sst_donor = '{}'", pair.donor.name()),
    );
    let advice = pair.advise();
    assert_eq!(
        suggestion(&advice, "wsrep_sst_donor").better,
        format!("{},", pair.donor.name())
    );
    exec(pair.joiner, "SET GLOBAL wsrep_sst_donor = ''");
}

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
    for name in ["sst_in_progress", "wsrep_sst.pid"] {
        fs::remove_file(datadir.join(name)).unwrap();
    }
    fs::remove_dir(datadir.join(".sst")).unwrap();
}

/// Another method needs other things: no account, and another program for TLS.
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
    if !has_stunnel {
        found(
            &advice,
            MistakeKind::MissingTool,
            Effect::Fails,
            "needs stunnel",
        );
    }
    exec(pair.donor, "ALTER USER sst@localhost ACCOUNT UNLOCK");
    for node in [pair.donor, pair.joiner] {
        exec(node, "SET GLOBAL wsrep_sst_method = 'mariabackup'");
    }
}

/// A joiner that is down: its option file and its file system tell.
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
    // And the other way round nobody is left to give one.
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

/// The finding is true: a copy is tried with the mistake, and fails. Without it one worked: the joiner came to its cluster by one.
fn a_copy_with_a_compressor_on_one_side_fails(pair: &Pair) {
    let lines = Lines::add(pair.donor, "[sst]\ncompressor=gzip -1");
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
    // The donor does not know yet that nobody listens any more, and would send what it has to whoever comes next.
    let gives = || {
        let state = pair.donor.query("SHOW STATUS LIKE 'wsrep_local_state'");
        state.unwrap().ends_with("\t2")
    };
    let before = gives();
    let advice = pair.advise();
    if before && gives() {
        found(
            &advice,
            MistakeKind::Busy,
            Effect::Unsafe,
            "it spoils the next one",
        );
    }
    assert!(!advice.fails(), "{:#?}", advice.mistakes);
}
