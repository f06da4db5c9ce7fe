//! Settings on real servers: whatever happens in between, the server ends up as it was.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refloat_run::events::{EventSink, Record};
use refloat_run::probe::ServerProbe;
use refloat_run::settings::{
    AppliedSettings, Durability, Hints, Journal, JournalEntry, RevertReport, RevertResult,
    SST_DONOR, ServerMark, SettingsError, SettingsPlan, list, list_on_server, list_readable, plan,
    revert_on_server, revert_run, write_down_start,
};
use refloat_run::{Event, Events, RunDir};
use refloat_sandbox::{Ephemeral, Sandbox, ServerKind, StartOptions};
use refloat_wire::{ConnectOptions, Connection};

const MIB: u64 = 1 << 20;
/// How often settings are interrupted while they are changed.
const INTERRUPTIONS: usize = 30;

/// A server whose values leave something to change, and a state folder.
struct Lab {
    server: Ephemeral,
    state: tempfile::TempDir,
    _base: tempfile::TempDir,
}

impl Lab {
    fn start(kind: ServerKind) -> Self {
        // Servers that root starts run as another user, so the folder must be open to it.
        let base = tempfile::Builder::new()
            .prefix("rfl")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let cache = std::env::temp_dir().join("refloat-run-tests-cache");
        let mut options = StartOptions::new(kind)
            .option("innodb_io_capacity", "200")
            .option("innodb_adaptive_hash_index", "ON")
            .option("log_bin", "binlog")
            .option("server_id", "7")
            .option("sync_binlog", "1");
        if kind == ServerKind::MariaDb118 {
            // By default, the pool cannot grow there.
            options = options.option("innodb_buffer_pool_size_max", "4G");
        }
        let server = Sandbox::new(base.path())
            .with_cache_dir(cache)
            .start_ephemeral(&options)
            .unwrap();
        let state = tempfile::tempdir().unwrap();
        Self {
            server,
            state,
            _base: base,
        }
    }

    fn connect(&self) -> Connection {
        self.connect_as("root")
    }

    fn connect_as(&self, user: &str) -> Connection {
        Connection::connect(&ConnectOptions::tcp("127.0.0.1", self.server.port(), user)).unwrap()
    }

    fn run(&self) -> RunDir {
        RunDir::create(self.state.path(), "load").unwrap()
    }
}

fn apply(
    conn: &mut Connection,
    plan: &SettingsPlan,
    dir: &RunDir,
    events: &Events,
) -> Result<AppliedSettings, SettingsError> {
    let mut applied = AppliedSettings::new(dir);
    applied.apply(conn, plan, events).map(|()| applied)
}

fn variables(conn: &mut Connection) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for what in [
        "SHOW GLOBAL VARIABLES",
        "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'",
    ] {
        let result = conn.query(what).unwrap();
        for row in 0..result.len() {
            all.insert(
                result.str(row, 0).unwrap().to_owned(),
                result.str(row, 1).unwrap_or_default().to_owned(),
            );
        }
    }
    // Values that change by themselves.
    all.retain(|name, _| !name.to_ascii_lowercase().starts_with("gtid") && name != "timestamp");
    all
}

fn databases(conn: &mut Connection) -> Vec<String> {
    conn.query("SHOW DATABASES")
        .unwrap()
        .texts(0)
        .map(str::to_owned)
        .collect()
}

fn hints() -> Hints {
    Hints {
        // A dump large enough for every setting to be worth changing.
        dump_bytes: Some(5000 * MIB),
        server_memory_available: Some(800 * MIB),
        allow_local_infile: true,
        ..Hints::default()
    }
}

fn disposable(conn: &mut Connection) -> SettingsPlan {
    plan(conn, Durability::Disposable, &hints()).unwrap()
}

fn quiet() -> Events {
    Events::new()
}

/// Makes the journals of a run look like those of a killed process.
fn kill_owner(lab: &Lab, dir: &RunDir) {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let mut journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    journal.owner.pid = pid;
    journal.owner.pid_start = 1;
    dir.write(RunDir::SETTINGS, &journal).unwrap();
    if journal.row {
        let mut hex = String::new();
        for b in serde_json::to_vec(&journal).unwrap() {
            write!(hex, "{b:02x}").unwrap();
        }
        let statement = format!(
            "UPDATE refloat.settings_journal SET journal=x'{hex}' WHERE run='{}'",
            journal.run
        );
        lab.connect().exec(statement).unwrap();
    }
}

fn result_of<'a>(report: &'a RevertReport, name: &str) -> &'a RevertResult {
    &report
        .settings
        .iter()
        .find(|s| s.name == name)
        .unwrap()
        .result
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl EventSink for Heard {
    fn event(&self, record: &Record) {
        self.0.lock().unwrap().push(record.event.clone());
    }
}

fn on_every_server(test: impl Fn(&mut Lab)) {
    for kind in ServerKind::ALL {
        eprintln!("--- {}", kind.name());
        test(&mut Lab::start(kind));
    }
}

#[test]
fn settings_on_real_servers() {
    // One server per kind for all cases. Each case must leave it as it was, which the next one
    // checks.
    on_every_server(|lab| {
        let before = variables(&mut lab.connect());
        let schemas = databases(&mut lab.connect());
        for (name, case) in CASES {
            eprintln!("    {name}");
            case(lab);
            let mut conn = lab.connect();
            let after = variables(&mut conn);
            let changed: Vec<_> = before
                .iter()
                .filter(|(k, v)| after.get(*k) != Some(v))
                .collect();
            assert!(
                changed.is_empty(),
                "{name} left these changed (with their old values): {changed:?}"
            );
            assert_eq!(databases(&mut conn), schemas, "{name} left a schema");
            assert!(
                list(lab.state.path()).unwrap().is_empty(),
                "{name} left a journal open"
            );
        }
    });
}

type Case = (&'static str, fn(&mut Lab));

const CASES: &[Case] = &[
    ("its process is found", found),
    ("keep", keep),
    ("apply and revert", apply_and_revert),
    ("killed, from the folder alone", killed_folder),
    ("killed, from the row alone", killed_row),
    ("killed before the changes were confirmed", killed_early),
    ("killed while the journal was removed", killed_removing),
    ("killed while the pool was made small", killed_shrinking),
    ("interrupted at any moment", interrupted),
    ("the next run puts back first", next_run),
    ("two runs at once", two_runs),
    ("changed by someone else", changed_by_someone_else),
    ("missing privileges", privileges),
    ("another server's journal", wrong_server),
    ("a hostile row", hostile_row),
    ("restarted meanwhile", restarted),
];

#[track_caller]
fn all_are_reverted(report: &RevertReport) {
    assert!(
        report
            .settings
            .iter()
            .all(|s| s.result == RevertResult::Reverted),
        "{report:?}"
    );
}

fn found(lab: &mut Lab) {
    let probe = ServerProbe::find(lab.connect().identity()).expect("it runs here");
    assert_eq!(Some(probe.pid()), lab.server.pid());
    assert!(probe.usage().unwrap().cpu_seconds > 0.0);
}

fn keep(lab: &mut Lab) {
    let mut conn = lab.connect();
    let plan = plan(&mut conn, Durability::Keep, &hints()).unwrap();
    assert!(plan.changes.is_empty());
    assert!(!plan.advice.is_empty());
    let dir = lab.run();
    let mut applied = apply(&mut conn, &plan, &dir, &quiet()).unwrap();
    assert!(!dir.has(RunDir::SETTINGS));
    assert_eq!(applied.revert(&mut conn, &quiet()).unwrap(), None);
}

fn apply_and_revert(lab: &mut Lab) {
    let mut conn = lab.connect();
    let plan = disposable(&mut conn);
    let names: Vec<_> = plan.changes.iter().map(|c| c.name.as_str()).collect();
    let mut expected = vec![
        "innodb_buffer_pool_size",
        "innodb_flush_log_at_trx_commit",
        "innodb_io_capacity_max",
        "innodb_io_capacity",
        "sync_binlog",
        "innodb_adaptive_hash_index",
    ];
    if lab.server.kind().is_mariadb() {
        expected.push("innodb_log_file_size");
    } else {
        expected.extend([
            "innodb_redo_log_capacity",
            "innodb_doublewrite",
            "local_infile",
            "redo_log",
        ]);
    }
    for name in expected {
        assert!(
            names.contains(&name),
            "{name} is not in {names:?}\n{:?}",
            plan.skipped
        );
    }
    assert_eq!(plan.session.len(), 1, "{plan:?}");
    let heard = Arc::new(Heard::default());
    let events = Events::new();
    events.add(heard.clone());
    let dir = lab.run();
    let mut applied = apply(&mut conn, &plan, &dir, &events).unwrap();
    assert!(applied.skipped().is_empty(), "{:?}", applied.skipped());
    assert_eq!(applied.changes().count(), plan.changes.len());
    // Check from another session.
    let now = variables(&mut lab.connect());
    for change in applied.changes() {
        let read = match change.name.as_str() {
            "redo_log" => &now["Innodb_redo_log_enabled"],
            name => &now[name],
        };
        assert_eq!(Some(read), change.applied.as_ref(), "{}", change.name);
        assert_ne!(read, &change.old, "{}", change.name);
    }
    let counted = |f: fn(&Event) -> bool| heard.0.lock().unwrap().iter().filter(|e| f(e)).count();
    assert_eq!(
        counted(|e| matches!(e, Event::SettingChanged { .. })),
        plan.changes.len()
    );
    let open = list_on_server(&mut conn).unwrap();
    assert_eq!((open.len(), open[0].alive), (1, Some(true)));
    assert_eq!(
        list(lab.state.path()).unwrap()[0].journal,
        open[0].journal,
        "both places say the same"
    );

    let report = applied.revert(&mut conn, &events).unwrap().unwrap();
    assert!(report.complete && !report.restarted, "{report:?}");
    all_are_reverted(&report);
    assert_eq!(
        counted(|e| matches!(e, Event::SettingReverted { .. })),
        plan.changes.len()
    );
    assert!(!applied.is_open());
    assert_eq!(applied.revert(&mut conn, &events).unwrap(), None);
}

/// Applies settings, then loses everything but the journal.
fn abandoned(lab: &mut Lab) -> RunDir {
    let mut conn = lab.connect();
    let plan = disposable(&mut conn);
    let dir = lab.run();
    let applied = apply(&mut conn, &plan, &dir, &quiet()).unwrap();
    assert!(applied.is_open());
    dir
}

fn killed_folder(lab: &mut Lab) {
    let dir = abandoned(lab);
    let mut conn = lab.connect();
    // While the process is alive, nobody else may put its settings back.
    let mut journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    let owner = journal.owner.clone();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    journal.owner.pid = child.id();
    journal.owner.pid_start = 0;
    dir.write(RunDir::SETTINGS, &journal).unwrap();
    let refused = revert_run(&dir, &mut conn, &quiet(), true).unwrap_err();
    assert!(
        matches!(refused, SettingsError::StillRunning { .. }),
        "{refused}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    journal.owner = owner;
    journal.owner.host = "elsewhere".into();
    journal.owner.boot_id = "another".into();
    dir.write(RunDir::SETTINGS, &journal).unwrap();
    let refused = revert_run(&dir, &mut conn, &quiet(), false).unwrap_err();
    assert!(
        matches!(refused, SettingsError::OwnerUnknown { .. }),
        "{refused}"
    );

    kill_owner(lab, &dir);
    conn.exec("DROP DATABASE refloat").unwrap();
    let mut journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    journal.row = false;
    dir.write(RunDir::SETTINGS, &journal).unwrap();
    let report = revert_run(&dir, &mut conn, &quiet(), true)
        .unwrap()
        .unwrap();
    assert!(report.complete, "{report:?}");
    assert_eq!(revert_run(&dir, &mut conn, &quiet(), true).unwrap(), None);
}

fn killed_row(lab: &mut Lab) {
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    std::fs::remove_dir_all(dir.path()).unwrap();
    let mut conn = lab.connect();
    let (reports, refused) =
        revert_on_server(&mut conn, Some(lab.state.path()), &quiet(), false).unwrap();
    assert_eq!((reports.len(), refused.len()), (1, 0));
    assert!(
        reports[0].complete && reports[0].settings.len() > 5,
        "{reports:?}"
    );
}

fn killed_early(lab: &mut Lab) {
    let dir = abandoned(lab);
    // The journal as it was before the first change was confirmed.
    let mut journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    for change in &mut journal.changes {
        change.applied = None;
    }
    dir.write(RunDir::SETTINGS, &journal).unwrap();
    kill_owner(lab, &dir);
    let mut conn = lab.connect();
    let report = revert_run(&dir, &mut conn, &quiet(), false)
        .unwrap()
        .unwrap();
    all_are_reverted(&report);
}

/// Everything was back, but the process ended between dropping the table, dropping the schema, and
/// closing its folder.
fn killed_removing(lab: &mut Lab) {
    for gone in ["TABLE refloat.settings_journal", "DATABASE refloat"] {
        let dir = abandoned(lab);
        kill_owner(lab, &dir);
        let mut conn = lab.connect();
        conn.exec(format!("DROP {gone}")).unwrap();
        let report = revert_run(&dir, &mut conn, &quiet(), false)
            .unwrap()
            .unwrap();
        assert!(report.complete, "{gone}: {report:?}");
        assert!(!databases(&mut conn).contains(&"refloat".to_owned()));
    }
}

/// Ctrl-C kills the statement that is running; what it was may or may not have happened.
fn interrupted(lab: &mut Lab) {
    let before = variables(&mut lab.connect());
    let relaxed = plan(&mut lab.connect(), Durability::Relaxed, &hints()).unwrap();
    let interrupted = (0..1000_u64).filter(|round| {
        let dir = lab.run();
        let (mut conn, mut other) = (lab.connect(), lab.connect());
        let kill = format!("KILL QUERY {}", conn.server().connection_id);
        let over = AtomicBool::new(false);
        let mut applied = AppliedSettings::new(&dir);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(round * 791 % 10_000));
                while !over.load(Ordering::Relaxed) {
                    other.exec(&*kill).unwrap();
                }
            });
            let result = applied.apply(&mut conn, &relaxed, &quiet());
            over.store(true, Ordering::Relaxed);
            result
        });
        drop(conn);
        applied.revert(&mut lab.connect(), &quiet()).unwrap();
        let now = variables(&mut lab.connect());
        for (name, value) in &before {
            assert_eq!(now.get(name), Some(value), "{name}: {round}, {result:?}");
        }
        result.is_err()
    });
    assert_eq!(interrupted.take(INTERRUPTIONS).count(), INTERRUPTIONS);
}

/// A pool that shrinks in one go considers itself full in the meantime, and refuses changes by
/// others.
fn killed_shrinking(lab: &mut Lab) {
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    let mut conn = lab.connect();
    let size = |conn: &mut Connection| {
        let size = conn.query_value("SELECT @@GLOBAL.innodb_buffer_pool_size");
        size.unwrap().unwrap().parse::<u64>().unwrap()
    };
    // The first of the steps at which it could have been killed.
    let large = size(&mut conn);
    assert!(large >= 512 * MIB, "{large}");
    let unit = if lab.server.kind().is_mariadb() {
        MIB
    } else {
        128 * MIB
    };
    let step = (large - large / 8 * 3).next_multiple_of(unit);
    conn.exec(format!("SET GLOBAL innodb_buffer_pool_size = {step}"))
        .unwrap();
    while size(&mut conn) == large {
        std::thread::sleep(Duration::from_millis(20));
    }
    conn.exec("SET GLOBAL log_output = 'TABLE', general_log = ON")
        .unwrap();
    let report = revert_run(&dir, &mut conn, &quiet(), false)
        .unwrap()
        .unwrap();
    conn.exec("SET GLOBAL general_log = OFF, log_output = 'FILE'")
        .unwrap();
    assert!(report.complete, "{report:?}");
    all_are_reverted(&report);
    let set = "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE CONVERT(argument USING utf8mb4) LIKE 'SET GLOBAL%innodb\\_buffer\\_pool\\_size%' ORDER BY event_time";
    let sizes: Vec<u64> = conn
        .query(set)
        .unwrap()
        .texts(0)
        .map(|sql| sql.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(sizes.len() >= 2, "{sizes:?}");
    assert_eq!(sizes.last(), Some(&size(&mut conn)));
    let mut before = step;
    for size in sizes {
        assert!(size < before && size >= before / 2, "{before} to {size}");
        before = size;
    }
}

fn next_run(lab: &mut Lab) {
    let killed = abandoned(lab);
    kill_owner(lab, &killed);
    let mut conn = lab.connect();
    let plan = disposable(&mut conn);
    // The plan saw tuned values. The values after putting back are what counts.
    let dir = lab.run();
    let plan = SettingsPlan {
        changes: killed_changes(&killed),
        ..plan
    };
    let mut applied = apply(&mut conn, &plan, &dir, &quiet()).unwrap();
    let originals: Journal = killed.read(RunDir::SETTINGS).unwrap();
    assert!(originals.closed);
    for (ours, theirs) in applied.changes().zip(&originals.changes) {
        assert_eq!(
            (&ours.name, &ours.old),
            (&theirs.name, &theirs.old),
            "tuned values are no originals"
        );
    }
    assert!(
        applied
            .revert(&mut conn, &quiet())
            .unwrap()
            .unwrap()
            .complete
    );
}

fn killed_changes(dir: &RunDir) -> Vec<refloat_run::settings::PlannedChange> {
    let journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    let planned = journal
        .changes
        .iter()
        .map(|c| refloat_run::settings::PlannedChange {
            name: c.name.clone(),
            old: c.applied.clone().unwrap(),
            new: c.new.clone(),
            reason: c.reason.clone(),
            gain: String::new(),
        });
    planned.collect()
}

fn two_runs(lab: &mut Lab) {
    let mut conn = lab.connect();
    let plan = disposable(&mut conn);
    let first_dir = lab.run();
    let mut first = apply(&mut conn, &plan, &first_dir, &quiet()).unwrap();
    let tuned = variables(&mut conn);
    // The second run sees the row even without the first one's folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let second_dir = RunDir::create(elsewhere.path(), "load").unwrap();
    let mut other = lab.connect();
    let mut second = apply(&mut other, &plan, &second_dir, &quiet()).unwrap();
    assert_eq!(second.blocked_by(), Some(first_dir.id()));
    assert_eq!(second.skipped().len(), plan.changes.len());
    assert_eq!(second.revert(&mut other, &quiet()).unwrap(), None);
    assert!(
        variables(&mut conn) == tuned,
        "the second run touched something"
    );
    assert!(first.revert(&mut conn, &quiet()).unwrap().unwrap().complete);
}

fn changed_by_someone_else(lab: &mut Lab) {
    let mut conn = lab.connect();
    let plan = disposable(&mut conn);
    let mut applied = apply(&mut conn, &plan, &lab.run(), &quiet()).unwrap();
    conn.exec("SET GLOBAL innodb_io_capacity=150").unwrap();
    let report = applied.revert(&mut conn, &quiet()).unwrap().unwrap();
    assert_eq!(
        result_of(&report, "innodb_io_capacity"),
        &RevertResult::ChangedBySomeoneElse
    );
    assert_eq!(result_of(&report, "sync_binlog"), &RevertResult::Reverted);
    assert!(report.complete, "left alone is done");
    assert_eq!(
        conn.query_value("SELECT @@GLOBAL.innodb_io_capacity")
            .unwrap()
            .unwrap(),
        "150"
    );
    conn.exec("SET GLOBAL innodb_io_capacity=200").unwrap();
}

fn privileges(lab: &mut Lab) {
    let mut root = lab.connect();
    root.exec("CREATE USER plain@'127.0.0.1'").unwrap();
    root.exec("GRANT SELECT, INSERT ON *.* TO plain@'127.0.0.1'")
        .unwrap();
    let mut conn = lab.connect_as("plain");
    let plan = plan(&mut conn, Durability::Disposable, &hints()).unwrap();
    assert!(
        plan.changes.is_empty() && plan.session.is_empty(),
        "{plan:?}"
    );
    assert!(
        plan.skipped
            .iter()
            .any(|s| s.name == "innodb_io_capacity" && s.reason.contains("lacks")),
        "{plan:?}"
    );
    // A plan made with more privileges: the server's refusals are reported, and nothing is left
    // behind.
    let dir = lab.run();
    let others = disposable(&mut root);
    let mut applied = apply(&mut conn, &others, &dir, &quiet()).unwrap();
    assert!(applied.changes().next().is_none());
    assert_eq!(applied.skipped().len(), others.changes.len());
    let journal: Journal = dir.read(RunDir::SETTINGS).unwrap();
    assert!(!journal.row && journal.changes.is_empty() && !journal.redo_log_off());
    applied.revert(&mut conn, &quiet()).unwrap();
    // Enough for settings, but not for a row: the folder alone must do.
    let more = if lab.server.kind().is_mariadb() {
        "SUPER, BINLOG ADMIN"
    } else {
        "SYSTEM_VARIABLES_ADMIN, INNODB_REDO_LOG_ENABLE"
    };
    root.exec(format!("GRANT {more} ON *.* TO plain@'127.0.0.1'"))
        .unwrap();
    let mut conn = lab.connect_as("plain");
    let plan = self::plan(&mut conn, Durability::Relaxed, &hints()).unwrap();
    let dir = lab.run();
    let applied = apply(&mut conn, &plan, &dir, &quiet()).unwrap();
    assert!(applied.changes().count() > 4, "{:?}", applied.skipped());
    kill_owner(lab, &dir);
    let report = revert_run(&dir, &mut conn, &quiet(), false)
        .unwrap()
        .unwrap();
    assert!(report.complete, "{report:?}");
    a_row_that_stays(lab, &mut root);
    root.exec("DROP USER plain@'127.0.0.1'").unwrap();
}

/// The account `plain` may put everything back and not remove the row: the report says why.
fn a_row_that_stays(lab: &mut Lab, root: &mut Connection) {
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    let mut conn = lab.connect_as("plain");
    let (reports, refused) = revert_on_server(&mut conn, None, &quiet(), false).unwrap();
    assert!(refused.is_empty() && !reports[0].complete, "{reports:?}");
    let reason = reports[0].row_left.as_deref().unwrap_or_default();
    assert!(reason.contains("denied"), "{reports:?}");
    let report = revert_run(&dir, root, &quiet(), false).unwrap().unwrap();
    assert!(report.complete && report.row_left.is_none(), "{report:?}");
}

fn wrong_server(lab: &mut Lab) {
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    let good: Journal = dir.read(RunDir::SETTINGS).unwrap();
    let mut bad = good.clone();
    bad.server.datadir = "/elsewhere/".into();
    dir.write(RunDir::SETTINGS, &bad).unwrap();
    let mut conn = lab.connect();
    let tuned = variables(&mut conn);
    let error = revert_run(&dir, &mut conn, &quiet(), true).unwrap_err();
    assert!(
        matches!(error, SettingsError::WrongServer { .. }),
        "{error}"
    );
    assert!(variables(&mut conn) == tuned);
    dir.write(RunDir::SETTINGS, &good).unwrap();
    assert!(
        revert_run(&dir, &mut conn, &quiet(), false)
            .unwrap()
            .unwrap()
            .complete
    );
}

fn hostile_row(lab: &mut Lab) {
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    let good: Journal = dir.read(RunDir::SETTINGS).unwrap();
    let mut bad = good.clone();
    bad.changes[0].name = "general_log".into();
    bad.changes[0].old = "ON".into();
    bad.changes[0].applied = Some("OFF".into());
    bad.changes[1].old = "0; DROP DATABASE mysql".into();
    dir.write(RunDir::SETTINGS, &bad).unwrap();
    let mut conn = lab.connect();
    let report = revert_run(&dir, &mut conn, &quiet(), false)
        .unwrap()
        .unwrap();
    assert!(!report.complete);
    assert!(matches!(
        result_of(&report, "general_log"),
        RevertResult::Failed { .. }
    ));
    assert!(matches!(
        result_of(&report, &bad.changes[1].name),
        RevertResult::Failed { .. }
    ));
    dir.write(RunDir::SETTINGS, &good).unwrap();
    assert!(
        revert_run(&dir, &mut conn, &quiet(), false)
            .unwrap()
            .unwrap()
            .complete
    );
}

fn restarted(lab: &mut Lab) {
    std::thread::sleep(Duration::from_secs(4));
    let dir = abandoned(lab);
    kill_owner(lab, &dir);
    // A clean restart: with redo off, a kill would leave a server that does not start again.
    lab.server.restart().unwrap();
    let mut conn = lab.connect();
    let report = revert_run(&dir, &mut conn, &quiet(), false)
        .unwrap()
        .unwrap();
    assert!(report.restarted && report.complete, "{report:?}");
    assert_eq!(
        result_of(&report, "innodb_io_capacity"),
        &RevertResult::AlreadyBack
    );
    if !lab.server.kind().is_mariadb() {
        // The one state that a restart does not bring back.
        assert_eq!(result_of(&report, "redo_log"), &RevertResult::Reverted);
    }
    assert_eq!(path_count(&dir), 2);
}

fn path_count(dir: &RunDir) -> usize {
    fn count(path: &Path) -> usize {
        std::fs::read_dir(path).unwrap().count()
    }
    count(dir.path())
}

#[test]
fn a_journal_that_is_damaged_hides_no_other() {
    let state = tempfile::tempdir().unwrap();
    let [good, bad] = [(); 2].map(|()| RunDir::create(state.path(), "load").unwrap());
    let server = ServerMark {
        peer: "root@db1:3306".to_owned(),
        uuid: None,
        hostname: "db1".to_owned(),
        port: 3306,
        datadir: "/var/lib/mysql/".to_owned(),
        version: String::new(),
        started: 0,
    };
    let entry = JournalEntry {
        name: SST_DONOR.to_owned(),
        old: String::new(),
        new: "db2,".to_owned(),
        applied: None,
        reason: String::new(),
    };
    write_down_start(&good, server, entry).unwrap();
    let damaged = bad.path().join(RunDir::SETTINGS);
    std::fs::write(&damaged, "{").unwrap();
    let (open, errors) = list_readable(state.path()).unwrap();
    assert_eq!(open[0].journal.run, *good.id());
    assert_eq!((open.len(), errors.len()), (1, 1));
    let message = errors[0].to_string();
    assert!(
        message.contains(&damaged.display().to_string()),
        "{message}"
    );
    assert!(list(state.path()).is_err());
}
