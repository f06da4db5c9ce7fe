//! A server with data, and loads into it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use refloat_load::{LoadOptions, LoadOutcome, WritePath, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_source::inspect;
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::{chain, servers};
use refloat_tests::chosen;
use refloat_tests::planned::planned_load;
use refloat_verify::{Compared, Endpoint, VerifyOptions, VerifyOutcome, verify};
use refloat_wire::Connection;
use tempfile::TempDir;

/// The database of most tests.
pub const DATABASE: &str = "it";
/// How many differences to show per load.
const SHOWN: usize = 6;

/// Changes the options of a load from their defaults.
pub type Adjust = fn(&mut LoadOptions);

/// A server that one test at a time has to itself, empty at first.
pub struct Bench {
    pub server: &'static Ephemeral,
    pub kind: ServerKind,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// The shared server of this kind, emptied.
    pub fn new(kind: ServerKind) -> Self {
        static TURNS: [Mutex<()>; ServerKind::ALL.len()] =
            [const { Mutex::new(()) }; ServerKind::ALL.len()];
        let at = ServerKind::ALL.iter().position(|one| *one == kind).unwrap();
        let turn = TURNS[at].lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        // Servers that run as another user write files here.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let bench = Self {
            server: servers::server(kind),
            kind,
            folder,
            _turn: turn,
        };
        bench.empty();
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn connect(&self) -> Connection {
        servers::connect(self.server)
    }

    pub fn empty(&self) {
        servers::empty(self.server);
    }

    /// Runs a script through the stock client, in a new database.
    pub fn fill(&self, script: impl AsRef<[u8]>) {
        self.connect()
            .exec(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))
            .unwrap();
        servers::client(self.server, &[DATABASE], script.as_ref())
            .unwrap_or_else(|error| panic!("{}: {error}", self.kind));
    }

    /// Runs the setup script of a case under `cases/`.
    pub fn fill_from_case(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        self.fill(fs::read(folder.join(name).join("setup.sql")).unwrap());
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&mut self.connect(), Scope::default()).unwrap()
    }

    pub fn load(&self, source: &Path, adjust: Adjust) -> Result<LoadOutcome, String> {
        self.load_with(source, &[&adjust])
    }

    /// Loads a source in several ways, a directory also as a tar archive, and all tables by their
    /// names. Each load must leave what `wanted` holds.
    #[track_caller]
    pub fn loads_as(&self, source: &Path, wanted: &Snapshot, adjust: Adjust) {
        let archive = source.is_dir().then(|| self.archive(source));
        let archived = archive.iter().map(|archive| {
            let as_it_is: Adjust = |_| {};
            ("archive", archive.as_path(), as_it_is)
        });
        let ways = variants(self.kind)
            .into_iter()
            .map(|(label, vary)| (label, source, vary));
        for (label, source, vary) in ways.chain(archived) {
            self.empty();
            let outcome = self.load_with(source, &[&adjust, &vary]);
            let outcome = outcome.unwrap_or_else(|error| panic!("{}: {label}: {error}", self.kind));
            assert!(
                outcome.proven,
                "{}: {label}: not proven: {:?} {:?}",
                self.kind, outcome.proof, outcome.warnings
            );
            let found = differences(wanted, &self.snapshot());
            let mut text = String::new();
            for difference in found.iter().take(SHOWN) {
                let _ = write!(text, "\n  {difference}");
            }
            assert!(
                found.is_empty(),
                "{}: {label}: {} differences (left: as it was){text}",
                self.kind,
                found.len()
            );
        }
        self.is_same(source, adjust);
        // Every table by its name means the same as all of them.
        self.empty();
        let names = chosen::names(wanted);
        let by_name = |options: &mut LoadOptions| options.tables.clone_from(&names);
        let outcome = self.load_with(source, &[&adjust, &by_name]);
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: by name: {error}", self.kind));
        assert!(outcome.proven, "{}: by name: not proven", self.kind);
        let mut found = differences(wanted, &self.snapshot());
        found.retain(|one| !chosen::is_of_program(one));
        assert!(found.is_empty(), "{}: by name: {found:?}", self.kind);
    }

    /// `verify` must find the source and the server equal, and compare all rows.
    #[track_caller]
    pub fn is_same(&self, source: &Path, adjust: Adjust) {
        let outcome = self
            .compare(source, adjust)
            .unwrap_or_else(|error| panic!("{}: {error}", self.kind));
        let differences = &outcome.table_differences;
        assert!(
            outcome.same,
            "{}: {differences:?} {:?} {:?}",
            self.kind, outcome.schema_differences.first, outcome.rows_not_compared
        );
        assert!(outcome.tables > 0, "{}: nothing was compared", self.kind);
    }

    /// Compares all rows of a source with the server.
    pub fn compare(&self, source: &Path, adjust: Adjust) -> Result<VerifyOutcome, String> {
        let server = servers::target(self.server);
        let mut loaded = LoadOptions::new(source, server.clone());
        adjust(&mut loaded);
        let a = Endpoint::Dump(source.to_owned());
        let mut options = VerifyOptions::new(a, Endpoint::Server(Box::new(server)));
        options.compared = Compared::Rows;
        options.database = loaded.database;
        options.source_format = loaded.source_format;
        options.delimited = loaded.delimited;
        verify(&options, &self.run("verify")).map_err(|failure| chain(&failure.error))
    }

    /// For a source that has lost something: `load`, `verify` and `inspect` must each say so, in
    /// these words.
    #[track_caller]
    pub fn is_not_whole(&self, source: &Path, adjust: Adjust, words: &str) {
        self.refuses(source, adjust, words);
        let error = self.compare(source, adjust).unwrap_err();
        assert!(error.contains(words), "{words:?} is not in {error}");
        let mut options = LoadOptions::new(source, servers::target(self.server));
        adjust(&mut options);
        let found = inspect(
            source,
            options.source_format,
            &options.delimited,
            &self.path("scratch"),
            false,
        );
        let found = found.unwrap();
        let named = found.faults.iter().any(|fault| fault.contains(words));
        assert!(
            named && !found.whole,
            "{words:?} is not in {:?}",
            found.faults
        );
    }

    fn run(&self, command: &str) -> Run {
        Run {
            dir: RunDir::create(self.folder.path(), command).unwrap(),
            cancel: Cancel::new(),
            events: Events::new(),
            progress: Progress::new(),
        }
    }

    /// A tar archive of a directory.
    #[track_caller]
    fn archive(&self, folder: &Path) -> PathBuf {
        let path = self.path("archive.tar");
        run(Command::new("tar")
            .arg("-cf")
            .arg(&path)
            .arg("-C")
            .arg(folder.parent().unwrap())
            .arg(folder.file_name().unwrap()));
        path
    }

    #[track_caller]
    fn load_with(
        &self,
        source: &Path,
        adjust: &[&dyn Fn(&mut LoadOptions)],
    ) -> Result<LoadOutcome, String> {
        let mut options = LoadOptions::new(source, servers::target(self.server));
        options.durability = Some(Durability::Keep);
        options.threads = 4;
        for adjust in adjust {
            adjust(&mut options);
        }
        // A pipe can be read once only.
        if fs::metadata(source).is_ok_and(|of| of.file_type().is_fifo()) {
            return load(&options, &self.run("load")).map_err(|failure| chain(&failure.error));
        }
        let (loaded, disagreement) = planned_load(&options, &self.run("load"));
        assert_eq!(disagreement, None, "{}", self.kind);
        loaded.map_err(|failure| chain(&failure.error))
    }

    /// The load must be refused, in these words.
    #[track_caller]
    pub fn refuses(&self, source: &Path, adjust: Adjust, words: &str) {
        match self.load(source, adjust) {
            Ok(_) => panic!("{}: it was to be refused: {words}", self.kind),
            Err(error) => assert!(error.contains(words), "{words:?} is not in {error}"),
        }
    }
}

/// The ways of loading that differ most.
fn variants(kind: ServerKind) -> Vec<(&'static str, Adjust)> {
    let default: (&str, Adjust) = ("default", |_| {});
    let small: (&str, Adjust) = ("small chunks, deferred indexes", |options| {
        options.chunk_bytes = Some(4096);
        options.defer_min_bytes = 0;
    });
    let load_data: (&str, Adjust) = ("LOAD DATA, 3 rows per chunk", |options| {
        options.write_path = WritePath::LoadData;
        options.chunk_rows = Some(3);
    });
    let insert: (&str, Adjust) = ("INSERT", |options| options.write_path = WritePath::Insert);
    if kind.is_mariadb() {
        vec![default, small, load_data, insert]
    } else {
        vec![default, small, insert]
    }
}

/// Runs a tool, which must succeed.
#[track_caller]
pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
