//! Nodes that are units of a real systemd: restored, maintained and brought back by it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::systemd::Systemd;

use crate::restore::{Place, ROWS, as_it_was_started};
use crate::support::{Run, command};

/// Units as MariaDB's package has them: what a start has more than others comes by variables.
fn units(place: &Place, systemd: &Systemd) -> PathBuf {
    let mut list = "name = \"units\"\n".to_owned();
    for (at, node) in place.cluster.nodes().iter().enumerate() {
        // As MariaDB's package has it, what a server says goes to the journal. The chosen node has a file, as others have.
        let log = if at == 0 {
            let file = node.folder().join("tmp/unit.log");
            format!("--log-error={}", file.display())
        } else {
            String::new()
        };
        let words: Vec<String> = as_it_was_started(node)
            .into_iter()
            // Numbers of its processes say nothing outside of it.
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

/// The same list for somebody on another machine.
fn from_elsewhere(file: &Path) -> PathBuf {
    let list = fs::read_to_string(file).expect("a list");
    let list = list.replace("\ndatadir = ", "\nssh = \"machine\"\ndatadir = ");
    let file = file.with_file_name("from-elsewhere.toml");
    fs::write(&file, list).expect("a list can be written");
    file
}

/// Runs the program where the units are.
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
    // What is behind `--` is the last.
    let own = rest.iter().take_while(|arg| **arg != "--").count();
    inside
        .args(["cluster", verb])
        .args(&rest[..own])
        .args(["--no-defaults", "--cluster"])
        .arg(file)
        .args(&rest[own..]);
    Run::of(&mut inside)
}

#[test]
fn nodes_that_are_units_are_restored_and_come_back() {
    let place = Place::new();
    let systemd = Systemd::start();
    let file = units(&place, &systemd);
    for at in (0..3).rev() {
        place.node(at).stop().expect("it stops");
    }
    let (first, second) = (place.name(0).to_owned(), place.name(1).to_owned());
    let dump = place.dump.to_string_lossy().into_owned();
    let restore = ["restore", &dump, "--way", "rebuild", "--node", &first];
    let run = |args: &[&str]| cluster(&place, &systemd, &file, args);
    // From another machine: units, files and the journal, in which the server's words are, by ssh.
    let ssh = SshServer::as_unit_of(&systemd);
    let far = from_elsewhere(&file);
    let run_far = |args: &[&str]| {
        let (verb, rest) = args.split_first().expect("a command");
        let path = format!("{}:/usr/bin:/bin", ssh.bin().display());
        let mut program = command(place.state.path());
        program.env("PATH", path).args(["cluster", verb]);
        program.args(["--no-defaults", "--cluster"]).arg(&far);
        Run::of(program.args(rest))
    };

    let piece =
        |name: &str| format!("/run/systemd/system/db-{name}.service.d/zz-refloat-standalone.conf");
    let exists = |path: &str| {
        let status = systemd.command("test").args(["-e", path]).status();
        status.expect("test can be run").success()
    };

    // Here first, and given up: nothing of it is there for whoever starts the unit next.
    run(&[&restore[..], &["--stop-before", "load"]].concat()).exits(5);
    assert!(exists(&piece(&first)), "it would come up as a member");
    run(&[&restore[..], &["--give-up"]].concat()).exits(0);
    assert!(!exists(&piece(&first)), "it would stand alone");

    // All are down, so what would make copies fail cannot be seen.
    let alone = run_far(&[&restore[..], &["--stop-before", "bootstrap"]].concat()).exits(5);
    assert!(
        alone.stderr.contains("has Restart=on-abnormal"),
        "{}",
        alone.stderr
    );
    assert!(exists(&piece(&first)), "it would come up as a member");
    assert!(place.node(0).query("SELECT 1").is_err());
    // It crashes: systemd starts it again, and it stands alone again.
    let pid = || {
        let unit = format!("db-{first}.service");
        let said = systemd.systemctl(["show", "--property=MainPID", "--value", &unit]);
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    let before = pid();
    let killed = systemd.systemctl([
        "kill",
        "--signal=KILL",
        "--kill-whom=main",
        &format!("db-{first}.service"),
    ]);
    assert!(killed.status.success(), "{killed:?}");
    let begun = std::time::Instant::now();
    while pid() == before || pid() == "0" {
        assert!(begun.elapsed().as_secs() < 60, "{}", systemd.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }

    run_far(&[&restore[..], &["--stop-before", "rejoin"]].concat()).exits(5);
    // Copies are waited for here: each look by ssh takes its time.
    run(&restore).exits(0);
    place.is_whole();
    let rows = "SET wsrep_sync_wait = 15; SELECT COUNT(*), SUM(id) FROM shop.t";
    for at in 0..3 {
        let all = format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2);
        assert_eq!(place.ask(at, rows), all);
    }
    // Nothing of one start is there for the next.
    assert!(!exists(&piece(&first)));
    let environment = systemd.systemctl(["show-environment"]);
    let environment = String::from_utf8_lossy(&environment.stdout).into_owned();
    assert!(!environment.contains("WSREP"), "{environment}");
    let again = systemd.systemctl(["restart", &format!("db-{first}")]);
    assert!(again.status.success(), "{again:?}");
    place.all_are_in_step();

    assert_eq!(place.ask(1, "SELECT @@log_error"), "");
    let kept = run_far(&["maintain", &second, "--sample", "0.5s", "--", "true"]).exits(0);
    let by_its_log = |run: &Run| {
        let back = run.stdout.starts_with(&format!("{second} is back by IST"));
        let known = run.stdout.contains("its log says that it went on from ");
        assert!(back && known, "{}", run.stdout);
    };
    by_its_log(&kept);
    let unit = format!("db-{second}.service");
    let words = || {
        let said = systemd.systemctl(["show", "--property=MainPID", "--value", &unit]);
        let pid = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        let mut cat = systemd.command("cat");
        let words = cat.arg(format!("/proc/{pid}/cmdline")).output();
        let words = words.expect("cat can be run").stdout;
        String::from_utf8_lossy(&words).replace('\0', " ")
    };
    // The donor of the plan was asked, and by this start alone.
    let asked = words();
    assert!(asked.contains(" --wsrep-sst-donor="), "{asked}");
    let donor = format!("/run/systemd/system/{unit}.d/zz-refloat-donor.conf");
    let begun = std::time::Instant::now();
    let kept_for_the_next = || {
        let said = systemd.systemctl(["show", "--property=Environment", "--value", &unit]);
        exists(&donor) || String::from_utf8_lossy(&said.stdout).contains("wsrep-sst-donor")
    };
    while kept_for_the_next() {
        assert!(begun.elapsed().as_secs() < 60, "{}", systemd.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let again = systemd.systemctl(["restart", &unit]);
    assert!(again.status.success(), "{again:?}");
    assert!(!words().contains("--wsrep-sst-donor="), "{}", words());
    let stopped = systemd.systemctl(["stop", &format!("db-{second}")]);
    assert!(stopped.status.success(), "{stopped:?}");
    place.ask(0, "UPDATE shop.t SET v = 'meanwhile' WHERE id = 1");
    by_its_log(&run(&["rejoin", &second]).exits(0));
    let stopped = systemd.systemctl(["stop", &format!("db-{second}")]);
    assert!(stopped.status.success(), "{stopped:?}");
    by_its_log(&run_far(&["rejoin", &second]).exits(0));
    place.is_whole();
    waits_for_copies(&systemd, &second, &run);
    for at in (0..3).rev() {
        let unit = format!("db-{}", place.name(at));
        let stopped = systemd.systemctl(["stop", &unit]);
        assert!(stopped.status.success(), "{stopped:?}");
    }
}

/// Writes how long a start of a unit may take.
fn write_timeout(systemd: &Systemd, file: &str, limit: &str) {
    let script = "mkdir -p \"${1%/*}\" && printf '[Service]\\nTimeoutStartSec=%s\\n' \"$2\" >\"$1\" && systemctl daemon-reload";
    let mut shell = systemd.command("sh");
    let output = shell.args(["-c", script, "sh", file, limit]).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{output:?}");
}

/// A unit that does not wait as long as copies may take is named, and what is said to be written helps.
fn waits_for_copies(systemd: &Systemd, node: &str, run: &impl Fn(&[&str]) -> Run) {
    let unit = format!("db-{node}.service");
    let told = || run(&["advise", node, "--sample", "0.1"]).stdout;
    let words = format!("(TimeoutStartUSec of unit db-{node})");
    // The server asks for more time, in time.
    let usual = told();
    assert!(!usual.contains(&words), "{usual}");
    write_timeout(
        systemd,
        &format!("/run/systemd/system/{unit}.d/short.conf"),
        "20",
    );
    let short = told();
    assert!(
        short.contains(&format!("gives its start up after 20s {words}")),
        "{short}"
    );
    let (_, remedy) = short
        .split_once("TimeoutStartSec=infinity into ")
        .expect("a remedy");
    let file = remedy.split_whitespace().next().expect("a file");
    write_timeout(systemd, file, "infinity");
    let mended = told();
    assert!(!mended.contains(&words), "{mended}");
}

/// What the rules of `advise` rest on: a server asks systemd for more time while a copy comes, for the first time after half a minute.
#[test]
#[ignore = "two minutes of waiting"]
fn systemd_waits_for_a_slow_copy_unless_its_time_is_over_before_the_server_asks() {
    const SCRIPT: &str = "/usr/bin/wsrep_sst_rsync";
    if servers::nodes() != ServerKind::MariaDb1011 {
        // Others have their script elsewhere.
        return;
    }
    let place = Place::new();
    let systemd = Systemd::start();
    units(&place, &systemd);
    let unit = format!("db-{}.service", place.name(2));
    place.node(2).stop().expect("it stops");
    // A script that is slow, where the units are.
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
        let said = systemd.systemctl(["show", "--property=Result", "--value", &unit]);
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    while result() != "timeout" {
        assert!(begun.elapsed().as_secs() < 60, "{}", result());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
