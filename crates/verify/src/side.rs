//! The two sides of a comparison: a server in one snapshot, or a dump.

use std::collections::{BTreeMap, HashSet};

use refloat_read::catalog::{Database, Table, asked_table, wanted_database};
use refloat_read::moment::Plan;
use refloat_read::snapshot::Snapshot;
use refloat_read::{ReadOptions, catalog, moment, session, unchanged};
use refloat_run::cancel::HookGuard;
use refloat_run::own_tables::{has_own_columns, is_own_schema};
use refloat_run::{Run, kill_on_cancel};
use refloat_source::archive;
use refloat_source::manifest::{DatabaseEntry, MANIFEST, TableEntry};
use refloat_store::{Unpacked, files};
use refloat_wire::{ConnectOptions, Connection};

use super::error::VerifyError;
use super::folder::DumpFolder;
use super::options::{Endpoint, VerifyOptions, read_options};
use super::other::{OtherDump, OtherTable};
use super::outcome::SideInfo;

/// One of the two sides.
pub enum Side {
    /// A server in one snapshot.
    Server(Box<ServerSide>),
    /// A dump of Refloat, from a folder or an archive.
    Dump(Box<DumpFolder>),
    /// A dump of another tool.
    Other(Box<OtherDump>),
}

/// A server in one snapshot.
pub struct ServerSide {
    /// Takes locks and reads definitions.
    pub control: Connection,
    /// The snapshot, with the reader connections.
    pub snapshot: Snapshot,
    /// The selected objects.
    pub plan: Plan,
    /// The options it was opened with.
    pub options: ReadOptions,
    _kill: HookGuard,
}

/// A table as its side describes it.
#[derive(Clone, Copy)]
pub enum TableOf<'a> {
    /// As the catalogue of a server describes it.
    Server(&'a Table),
    /// In a dump of Refloat.
    Dump(&'a TableEntry),
    /// In a dump of another tool.
    Other(&'a OtherTable),
}

impl Side {
    /// Opens a server's snapshot, or reads a dump; for a dump of Refloat only the manifest.
    /// `databases` limits a server to these; empty means all. `other` is what it is compared with.
    pub fn open(
        endpoint: &Endpoint,
        other: &Endpoint,
        options: &VerifyOptions,
        databases: &[String],
        run: &Run,
    ) -> Result<Self, VerifyError> {
        match endpoint {
            Endpoint::Dump(path) => {
                let say = |words| run.events.note(words);
                let unpacked = archive::unpack_file(path, &options.scratch, &run.cancel, say)?;
                let root = unpacked.as_ref().map_or(path.as_path(), Unpacked::root);
                if !files::is_file(&root.join(MANIFEST)) {
                    let server = match other {
                        Endpoint::Server(server) => Some(&**server),
                        Endpoint::Dump(_) => None,
                    };
                    let dump = OtherDump::open(path, unpacked, options, server, run)?;
                    return Ok(Self::Other(Box::new(dump)));
                }
                let mut folder = DumpFolder::open(path, unpacked)?;
                let asked = read_options(options, &ConnectOptions::default());
                let databases = &mut folder.manifest.databases;
                databases.retain(|database| wanted_database(&asked, &database.name));
                for database in databases.iter_mut() {
                    let name = database.name.clone();
                    let wanted = |object: &String| asked_table(&asked, &name, object);
                    database.tables.retain(|table| {
                        let columns = table.columns.iter().map(|column| column.name.as_str());
                        wanted(&table.name) && !has_own_columns(&name, &table.name, columns)
                    });
                    database.views.retain(wanted);
                    database.sequences.retain(wanted);
                }
                databases.retain(|database| !is_own(database));
                Ok(Self::Dump(Box::new(folder)))
            }
            Endpoint::Server(source) => {
                let mut options = read_options(options, source);
                options.databases = databases.to_vec();
                let mut control = session::connect(&options, &run.cancel)?;
                let kill = kill_on_cancel(&run.cancel, &control);
                let (snapshot, plan) = moment::moment(&options, run, &mut control, false)?;
                drop(kill);
                let side = ServerSide::of(control, snapshot, plan, options, run);
                Ok(Self::Server(Box::new(side)))
            }
        }
    }

    /// What it is, and at which moment it was read.
    pub fn info(&self, endpoint: &Endpoint) -> SideInfo {
        let name = endpoint.describe();
        match self {
            Self::Server(server) => {
                let identity = server.control.identity();
                let about = server.control.server();
                SideInfo {
                    name,
                    kind: "server".to_owned(),
                    server: format!("{} {}", about.vendor, about.version_string),
                    uuid: identity.uuid.clone(),
                    hostname: identity.hostname.clone(),
                    port: Some(identity.port),
                    snapshot: server.snapshot.info.clone(),
                    rows: 0,
                }
            }
            Self::Dump(folder) => {
                let about = &folder.manifest.server;
                SideInfo {
                    name,
                    kind: "dump".to_owned(),
                    server: format!("{} {}", about.vendor, about.version),
                    uuid: None,
                    hostname: about.hostname.clone(),
                    port: None,
                    snapshot: folder.manifest.snapshot.clone(),
                    rows: 0,
                }
            }
            Self::Other(dump) => {
                let words = |(vendor, version): &(String, String)| format!("{vendor} {version}");
                let unknown = || "a server that it does not name".to_owned();
                SideInfo {
                    name,
                    kind: "dump".to_owned(),
                    server: dump.server.as_ref().map_or_else(unknown, words),
                    uuid: None,
                    hostname: String::new(),
                    port: None,
                    snapshot: dump.snapshot.clone(),
                    rows: 0,
                }
            }
        }
    }

    /// `MariaDB` or `MySQL`; `None` if a dump does not say.
    pub fn vendor(&self) -> Option<String> {
        match self {
            Self::Server(server) => Some(server.control.server().vendor.to_string()),
            Self::Dump(folder) => Some(folder.manifest.server.vendor.clone()),
            Self::Other(dump) => dump.server.as_ref().map(|(vendor, _)| vendor.clone()),
        }
    }

    /// Databases, with the names of their objects.
    pub fn databases(&self) -> Vec<Database> {
        match self {
            Self::Server(server) => server.plan.databases.clone(),
            Self::Other(dump) => dump.databases.clone(),
            Self::Dump(folder) => {
                let entries = folder.manifest.databases.iter();
                entries
                    .map(|entry| Database {
                        name: entry.name.clone(),
                        tables: entry
                            .tables
                            .iter()
                            .map(|table| table.name.clone())
                            .collect(),
                        sequences: entry.sequences.clone(),
                        views: entry.views.clone(),
                        leftovers: Vec::new(),
                        hidden: false,
                    })
                    .collect()
            }
        }
    }

    /// Tables by database and name.
    pub fn tables(&self) -> BTreeMap<(&str, &str), TableOf<'_>> {
        match self {
            Self::Server(server) => {
                let tables = server.plan.tables.iter().flatten();
                tables
                    .map(|table| {
                        let name = (table.database.as_str(), table.name.as_str());
                        (name, TableOf::Server(table))
                    })
                    .collect()
            }
            Self::Dump(folder) => {
                let databases = folder.manifest.databases.iter();
                databases
                    .flat_map(|database| {
                        database.tables.iter().map(|table| {
                            let name = (database.name.as_str(), table.name.as_str());
                            (name, TableOf::Dump(table))
                        })
                    })
                    .collect()
            }
            Self::Other(dump) => {
                let tables = dump.tables();
                tables
                    .map(|table| {
                        let name = (table.database.as_str(), table.name.as_str());
                        (name, TableOf::Other(table))
                    })
                    .collect()
            }
        }
    }

    /// Whether it is a server.
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// Checks that these tables (`database.table`), whose rows were just read, are still the ones
    /// whose definitions were read and compared. The readers' transactions must still be open:
    /// since their first read of a table, they have kept it from changing.
    ///
    /// # Errors
    /// [`ReadError::Changed`](refloat_read::ReadError::Changed) for the first one that changed.
    pub fn unchanged(&mut self, labels: &HashSet<&str>) -> Result<(), VerifyError> {
        let Self::Server(server) = self else {
            return Ok(());
        };
        let tables = server.plan.tables.iter().flatten();
        let read: Vec<&Table> = tables
            .filter(|table| labels.contains(table.label().as_str()))
            .collect();
        let control = &mut server.control;
        server
            .snapshot
            .identities
            .unchanged(control, read.iter().copied())?;
        for table in read {
            unchanged::same_definition(control, table)?;
        }
        Ok(())
    }

    /// Lets writers continue.
    pub fn release(&mut self) -> Result<(), VerifyError> {
        if let Self::Server(server) = self {
            server.snapshot.release(&mut server.control)?;
        }
        Ok(())
    }
}

impl ServerSide {
    /// A server whose snapshot is already open.
    pub fn of(
        control: Connection,
        snapshot: Snapshot,
        plan: Plan,
        options: ReadOptions,
        run: &Run,
    ) -> Self {
        Self {
            _kill: kill_on_cancel(&run.cancel, &control),
            control,
            snapshot,
            plan,
            options,
        }
    }

    /// Keeps only tables that the other side has too.
    pub fn keep_tables_of(&mut self, other: &Side) {
        let theirs = other.tables();
        let known = |database: &str, table: &str| theirs.contains_key(&(database, table));
        let plan = &mut self.plan;
        for (database, tables) in plan.databases.iter_mut().zip(&mut plan.tables) {
            let name = database.name.clone();
            database.tables.retain(|table| known(&name, table));
            tables.retain(|table| known(&name, &table.name));
        }
    }

    /// Keeps only these databases; returns the server's others.
    pub fn keep(
        &mut self,
        options: &VerifyOptions,
        known: &[String],
    ) -> Result<Vec<String>, VerifyError> {
        let plan = &mut self.plan;
        let databases = std::mem::take(&mut plan.databases);
        let tables = std::mem::take(&mut plan.tables);
        let both = databases.into_iter().zip(tables);
        (plan.databases, plan.tables) = both
            .filter(|(database, _)| known.contains(&database.name))
            .unzip();
        let programs = &mut plan.programs;
        for list in [
            &mut programs.routines,
            &mut programs.triggers,
            &mut programs.events,
        ] {
            list.retain(|program| known.contains(&program.database));
        }
        programs.views.retain(|view| known.contains(&view.database));
        let asked = read_options(options, &self.options.source);
        let all = catalog::collations(&mut self.control)?;
        let names = all.into_iter().map(|(name, _)| name);
        let mut extra: Vec<String> = names
            .filter(|name| wanted_database(&asked, name) && !known.contains(name))
            .collect();
        for name in extra
            .extract_if(.., |name| is_own_schema(name))
            .collect::<Vec<_>>()
        {
            let mut alone = asked.clone();
            alone.databases = vec![name.clone()];
            if !catalog::list(&mut self.control, &alone)?.is_empty() {
                extra.push(name);
            }
        }
        Ok(extra)
    }
}

/// Whether a database of a dump is Refloat's own and holds nothing that is selected.
fn is_own(database: &DatabaseEntry) -> bool {
    let tables = database.tables.iter().map(|table| &table.name);
    let objects = tables.chain(&database.views).chain(&database.sequences);
    let programs = [&database.routines, &database.events];
    is_own_schema(&database.name)
        && objects.count() == 0
        && programs.iter().all(|names| names.is_empty())
}

/// Patterns that match nothing on either side.
pub fn unmatched(options: &VerifyOptions, sides: [&Side; 2]) -> Vec<String> {
    let all: Vec<Database> = sides.iter().flat_map(|side| side.databases()).collect();
    catalog::unmatched(&read_options(options, &ConnectOptions::default()), &all)
}
