//! Runs cases: source, dump, stock client, snapshot; then loads in every way and compares the
//! snapshots.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_load::{
    BinlogMode, ExistingPolicy, IndexMode, LoadError, LoadOptions, LoadOutcome, StatementClass,
    SystemSchemaMode, WritePath, load, plan,
};
use refloat_run::cancel::CancelReason;
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::{chain, memory, servers};
use refloat_wire::Connection;

use refloat_tests::case::{Case, Expect};
use refloat_tests::chosen;
use refloat_tests::planned::disagreement;

/// The database for dumps that do not name one.
const DATABASE: &str = "it";
/// The longest that one load may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The extension of pipes.
const PIPE: &str = "pipe";
/// Cases that are refused with all tables named: `CALL`, which may change anything, a temporary
/// table and one that was renamed, whose names are gone in the end.
const NOT_BY_NAME: [&str; 3] = ["by-hand-changes", "by-hand-session", "mariadb-statements"];
/// Fewer rows in tablespaces would mean that something sends them over SQL.
const BUILT_LEAST: u64 = 5000;
/// How many differences to show per load.
const SHOWN: usize = 6;
/// Global variables that change on their own.
const VOLATILE: [&str; 6] = [
    "gtid_",
    "timestamp",
    "last_gtid",
    "innodb_buffer_pool_load",
    "rand_seed",
    "wsrep_",
];

/// Runs every case on one server.
pub fn all_cases(kind: ServerKind) {
    let cases = Case::all();
    let bench = Bench {
        kind,
        server: servers::server(kind),
        folder: tempfile::tempdir_in(memory::folder()).unwrap(),
        built: AtomicU64::new(0),
    };
    let (mut run, mut failures) = (0, Vec::new());
    let mut skips = Vec::new();
    let verbose = std::env::var_os("REFLOAT_CASE").is_some();
    for case in &cases {
        if let Some(reason) = case.skipped(kind) {
            skips.push(format!("{}: {reason}", case.name));
            continue;
        }
        run += 1;
        let started = Instant::now();
        let before = failures.len();
        bench.case(case, &mut failures);
        if verbose || failures.len() > before {
            eprintln!(
                "{kind}: {}: {} failures, {:.1} s",
                case.name,
                failures.len() - before,
                started.elapsed().as_secs_f64()
            );
            failures[before..]
                .iter()
                .for_each(|failure| eprintln!("{kind}: {failure}"));
        }
    }
    let built = bench.built.load(Ordering::Relaxed);
    eprintln!(
        "{kind}: {run} cases run, {} skipped; {built} rows in tablespaces",
        skips.len()
    );
    assert!(built > BUILT_LEAST, "{built} rows went into tablespaces");
    for skip in &skips {
        eprintln!("{kind}: skipped {skip}");
    }
    assert!(
        failures.is_empty(),
        "{} failures on {kind}, listed above",
        failures.len()
    );
}

struct Bench {
    kind: ServerKind,
    server: &'static Ephemeral,
    folder: tempfile::TempDir,
    /// Rows that went into tablespaces.
    built: AtomicU64,
}

impl Bench {
    fn case(&self, case: &Case, failures: &mut Vec<String>) {
        let dumps = match self.dumps(case) {
            Ok(dumps) => dumps,
            Err(error) => return failures.push(format!("{}: {error}", case.name)),
        };
        for (number, (label, dump, expect)) in dumps.iter().enumerate() {
            let path = self
                .folder
                .path()
                .join(format!("{}-{number}.sql", case.name));
            fs::write(&path, dump).unwrap();
            let before = failures.len();
            if let Err(error) = self.compare(case, expect, &path, dump, number == 0, failures) {
                failures.push(error);
            }
            for failure in &mut failures[before..] {
                failure.insert_str(0, &format!("{} [{label}]: ", case.name));
            }
            if let Some(kept) = std::env::var_os("REFLOAT_KEEP") {
                let _ = fs::copy(
                    &path,
                    Path::new(&kept).join(format!("{}-{}-{number}.sql", case.name, self.kind)),
                );
            }
            fs::remove_file(&path).unwrap();
        }
    }

    /// The dumps of a case, each labelled with its options, and what to expect of it.
    fn dumps(&self, case: &Case) -> Result<Vec<(String, Vec<u8>, Expect)>, String> {
        if let Some(dump) = case.dump(self.kind) {
            return Ok(vec![("by hand".to_owned(), dump, case.expect.clone())]);
        }
        servers::empty(self.server);
        self.connect()
            .exec(format!("CREATE DATABASE {DATABASE}"))
            .unwrap();
        for script in case.setup(self.kind) {
            servers::client(self.server, &[DATABASE], &script)
                .map_err(|error| format!("setup: {error}"))?;
        }
        let mut dumps = Vec::new();
        for (args, expect) in case.dump_args(self.kind) {
            let output = self
                .server
                .dump_command()
                .unwrap()
                .args(&args)
                .output()
                .unwrap();
            let label = args.join(" ");
            if !output.status.success() && !args.iter().any(|arg| arg == "--force") {
                return Err(format!(
                    "dumping with {label}: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
            dumps.push((label, output.stdout, expect));
        }
        Ok(dumps)
    }

    /// Loads with the stock client first, then in every way, and compares the snapshots.
    fn compare(
        &self,
        case: &Case,
        expect: &Expect,
        path: &Path,
        dump: &[u8],
        first: bool,
        failures: &mut Vec<String>,
    ) -> Result<(), String> {
        let scope = Scope {
            history: case.history,
        };
        self.prepare(case)?;
        self.connect()
            .exec(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))
            .unwrap();
        let charset = client_charset(dump);
        let args: Vec<&str> = charset
            .iter()
            .map(String::as_str)
            .chain([DATABASE])
            .collect();
        let stock = servers::client(self.server, &args, dump);
        match (expect, &stock) {
            (Expect::Fails(_), Ok(())) => {
                return Err("the stock client was to fail, and did not".to_owned());
            }
            (Expect::Same | Expect::Warns(_), Err(error)) => {
                return Err(format!("the stock client fails: {error}"));
            }
            _ => {}
        }
        let wanted = self.snapshot(scope)?;
        let mut ways: Vec<Way> = variants(self.kind, first)
            .into_iter()
            .map(|(label, adjust)| (label.to_owned(), path.to_owned(), adjust))
            .collect();
        if first && case.sources {
            ways.extend(packed(path));
        }
        for (label, source, adjust) in ways {
            let label = label.as_str();
            self.prepare(case)?;
            if case.before().is_some() {
                self.connect()
                    .exec(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))
                    .unwrap();
            }
            if source.extension().is_some_and(|end| end == PIPE) {
                feed(path.to_owned(), source.clone());
            }
            let mut options = LoadOptions::new(source, servers::target(self.server));
            options.database = names_no_database(dump).then(|| DATABASE.to_owned());
            options.durability = Some(Durability::Keep);
            adjust(&mut options);
            apply(&mut options, &case.load_args);
            // Every table by its name means the same as all of them.
            let by_name =
                !options.tables.is_empty() && matches!(expect, Expect::Same | Expect::Warns(_));
            if by_name {
                options.tables = chosen::names(&wanted);
            }
            let settings = self.globals();
            // A pipe can be read once only.
            let pipe = options.source.extension().is_some_and(|end| end == PIPE);
            let planned = (!pipe).then(|| plan(&options));
            let result = self.load(&options);
            if let Some(planned) = &planned
                && let Some(found) = disagreement(planned, result.as_ref().err())
            {
                failures.push(format!("{label}: {found}"));
            }
            self.note_built(&result);
            let result = result.map_err(|error| chain(&error));
            if by_name && NOT_BY_NAME.contains(&case.name.as_str()) {
                let is_refused = result.as_ref().is_err_and(|error| {
                    chosen::is_unclear(error) || error.contains("no table of the dump is called")
                });
                if !is_refused {
                    failures.push(format!("{label}: not refused: {:?}", result.err()));
                }
                continue;
            }
            if let Some(failure) = judge(expect, &result) {
                failures.push(format!("{label}: {failure}"));
                continue;
            }
            let changed = changed(&settings, &self.globals());
            if !changed.is_empty() {
                failures.push(format!(
                    "{label}: settings are not as before: {}",
                    changed.join(", ")
                ));
            }
            if matches!(expect, Expect::Same | Expect::Warns(_)) {
                self.connect()
                    .exec(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))
                    .unwrap();
                let mut found = differences(&wanted, &self.snapshot(scope)?);
                found.retain(|one| !by_name || !chosen::is_of_program(one));
                if !found.is_empty() {
                    let mut text =
                        format!("{label}: {} differences (left: stock client)", found.len());
                    for difference in found.iter().take(SHOWN) {
                        let _ = write!(text, "\n  {difference}");
                    }
                    failures.push(text);
                }
            }
        }
        Ok(())
    }

    /// Counts the rows of a load that went into tablespaces.
    fn note_built(&self, result: &Result<LoadOutcome, LoadError>) {
        let paths = result.iter().flat_map(|outcome| &outcome.write_paths);
        for (_, rows) in paths.filter(|(path, _)| *path == WritePath::Tablespace) {
            self.built.fetch_add(*rows, Ordering::Relaxed);
        }
    }

    fn connect(&self) -> Connection {
        servers::connect(self.server)
    }

    fn prepare(&self, case: &Case) -> Result<(), String> {
        servers::empty(self.server);
        let Some(script) = case.before() else {
            return Ok(());
        };
        self.connect()
            .exec(format!("CREATE DATABASE {DATABASE}"))
            .unwrap();
        servers::client(self.server, &[DATABASE], &script)
            .map_err(|error| format!("before.sql: {error}"))
    }

    fn snapshot(&self, scope: Scope) -> Result<Snapshot, String> {
        Snapshot::take(&mut self.connect(), scope)
            .map_err(|error| format!("taking a snapshot: {error}"))
    }

    fn load(&self, options: &LoadOptions) -> Result<LoadOutcome, LoadError> {
        let run = Run {
            dir: RunDir::create(self.folder.path(), "load").unwrap(),
            cancel: Cancel::new(),
            events: Events::new(),
            progress: Progress::new(),
        };
        // A load that hangs is a failure too, and must not block the others.
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let cancel = run.cancel.clone();
        let watch = std::thread::spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                cancel.cancel(CancelReason::Failed("it takes too long".to_owned()));
            }
        });
        let result = load(options, &run).map_err(|failure| failure.error);
        drop(done);
        watch.join().unwrap();
        result
    }

    fn globals(&self) -> Vec<(String, String)> {
        let result = self.connect().query("SHOW GLOBAL VARIABLES").unwrap();
        (0..result.len())
            .map(|row| {
                (
                    result.str(row, 0).unwrap_or_default().to_owned(),
                    result.str(row, 1).unwrap_or_default().to_owned(),
                )
            })
            .collect()
    }
}

fn changed(before: &[(String, String)], after: &[(String, String)]) -> Vec<String> {
    before
        .iter()
        .zip(after)
        .filter(|(a, b)| a != b && !VOLATILE.iter().any(|name| a.0.starts_with(name)))
        .map(|(a, b)| format!("{}: {} -> {}", a.0, a.1, b.1))
        .collect()
}

/// What is wrong with the way a load ended. `None` if it is as expected.
fn judge(expect: &Expect, result: &Result<LoadOutcome, String>) -> Option<String> {
    match (expect, result) {
        (Expect::Same, Ok(outcome)) if outcome.proven => None,
        (Expect::Same, Ok(outcome)) => Some(format!(
            "not proven: {:?}, warnings {:?}, settings left {:?}",
            outcome.proof, outcome.warnings, outcome.settings_left
        )),
        (Expect::Warns(words), Ok(outcome)) => {
            let warnings = format!("{:?}", outcome.warnings);
            let is_warned = !outcome.proven && warnings.contains(words.as_str());
            (!is_warned || !outcome.proof.differences.is_empty()).then(|| {
                format!(
                    "it was to warn of {words:?}: proven {}, {warnings}, {:?}",
                    outcome.proven, outcome.proof
                )
            })
        }
        (Expect::Same | Expect::Warns(_), Err(error)) => Some(format!("it fails: {error}")),
        (Expect::Fails(words) | Expect::Refused(words), Err(error)) => (!error
            .contains(words.as_str()))
        .then(|| format!("the error does not say {words:?}: {error}")),
        (_, Ok(_)) => Some("it was to fail, and did not".to_owned()),
    }
}

/// The option that the stock client needs for a dump in a character set where a character may end
/// in a backslash byte. The client finds the ends of strings by its own character set, whatever the
/// dump tells the server.
fn client_charset(dump: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&dump[..dump.len().min(4096)]);
    let (_, rest) = head.split_once(" SET NAMES ")?;
    let name = rest.split_whitespace().next()?;
    ["sjis", "cp932", "gbk", "big5"]
        .contains(&name)
        .then(|| format!("--default-character-set={name}"))
}

/// Does the dump leave the choice of the database to its reader?
fn names_no_database(dump: &[u8]) -> bool {
    let text = String::from_utf8_lossy(dump);
    !text
        .lines()
        .any(|line| line.starts_with("USE ") || line.starts_with("CREATE DATABASE"))
}

/// A way of loading: its label, the source and the options.
type Way = (String, PathBuf, fn(&mut LoadOptions));

/// The dump in every compression format, and a pipe.
fn packed(path: &Path) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for (program, end) in [
        ("gzip", "gz"),
        ("zstd", "zst"),
        ("xz", "xz"),
        ("bzip2", "bz2"),
    ] {
        let target = path.with_extension(format!("sql.{end}"));
        let output = Command::new(program).arg("-c").arg(path).output().unwrap();
        assert!(output.status.success(), "{program} failed");
        fs::write(&target, output.stdout).unwrap();
        ways.push((format!("{program}, small chunks"), target, small_chunks));
    }
    let pipe = path.with_extension(PIPE);
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success(), "mkfifo failed");
    ways.push(("a pipe, small chunks".to_owned(), pipe, small_chunks));
    ways
}

fn small_chunks(options: &mut LoadOptions) {
    options.chunk_bytes = Some(4096);
    options.threads = 4;
    options.defer_min_bytes = 0;
}

/// Writes a file into a pipe in small pieces. The thread waits for a reader; nobody waits for the
/// thread.
fn feed(path: PathBuf, pipe: PathBuf) {
    std::thread::spawn(move || {
        let text = fs::read(path).unwrap();
        let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
        for part in text.chunks(999) {
            // The reader has gone because its load failed, which is reported elsewhere.
            if pipe.write_all(part).is_err() {
                return;
            }
        }
    });
}

type Variant = (&'static str, fn(&mut LoadOptions));

/// The ways of loading: all of them for the first dump of a case. For its other dumps, and for the
/// second MariaDB, only the two that differ most.
fn variants(kind: ServerKind, first: bool) -> Vec<Variant> {
    let all = first && kind != ServerKind::MariaDb118;
    let default: Variant = ("default", |_| {});
    let deferred: Variant = ("small chunks, deferred indexes, 4 threads", small_chunks);
    let load_data: Variant = ("LOAD DATA, 3 rows per chunk, deferred indexes", |options| {
        options.write_path = WritePath::LoadData;
        options.chunk_rows = Some(3);
        options.threads = 4;
        options.defer_min_bytes = 0;
    });
    // Selecting everything must have no effect. The names are put in for it, if the case loads.
    let insert: Variant = (
        "INSERT, 3 rows per chunk, inline indexes, all tables by name",
        |options| {
            options.write_path = WritePath::Insert;
            options.indexes = IndexMode::Inline;
            options.chunk_rows = Some(3);
            options.threads = 4;
            options.tables = vec!["*".to_owned()];
        },
    );
    let tablespace: Variant = ("tablespaces, 3 rows per chunk", |options| {
        options.write_path = WritePath::Tablespace;
        options.binlog = BinlogMode::Off;
        options.chunk_rows = Some(3);
        options.threads = 4;
        options.defer_min_bytes = 0;
    });
    match (all, kind.is_mariadb()) {
        (true, true) => vec![default, deferred, load_data, insert, tablespace],
        // By default, MySQL uses LOAD DATA.
        (true, false) => vec![deferred, insert, tablespace],
        (false, true) => vec![deferred, tablespace],
        (false, false) => vec![tablespace],
    }
}

/// Applies options as spelled on the command line.
fn apply(options: &mut LoadOptions, args: &[String]) {
    let class = |word: &str| match word {
        "accounts" => StatementClass::Accounts,
        "replication" => StatementClass::Replication,
        "global" => StatementClass::Global,
        "gtid-purged" => StatementClass::GtidPurged,
        "dynamic-sql" => StatementClass::DynamicSql,
        "old-database" => StatementClass::OldDatabase,
        other => panic!("no class {other}"),
    };
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"))
        };
        match word {
            "--replace" => options.existing = ExistingPolicy::Replace,
            "--append" => options.existing = ExistingPolicy::Append,
            "--allow" => options.allow.push(class(value())),
            "--skip" => options.skip.push(class(value())),
            "--accept-missing-trailer" => options.accept_missing_trailer = true,
            "--durability" if value() == "auto" => options.durability = None,
            "--system-schema" => {
                options.system_schema = if value() == "skip" {
                    SystemSchemaMode::Skip
                } else {
                    SystemSchemaMode::Load
                };
            }
            other => panic!("unknown option {other}"),
        }
    }
}
