//! Loads a dump with the stock client and on every write path, and compares the results.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use refloat_load::{LoadOptions, LoadOutcome, OnError, WritePath, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{Difference, Scope, Snapshot, differences};
use refloat_testkit::{chain, memory, servers};
use refloat_verify::{Compared, Endpoint, Relation, VerifyOptions, verify};

use refloat_tests::planned::planned_load;
use refloat_tests::{chosen, slow};

use crate::corpus;
use crate::generator::{Combination, combination, combination_of};
use crate::others::{all_modes_are_listed, other_settings};
use crate::sessions::settings;

/// The database for dumps that do not name one.
const DATABASE: &str = "it";
/// The default number of combinations, for one server of each vendor and for the second MariaDB:
/// 500 in total, and more than 600 among the slow tests. The first ones have each setting alone.
const COMBINATIONS: u64 = 175;
const COMBINATIONS_SECOND: u64 = 150;
const COMBINATIONS_SLOW: u64 = 250;
const COMBINATIONS_SLOW_SECOND: u64 = 150;
/// How many combinations go into one dump.
const TOGETHER: usize = 25;
/// The number of the first combination of settings that are not listed.
const OTHERS: u64 = 1_000_000;
/// The number of the first combination that has a setting again.
const AGAIN: u64 = 2_000_000;
/// How many such combinations are tried for a setting.
const OTHER_ROWS: u64 = 20;
/// How many combinations that the stock client rejects are loaded one by one, per server. More
/// would take most of the run time.
const REFUSED_ALONE: usize = 12;
/// Of so many loads no more than one may stop where the stock client goes on: such a load says
/// nothing about the rest of its dump.
const EXCUSED_MOST: u64 = 5;
/// Codes of warnings about a changed value: NULL, out of range, truncated, not a number, not text.
const CHANGES: &[u16] = &[1048, 1264, 1265, 1292, 1300, 1365, 1366, 1406, 1411];
/// Rejected rows, each in a statement of its own, so that the stock client leaves out the same rows
/// with `--force`.
const REFUSED: &str =
    "CREATE TABLE t (id INT NOT NULL, name VARCHAR(20), PRIMARY KEY (id)) ENGINE=MyISAM;
INSERT INTO t VALUES (1,'a'),(2,'b');
INSERT INTO t VALUES (2,'again');
INSERT INTO t VALUES (3,'c'),(4,'d');
INSERT INTO t VALUES (4,'again');
CREATE TABLE u (id INT NOT NULL, name VARCHAR(20), PRIMARY KEY (id)) ENGINE=InnoDB;
INSERT INTO u VALUES (1,'x');
";
/// CRLF within quotes and in the body of a program; `~` stands for the ends of all other lines. The
/// stock client makes LF of the former while it reads the file, unless it is given `--binary-mode`.
const LINE_ENDS: &str = "CREATE TABLE t (id INT NOT NULL, name VARCHAR(40), PRIMARY KEY (id));~\
INSERT INTO t VALUES (1,'one\r\ntwo'),~(2,'\r\n'),(3,'a\nb\r\n\r\nc\r'),~(4,'\\r\\n');~\
DELIMITER ;;~\
CREATE PROCEDURE p()\r\nBEGIN\r\n  SELECT 'x\r\ny';\r\nEND;;~\
DELIMITER ;~";
/// In the only dump that a choice of all tables refuses: it fills a table under a name that is gone
/// in the end, and so was not chosen.
const UNCLEAR: &[u8] = b"rename table Copy to Archive;";
/// How many differences to show per load.
const SHOWN: usize = 4;

/// The part of a dump that is selected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    None,
    Databases,
    Tables,
}

/// A way of loading: its label, its write path, and the selected part of the dump.
type Way = (&'static str, WritePath, Choice);

/// Runs the corpus and the combinations on one server.
pub fn all(kind: ServerKind) {
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| {
            text.parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} is no number"))
        })
    };
    let mut bench = Bench {
        kind,
        server: servers::server(kind),
        folder: tempfile::tempdir_in(memory::folder()).unwrap(),
        failures: Vec::new(),
        seen: BTreeSet::new(),
        loads: Cell::new(0),
        compared: Cell::new(0),
        excused: Cell::new(0),
    };
    let asked = number("REFLOAT_COMBINATIONS");
    let first = number("REFLOAT_RANDOM_SEED").unwrap_or(0);
    if first == 0 {
        bench.corpus();
        bench.refused_rows();
        bench.line_ends();
    }
    let usual = match (kind, slow()) {
        (ServerKind::MariaDb118, false) => COMBINATIONS_SECOND,
        (ServerKind::MariaDb118, true) => COMBINATIONS_SLOW_SECOND,
        (_, false) => COMBINATIONS,
        (_, true) => COMBINATIONS_SLOW,
    };
    let alone = settings(kind.is_mariadb()).len() as u64;
    assert!(usual >= alone, "{kind}: not each of {alone} settings");
    let numbers = first..first + asked.unwrap_or(usual);
    let all: Vec<_> = numbers
        .map(|number| combination(number, kind.is_mariadb()))
        .collect();
    bench.combinations(&all);
    if first == 0 {
        bench.other_settings(asked.is_some() || slow());
    }
    if first == 0 {
        bench.compare_each_setting();
    }
    let (excused, loads) = (bench.excused.get(), bench.loads.get());
    eprintln!("{kind}: {excused} of {loads} loads may stop at a value that the server changes");
    assert!(
        excused * EXCUSED_MOST < loads,
        "{kind}: {excused} of {loads} loads may stop"
    );
    let failures = bench.failures.len();
    assert!(failures == 0, "{failures} failures on {kind}, listed above");
}

/// How one load of a dump ended.
type Loaded = Result<LoadOutcome, String>;

struct Bench {
    kind: ServerKind,
    server: &'static Ephemeral,
    folder: tempfile::TempDir,
    failures: Vec<String>,
    /// The numbers of combinations whose rows were compared by each path.
    seen: BTreeSet<u64>,
    /// Loads, and those of them whose rows were compared.
    loads: Cell<u64>,
    compared: Cell<u64>,
    /// Loads that were allowed to stop at a value which the stock client changes.
    excused: Cell<u64>,
}

impl Bench {
    fn fail(&mut self, name: &str, text: &[u8], failure: String) {
        eprintln!("{}: {name}: {failure}", self.kind);
        self.failures.push(failure);
        if let Some(kept) = std::env::var_os("REFLOAT_KEEP") {
            fs::write(
                Path::new(&kept).join(format!("{name}-{}.sql", self.kind)),
                text,
            )
            .unwrap();
        }
    }

    fn corpus(&mut self) {
        let (dumps, left_out) = corpus::dumps(self.kind);
        assert!(dumps.len() > 12, "the corpus is not there");
        let wanted = std::env::var("REFLOAT_CASE").ok();
        for dump in dumps {
            if wanted.as_ref().is_none_or(|name| *name == dump.name) {
                for failure in self.compare(&dump.text, &ways_of_dumps(self.kind)) {
                    self.fail(&dump.name, &dump.text, failure);
                }
            }
        }
        for reason in left_out {
            eprintln!("{}: left out {reason}", self.kind);
        }
    }

    /// With `--on-error continue`, a load leaves out rows that the server rejects and loads all
    /// others, even into a table that cannot roll back.
    fn refused_rows(&mut self) {
        let path = self.folder.path().join("dump.sql");
        fs::write(&path, REFUSED).unwrap();
        self.refused_lines(REFUSED);
        let wanted = self.snapshot();
        for (label, write_path, _) in ways(self.kind) {
            self.empty();
            let mut options = self.options(&path, write_path);
            options.on_error = OnError::Continue;
            let outcome = self.load(&options).map(drop);
            let found = differences(&wanted, &self.snapshot());
            let expected = "2 statements or rows were refused and left out";
            if !found.is_empty() || outcome.as_ref().err().is_none_or(|error| error != expected) {
                let failure = format!("{label}: {outcome:?}, {found:?}");
                self.fail("refused-rows", REFUSED.as_bytes(), failure);
            }
        }
    }

    /// A load keeps CRLF within quotes and in bodies, whatever ends the lines of the file: what the
    /// stock client stores with `--binary-mode`, and not what it stores without.
    fn line_ends(&mut self) {
        let path = self.folder.path().join("dump.sql");
        let texts = ["\n", "\r\n"].map(|end| LINE_ENDS.replace('~', end));
        let stored = [&[][..], &["--binary-mode"]].map(|args| {
            self.stock(args, texts[0].as_bytes()).unwrap();
            self.snapshot()
        });
        let [changed, wanted] = &stored;
        assert!(
            differences(changed, wanted).len() > 1,
            "{}: the stock client keeps CRLF, so docs/against-the-client.md is wrong",
            self.kind
        );
        for text in &texts {
            fs::write(&path, text).unwrap();
            for (label, write_path, _) in ways(self.kind) {
                self.empty();
                let options = self.options(&path, write_path);
                let proven = self.load(&options).map(|outcome| outcome.proven);
                let found = differences(wanted, &self.snapshot());
                let claimed = self.verified(&options);
                if !found.is_empty() || proven != Ok(true) || claimed.is_some() {
                    let failure = format!("{label}: {proven:?}, {found:?}, {claimed:?}");
                    self.fail("line-ends", text.as_bytes(), failure);
                }
            }
        }
    }

    /// Options for a load of a dump that names no database.
    fn options(&self, path: &Path, write_path: WritePath) -> LoadOptions {
        let mut options = LoadOptions::new(path, servers::target(self.server));
        options.database = Some(DATABASE.to_owned());
        options.accept_missing_trailer = true;
        options.write_path = write_path;
        options
    }

    /// Sets the variables that are not listed, each for itself or all at once.
    fn other_settings(&mut self, each: bool) {
        let mariadb = self.kind.is_mariadb();
        all_modes_are_listed(self.server, mariadb);
        let all = other_settings(self.server, mariadb);
        assert!(
            !all.is_empty(),
            "{}: no variable that is not listed",
            self.kind
        );
        let together = if each { 1 } else { all.len() };
        let all = (OTHERS..).zip(all.chunks(together));
        let all = all.map(|(number, some)| combination_of(number, some, mariadb));
        self.combinations(&all.collect::<Vec<_>>());
    }

    fn combinations(&mut self, all: &[Combination]) {
        let mut refused_alone = REFUSED_ALONE;
        let (mut loaded, mut refused) = (0, 0);
        let (from, count) = (all[0].number, all.len());
        for all in all.chunks(TOGETHER) {
            let text = together(all);
            let lines = match self.stock(&[], text.as_bytes()) {
                Ok(()) => BTreeSet::new(),
                Err(_) => self.refused_lines(&text),
            };
            let (bad, good): (Vec<_>, Vec<_>) = with_lines(all)
                .into_iter()
                .partition(|(_, range)| lines.iter().any(|line| range.contains(line)));
            let good: Vec<Combination> = good.into_iter().map(|(one, _)| one.clone()).collect();
            (loaded, refused) = (loaded + good.len(), refused + bad.len());
            let text = together(&good);
            if let Err(error) = self.stock(&[], text.as_bytes()) {
                panic!("the stock client takes them one by one and not together: {error}");
            }
            let excused = self.excused.get();
            let failures = if good.is_empty() {
                Vec::new()
            } else {
                self.compare(text.as_bytes(), &ways(self.kind))
            };
            // One that may stop hides the others.
            if !failures.is_empty() || self.excused.get() > excused {
                // Find out which of them it was.
                let before = self.failures.len();
                for one in &good {
                    self.alone(one);
                }
                if self.failures.len() == before && !failures.is_empty() {
                    let text = together(&good);
                    let failures = self.compare(text.as_bytes(), &ways(self.kind));
                    let name = format!("combinations-{}", good[0].number);
                    self.fail(
                        &name,
                        text.as_bytes(),
                        format!("only together: {failures:?}"),
                    );
                }
            } else {
                self.seen.extend(good.iter().map(|one| one.number));
            }
            for (one, _) in bad.iter().take(refused_alone) {
                self.alone(one);
            }
            refused_alone = refused_alone.saturating_sub(bad.len());
        }
        eprintln!(
            "{}: {loaded} combinations from {from} on loaded by each path; {refused} that the stock client refuses",
            self.kind
        );
        assert!(
            loaded * 3 > count * 2,
            "too few combinations that the stock client takes"
        );
    }

    /// Compares other rows after each setting whose own were not compared by each path, because the
    /// stock client refused them or a load was allowed to stop.
    fn compare_each_setting(&mut self) {
        let mariadb = self.kind.is_mariadb();
        for (number, setting) in (0..).zip(settings(mariadb)) {
            let (mut tried, mut is_taken) = (0, false);
            while !self.seen.contains(&number) && tried < OTHER_ROWS {
                let name = AGAIN + number * OTHER_ROWS + tried;
                let mut one = combination_of(name, &[setting], mariadb);
                one.number = number;
                if self.stock(&[], one.text.as_bytes()).is_ok() {
                    is_taken = true;
                    self.alone(&one);
                }
                tried += 1;
            }
            // A server may not have the setting, or not for a session.
            if is_taken && !self.seen.contains(&number) {
                let failure = format!("never compared by each path: {setting:?}");
                self.fail(&format!("setting-{number}"), b"", failure);
            }
        }
    }

    fn alone(&mut self, one: &Combination) {
        let before = self.loads.get() - self.compared.get();
        let failures = self.compare(one.text.as_bytes(), &ways(self.kind));
        if failures.is_empty() && self.loads.get() - self.compared.get() == before {
            self.seen.insert(one.number);
        }
        for failure in failures {
            self.fail(
                &format!("combination-{}", one.number),
                one.text.as_bytes(),
                failure,
            );
        }
    }

    fn empty(&self) {
        servers::empty(self.server);
        let mut conn = servers::connect(self.server);
        conn.exec(format!(
            "CREATE DATABASE {DATABASE} DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        ))
        .unwrap();
    }

    fn stock(&self, args: &[&str], text: &[u8]) -> Result<(), String> {
        self.empty();
        let args: Vec<&str> = ["--default-character-set=utf8mb4", "--comments"]
            .iter()
            .chain(args)
            .copied()
            .chain([DATABASE])
            .collect();
        servers::client(self.server, &args, text)
    }

    /// The lines of the statements that the server rejects. With `--force`, the stock client
    /// carries on after them.
    fn refused_lines(&self, text: &str) -> BTreeSet<usize> {
        self.empty();
        let path = self.folder.path().join("forced.sql");
        fs::write(&path, text).unwrap();
        let output = self
            .server
            .client_command()
            .unwrap()
            .args(["--default-character-set=utf8mb4", "--force", DATABASE])
            .stdin(fs::File::open(path).unwrap())
            .output()
            .unwrap();
        let line = |message: &str| {
            let (_, rest) = message.split_once(" at line ")?;
            rest.split(':').next()?.trim().parse().ok()
        };
        String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter(|line| line.starts_with("ERROR"))
            .filter_map(line)
            .collect()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&mut servers::connect(self.server), Scope::default()).unwrap()
    }

    /// The differences between the stock client and each way of loading.
    fn compare(&self, text: &[u8], ways: &[Way]) -> Vec<String> {
        let stock = self.stock(&[], text);
        let wanted = self.snapshot();
        let path = self.folder.path().join("dump.sql");
        fs::write(&path, text).unwrap();
        let mut failures = Vec::new();
        for (number, &(label, write_path, choice)) in ways.iter().enumerate() {
            self.empty();
            let mut options = LoadOptions::new(&path, servers::target(self.server));
            options.database = Some(DATABASE.to_owned()).filter(|_| !names_database(text));
            options.durability = Some(Durability::Keep);
            options.accept_missing_trailer = true;
            options.write_path = write_path;
            options.chunk_rows = Some(3);
            options.tables = match choice {
                Choice::None => Vec::new(),
                Choice::Databases => databases_of(&wanted),
                Choice::Tables => chosen::names(&wanted),
            };
            if choice != Choice::None && options.tables.is_empty() {
                continue;
            }
            self.loads.set(self.loads.get() + 1);
            let (loaded, disagreement) = planned_load(&options, &self.run());
            failures.extend(disagreement.map(|words| format!("{label}: {words}")));
            let loaded = loaded.map_err(|failure| chain(&failure.error));
            match (&stock, loaded) {
                // A statement that cannot be attributed to a table is refused, never skipped
                // silently.
                (Ok(()), Err(error))
                    if choice == Choice::Tables
                        && chosen::is_unclear(&error)
                        && memchr::memmem::find(text, UNCLEAR).is_some() => {}
                (Err(_), Err(error)) if choice == Choice::Tables && chosen::is_unclear(&error) => {}
                (Ok(()), Ok(outcome)) => {
                    self.compared.set(self.compared.get() + 1);
                    let mut found = differences(&wanted, &self.snapshot());
                    found.retain(|one| !is_of_a_step(text, one));
                    found.retain(|one| choice != Choice::Tables || !chosen::is_of_program(one));
                    let verified = (number == 0).then(|| self.verified(&options)).flatten();
                    if let Some(claimed) = verified.filter(|_| found.is_empty()) {
                        failures.push(format!("equal, and called different: {claimed}"));
                    } else if !found.is_empty() {
                        let mut text = format!(
                            "{label}: {} differences (left: stock client), proven: {}",
                            found.len(),
                            outcome.proven
                        );
                        for difference in found.iter().take(SHOWN) {
                            let _ = write!(text, "\n  {difference}");
                        }
                        failures.push(text);
                    } else if !outcome.proven && !self.warns_alike(text, &outcome) {
                        failures.push(format!(
                            "{label}: equal, and not proven: {:?} {:?}",
                            outcome.warnings.first, outcome.proof.differences.first
                        ));
                    }
                }
                // A change that the dump's own session makes with a warning is an error in a load.
                (Ok(()), Err(error)) if self.changes_instead(text, code_of(&error)) => {
                    self.excused.set(self.excused.get() + 1);
                }
                (Ok(()), Err(error)) => failures.push(format!(
                    "{label}: fails, and the stock client does not: {error}"
                )),
                (Err(refusal), Ok(_)) => {
                    failures.push(format!(
                        "{label}: does not fail; the stock client: {refusal}"
                    ));
                }
                (Err(refusal), Err(error)) => {
                    let refusal = refusal.split_once("ERROR ").map_or("", |(_, rest)| rest);
                    let code = refusal.split(' ').next().unwrap_or_default();
                    // A load may also fail earlier, at a value that the dump's own session would
                    // change with a warning.
                    let earlier = || self.changes_instead(text, code_of(&error));
                    if (code.is_empty() || !error.contains(code)) && !earlier() {
                        failures.push(format!(
                            "{label}: fails otherwise: {error}\n  the stock client: {refusal}"
                        ));
                    }
                }
            }
        }
        failures
    }

    /// Compares what the server holds with the dump, as `--verify digest` does: what is equal is
    /// never called different. Returns the differences that it claims.
    fn verified(&self, options: &LoadOptions) -> Option<String> {
        let dump = Endpoint::Dump(options.source.clone());
        let server = Endpoint::Server(Box::new(options.target.clone()));
        let mut asked = VerifyOptions::new(dump, server);
        asked.more_in_second = true;
        asked.relation = Relation::MadeOfFirst;
        asked.database.clone_from(&options.database);
        asked.accept_missing_trailer = true;
        asked.compared = Compared::Rows;
        match verify(&asked, &self.run()) {
            Ok(outcome) if outcome.differs() => Some(format!(
                "{:?}, {:?}",
                outcome.schema_differences, outcome.table_differences
            )),
            Ok(_) => None,
            Err(failure) => Some(chain(&failure.error)),
        }
    }

    /// The codes of the warnings that the server sends the stock client.
    fn warned(&self, text: &[u8]) -> BTreeSet<u16> {
        self.empty();
        let path = self.folder.path().join("shown.sql");
        // The client takes results in UTF-16 for empty text, and with `max_error_count = 0` the
        // server keeps no warnings to show.
        let hides = |line: &[u8]| {
            let names: [&[u8]; 2] = [b"character_set_results", b"max_error_count"];
            names
                .iter()
                .any(|name| memchr::memmem::find(line, name).is_some())
        };
        let lines = text
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| !hides(line));
        fs::write(&path, lines.collect::<Vec<_>>().concat()).unwrap();
        let output = self
            .server
            .client_command()
            .unwrap()
            .args([
                "--default-character-set=utf8mb4",
                "--show-warnings",
                DATABASE,
            ])
            .stdin(fs::File::open(path).unwrap())
            .output()
            .unwrap();
        let code = |line: &str| {
            let rest = line.strip_prefix("Warning (Code ")?;
            rest.split(')').next()?.parse().ok()
        };
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(code)
            .collect()
    }

    /// Are all findings of a load either warnings about changed values that the stock client gets
    /// too, or ENUM and SET labels that the server has changed?
    fn warns_alike(&self, text: &[u8], outcome: &LoadOutcome) -> bool {
        let differences = &outcome.proof.differences;
        let of_labels = differences.first.iter().all(|one| {
            one.about.ends_with(": type")
                && ["set(", "enum("]
                    .iter()
                    .any(|kind| one.found.starts_with(kind))
        });
        let binary = memchr::memmem::find(text, b"NAMES binary").is_some();
        let excused = differences.total == 0 || binary && of_labels;
        if !excused || outcome.warnings.total + differences.total == 0 {
            return false;
        }
        let warned = self.warned(text);
        let mut warnings = outcome.warnings.first.iter();
        warnings.all(|one| CHANGES.contains(&one.code) && warned.contains(&one.code))
    }

    /// Does the error reject a value that the server would change for the stock client, with a
    /// warning?
    fn changes_instead(&self, text: &[u8], code: &str) -> bool {
        let error = code.parse().unwrap_or(0);
        CHANGES.contains(&error) && self.warned(text).iter().any(|code| CHANGES.contains(code))
    }

    fn load(&self, options: &LoadOptions) -> Loaded {
        load(options, &self.run()).map_err(|failure| chain(&failure.error))
    }

    fn run(&self) -> Run {
        Run {
            dir: RunDir::create(self.folder.path(), "load").unwrap(),
            cancel: Cancel::new(),
            events: Events::new(),
            progress: Progress::new(),
        }
    }
}

/// Is the difference only in the next `AUTO_INCREMENT`, in a session with its own increment? For
/// rows with an explicit number, the server uses the increment of whoever used its open table
/// before (`m_prebuilt->autoinc_increment` in `ha_innobase::write_row`), so the result is a matter
/// of chance.
fn is_of_a_step(text: &[u8], found: &Difference) -> bool {
    let without = |side: &str| {
        let mut parts = side.split("AUTO_INCREMENT=");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            all + part.trim_start_matches(|c: char| c.is_ascii_digit())
        })
    };
    memchr::memmem::find(text, b"auto_increment_").is_some()
        && without(&found.left) == without(&found.right)
}

/// The ways of loading for every dump.
fn ways(kind: ServerKind) -> Vec<Way> {
    let mut ways = vec![
        ("load-data", WritePath::LoadData, Choice::None),
        ("insert", WritePath::Insert, Choice::Databases),
    ];
    if kind.is_mariadb() {
        ways.push(("bulk", WritePath::Bulk, Choice::None));
    }
    ways
}

/// The same for dumps of tools, plus the way that a user would try first.
fn ways_of_dumps(kind: ServerKind) -> Vec<Way> {
    let mut ways = ways(kind);
    ways.push(("auto", WritePath::Auto, Choice::None));
    ways.push(("its tables by name", WritePath::Auto, Choice::Tables));
    ways
}

/// The server's error code in the error message of a load.
fn code_of(error: &str) -> &str {
    let (_, rest) = error.split_once("server error ").unwrap_or_default();
    rest.split(' ').next().unwrap_or_default()
}

/// Selects every database in the snapshot as a whole.
fn databases_of(snapshot: &Snapshot) -> Vec<String> {
    let databases: BTreeSet<&str> = snapshot
        .rows
        .keys()
        .filter_map(|table| table.split('.').next())
        .collect();
    databases.iter().map(|name| format!("{name}.*")).collect()
}

fn together(all: &[Combination]) -> String {
    let texts = all.iter().map(|one| format!("{}{}", one.text, one.reset));
    texts.collect()
}

/// The combinations, each with its range of lines in the joined text.
fn with_lines(all: &[Combination]) -> Vec<(&Combination, std::ops::Range<usize>)> {
    let mut line = 1;
    let mut found = Vec::new();
    for one in all {
        let lines = one.text.matches('\n').count() + one.reset.matches('\n').count();
        found.push((one, line..line + lines));
        line += lines;
    }
    found
}

fn names_database(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_uppercase();
    let creates = ["CREATE DATABASE", "CREATE SCHEMA"];
    text.contains("USE ") && creates.iter().any(|words| text.contains(words))
}
