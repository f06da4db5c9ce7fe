//! A server is backed up, restored and rebuilt from another one by the program.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{GaleraOptions, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{Run, command, sandbox_in, state_folder};
use crate::time_limits::KillOnDrop;

/// How long a cluster may take to be in step.
const LONG: Duration = Duration::from_secs(120);

const ROWS: &str = "CREATE DATABASE shop; USE shop;
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(100)) ENGINE=InnoDB;
    INSERT INTO t SELECT seq, MD5(seq) FROM seq_1_to_20000";

fn path(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_server_is_backed_up_restored_and_rebuilt() {
    let state = state_folder();
    let donor = servers::start(&servers::quick(ServerKind::MariaDb1011));
    servers::client(&donor, &[], ROWS.as_bytes()).unwrap();
    let expected = Snapshot::take(&mut servers::connect(&donor), Scope::default()).unwrap();
    let mut other = servers::start(&servers::quick(ServerKind::MariaDb1011));
    let (url, datadir) = (donor.socket_url(), path(&other.datadir()));
    let repo = path(&state.path().join("repo"));
    let key = path(&state.path().join("key"));
    let run = |args: &[&str]| {
        let connects = ["--no-defaults"];
        let connects: &[&str] = if args.contains(&"--from") {
            &connects
        } else {
            &[]
        };
        Run::of(command(state.path()).args(args).args(connects))
    };

    run(&["backups", "list", "--repo", &repo])
        .says("holds no repository")
        .exits(1);
    run(&["backups", "init", "--repo", &repo, "--key-file", &key]).exits(0);
    run(&["backup", "--from", &url, "--repo", &repo])
        .says("is encrypted, but no key was given")
        .exits(2);
    let kept = ["--repo", repo.as_str(), "--key-file", key.as_str()];
    let with = |args: &[&str]| run(&[args, &kept[..]].concat());
    with(&["backup", "--from", &url, "--desync"])
        .says("not a node of a Galera cluster")
        .exits(3);
    let made = with(&[
        "backup", "--from", &url, "--label", "one", "--gentle", "--level", "0",
    ])
    .exits(0);
    assert!(made.stdout.contains("label       one"), "{}", made.stdout);
    with(&["backup", "--from", &url, "--label", "one", "--level", "-5"])
        .says("already has a backup \"one\"")
        .exits(3);
    let listed = with(&["backups", "list", "--json"]).exits(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["about"]["server"]["vendor"], "MariaDB");
    with(&["backups", "verify"]).exits(0);

    let restore = ["restore", "latest", "--to", &datadir, "--replace"];
    with(&restore).says("a server is running in").exits(3);
    other.stop().unwrap();
    with(&restore[..4]).says("is not empty").exits(3);
    with(&restore).exits(0);
    other.restart().unwrap();
    let same = |server: &refloat_sandbox::Instance| {
        let found = Snapshot::take(&mut servers::connect(server), Scope::default()).unwrap();
        let found = differences(&expected, &found);
        assert!(found.is_empty(), "{found:#?}");
    };
    same(&other);

    // The same from the running server, and nearly nothing has to be sent.
    other.query("DROP DATABASE shop").unwrap();
    other.stop().unwrap();
    let rebuild = ["rebuild", "--from", &url, "--to", &datadir, "--replace"];
    run(&[&rebuild[..], &["--start", "true", "--remove-old"]].concat())
        .says("--check")
        .exits(2);
    // The old data of the restore lie there already.
    let before = old_data(&other.datadir());
    let removes = ["--start", "exit 7", "--check", &url, "--remove-old"];
    run(&[&rebuild[..], &removes].concat())
        .says("could not be started")
        .exits(1);
    assert_eq!(old_data(&other.datadir()), before + 1);
    other.restart().unwrap();
    same(&other);
    other.stop().unwrap();
    killed_while_files_come(&state, &rebuild, &other.datadir());
    // An address of documentation (RFC 5737), which is no machine's.
    let elsewhere = ["--delta", "--listen", "192.0.2.1:0"];
    run(&[&rebuild[..], &elsewhere].concat())
        .says("192.0.2.1:0")
        .exits(1);
    let here = ["--delta", "--listen", "127.0.0.1:0"];
    let again = run(&[&rebuild[..], &here].concat()).exits(0);
    assert!(
        again.stdout.contains("were there already"),
        "{}",
        again.stdout
    );
    other.restart().unwrap();
    same(&other);
    the_other_end_leaves_no_record(&state);
    as_streams(&state, &kept, &url);
    with(&["backups", "prune", "--keep", "1"]).exits(0);
    what_cannot_be_read_hides_nothing_else(&state, &with);
    opened_by_age(&state, &kept);
    fs::remove_file(&key).unwrap();
    with(&["backups", "list"]).says("cannot read").exits(1);
}

/// A backup that is damaged. It can be removed.
fn what_cannot_be_read_hides_nothing_else(
    state: &tempfile::TempDir,
    with: &dyn Fn(&[&str]) -> Run,
) {
    fs::write(state.path().join("repo/backups/cut.json"), "{").unwrap();
    let cannot = "1 backup is damaged: cut";
    let listed = with(&["backups", "list"]).says(cannot).exits(4).stdout;
    assert!(listed.contains("one "), "{listed}");
    with(&["backups", "verify"])
        .says("backup one can be read")
        .says(cannot)
        .exits(4);
    with(&["backups", "prune", "--keep", "1"])
        .says("cut")
        .exits(4);
    with(&["backups", "remove", "none"])
        .says("has no backup")
        .exits(1);
    with(&["backups", "remove", "cut"]).exits(0);
    with(&["backups", "list"]).exits(0);
}

fn the_other_end_leaves_no_record(state: &tempfile::TempDir) {
    for run in fs::read_dir(state.path().join("runs")).unwrap().flatten() {
        let record = fs::read_to_string(run.path().join("run.json")).unwrap();
        assert!(!record.contains("serve-host"), "{record}");
    }
}

/// A rebuild is killed. What it had got does not come again.
fn killed_while_files_come(state: &tempfile::TempDir, rebuild: &[&str], datadir: &Path) {
    let begin = |more: &[&str]| {
        let mut command = command(state.path());
        command.args(rebuild).arg("--no-defaults").args(more);
        command
    };
    let mut building = datadir.as_os_str().to_owned();
    building.push(".refloat-building");
    let incoming = Path::new(&building).join(".refloat-incoming");
    let arrived = || {
        let all = fs::read_dir(&incoming).into_iter().flatten().flatten();
        let sizes = all.filter_map(|entry| entry.metadata().ok());
        sizes.map(|found| found.blocks() * 512).sum::<u64>()
    };
    let running = KillOnDrop::start(&mut begin(&["--max-rate", "8MiB"]));
    wait_until("no files come", || arrived() > 3 << 20);
    // It would take ten seconds more.
    drop(running);
    let again = Run::of(&mut begin(&[])).exits(0);
    assert!(
        again.stdout.contains("were there already"),
        "{}",
        again.stdout
    );
}

/// A backup goes through a pipe, from the server and from the repository.
fn as_streams(state: &tempfile::TempDir, kept: &[&str], url: &str) {
    let [folder, cut, sealed, other] =
        ["other", "cut", "sealed", "key2"].map(|name| path(&state.path().join(name)));
    let files = ["made", "exported"].map(|name| state.path().join(name));
    let out = |args: &[&str], file: &Path| {
        let file = fs::File::create(file).unwrap();
        let output = command(state.path()).args(args).stdout(file).output();
        Run::new(output.unwrap())
    };
    let import = |repo: &str, file: &Path| {
        let mut import = command(state.path());
        import.args(["backups", "import", "--repo", repo]);
        let output = import.stdin(fs::File::open(file).unwrap()).output();
        Run::new(output.unwrap())
    };
    // Of the same key as the repository from which the other one comes.
    let made = ["backup", "--from", url, "--no-defaults", "--repo", "-"];
    out(
        &[&made[..], &["--label", "piped"], &kept[2..]].concat(),
        &files[0],
    )
    .says("label       piped")
    .exits(0);
    out(
        &[&["backups", "export", "one"][..], kept].concat(),
        &files[1],
    )
    .says("exported one")
    .exits(0);
    for file in &files {
        import(&folder, file).exits(0);
    }
    let there = |args: &[&str]| {
        let args = [args, &["--repo", &folder], &kept[2..]].concat();
        Run::of(command(state.path()).args(args))
    };
    let verified = there(&["backups", "verify"]).exits(0);
    assert!(
        verified.stdout.contains("2 backups can be read"),
        "{}",
        verified.stdout
    );
    import(&folder, &files[1])
        .says("already has a backup \"one\"")
        .exits(3);

    let whole = fs::read(&files[0]).unwrap();
    fs::write(&files[1], &whole[..whole.len() - 1]).unwrap();
    import(&cut, &files[1]).says("it ends early").exits(1);
    // It goes on in the repository that it has made.
    import(&cut, &files[0]).exits(0);
    run_other(state, &sealed, &other);
    import(&sealed, &files[0]).says("with another key").exits(3);
    let restore = ["restore", "latest", "--repo", "-", "--to", &folder];
    Run::of(command(state.path()).args(restore))
        .says("backups import")
        .exits(2);
}

/// Makes a repository with a key of its own.
fn run_other(state: &tempfile::TempDir, repo: &str, key: &str) {
    let init = ["backups", "init", "--repo", repo, "--key-file", key];
    Run::of(command(state.path()).args(init)).exits(0);
}

/// A repository with a key file gets a recipient of age, whose identity then opens it.
fn opened_by_age(state: &tempfile::TempDir, kept: &[&str]) {
    // Made for this test.
    let secret = "AGE-SECRET-KEY-1QK788SD46RGS9TNFYCQ9SUPDN95WM39PFEGZTAT6E9PZ9NYRWN7Q59RK7P";
    let who = "age1g65rs5edwddd5ynccdweqhrm2tqcwf0u7zmlezf6dz0wvm7wfeesvcp87k";
    let [mine, team, saved] = ["mine", "team", "saved"].map(|name| path(&state.path().join(name)));
    fs::write(&mine, format!("# mine\n{secret}\n")).unwrap();
    fs::write(&team, format!("# ours\n{who}\n")).unwrap();
    let repo = &kept[..2];
    let run = |args: &[&str], access: &[&str]| {
        Run::of(command(state.path()).args(args).args(repo).args(access))
    };
    let by_age = ["--identity", mine.as_str()];

    let secret_given = run(
        &["backups", "keys", "add", "--recipient", secret],
        &kept[2..],
    )
    .says("must stay secret")
    .exits(2);
    assert!(!secret_given.stderr.contains("KEY-1"));
    run(&["backups", "list"], &by_age)
        .says("for no recipient")
        .exits(2);
    run(
        &["backups", "keys", "add", "--recipient-file", &team],
        &kept[2..],
    )
    .exits(0);
    let listed = run(&["backups", "keys", "list"], &[]).exits(0);
    assert_eq!(listed.stdout, format!("{who}\n"));
    let listed = run(&["backups", "list"], &by_age).exits(0);
    assert!(listed.stdout.contains("one "), "{}", listed.stdout);
    run(&["backups", "keys", "save", &saved], &by_age).exits(0);
    assert_eq!(fs::read(saved).unwrap(), fs::read(kept[3]).unwrap());
    run(&["backups", "keys", "remove", "--recipient", who], &by_age)
        .says("opens the repository without it")
        .exits(2);
    run(
        &["backups", "keys", "remove", "--recipient", who],
        &kept[2..],
    )
    .exits(0);
}

/// A replica that is lost is rebuilt from its source while that is written to, and replicates from
/// where its files are of.
#[test]
fn a_rebuilt_server_replicates_from_its_donor() {
    replicates(ServerKind::MariaDb1011, "0-1-");
}

/// The same by the clone plugin, with GTIDs and without: nothing runs at the donor's.
// Hazard of files: P-11, P-23 a rebuilt replica has a `server_uuid` of its own, and starts at the
//   position of its files, while the donor is written to: by GTID and by file and position
#[test]
fn a_rebuilt_mysql_server_replicates_from_its_donor() {
    replicates(ServerKind::MySql97, ":1-");
}

/// Rebuilds a replica twice, first with a wrong password. Its place is then called like this.
fn replicates(kind: ServerKind, place: &str) {
    let state = state_folder();
    let is_mysql = kind == ServerKind::MySql97;
    let with = |id: &str| {
        let options = servers::quick(kind).option("log_bin", "binlog");
        let options = options.option("server_id", id);
        if !is_mysql {
            return options;
        }
        let options = options.option("enforce_gtid_consistency", "ON");
        options.option("gtid_mode", "ON")
    };
    let donor = servers::start(&with("1"));
    let sql = |text: &str| servers::client(&donor, &[], text.as_bytes()).unwrap();
    if is_mysql {
        sql("INSTALL PLUGIN clone SONAME 'mysql_clone.so'; SET PERSIST max_connections = 77");
    }
    sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(100))",
    );
    sql("CREATE USER repl@'%' IDENTIFIED BY 'it''s'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'");
    let mut other = servers::start(&with("2"));
    let set_connections = "SET PERSIST max_connections = 99";
    if is_mysql {
        other.query(set_connections).unwrap();
    }
    let uuid = |server: &refloat_sandbox::Instance| {
        server.query("SELECT @@server_uuid").unwrap_or_default()
    };
    let old = uuid(&other);
    other.stop().unwrap();
    let (started, password) = (state.path().join("started"), state.path().join("password"));
    fs::write(&password, "wrong\n").unwrap();
    let (datadir, check) = (path(&other.datadir()), other.socket_url());
    let (start, password_file) = (format!("touch {}", path(&started)), path(&password));
    let url = donor.url();
    let rebuild = |from: &str, more: &[&str]| {
        let mut command = command(state.path());
        command.args(["rebuild", "--no-defaults", "--from", from]);
        command.args(["--to", &datadir, "--replace"]).args(more);
        command.args(["--replica-user", "repl"]);
        command.args(["--replica-password-file", &password_file]);
        command.args(["--start", &start, "--check", &check]);
        command
    };
    let refused = Run::of(&mut rebuild(&donor.socket_url(), &["--delta"])).exits(3);
    let refused = refused.says("a replica cannot connect to");
    if is_mysql {
        refused.says("--delta does not apply");
    }
    let more: &[&str] = if is_mysql { &[] } else { &["--delta"] };
    let arrives = |other: &refloat_sandbox::Instance| {
        let rows = "SELECT COUNT(*), MAX(id), BIT_XOR(CRC32(text)) FROM shop.t";
        donor.query("DELETE FROM shop.t WHERE id % 3 = 0").unwrap();
        let begun = Instant::now();
        while other.query(rows).unwrap() != donor.query(rows).unwrap() {
            assert!(begun.elapsed() < LONG, "the changes do not arrive");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    for works in [false, true] {
        if is_mysql {
            let gtids = if works { "ON" } else { "ON_PERMISSIVE" };
            sql(&format!("SET GLOBAL gtid_mode = {gtids}"));
        }
        let run = while_written(&donor, rebuild(&url, more), || {
            if started.exists() {
                fs::remove_file(&started).unwrap();
                other.restart().unwrap();
            }
        });
        if works {
            let done = run.says(place).exits(0).stdout;
            assert!(done.contains("the server replicates"), "{done}");
            assert!(done.contains(", catch up "), "{done}");
            arrives(&other);
            break;
        }
        run.says("does not replicate").exits(1);
        fs::write(&password, "it's\n").unwrap();
        if is_mysql {
            // From a place in the donor's binary log, and it only lacks the password.
            let auto =
                "SELECT AUTO_POSITION FROM performance_schema.replication_connection_configuration";
            assert_eq!(other.query(auto).unwrap().trim(), "0");
            let again = "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'it''s'; START REPLICA";
            servers::client(&other, &[], again.as_bytes()).unwrap();
            arrives(&other);
        }
        other.stop().unwrap();
    }
    if is_mysql {
        let persisted = fs::read_to_string(other.datadir().join("mysqld-auto.cnf")).unwrap();
        assert!(
            persisted.contains("\"99\""),
            "what was set there stays: {persisted}"
        );
        let new = uuid(&other);
        assert!(new != old && new != uuid(&donor), "{new}");
    }
}

/// Runs the program while the donor is written to, and does something all the time.
fn while_written(
    donor: &refloat_sandbox::Instance,
    mut command: Command,
    mut each: impl FnMut(),
) -> Run {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = servers::connect(donor);
            while !over.load(Ordering::Relaxed) {
                let row = "INSERT INTO shop.t (text) VALUES (UUID())";
                conn.exec(row).unwrap();
            }
        });
        let run = scope.spawn(|| Run::of(&mut command));
        while !run.is_finished() {
            each();
            std::thread::sleep(Duration::from_millis(20));
        }
        let run = run.join();
        over.store(true, Ordering::Relaxed);
        run.unwrap()
    })
}

/// A node that was down is rebuilt while the others write, and joins by IST.
#[test]
fn a_node_is_rebuilt_and_joins_by_ist() {
    let state = state_folder();
    let sandbox = sandbox_in(state.path());
    let cluster = sandbox
        .start_cluster_ephemeral(&GaleraOptions::new(servers::nodes(), 2))
        .expect("a cluster starts");
    let [donor, node] = [0, 1].map(|at| &cluster.nodes()[at]);
    let tool = servers::program(donor, "mariadb-backup", state.path());
    servers::client(donor, &[], ROWS.as_bytes()).unwrap();
    node.stop().unwrap();
    // What it had is of no use any more.
    fs::remove_file(node.datadir().join("ibdata1")).unwrap();
    fs::remove_file(node.datadir().join("grastate.dat")).unwrap();
    let log = fs::read_to_string(node.error_log()).unwrap().len();

    let over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = servers::connect(donor);
            while !over.load(Ordering::Relaxed) {
                conn.exec("INSERT INTO shop.t (text) VALUES ('meanwhile')")
                    .unwrap();
            }
        });
        let start = format!(
            "REFLOAT_STATE_DIR={} {} sandbox node start {}",
            state.path().display(),
            env!("CARGO_BIN_EXE_refloat"),
            node.name()
        );
        let list = path(&cluster.toml());
        let mut rebuild = command(state.path());
        rebuild.args(["rebuild", "--no-defaults", "--cluster", &list]);
        rebuild.args(["--to", &path(&node.datadir()), "--replace"]);
        rebuild.arg("--tool").arg(&tool);
        rebuild.arg("--donor-tool").arg(&tool);
        rebuild.args(["--start", &start, "--check", &node.socket_url()]);
        rebuild.args(["--desync", "--gentle", "--remove-old"]);
        // Slow enough to be seen.
        rebuild.args(["--max-rate", "8MiB"]);
        let run = scope.spawn(move || Run::of(&mut rebuild));
        let (mut page, mut seen) = (String::new(), [false; 3]);
        while !run.is_finished() {
            let mut status = command(state.path());
            page = Run::of(status.args(["cluster", "status", "--cluster", &list])).stdout;
            seen[0] |= page.contains("is rebuilt (");
            seen[1] |= page.contains("desync, is copied (");
            seen[2] |= page
                .lines()
                .any(|line| line.contains("copied (") && line.contains(" left)"));
        }
        over.store(true, Ordering::Relaxed);
        assert!(seen == [true; 3], "{seen:?}: {page}");
        run.join().unwrap()
    });
    let done = done
        .says("the donor is galera-1: applications write to it")
        .exits(0);
    // The donor was allowed to fall behind meanwhile.
    let desync = donor.query("SELECT @@wsrep_desync").unwrap();
    assert_eq!(desync.trim(), "0");
    let runs = fs::read_dir(state.path().join("runs")).unwrap();
    let changed = runs.filter(|run| {
        let journal = run.as_ref().unwrap().path().join("settings.json");
        fs::read_to_string(journal).is_ok_and(|text| text.contains("wsrep_desync"))
    });
    assert_eq!(changed.count(), 1);
    assert!(
        done.stdout.contains("and the server runs"),
        "{}",
        done.stdout
    );
    let log = fs::read_to_string(node.error_log()).unwrap().split_off(log);
    assert!(log.contains("IST received"), "{log}");
    assert_eq!(old_data(&node.datadir()), 0);

    // A backup sets it, too, and puts it back.
    let mut backup = command(state.path());
    backup.args(["backup", "--no-defaults", "--from", &donor.socket_url()]);
    backup.args(["--repo", &path(&state.path().join("repo")), "--desync"]);
    backup.arg("--tool").arg(&tool);
    let desync = || donor.query("SELECT @@wsrep_desync").unwrap().trim() == "1";
    let mut was_desynced = false;
    while_written(donor, backup, || was_desynced |= desync()).exits(0);
    assert!(was_desynced && !desync());

    let rows = |node: &refloat_sandbox::GaleraNode| {
        node.query("SELECT COUNT(*), MAX(id), BIT_XOR(CRC32(text)) FROM shop.t")
            .unwrap_or_default()
    };
    let begun = Instant::now();
    while rows(donor) != rows(node) {
        assert!(begun.elapsed() < LONG, "{} {}", rows(donor), rows(node));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How many directories of old data lie beside one.
fn old_data(datadir: &Path) -> usize {
    let name = path(Path::new(datadir.file_name().unwrap()));
    let all = fs::read_dir(datadir.parent().unwrap()).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let of_it = names.filter(|found| found.starts_with(&format!("{name}.refloat-")));
    of_it.count()
}

/// Whose servers they are backs them up, restores them and rebuilds them.
#[test]
fn nobody_has_to_be_root() {
    // As servers of distributions have it.
    let user = "mysql";
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("refloat");
    fs::copy(env!("CARGO_BIN_EXE_refloat"), &program).unwrap();
    let chown = Command::new("chown")
        .args([user, "--recursive"])
        .arg(place.path())
        .status();
    assert!(chown.unwrap().success());
    let at = |name: &str| path(&place.path().join(name));
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        command.arg(&program).args(args);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/bin");
        command.env("REFLOAT_STATE_DIR", at("state"));
        Run::of(command.current_dir("/"))
    };
    let servers = Servers(&run, ["donor", "other"]);
    for name in servers.1 {
        run(&["sandbox", "start", "--name", name]).exits(0);
    }
    let url = |name| {
        run(&["sandbox", "env", name, "--url"])
            .exits(0)
            .stdout
            .trim()
            .to_owned()
    };
    let (donor, other) = (url("donor"), url("other"));
    let ask = |url: &str, sql: &str| {
        let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
        let mut client = Command::new("mariadb");
        client.args([
            "--no-defaults",
            "-h127.0.0.1",
            "-uroot",
            "-N",
            "-P",
            port,
            "-e",
            sql,
        ]);
        let output = client.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    ask(&donor, ROWS);
    let (repo, to) = (at("repo"), at("state/sandbox/instances/other/data"));
    let kept = ["--repo", repo.as_str()];
    let from = ["--no-defaults", "--from", donor.as_str()];
    run(&[&["backup"][..], &from, &kept].concat()).exits(0);
    run(&[&["backups", "verify", "--restore"][..], &kept].concat()).exits(0);
    let start = format!(
        "REFLOAT_STATE_DIR={} {} sandbox restart other",
        at("state"),
        path(&program)
    );
    let target = [
        "--to",
        &to,
        "--replace",
        "--remove-old",
        "--start",
        &start,
        "--check",
        &other,
    ];
    for command in [
        [&["restore", "latest", "--no-defaults"][..], &kept].concat(),
        [&["rebuild"][..], &from].concat(),
    ] {
        run(&["sandbox", "stop", "other"]).exits(0);
        run(&[&command[..], &target].concat()).exits(0);
        let rows = "SELECT COUNT(*), BIT_XOR(CRC32(text)) FROM shop.t";
        assert_eq!(ask(&other, rows), ask(&donor, rows));
        ask(&other, "DROP DATABASE shop");
    }
}

/// Removes the servers that a program has started, when dropped.
struct Servers<'r>(&'r dyn Fn(&[&str]) -> Run, [&'r str; 2]);

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for name in self.1 {
            (self.0)(&["sandbox", "remove", name]);
        }
    }
}
