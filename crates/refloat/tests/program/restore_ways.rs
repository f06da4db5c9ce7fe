//! Which way `refloat cluster restore` takes, beside applications and where old data cannot be set
//! aside; on MariaDB 11.8.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use refloat_run::RunDir;
use refloat_run::events::{Outcome, RunResult};
use refloat_sandbox::{GaleraOptions, ServerKind, SstMethod};
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;
use serde_json::Value;

use crate::restore::{Place, ROWS};
use crate::support::{Run, among_own_mounts, command};
use crate::time_limits::KillOnDrop;

/// How many times as long as planned something may take, and the other way round.
const NEAR: f64 = 5.0;
/// Seconds that it may take besides, which no rate foretells: servers start, rows are proven, and
/// applications are given way.
const FIXED: f64 = 10.0;

/// The command without `--way`.
fn restore(place: &Place, args: &[&str]) -> Command {
    place.restore_of(&place.dump, &place.cluster.toml(), args)
}

fn run(mut command: Command) -> Run {
    Run::of(&mut command)
}

/// What a restore has recorded: its plan, and its result.
fn recorded(place: &Place, run: &Run) -> (Value, Value) {
    let last: Value = serde_json::from_str(run.stdout.lines().last().expect("a result"))
        .unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
    let runs = RunDir::list(place.state.path()).expect("runs");
    let newest = runs.iter().rfind(|dir| dir.has("restore.json"));
    let state: Value = newest
        .and_then(|dir| dir.read("restore.json").ok())
        .expect("the record of a restore");
    (state["plan"].clone(), last["outcome"]["summary"].clone())
}

/// Whether something took about as long as planned. That is wide: a rate is measured for a second,
/// other tests take their turns at the processors, and what is loaded here is little. Whole times
/// are compared all the same, because they are what is planned; where the rates come from is
/// asserted beside them.
fn is_near(planned: f64, took: f64) -> bool {
    took < planned * NEAR + FIXED && planned < took * NEAR
}

#[track_caller]
fn assert_near(what: &str, planned: &Value, took: &Value) {
    let both = planned.as_f64().zip(took.as_f64());
    let (planned, took) = both.unwrap_or_else(|| panic!("{what}: {planned} {took}"));
    assert!(
        is_near(planned, took),
        "{what} was planned with {planned} s and took {took} s"
    );
}

#[test]
fn forecasts_that_were_wrong_once_are_not_near() {
    // By a rate that was assumed, and by one into which fixed seconds had gone.
    for (planned, took) in [(2.4, 31.2), (254.0, 49.0)] {
        assert!(!is_near(planned, took), "{planned} {took}");
    }
}

#[test]
fn the_faster_way_is_taken_beside_applications_and_on_mount_points() {
    let options = GaleraOptions::new(ServerKind::MariaDb118, 3)
        .sst(SstMethod::Mariabackup)
        .node_provider_option(2, "gmcast.segment", "1")
        .node_provider_option(3, "gmcast.segment", "1");
    let place = Place::with(&options);
    place.all_are_in_step();
    another_backup_tool_is_found_first(&place);
    the_faster_way_is_taken(&place);
    let rates = applications_go_on(&place);
    what_is_not_proven_is_served_by_all(&place);
    refused_while_the_cluster_serves(&place);
    old_data_that_cannot_be_set_aside_are_given_up(&place, &rates);
}

/// The nodes' own mariadb-backup lies in the servers' tree. That of the machine's packages, which
/// the program finds first, is of another series.
fn another_backup_tool_is_found_first(place: &Place) {
    let version = place.ask(0, "SELECT VERSION()");
    let series = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let found = Command::new("sh")
        .args(["-c", "mariadb-backup --version 2>&1"])
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("a shell");
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(
        found.contains("MariaDB server ") && !found.contains(&format!("MariaDB server {series}.")),
        "the nodes are {version}, and the machine has: {found}"
    );
}

fn the_faster_way_is_taken(place: &Place) {
    let way = |args: &[&str]| {
        let plan = run(restore(place, &[&["--plan"], args].concat())).exits(0);
        let line = plan.stdout.lines().find(|line| line.contains("  way  "));
        line.unwrap_or_else(|| panic!("{}", plan.stdout)).to_owned()
    };
    let replicate = way(&["--load-rate", "1M", "--replicate-rate", "100M"]);
    assert!(
        replicate.ends_with("replicate: it takes less time, and the cluster keeps serving"),
        "{replicate}"
    );
    // A rate that was not measured decides nothing.
    let unknown = way(&["--load-rate", "100M", "--replicate-rate", "100K"]);
    assert!(
        unknown.contains("replicate: which way takes less time is not known"),
        "{unknown}"
    );
    let rates = ["--load-rate", "100M", "--replicate-rate", "100K"];
    let rebuild = way(&[&rates[..], &["--sst-rate", "100M"]].concat());
    assert!(
        rebuild.ends_with("rebuild: it takes less time"),
        "{rebuild}"
    );
    chosen_by_what_loads_have_shown(place);
    // Rows cannot be replicated to a node that is away, however fast that would be.
    place.node(2).stop().expect("it stops");
    let rebuild = way(&["--load-rate", "1M", "--replicate-rate", "100M"]);
    assert!(
        rebuild.contains("rebuild: not all nodes are in sync"),
        "{rebuild}"
    );
    run(restore(place, &["--way", "replicate"]))
        .exits(3)
        .says("not all nodes are in sync, so rows cannot be replicated to all");
    the_nearest_is_asked(place);
    place.node(2).start().expect("it starts");
    place.all_are_in_step();
}

/// Earlier loads from this machine, recorded without being asked to: one into a standalone server,
/// one into the cluster.
fn chosen_by_what_loads_have_shown(place: &Place) {
    let load = |seconds: f64, cluster: Option<&str>| {
        let dir = RunDir::create(place.state.path(), "load").expect("a run");
        let outcome = Outcome {
            result: RunResult::Done,
            seconds,
            message: None,
            hints: Vec::new(),
            summary: serde_json::json!({
                "target": "db1:3306", "resumed": null, "bytes": 1_u64 << 30, "seconds": seconds,
                "galera": cluster.map(|name| serde_json::json!({ "cluster": name })),
            }),
        };
        dir.write(RunDir::OUTCOME, &outcome).expect("an outcome");
        dir
    };
    let list = std::fs::read_to_string(place.cluster.toml()).expect("a list");
    let name = list.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.expect("a name").trim_matches('"');
    let plan = |more: &[&str]| {
        let args = [&["--plan", "--sst-rate", "100M"], more].concat();
        run(restore(place, &args)).exits(0).stdout
    };
    let runs = [load(10.0, None), load(10_240.0, Some(name))];
    let shown = "through replication 102 KiB/s (as in the last load into db1:3306)";
    let rebuild = plan(&["--load-rate", "100M"]);
    assert!(
        rebuild.contains("way       rebuild: it takes less time") && rebuild.contains(shown),
        "{rebuild}"
    );
    // A standalone server may be any server: its rate says nothing about this cluster.
    let unknown = plan(&[]);
    assert!(
        unknown.contains("replicate: which way takes less time is not known")
            && unknown.contains(&format!("load not measured, {shown}")),
        "{unknown}"
    );
    for dir in runs {
        std::fs::remove_dir_all(dir.path()).expect("it can be removed");
    }
    let replicate = plan(&[]);
    assert!(
        replicate.contains(
            "load not measured, through replication not measured, full copies 100 MiB/s (as given)"
        ),
        "{replicate}"
    );
}

/// A node that is down cannot say which segment it is in; its option files do.
fn the_nearest_is_asked(place: &Place) {
    let mut rejoin = command(place.state.path());
    let args = ["cluster", "rejoin", place.name(2), "--plan"];
    rejoin.args(args).args(["--no-defaults", "--cluster"]);
    rejoin.arg(place.cluster.toml());
    let plan = run(rejoin).exits(0).stdout;
    let asked = |head: &str| {
        let line = plan
            .lines()
            .find(|line| line.trim_start().starts_with(head));
        line.unwrap_or_else(|| panic!("{plan}")).to_owned()
    };
    assert!(asked("asks ").contains(place.name(1)), "{plan}");
    let far = asked("then ");
    assert!(
        far.contains(place.name(0)) && far.ends_with("it is in segment 0"),
        "{plan}"
    );
}

/// Nobody knows what the dump meant by a number that the server cuts off: the proof fails.
fn what_is_not_proven_is_served_by_all(place: &Place) {
    let dump = place.state.path().join("unlike.sql");
    let text = "-- MariaDB dump 10.19\nCREATE DATABASE unlike;\nUSE unlike;\n\
                SET SQL_MODE = '';\n\
                CREATE TABLE t (id INT PRIMARY KEY, v INT);\n\
                INSERT INTO t VALUES (1,1),(2,CAST('2b' AS SIGNED));\n-- Dump completed\n";
    std::fs::write(&dump, text).expect("a dump");
    let again = |args: &[&str]| run(place.restore_of(&dump, &place.cluster.toml(), args));
    again(&["--way", "replicate"])
        .exits(4)
        .says("all of them serve it");
    for at in 0..3 {
        let rows = "SET SESSION wsrep_sync_wait = 15; SELECT COUNT(*) FROM unlike.t";
        assert_eq!(place.ask(at, rows), "2", "node {at}");
    }
    again(&["--give-up"]).exits(0);
    place.ask(0, "DROP DATABASE unlike; DROP DATABASE refloat_load");
}

/// A dense sequence is written through every node during the load: no acknowledged row is missing.
/// Returns the rates that were measured before, by which the load was planned.
fn applications_go_on(place: &Place) -> Value {
    place.ask(
        0,
        "CREATE DATABASE app; CREATE TABLE app.seq (node INT, n INT, PRIMARY KEY (node, n))",
    );
    for at in 0..3 {
        place.ask(at, "SET SESSION wsrep_sync_wait = 15; SHOW TABLES FROM app");
    }
    let end = AtomicBool::new(false);
    let (done, written) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|at| {
                let mut conn = servers::connect(place.node(at));
                let end = &end;
                scope.spawn(move || {
                    let mut n = 0;
                    while !end.load(Ordering::Relaxed) {
                        conn.exec(format!("INSERT INTO app.seq VALUES ({at}, {})", n + 1))
                            .expect("the cluster serves");
                        n += 1;
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    n
                })
            })
            .collect();
        let _end = StopOnDrop(&end);
        // So slow that the other way is not taken, however slow this one turns out to be.
        let done = run(restore(place, &["--load-rate", "256K", "--json"]));
        end.store(true, Ordering::Relaxed);
        let written: Vec<i64> = writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer"))
            .collect();
        (done, written)
    });
    let (plan, done) = recorded(place, &done.exits(0));
    assert_eq!(done["loaded"]["tables"], 1, "{done}");
    let mut others = done["nodes"].as_array().expect("nodes").iter();
    let is_same = others.all(|node| node["same"] == true || node["name"] == done["node"]);
    assert!(is_same, "{done}");
    assert_eq!(
        plan["rates"]["replicate"]["from"]["what"], "tried",
        "{plan}"
    );
    assert_eq!(plan["rates"]["copy"]["from"]["what"], "tried", "{plan}");
    let planned = &plan["estimates"]["replicate"];
    assert_near("the load", planned, &done["loaded"]["seconds"]);
    place.is_whole();
    for (at, written) in written.iter().enumerate() {
        assert!(*written > 0);
        let sql = format!("SELECT COUNT(*), MAX(n) FROM app.seq WHERE node = {at}");
        assert_eq!(place.ask(2 - at, &sql), format!("{written}\t{written}"));
    }
    assert_eq!(
        place.ask(1, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    plan["rates"].clone()
}

/// Runs the command where the data directories of the last two nodes are mount points.
fn on_mount_points(place: &Place, here: &Command) -> Run {
    let folders = [1, 2].map(|at| place.node(at).datadir());
    among_own_mounts(
        "mount --bind \"$0\" \"$0\" && mount --bind \"$1\" \"$1\"",
        [&folders[0], &folders[1]],
        here,
    )
}

/// What would make the load fail an hour later is found before any node stops.
fn refused_while_the_cluster_serves(place: &Place) {
    let runs = || std::fs::read_dir(place.state.path().join("runs")).map_or(0, Iterator::count);
    let before = runs();
    for way in ["rebuild", "replicate"] {
        run(restore(place, &["--way", way]))
            .exits(3)
            .says("database shop is not empty");
    }
    let text = std::fs::read_to_string(&place.dump).expect("the dump");
    let cut = place.state.path().join("cut.sql");
    std::fs::write(&cut, &text[..text.len() / 2]).expect("it can be written");
    let args = ["--way", "rebuild", "--replace"];
    run(place.restore_of(&cut, &place.cluster.toml(), &args))
        .exits(3)
        .says("cut.sql: the dump ends at byte")
        .says("Nothing was touched");
    let taken = TcpListener::bind(place.node(1).sst_address()).expect("the port is free");
    run(restore(place, &args))
        .exits(3)
        .says("full copies to the others would fail: ")
        .says(place.name(1))
        .says("--ignore-advice");
    // The node's next start would fail, whichever way it comes back.
    let maintain = |more: &[&str]| {
        let mut maintain = command(place.state.path());
        maintain.args(["cluster", "maintain", place.name(1)]);
        maintain.args(["--no-defaults", "--sample", "0.2s", "--cluster"]);
        maintain.arg(place.cluster.toml()).args(more);
        run(maintain)
    };
    let message = format!("it would not come back: {}: ", place.name(1));
    maintain(&["--", "true"])
        .exits(3)
        .says(&message)
        .says("--ignore-advice");
    let plan = maintain(&["--plan"]).exits(3).stdout;
    assert!(plan.contains(&message), "{plan}");
    maintain(&["--plan", "--ignore-advice"]).exits(0);
    drop(taken);
    maintain(&["--plan"]).exits(0);
    something_looks_after_servers(place, &args);
    nobody_has_room(place);
    nobody_can_start_it_alone(place, &args);
    assert_eq!(runs(), before, "nothing was begun");
    place.all_are_in_step();
}

/// Software that might start or stop a server again is named in a plan that stops servers.
fn something_looks_after_servers(place: &Place, args: &[&str]) {
    let keeper = place.state.path().join("supervisord");
    std::fs::copy("/bin/sleep", &keeper).expect("a copy");
    let running = KillOnDrop::start(Command::new(&keeper).arg("600"));
    let plan = run(restore(place, &[args, &["--plan"]].concat()));
    drop(running);
    let words = "runs supervisord (starts what has ended)";
    let plan = plan.exits(0).stdout;
    assert_eq!(plan.matches(words).count(), 3, "{plan}");
    std::fs::remove_file(&keeper).expect("it can be removed");
}

/// A dump larger than the file system of every node: each node that lacks room is named, with how
/// much, whichever way the restore takes.
// Hazard of clusters: Too little space for a dump, by either way: each node that lacks it is
//   named, and nodes that share a disk are added up
fn nobody_has_room(place: &Place) {
    let huge = place.state.path().join("huge.sql");
    std::fs::copy(&place.dump, &huge).expect("a copy");
    let file = std::fs::File::options().append(true).open(&huge);
    file.and_then(|file| file.set_len(8 << 40))
        .expect("a file with a hole");
    for (way, lacking) in [("rebuild", (1, 2)), ("replicate", (3, 0))] {
        let args = ["--way", way, "--replace"];
        let refused = run(place.restore_of(&huge, &place.cluster.toml(), &args));
        let stderr = refused.exits(3).stderr;
        let loaded = stderr.matches(" bytes free, and the dump takes about ");
        let copied = stderr.matches(" bytes, and a full copy takes about ");
        assert_eq!((loaded.count(), copied.count()), lacking, "{stderr}");
        for at in 0..3 {
            assert!(
                stderr.contains(&format!("{} has ", place.name(at))),
                "{stderr}"
            );
        }
    }
    // Room enough for each node, but not for all: their data share one disk.
    let free = Command::new("df")
        .args(["-B1", "--output=avail"])
        .arg(place.state.path())
        .output();
    let free = String::from_utf8(free.expect("df").stdout).expect("UTF-8");
    let free = free
        .lines()
        .nth(1)
        .and_then(|line| line.trim().parse().ok());
    let text = free.map(|free: u64| free / 5 * 2).expect("bytes");
    let file = std::fs::File::options().write(true).open(&huge);
    file.and_then(|file| file.set_len(text))
        .expect("a file with a hole");
    for way in ["rebuild", "replicate"] {
        let args = ["--way", way, "--replace", "--node", place.name(0)];
        let refused = run(place.restore_of(&huge, &place.cluster.toml(), &args));
        let stderr = refused.exits(3).stderr;
        let words = format!(
            "{} have their data on one disk: ",
            [0, 1, 2].map(|at| place.name(at)).join(", ")
        );
        assert!(stderr.contains(&words), "{stderr}");
        assert!(!stderr.contains("the dump takes about"), "{stderr}");
    }
    std::fs::remove_file(&huge).expect("it can be removed");
}

/// A list that says how nodes start and stop, but not how one bootstraps or stands alone.
fn nobody_can_start_it_alone(place: &Place, args: &[&str]) {
    let list = std::fs::read_to_string(place.cluster.toml()).expect("a list");
    let list: Vec<String> = list
        .lines()
        .filter(|line| !line.starts_with("control."))
        .map(|line| match line {
            "local = true" => "control = { start = \"true\", stop = \"true\" }".to_owned(),
            line => line.to_owned(),
        })
        .collect();
    let file = place.state.path().join("lacking.toml");
    std::fs::write(&file, list.join("\n")).expect("it can be written");
    let refused = run(place.restore_of(&place.dump, &file, args)).exits(3);
    for at in 0..3 {
        let words = format!("{}: no command ", place.name(at));
        assert!(
            refused.stderr.contains(&words),
            "{words}: {}",
            refused.stderr
        );
    }
}

/// The full copies that follow take about as long as those rates foretell.
fn old_data_that_cannot_be_set_aside_are_given_up(place: &Place, rates: &Value) {
    // Another kind of dump: a folder of compressed files.
    let dumped = place.state.path().join("dumped");
    let mut dump = command(place.state.path());
    dump.args(["dump", "--no-defaults", "--from", &place.node(0).url()]);
    dump.args(["--databases", "shop", "--out"]).arg(&dumped);
    run(dump).exits(0);
    let restore = |args: &[&str]| place.restore_of(&dumped, &place.cluster.toml(), args);
    // Any node at the newest position may be chosen. With this one, the others are those whose data
    // directories are mount points.
    let args = ["--way", "rebuild", "--replace", "--node", place.name(0)];
    let refused = on_mount_points(place, &restore(&args)).exits(3);
    for words in [
        "error: no node can set its old data aside, so nobody would have them any longer\n",
        "hint: Make room, or give them up with --discard-old.\n",
    ] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    place.all_are_in_step();
    let args = [&args[..], &["--discard-old"]].concat();
    let plan = on_mount_points(place, &restore(&[&args[..], &["--plan"]].concat()));
    let plan = plan.exits(0).stdout;
    for at in [1, 2] {
        let words = format!("{} loses its old data", place.name(at));
        assert!(plan.contains(&words), "{words}: {plan}");
    }
    let done = on_mount_points(place, &restore(&[&args[..], &["--json"]].concat()));
    let (_, done) = recorded(place, &done.exits(0));
    for at in [1, 2] {
        let joined = &done["nodes"][at]["joined"];
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{done}, {rates}"));
        let copy = number(&joined["copied"]) / number(&rates["copy"]["bytes_per_second"]);
        let planned = Value::from(number(&rates["restart_seconds"]) + copy);
        assert_near("a full copy", &planned, &joined["join_seconds"]);
    }
    place.is_whole();
    assert_eq!(
        place.ask(1, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    let kept = |folder: &Path| {
        let names = std::fs::read_dir(folder).expect("a folder");
        names
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .any(|name| name.starts_with("data.refloat-"))
    };
    assert!([0, 1, 2].iter().all(|at| !kept(place.node(*at).folder())));
}
