//! Nodes that are units of a real systemd are restored, maintained and brought back by it.

// Hazard of copies: A unit of systemd that does not wait as long as a copy takes, of a real
//   systemd; the suggested lines help; servers ask for more time, and when they first do (slow) | ,
//   unit tests
// Hazard of clusters: Units of a real systemd, on this machine and by ssh: run standalone, crash,
//   bootstrap, join; the journal shows how a node came back; nothing of one start is left for the
//   next

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::systemd::Systemd;

use crate::restore::{Place, ROWS, as_it_was_started};
use crate::support::{Run, command};

/// Units like those of MariaDB's package: the extra options of a single start come in variables.
fn units(place: &Place, systemd: &Systemd) -> PathBuf {
    let mut list = "name = \"units\"\n".to_owned();
    for (at, node) in place.cluster.nodes().iter().enumerate() {
        // As with MariaDB's package, servers log to the journal. The first node, which is loaded
        // into, has a log file, as others configure it.
        let log = if at == 0 {
            let file = node.folder().join("tmp/unit.log");
            format!("--log-error={}", file.display())
        } else {
            String::new()
        };
        let words: Vec<String> = as_it_was_started(node)
            .into_iter()
            // PIDs of the units' namespace mean nothing outside, so each unit has a pid file of its
            // own.
            .map(|word| match word.strip_prefix("--pid-file=") {
                Some(path) => format!("--pid-file={path}.unit"),
                None => word,
            })
            .collect();
        let name = node.name();
        let unit = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=notify\nExecStart={} {log} $MYSQLD_OPTS $_WSREP_NEW_CLUSTER $_WSREP_START_POSITION\n\
             Restart=on-abnormal\nRestartSec=1s\nSendSIGKILL=no\nTimeoutStartSec=120\n",
            words.join(" ")
        );
        systemd
            .unit(&format!("db-{name}.service"), &unit)
            .expect("a unit");
        let _ = write!(
            list,
            "\n[[node]]\nname = \"{name}\"\nurl = \"{}\"\ndatadir = \"{}\"\ncontrol = {{ systemd = \"db-{name}\" }}\n",
            node.url(),
            node.datadir().display()
        );
    }
    let file = place.state.path().join("units.toml");
    fs::write(&file, list).expect("a list can be written");
    file
}

/// The same list for another machine.
fn from_elsewhere(file: &Path) -> PathBuf {
    let list = fs::read_to_string(file).expect("a list");
    let list = list.replace("\ndatadir = ", "\nssh = \"machine\"\ndatadir = ");
    let file = file.with_file_name("from-elsewhere.toml");
    fs::write(&file, list).expect("a list can be written");
    file
}

/// Runs the program in the units' namespaces.
#[track_caller]
fn cluster(place: &Place, systemd: &Systemd, file: &Path, args: &[&str]) -> Run {
    let program = command(place.state.path());
    let mut inside = systemd.command(program.get_program());
    inside.env_clear();
    inside.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let (verb, rest) = args.split_first().expect("a command");
    // What follows `--` must stay last.
    let before_dashes = rest.iter().take_while(|arg| **arg != "--").count();
    inside
        .args(["cluster", verb])
        .args(&rest[..before_dashes])
        .args(["--no-defaults", "--cluster"])
        .arg(file)
        .args(&rest[before_dashes..]);
    Run::of(&mut inside)
}

/// Nodes that are units, and two ways to them.
struct Units<'a> {
    place: &'a Place,
    systemd: &'a Systemd,
    /// The list of the nodes.
    file: PathBuf,
    /// From another machine, ssh leads to the units, the files, and the journal with the servers'
    /// messages.
    ssh: &'a SshServer,
    /// The list for that machine.
    far: PathBuf,
}

impl Units<'_> {
    #[track_caller]
    fn run(&self, args: &[&str]) -> Run {
        cluster(self.place, self.systemd, &self.file, args)
    }

    /// Runs the program on another machine.
    #[track_caller]
    fn run_far(&self, args: &[&str]) -> Run {
        let (verb, rest) = args.split_first().expect("a command");
        let path = format!("{}:/usr/bin:/bin", self.ssh.bin().display());
        let mut program = command(self.place.state.path());
        program.env("PATH", path).args(["cluster", verb]);
        program.args(["--no-defaults", "--cluster"]).arg(&self.far);
        Run::of(program.args(rest))
    }

    fn exists(&self, path: &str) -> bool {
        let status = self.systemd.command("test").args(["-e", path]).status();
        status.expect("test can be run").success()
    }

    /// Whether the first node's unit is told to start it standalone.
    fn is_standalone(&self) -> bool {
        let name = self.place.name(0);
        self.exists(&format!(
            "/run/systemd/system/db-{name}.service.d/zz-refloat-standalone.conf"
        ))
    }

    /// As `systemctl show` prints it.
    fn property(&self, unit: &str, name: &str) -> String {
        let property = format!("--property={name}");
        let output = self.systemd.systemctl(["show", &property, "--value", unit]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The command line of a unit's server.
    fn words(&self, unit: &str) -> String {
        let pid = self.property(unit, "MainPID");
        let mut cat = self.systemd.command("cat");
        let words = cat.arg(format!("/proc/{pid}/cmdline")).output();
        let words = words.expect("cat can be run").stdout;
        String::from_utf8_lossy(&words).replace('\0', " ")
    }

    #[track_caller]
    fn tell(&self, verb: &str, unit: &str) {
        let done = self.systemd.systemctl([verb, unit]);
        assert!(done.status.success(), "{done:?}");
    }

    #[track_caller]
    fn wait(&self, wanted: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !wanted() {
            assert!(begun.elapsed().as_secs() < 60, "{}", self.systemd.log());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
fn nodes_that_are_units_are_restored_and_come_back() {
    let place = Place::new();
    let systemd = Systemd::start();
    let file = units(&place, &systemd);
    for at in (0..3).rev() {
        place.node(at).stop().expect("it stops");
    }
    let dump = place.dump.to_string_lossy().into_owned();
    let (first, second) = (place.name(0), place.name(1));
    let restore = ["restore", &dump, "--way", "rebuild", "--node", first];
    let ssh = SshServer::as_unit_of(&systemd);
    let units = Units {
        place: &place,
        systemd: &systemd,
        far: from_elsewhere(&file),
        file,
        ssh: &ssh,
    };
    a_restore_is_given_up(&units, &restore);
    a_server_that_stands_alone_crashes(&units, &restore);
    a_restore_ends(&units, &restore);
    a_node_is_maintained(&units, second);
    a_stopped_node_comes_back(&units, second);
    waits_for_copies(&systemd, second, &|args: &[&str]| units.run(args));
    for at in (0..3).rev() {
        units.tell("stop", &format!("db-{}", place.name(at)));
    }
}

/// Nothing is left of it for the next start of the unit.
fn a_restore_is_given_up(units: &Units<'_>, restore: &[&str]) {
    units
        .run(&[restore, &["--stop-before", "load"]].concat())
        .exits(5);
    assert!(units.is_standalone(), "it would come up as a member");
    units.run(&[restore, &["--give-up"]].concat()).exits(0);
    assert!(!units.is_standalone(), "it would stand alone");
}

/// Systemd restarts it, standalone again.
fn a_server_that_stands_alone_crashes(units: &Units<'_>, restore: &[&str]) {
    // All nodes are down, so what would make copies fail cannot be seen.
    let alone = units
        .run_far(&[restore, &["--stop-before", "bootstrap"]].concat())
        .exits(5);
    assert!(
        alone.stderr.contains("has Restart=on-abnormal"),
        "{}",
        alone.stderr
    );
    assert!(units.is_standalone(), "it would come up as a member");
    assert!(units.place.node(0).query("SELECT 1").is_err());
    let unit = format!("db-{}.service", units.place.name(0));
    let pid = || units.property(&unit, "MainPID");
    let before = pid();
    let killed = units
        .systemd
        .systemctl(["kill", "--signal=KILL", "--kill-whom=main", &unit]);
    assert!(killed.status.success(), "{killed:?}");
    units.wait(|| ![&before, "0"].contains(&pid().as_str()));
}

/// Nothing of one start is left for the next.
fn a_restore_ends(units: &Units<'_>, restore: &[&str]) {
    let place = units.place;
    units
        .run_far(&[restore, &["--stop-before", "rejoin"]].concat())
        .exits(5);
    // Wait for the copies from this machine: each look by ssh takes time.
    units.run(restore).exits(0);
    place.is_whole();
    let rows = "SET wsrep_sync_wait = 15; SELECT COUNT(*), SUM(id) FROM shop.t";
    for at in 0..3 {
        let all = format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2);
        assert_eq!(place.ask(at, rows), all);
    }
    assert!(!units.is_standalone());
    let environment = units.systemd.systemctl(["show-environment"]);
    let environment = String::from_utf8_lossy(&environment.stdout).into_owned();
    assert!(!environment.contains("WSREP"), "{environment}");
    units.tell("restart", &format!("db-{}", place.name(0)));
    place.all_are_in_step();
}

#[track_caller]
fn is_back_by_its_log(node: &str, run: &Run) {
    let back = run.stdout.starts_with(&format!("{node} is back by IST"));
    let known = run.stdout.contains("its log says that it continued from ");
    assert!(back && known, "{}", run.stdout);
}

/// The plan's donor is asked, and by this start alone.
fn a_node_is_maintained(units: &Units<'_>, node: &str) {
    assert_eq!(units.place.ask(1, "SELECT @@log_error"), "");
    let kept = units
        .run_far(&["maintain", node, "--sample", "0.5s", "--", "true"])
        .exits(0);
    is_back_by_its_log(node, &kept);
    let unit = format!("db-{node}.service");
    let asked = units.words(&unit);
    assert!(asked.contains(" --wsrep-sst-donor="), "{asked}");
    let donor = format!("/run/systemd/system/{unit}.d/zz-refloat-donor.conf");
    units.wait(|| {
        let environment = units.property(&unit, "Environment");
        !units.exists(&donor) && !environment.contains("wsrep-sst-donor")
    });
    units.tell("restart", &unit);
    let words = units.words(&unit);
    assert!(!words.contains("--wsrep-sst-donor="), "{words}");
}

/// From this machine, and from another one.
fn a_stopped_node_comes_back(units: &Units<'_>, node: &str) {
    units.tell("stop", &format!("db-{node}"));
    units
        .place
        .ask(0, "UPDATE shop.t SET v = 'meanwhile' WHERE id = 1");
    is_back_by_its_log(node, &units.run(&["rejoin", node]).exits(0));
    units.tell("stop", &format!("db-{node}"));
    is_back_by_its_log(node, &units.run_far(&["rejoin", node]).exits(0));
    units.place.is_whole();
}

/// Limits how long a start of the unit may take.
fn write_timeout(systemd: &Systemd, file: &str, limit: &str) {
    let script = "mkdir -p \"${1%/*}\" && printf '[Service]\\nTimeoutStartSec=%s\\n' \"$2\" >\"$1\" && systemctl daemon-reload";
    let mut shell = systemd.command("sh");
    let output = shell.args(["-c", script, "sh", file, limit]).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{output:?}");
}

/// A unit that does not wait for as long as a copy may take is named, and the suggested remedy
/// works.
fn waits_for_copies(systemd: &Systemd, node: &str, run: &impl Fn(&[&str]) -> Run) {
    let unit = format!("db-{node}.service");
    let advice = || run(&["advise", node, "--sample", "0.1"]).stdout;
    let words = format!("(TimeoutStartUSec of unit db-{node})");
    // The server asks systemd for more time before its limit.
    let usual = advice();
    assert!(!usual.contains(&words), "{usual}");
    write_timeout(
        systemd,
        &format!("/run/systemd/system/{unit}.d/short.conf"),
        "20",
    );
    let short = advice();
    assert!(
        short.contains(&format!("gives its start up after 20s {words}")),
        "{short}"
    );
    let (_, remedy) = short
        .split_once("TimeoutStartSec=infinity into ")
        .expect("a remedy");
    let file = remedy.split_whitespace().next().expect("a file");
    write_timeout(systemd, file, "infinity");
    let mended = advice();
    assert!(!mended.contains(&words), "{mended}");
}

/// The fact that the rules of `advise` rest on: during a copy a server asks systemd for more time,
/// for the first time after half a minute.
#[test]
#[ignore = "two minutes of waiting"]
fn systemd_waits_for_a_slow_copy_unless_its_time_is_over_before_the_server_asks() {
    const SCRIPT: &str = "/usr/bin/wsrep_sst_rsync";
    if servers::nodes() != ServerKind::MariaDb1011 {
        // Other versions have their script elsewhere.
        return;
    }
    let place = Place::new();
    let systemd = Systemd::start();
    units(&place, &systemd);
    let unit = format!("db-{}.service", place.name(2));
    place.node(2).stop().expect("it stops");
    // A slow script, mounted where the units are.
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("a folder for all");
    for name in ["wsrep_sst_rsync", "wsrep_sst_common"] {
        fs::copy(Path::new("/usr/bin").join(name), folder.path().join(name)).expect("a script");
    }
    let slow = folder.path().join("slow");
    fs::copy(SCRIPT, &slow).expect("a script");
    let text = format!(
        "#!/bin/bash\nsleep 75\nexec {}/wsrep_sst_rsync \"$@\"\n",
        folder.path().display()
    );
    fs::write(&slow, text).expect("a script");
    let mut mount = systemd.command("mount");
    let mounted = mount.arg("--bind").arg(&slow).arg(SCRIPT).status();
    assert!(mounted.expect("mount can be run").success());

    let limit = format!("/run/systemd/system/{unit}.d/limit.conf");
    write_timeout(&systemd, &limit, "40");
    let begun = std::time::Instant::now();
    let started = systemd.systemctl(["start", &unit]);
    assert!(started.status.success(), "{started:?} {}", systemd.log());
    assert!(begun.elapsed().as_secs() > 60, "{:?}", begun.elapsed());
    let stopped = systemd.systemctl(["stop", &unit]);
    assert!(stopped.status.success(), "{stopped:?}");

    write_timeout(&systemd, &limit, "20");
    let begun = std::time::Instant::now();
    let started = systemd.systemctl(["start", "--no-block", &unit]);
    assert!(started.status.success(), "{started:?}");
    let result = || {
        let output = systemd.systemctl(["show", "--property=Result", "--value", &unit]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    while result() != "timeout" {
        assert!(begun.elapsed().as_secs() < 60, "{}", result());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
