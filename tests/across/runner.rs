//! Builds a case's source on every server, dumps it with every tool, loads each dump into every
//! other server, and compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use refloat_copy::{CopyError, CopyOptions, copy};
use refloat_load::{LoadError, LoadFailure, LoadOptions, LoadOutcome, OnError, load};
use refloat_run::settings::Durability;
use refloat_sandbox::{Ephemeral, ServerKind, StartOptions};
use refloat_testkit::oracle::{Snapshot, differences};
use refloat_testkit::{chain, memory, servers};
use refloat_tests::case::Case;
use refloat_tests::lost::lost;
use refloat_tests::planned::planned_load;
use refloat_tests::tools::{Tool, run};
use refloat_verify::{Compared, Endpoint, VerifyOptions, verify};
use refloat_wire::Connection;

use crate::expect::{Across, Way, What};

/// The database that sources are built in.
const DATABASE: &str = "it";

/// A pair of servers of one kind: one for sources, one as a target.
struct Two {
    kind: ServerKind,
    source: Ephemeral,
    target: Ephemeral,
}

/// The source of a case as built on one server.
struct Built {
    kind: ServerKind,
    rows: Snapshot,
    /// The collation of each column, from the catalog.
    collations: BTreeMap<String, String>,
    dumps: Vec<(Tool, PathBuf)>,
}

/// Runs every case between all servers.
pub fn all_cases() {
    let verbose = std::env::var_os("REFLOAT_CASE").is_some();
    let servers: Vec<Two> = side_by_side(&ServerKind::ALL, |kind| {
        let start = || servers::start(&alike(*kind));
        Two {
            kind: *kind,
            source: start(),
            target: start(),
        }
    });
    let scratch = tempfile::tempdir_in(memory::folder()).unwrap();
    let (mut loads, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        if lost(&case.name).is_some() {
            continue;
        }
        let started = Instant::now();
        let folder = scratch.path().join(&case.name);
        fs::create_dir(&folder).unwrap();
        let across = Across::of(case);
        let mut found = Vec::new();
        let built: Vec<Built> = side_by_side(&servers, |two| build(case, two, &folder, &across))
            .into_iter()
            .filter_map(|(built, differing)| {
                found.extend(differing);
                built
            })
            .collect();
        for (done, differing) in side_by_side(&servers, |two| {
            let folder = folder.join(two.kind.name());
            fs::create_dir(&folder).unwrap();
            let bench = Bench {
                target: two,
                sources: &servers,
                across: &across,
                folder: &folder,
            };
            bench.take_all(&built)
        }) {
            loads += done;
            found.extend(differing);
        }
        found.extend(across.unmet());
        failures.extend(found.iter().map(|one| format!("{}: {one}", case.name)));
        if verbose || !found.is_empty() {
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{}: {} failures, {seconds:.1} s", case.name, found.len());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    eprintln!("{loads} loads from one server into another");
    for failure in &failures {
        eprintln!("{failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures, listed above",
        failures.len()
    );
}

/// A server whose defaults all servers know: an unknown collation is then one that the case itself
/// uses.
fn alike(kind: ServerKind) -> StartOptions {
    servers::quick(kind)
        .option("character_set_server", "utf8mb4")
        .option("collation_server", "utf8mb4_general_ci")
}

/// Runs `work` on several things in parallel.
fn side_by_side<T: Sync, R: Send>(of: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = of
            .iter()
            .map(|one| scope.spawn(move || work(one)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Builds and dumps the source. `None` if the case has none for this server.
fn build(case: &Case, two: &Two, folder: &Path, across: &Across) -> (Option<Built>, Vec<String>) {
    let kind = two.kind;
    if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
        return (None, Vec::new());
    }
    servers::empty(&two.source);
    let mut conn = servers::connect(&two.source);
    conn.exec(format!("CREATE DATABASE {DATABASE}")).unwrap();
    let setup = case.setup(kind).join(&b'\n');
    if let Err(error) = servers::client(&two.source, &[DATABASE], &setup) {
        return (None, vec![format!("setup on {kind}: {error}")]);
    }
    let rows = Snapshot::rows_of_any_vendor(&mut conn).unwrap();
    let (mut dumps, mut failures) = (Vec::new(), Vec::new());
    for tool in Tool::ALL {
        let way = Way {
            from: kind,
            to: kind,
            tool,
        };
        match tool.dump(kind, &two.source, folder) {
            Ok(path) => dumps.push((tool, path)),
            Err(error) if across.expects(way, What::Undumped, &error) => {}
            Err(error) => failures.push(format!("{kind} -> * {}: undumped: {error}", tool.word())),
        }
    }
    let built = Built {
        kind,
        rows,
        collations: collations(&mut conn),
        dumps,
    };
    (Some(built), failures)
}

/// The collation of each column, by `database.table.column`: definitions leave out a server's
/// default.
fn collations(conn: &mut Connection) -> BTreeMap<String, String> {
    let system_schemas = "'mysql', 'sys', 'information_schema', 'performance_schema'";
    let listed = conn
        .query(format!(
            "SELECT CONCAT_WS('.', TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME), REPLACE(COLLATION_NAME, 'utf8_', 'utf8mb3_') \
             FROM information_schema.COLUMNS WHERE COLLATION_NAME IS NOT NULL AND DATA_TYPE <> 'json' \
             AND TABLE_SCHEMA NOT IN ({system_schemas}) AND TABLE_NAME IN (SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE')"
        ))
        .unwrap();
    let cell = |row, column| {
        String::from_utf8_lossy(listed.bytes(row, column).unwrap_or_default()).into_owned()
    };
    (0..listed.len())
        .map(|row| (cell(row, 0), cell(row, 1)))
        .collect()
}

/// One target for one case.
struct Bench<'a> {
    target: &'a Two,
    sources: &'a [Two],
    across: &'a Across,
    folder: &'a Path,
}

impl Bench<'_> {
    /// Loads every dump of another server. Returns how many, and everything unexpected.
    fn take_all(&self, built: &[Built]) -> (usize, Vec<String>) {
        let (mut loads, mut failures) = (0, Vec::new());
        for source in built.iter().filter(|built| built.kind != self.target.kind) {
            for (tool, dump) in &source.dumps {
                let way = Way {
                    from: source.kind,
                    to: self.target.kind,
                    tool: *tool,
                };
                loads += 1;
                let mut seen = Vec::new();
                let disagreement = self.take(way, source, dump, &mut seen);
                failures.extend(disagreement.map(|words| format!("{way}: {words}")));
                // The dump's path is irrelevant.
                let place = format!("{}/", dump.display());
                for (_, text) in &mut seen {
                    *text = text.replace(&place, "").replace('\n', " ");
                }
                seen.sort();
                seen.dedup();
                let unexpected = seen
                    .iter()
                    .filter(|seen| !self.across.expects(way, seen.0, &seen.1));
                failures.extend(
                    unexpected.map(|(what, text)| format!("{way}: {}: {text}", what.word())),
                );
            }
        }
        (loads, failures)
    }

    /// Loads one dump and records everything that did not survive. Returns in what plan and load
    /// disagree.
    fn take(
        &self,
        way: Way,
        source: &Built,
        dump: &Path,
        seen: &mut Vec<(What, String)>,
    ) -> Option<String> {
        let mut disagreement = None;
        // Which error stops a load does not depend on the tool that made the dump, so test that
        // with one tool.
        let first = match way.tool {
            Tool::Stock => {
                let options = self.options(dump, &[], OnError::Stop);
                let (loaded, found) = planned_load(&options, &run(self.folder, "load"));
                disagreement = found;
                loaded.map_err(|failure| {
                    seen.push((What::Refused, chain(&failure.error)));
                })
            }
            _ => Err(()),
        };
        let goes_on = || match way.tool {
            Tool::Sql => self.by_client(dump).map(|()| LoadOutcome::default()),
            Tool::Copy => self.copy(source, &self.across.options(way)),
            _ => self
                .load(dump, &self.across.options(way), OnError::Continue)
                .or_else(|failure| match failure.error {
                    LoadError::Failures { .. } => Ok(*failure.outcome),
                    error => Err(chain(&error)),
                }),
        };
        let outcome = match first.or_else(|()| goes_on()) {
            Ok(outcome) => outcome,
            Err(_) if way.tool == Tool::Sql && self.across.refuses(way) => return disagreement,
            Err(error) => {
                seen.push((What::Refused, format!("{error}, and does not go on")));
                return disagreement;
            }
        };
        // When a table is refused, so are its rows: list only the table.
        let gone: Vec<&String> = outcome
            .failures
            .first
            .iter()
            .filter(|failure| failure.head.starts_with("CREATE"))
            .filter_map(|failure| failure.table.as_ref())
            .collect();
        for failure in &outcome.failures.first {
            let of_gone = failure
                .table
                .as_ref()
                .is_some_and(|table| gone.contains(&table));
            if !of_gone || failure.head.starts_with("CREATE") {
                seen.push((What::Refused, failure.to_string()));
            }
        }
        for warning in &outcome.warnings.first {
            seen.push((
                What::Warns,
                format!("{}: {}", warning.about, warning.message),
            ));
        }
        for one in &outcome.proof.differences.first {
            let text = format!("{}: {} / {}", one.about, one.expected, one.found);
            seen.push((What::Differs, text));
        }
        let before = seen.len();
        self.compare(source, seen);
        if matches!(way.tool, Tool::Stock | Tool::Mydumper) && seen.is_empty() {
            self.prove(dump, seen);
        }
        let follows = |text: &str| {
            let missing = |words: &str| text.ends_with(words);
            gone.iter().any(|table| {
                (text.starts_with(&format!("table {table}: ")) && missing("there / missing"))
                    || (text.starts_with(&format!("rows of {table}: "))
                        && missing("is there / is missing"))
            })
        };
        let mut at = 0;
        seen.retain(|(_, text)| {
            at += 1;
            at <= before || !follows(text)
        });
        disagreement
    }

    fn load(
        &self,
        dump: &Path,
        args: &[String],
        on_error: OnError,
    ) -> Result<LoadOutcome, Box<LoadFailure>> {
        let options = self.options(dump, args, on_error);
        load(&options, &run(self.folder, "load")).map_err(Box::new)
    }

    /// How a dump is loaded into the server, which is emptied for it.
    fn options(&self, dump: &Path, args: &[String], on_error: OnError) -> LoadOptions {
        servers::empty(&self.target.target);
        let mut options = LoadOptions::new(dump, servers::target(&self.target.target));
        options.durability = Some(Durability::Keep);
        options.on_error = on_error;
        apply(&mut options, args);
        options
    }

    /// Copies from the server that the source was built on.
    fn copy(&self, source: &Built, args: &[String]) -> Result<LoadOutcome, String> {
        servers::empty(&self.target.target);
        let from = self.server_of(source);
        let mut options =
            CopyOptions::new(servers::target(from), servers::target(&self.target.target));
        options.load.durability = Some(Durability::Keep);
        options.load.on_error = OnError::Continue;
        apply(&mut options.load, args);
        match copy(&options, &run(self.folder, "copy")) {
            Ok(outcome) => Ok(outcome.load),
            Err(failure) => match failure.error {
                CopyError::Target(LoadError::Failures { .. }) => Ok(failure.outcome.load),
                error => Err(chain(&error)),
            },
        }
    }

    /// Loads a dump with the target's own client, which has none of a load's options.
    fn by_client(&self, dump: &Path) -> Result<(), String> {
        servers::empty(&self.target.target);
        let script = fs::read(dump).unwrap();
        servers::client(&self.target.target, &["--binary-mode"], &script)
    }

    fn server_of(&self, source: &Built) -> &Ephemeral {
        let from = self.sources.iter().find(|two| two.kind == source.kind);
        &from.unwrap().source
    }

    /// If the load reported nothing, comparing the dump itself with the server must find no
    /// difference either.
    fn prove(&self, dump: &Path, seen: &mut Vec<(What, String)>) {
        let target = Endpoint::Server(Box::new(servers::target(&self.target.target)));
        let mut options = VerifyOptions::new(Endpoint::Dump(dump.to_owned()), target);
        options.compared = Compared::Rows;
        match verify(&options, &run(self.folder, "verify")) {
            Ok(outcome) => {
                for one in &outcome.table_differences.first {
                    let text = format!("proof of {}: {:?}", one.table, one.rows.first());
                    seen.push((What::Differs, text));
                }
                for one in &outcome.schema_differences.first {
                    seen.push((What::Differs, format!("proof: {}", one.about)));
                }
            }
            Err(failure) => seen.push((What::Differs, chain(&failure.error))),
        }
    }

    /// Compares definitions by meaning, and rows byte by byte.
    fn compare(&self, source: &Built, seen: &mut Vec<(What, String)>) {
        let at = |server| Endpoint::Server(Box::new(servers::target(server)));
        let mut options = VerifyOptions::new(at(self.server_of(source)), at(&self.target.target));
        options.compared = Compared::Schema;
        match verify(&options, &run(self.folder, "verify")) {
            Ok(outcome) => {
                for one in &outcome.schema_differences.first {
                    let text = format!("{}: {} / {}", one.about, one.a, one.b);
                    seen.push((What::Differs, text));
                }
            }
            Err(failure) => seen.push((What::Differs, chain(&failure.error))),
        }
        let mut conn = servers::connect(&self.target.target);
        let there = collations(&mut conn);
        for (column, collation) in &source.collations {
            let Some(found) = there.get(column).filter(|found| *found != collation) else {
                continue;
            };
            seen.push((
                What::Differs,
                format!("collation of {column}: {collation} / {found}"),
            ));
        }
        let rows = Snapshot::rows_of_any_vendor(&mut conn).unwrap();
        for one in differences(&source.rows, &rows) {
            let text = format!("{}: {} / {}", one.about, one.left, one.right);
            seen.push((What::Differs, text));
        }
    }
}

/// Applies options as spelled on the command line of `refloat load`.
fn apply(options: &mut LoadOptions, args: &[String]) {
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            panic!("{pair:?} is not an option and its value");
        };
        let (from, to) = value.split_once('=').unwrap_or((value, ""));
        let map = match name.as_str() {
            "--map-collation" => &mut options.map_collation,
            "--map-sql-mode" => &mut options.map_sql_mode,
            other => panic!("{other} is no option that this suite knows"),
        };
        map.insert(from.to_owned(), to.to_owned());
    }
}
