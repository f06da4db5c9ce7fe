//! Reads a case: a directory under `cases/`.
//!
//! | File | Meaning |
//! |---|---|
//! | `setup.sql` | builds the source, through the stock client; `setup.mariadb.sql`, `setup.mysql.sql` and `setup.<server>.sql` follow where they apply |
//! | `dump.args` | options for the server's dump tool, one dump per line; `@mariadb`, `@mysql` or `@<server>` in front limits a line, `=> fails: words` or `=> refused: words` after it replaces `expect` |
//! | `dump.sql` | a hand-written dump, instead of a source |
//! | `before.sql` | runs on the target before each load |
//! | `load.args` | options of the load, as on the command line of `refloat load` |
//! | `expect` | `same` (default), `warns` (the same, with a warning in the outcome), `fails` (the stock client fails too) or `refused`; words after a colon must be in the error |
//! | `servers` | `skip <server>: reason`, one per line |
//! | `sources` | if present, the first dump is also loaded in every compression format and through a pipe |
//! | `hazards` | what it covers, one a line, for `docs/hazards-covered.md` (`scripts/hazards`) |
//! | `history` | if present, all rows of system-versioned tables are compared with their times |

use std::fs;
use std::path::{Path, PathBuf};

use refloat_sandbox::ServerKind;

/// Options for the dump tool if a case has no `dump.args`.
const DUMP_ARGS: &str = "--routines --events --triggers it";

/// How a load is expected to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Like the stock client's.
    Same,
    /// Like the stock client's, but not proven: the warnings contain these words.
    Warns(String),
    /// With an error, like the stock client's, which contains these words.
    Fails(String),
    /// With an error that contains these words, although the stock client would carry on.
    Refused(String),
}

impl Expect {
    fn parse(text: &str) -> Self {
        let (word, words) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let words = words.trim().to_owned();
        match word.trim() {
            "" | "same" => Self::Same,
            "warns" => Self::Warns(words),
            "fails" => Self::Fails(words),
            "refused" => Self::Refused(words),
            other => panic!("nothing is expected by {other:?}"),
        }
    }
}

/// One case, as its directory describes it.
#[derive(Debug)]
pub struct Case {
    /// The name of the directory.
    pub name: String,
    /// The path of the directory.
    pub folder: PathBuf,
    /// How a load is expected to end.
    pub expect: Expect,
    /// Options of the load.
    pub load_args: Vec<String>,
    /// Also load the first dump in every compression format and through a pipe.
    pub sources: bool,
    /// Compare the rows of system-versioned tables with their times.
    pub history: bool,
}

impl Case {
    /// All cases, sorted by name. `REFLOAT_CASE` in the environment selects those whose name
    /// contains it.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let chosen = std::env::var("REFLOAT_CASE").unwrap_or_default();
        let mut cases: Vec<Self> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| Self::read(entry.unwrap().path()))
            .filter(|case| case.name.contains(&chosen))
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!cases.is_empty(), "no case is called {chosen:?}");
        cases
    }

    fn read(folder: PathBuf) -> Self {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        Self {
            expect: Expect::parse(&file(&folder, "expect").unwrap_or_default()),
            load_args: file(&folder, "load.args")
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            sources: folder.join("sources").exists(),
            history: folder.join("history").exists(),
            name,
            folder,
        }
    }

    /// Why the case skips this server. `None` if it runs there.
    pub fn skipped(&self, kind: ServerKind) -> Option<String> {
        let list = file(&self.folder, "servers")?;
        list.lines().find_map(|line| {
            Some(
                line.strip_prefix(&format!("skip {kind}:"))?
                    .trim()
                    .to_owned(),
            )
        })
    }

    /// The scripts that build the source on this server, in order.
    pub fn setup(&self, kind: ServerKind) -> Vec<Vec<u8>> {
        let names = [
            "setup.sql".to_owned(),
            format!("setup.{}.sql", family(kind)),
            format!("setup.{kind}.sql"),
        ];
        names
            .iter()
            .filter_map(|name| fs::read(self.folder.join(name)).ok())
            .collect()
    }

    /// The hand-written dump for this server, if there is one.
    pub fn dump(&self, kind: ServerKind) -> Option<Vec<u8>> {
        let names = [
            format!("dump.{kind}.sql"),
            format!("dump.{}.sql", family(kind)),
            "dump.sql".to_owned(),
        ];
        names
            .iter()
            .find_map(|name| fs::read(self.folder.join(name)).ok())
    }

    /// The options of each dump to take, and what to expect of loading it.
    pub fn dump_args(&self, kind: ServerKind) -> Vec<(Vec<String>, Expect)> {
        let text = file(&self.folder, "dump.args").unwrap_or_else(|| DUMP_ARGS.to_owned());
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .filter_map(|line| match line.strip_prefix('@') {
                None => Some(line),
                Some(rest) => {
                    let (server, rest) = rest.split_once(' ')?;
                    (server == kind.name() || server == family(kind)).then_some(rest)
                }
            })
            .map(|line| {
                let (args, expect) = line
                    .split_once("=>")
                    .map_or((line, self.expect.clone()), |(args, words)| {
                        (args, Expect::parse(words))
                    });
                let mut args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
                if !kind.is_mariadb() && !line.contains("--set-gtid-purged") {
                    // Otherwise the stock client could not load the dump into the same server
                    // again.
                    args.insert(0, "--set-gtid-purged=OFF".to_owned());
                }
                (args, expect)
            })
            .collect()
    }

    /// The script that prepares the target.
    pub fn before(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.join("before.sql")).ok()
    }
}

fn file(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

fn family(kind: ServerKind) -> &'static str {
    if kind.is_mariadb() {
        "mariadb"
    } else {
        "mysql"
    }
}
