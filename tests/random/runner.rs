//! Builds a schema, takes it through the stock tool and through Refloat, copies it to another
//! server, and compares.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use refloat_copy::{CopyOptions, copy};
use refloat_dump::{DumpOptions, RowCompression, dump};
use refloat_load::{IndexMode, LoadOptions, WritePath, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{self, Difference, Scope, Snapshot, differences};
use refloat_testkit::random::{self, Built, Rng};
use refloat_testkit::{chain, memory, servers};
use refloat_verify::{Endpoint, VerifyOptions, verify};

use refloat_tests::slow;
use refloat_tests::spelled::spelled;

/// The default number of schemas per server: about 130 tables in total, and 200 among the slow
/// tests.
const ROUNDS: u64 = 7;
const ROUNDS_SLOW: u64 = 11;
/// About how many tables a schema has.
const TABLES: usize = 6;
/// One schema in this many is also copied.
const COPIED: u64 = 3;
/// How many differences to show per load.
const SHOWN: usize = 4;

/// Runs all rounds on one server.
pub fn rounds(kind: ServerKind) {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is no number"))
        })
    };
    let (first, rounds) = (
        number("REFLOAT_RANDOM_SEED", 1),
        number(
            "REFLOAT_RANDOM_ROUNDS",
            if slow() { ROUNDS_SLOW } else { ROUNDS },
        ),
    );
    let server = servers::server(kind);
    let target = servers::start(&servers::quick(kind));
    let folder = tempfile::tempdir_in(memory::folder()).unwrap();
    let (mut tables, mut rows, mut refused, mut stock) = (0, 0, 0, 0);
    let mut failed = Vec::new();
    for seed in first..first + rounds {
        let mut round = Round {
            kind,
            server,
            target: &target,
            folder: folder.path(),
            rng: Rng::new(!seed),
            failures: Vec::new(),
            restored: false,
        };
        let built = round.run(seed);
        (tables, rows) = (tables + built.tables, rows + built.rows);
        refused += built.refused.len();
        stock += u64::from(round.restored);
        if round.failures.is_empty() {
            continue;
        }
        failed.push(seed);
        for failure in &round.failures {
            eprintln!("{kind}: seed {seed}: {failure}");
        }
        if let Some(kept) = std::env::var_os("REFLOAT_KEEP") {
            let path = Path::new(&kept).join(format!("random-{kind}-{seed}.sql"));
            fs::write(path, built.text()).unwrap();
        }
    }
    eprintln!(
        "{kind}: {rounds} schemas from seed {first}: {tables} tables, {rows} rows; {refused} statements refused by the server, {stock} dumps of the stock tool"
    );
    assert!(
        failed.is_empty(),
        "{kind}: seeds {failed:?} failed, listed above"
    );
    assert!(
        tables >= rounds * 4 && rows >= tables * 3 && stock * 2 >= rounds,
        "{kind}: too little is built, or the stock tool fails too often"
    );
}

struct Round<'a> {
    kind: ServerKind,
    server: &'a Ephemeral,
    /// The server that schemas are copied to.
    target: &'a Ephemeral,
    folder: &'a Path,
    rng: Rng,
    failures: Vec<String>,
    /// Did the stock tool manage to restore its own dump?
    restored: bool,
}

impl Round<'_> {
    fn run(&mut self, seed: u64) -> Built {
        servers::empty(self.server);
        let built = random::build(&mut servers::connect(self.server), seed, TABLES)
            .unwrap_or_else(|error| panic!("{}: seed {seed}: {error}", self.kind));
        if let Some(kept) = std::env::var_os("REFLOAT_KEEP") {
            let path = Path::new(&kept).join(format!("last-{}.sql", self.kind));
            fs::write(path, built.text()).unwrap();
        }
        let (now, all) = (
            self.snapshot(Scope::default()),
            self.snapshot(Scope {
                history: self.kind.is_mariadb(),
            }),
        );
        if seed.is_multiple_of(COPIED) {
            self.copied(&all);
        }
        let sql = self.folder.join("stock.sql");
        let stock = self.stock_dump(&sql);
        let out = self.folder.join(format!("dump-{seed}"));
        let result = self.own_dump(&out);
        if let Err(error) = result {
            self.failures.push(format!("dump: {error}"));
        } else {
            self.same_as(&out);
            for _ in 0..2 {
                self.loaded("dump", &out, &all, None);
            }
            fs::remove_dir_all(&out).unwrap();
        }
        match stock {
            Err(error) => eprintln!("{}: seed {seed}: the stock tool: {error}", self.kind),
            Ok(label) => self.stock(seed, &label, &sql, &now),
        }
        built
    }

    /// A dump of the stock tool: every load must give the same result as the stock client.
    fn stock(&mut self, seed: u64, label: &str, sql: &Path, now: &Snapshot) {
        servers::empty(self.server);
        // The tool's dumps omit the mode that allows invalid dates. A load of them does not need
        // it.
        let mode: &[u8] = b"SQL_MODE='NO_AUTO_VALUE_ON_ZERO";
        let mut script = fs::read(sql).unwrap();
        let at = script.windows(mode.len()).position(|one| one == mode);
        let at = at.expect("a dump sets its mode") + mode.len();
        script.splice(at..at, *b",ALLOW_INVALID_DATES");
        if let Err(error) = servers::client(self.server, &["--binary-mode", "--comments"], &script)
        {
            eprintln!(
                "{}: seed {seed}: the stock client cannot load its own dump ({label}): {error}",
                self.kind
            );
            return;
        }
        let wanted = self.snapshot(Scope::default());
        let lost = differences(&spelled(now), &spelled(&wanted)).len();
        if lost > 0 {
            eprintln!(
                "{}: seed {seed}: the stock tool itself changes {lost} things ({label})",
                self.kind
            );
        }
        self.restored = true;
        self.loaded(&format!("stock dump ({label})"), sql, &wanted, Some(now));
    }

    fn snapshot(&self, scope: Scope) -> Snapshot {
        Snapshot::take(&mut servers::connect(self.server), scope).unwrap()
    }

    fn stock_dump(&mut self, sql: &Path) -> Result<String, String> {
        let mut args = vec!["--routines", "--events", "--triggers"];
        args.push(*self.rng.pick(&["--hex-blob", "--skip-hex-blob"]));
        args.push(
            *self
                .rng
                .pick(&["--complete-insert", "--skip-complete-insert"]),
        );
        args.push(
            *self
                .rng
                .pick(&["--extended-insert", "--skip-extended-insert"]),
        );
        args.push(*self.rng.pick(&["--no-autocommit", "--skip-no-autocommit"]));
        if !self.kind.is_mariadb() {
            args.push("--set-gtid-purged=OFF");
        }
        let mut conn = servers::connect(self.server);
        let databases = oracle::databases(&mut conn).unwrap();
        let output = self
            .server
            .dump_command()
            .unwrap()
            .args(&args)
            .arg("--databases")
            .args(databases)
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        fs::write(sql, output.stdout).unwrap();
        Ok(args[3..].join(" "))
    }

    fn own_dump(&mut self, out: &Path) -> Result<(), String> {
        let mut options = DumpOptions::new(servers::target(self.server), out);
        if self.rng.chance(60) {
            options.chunk_bytes = *self.rng.pick(&[50, 500, 5000]);
            options.read.threads = self.rng.within(1, 4);
        }
        if self.rng.chance(50) {
            options.compression = RowCompression::None;
        }
        let run = self.new_run("dump");
        dump(&options, &run)
            .map(|_| ())
            .map_err(|failure| chain(&failure.error))
    }

    /// `verify` must find the dump and the server equal.
    fn same_as(&mut self, out: &Path) {
        let options = VerifyOptions::new(
            Endpoint::Dump(out.to_owned()),
            Endpoint::Server(Box::new(servers::target(self.server))),
        );
        let run: Run = self.new_run("verify");
        match verify(&options, &run) {
            Err(failure) => self
                .failures
                .push(format!("verify: {}", chain(&failure.error))),
            Ok(outcome) if outcome.same => {}
            Ok(outcome) => {
                let mut text = "verify finds differences of a dump and its source:".to_owned();
                for one in outcome.schema_differences.first.iter().take(SHOWN) {
                    let _ = write!(text, "\n  {}: {} / {}", one.about, one.a, one.b);
                }
                for table in outcome.table_differences.first.iter().take(SHOWN) {
                    let _ = write!(
                        text,
                        "\n  rows of {}: {:?}",
                        table.table,
                        table.rows.first()
                    );
                }
                self.failures.push(text);
            }
        }
    }

    /// Loads a source in a random way and compares the server with `wanted`. A load of a stock dump
    /// may also restore `better`, the original that the stock client may not restore.
    fn loaded(&mut self, label: &str, source: &Path, wanted: &Snapshot, better: Option<&Snapshot>) {
        let of_own_dump = better.is_none();
        servers::empty(self.server);
        let mut options = LoadOptions::new(source, servers::target(self.server));
        self.vary(&mut options);
        let label = format!("{label}, loaded by {}", way(&options));
        let run: Run = self.new_run("load");
        match load(&options, &run) {
            Err(failure) => {
                self.failures
                    .push(format!("{label}: {}", chain(&failure.error)));
                return;
            }
            Ok(outcome) if !outcome.proven => self.failures.push(format!(
                "{label}: not proven: {:?} {:?}",
                outcome.proof, outcome.warnings
            )),
            Ok(_) => {}
        }
        let found = self.snapshot(Scope {
            history: of_own_dump && self.kind.is_mariadb(),
        });
        let mut different = differences(&spelled(wanted), &spelled(&found));
        if let Some(better) = better {
            let beside = differences(&spelled(better), &spelled(&found));
            different.retain(|one| beside.iter().any(|other| other.about == one.about));
        }
        self.compared(&label, &different);
    }

    /// Picks a random way of writing.
    fn vary(&mut self, options: &mut LoadOptions) {
        options.durability = Some(Durability::Keep);
        options.threads = self.rng.within(1, 4);
        options.write_path = *self.rng.pick(&[
            WritePath::Auto,
            WritePath::Auto,
            WritePath::LoadData,
            WritePath::Insert,
        ]);
        options.indexes = *self.rng.pick(&[IndexMode::Deferred, IndexMode::Inline]);
        if self.rng.chance(60) {
            options.defer_min_bytes = 0;
        }
        match self.rng.below(3) {
            0 => options.chunk_rows = Some(3),
            1 => options.chunk_bytes = Some(700),
            _ => {}
        }
    }

    /// Copies the schema to the other server, and compares.
    fn copied(&mut self, wanted: &Snapshot) {
        servers::empty(self.target);
        let mut options =
            CopyOptions::new(servers::target(self.server), servers::target(self.target));
        options.dump.read.threads = self.rng.within(1, 4);
        options.dump.chunk_bytes = *self.rng.pick(&[50, 500, 5000]);
        self.vary(&mut options.load);
        let label = format!("copy, written by {}", way(&options.load));
        match copy(&options, &self.new_run("copy")) {
            Err(failure) => {
                let text = format!("{label}: {}", chain(&failure.error));
                return self.failures.push(text);
            }
            Ok(outcome) if !outcome.load.proven => self.failures.push(format!(
                "{label}: not proven: {:?} {:?}",
                outcome.load.proof, outcome.load.warnings
            )),
            Ok(_) => {}
        }
        let scope = Scope {
            history: self.kind.is_mariadb(),
        };
        let found = Snapshot::take(&mut servers::connect(self.target), scope).unwrap();
        self.compared(&label, &differences(&spelled(wanted), &spelled(&found)));
    }

    /// Records the differences as a failure.
    fn compared(&mut self, label: &str, different: &[Difference]) {
        if different.is_empty() {
            return;
        }
        let mut text = format!("{label}: {} differences (left: as it was)", different.len());
        for difference in different.iter().take(SHOWN) {
            let _ = write!(text, "\n  {difference}");
        }
        self.failures.push(text);
    }

    fn new_run(&self, command: &str) -> Run {
        Run {
            dir: RunDir::create(self.folder, command).unwrap(),
            cancel: Cancel::new(),
            events: Events::new(),
            progress: Progress::new(),
        }
    }
}

/// Describes the way of writing, for failure messages.
fn way(options: &LoadOptions) -> String {
    format!(
        "{:?}, indexes {:?} from {} bytes, chunks of {:?} rows, {:?} bytes",
        options.write_path,
        options.indexes,
        options.defer_min_bytes,
        options.chunk_rows,
        options.chunk_bytes
    )
}
