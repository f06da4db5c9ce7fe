//! Two nodes of a real cluster, and ways to misconfigure them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use refloat_cluster::Member;
use refloat_cluster::advise::{
    Advice, AdviseOptions, Candidate, Effect, Mistake, MistakeKind, Shown, Suggestion, advise,
};
use refloat_host::Host;
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, SstMethod};
use refloat_testkit::servers;
use refloat_wire::{ConnectOptions, Connection};

/// Starts a cluster of a donor and a joiner, each with its own network namespace.
pub fn two_nodes() -> EphemeralCluster {
    let options = GaleraOptions::new(servers::nodes(), 2)
        .sst(SstMethod::Mariabackup)
        .isolated();
    servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap()
}

pub fn connect(node: &GaleraNode) -> Connection {
    Connection::connect(&ConnectOptions::from_url(&node.url()).unwrap()).unwrap()
}

pub fn exec(node: &GaleraNode, sql: &str) {
    connect(node)
        .exec(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub fn candidates(cluster: &EphemeralCluster) -> Vec<Candidate> {
    let of = |node: &GaleraNode| Candidate {
        member: Member {
            name: node.name().to_owned(),
            connect: ConnectOptions::from_url(&node.url()).unwrap(),
            host: Some(Host::Local),
            datadir: Some(node.datadir()),
            log: None,
            defaults_file: Some(node.config()),
        },
        unit: None,
        shown: Shown::default(),
    };
    cluster.nodes().iter().map(of).collect()
}

/// A cluster whose first node gives a copy to its second.
pub struct Pair<'a> {
    pub cluster: &'a EphemeralCluster,
    pub donor: &'a GaleraNode,
    pub joiner: &'a GaleraNode,
}

impl Pair<'_> {
    pub fn advise(&self) -> Advice {
        self.advise_with(None)
    }

    pub fn advise_with(&self, window: Option<Duration>) -> Advice {
        let options = AdviseOptions {
            joiner: Some(self.joiner.name().to_owned()),
            window,
            sample: Duration::from_millis(50),
        };
        advise("test", &candidates(self.cluster), &options).unwrap()
    }

    /// Asserts that `advise` finds a mistake, the first of its kind.
    pub fn finds(&self, kind: MistakeKind, effect: Effect, words: &str) -> Mistake {
        let advice = self.advise();
        found(&advice, kind, effect, words)
    }

    pub fn finds_nothing_that_fails(&self) {
        let advice = self.advise();
        assert!(!advice.fails(), "{:#?}", advice.mistakes);
    }
}

pub fn found(advice: &Advice, kind: MistakeKind, effect: Effect, words: &str) -> Mistake {
    let one = advice
        .mistakes
        .iter()
        .find(|one| one.kind == kind && one.effect == effect && one.text.contains(words));
    one.unwrap_or_else(|| panic!("no {kind:?} says {words:?}: {:#?}", advice.mistakes))
        .clone()
}

pub fn suggestion<'a>(advice: &'a Advice, option: &str) -> &'a Suggestion {
    let one = advice.suggestions.iter().find(|one| one.option == option);
    one.unwrap_or_else(|| panic!("{option} is not suggested: {:#?}", advice.suggestions))
}

/// Lines at the end of a node's option file, removed on drop. The scripts reread it for every copy.
pub struct Lines {
    file: PathBuf,
    before: String,
}

impl Lines {
    pub fn add(node: &GaleraNode, lines: &str) -> Self {
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

/// A small file system mounted over a directory until this is dropped.
pub struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    pub fn mount(place: &'a Path, megabytes: u32) -> Self {
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

/// Everything on a node that could be changed: settings, accounts, option file, and the names in
/// the data directory.
pub fn all_of(node: &GaleraNode) -> String {
    let mut names: Vec<_> = fs::read_dir(node.datadir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    // These change by themselves on a running server; the provider's options do not.
    let settings = node.query("SHOW GLOBAL VARIABLES WHERE Variable_name NOT IN ('gtid_binlog_pos', 'gtid_current_pos', 'timestamp')").unwrap();
    let accounts = node
        .query("SELECT * FROM mysql.global_priv ORDER BY 1, 2")
        .unwrap();
    format!(
        "{settings}\n{accounts}\n{}\n{names:?}",
        fs::read_to_string(node.config()).unwrap()
    )
}

/// A command that runs in a node's network namespace.
pub fn within(node: &GaleraNode, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    let pid = node.pid().unwrap().expect("it runs");
    command
        .args(["--target", &pid.to_string(), "--net", "--"])
        .args(words);
    command
}
