//! The joiner's end.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use refloat_host::Host;
use refloat_run::progress::Phase;
use refloat_run::{Refusal, Run};
use refloat_wire::PeerTls;

use super::binlog::{self, Binlog};
use super::{Address, Announced, Caller, Greeting, percona};
use crate::about::GaleraPosition;
use crate::error::PhysicalError;
use crate::find::find;
use crate::folder::{Building, Step, confined, try_locked};
use crate::partial_copy::{self, begin_again};
use crate::prepare;
use crate::swap::Place;
use crate::tool::{Tool, Version, text};
use crate::tool_bugs;
use crate::transfer::{ChannelError, PATIENCE, Receiver, Secret};

/// Marks a folder of a state transfer, in place of a repository's id and of a label.
const SST: (&str, &str) = ("sst", "of the cluster");
/// The port of the servers' own scripts.
const PORT: u16 = 4444;
/// How long to wait for an earlier transfer, whose tool may still be working in the folder.
const EARLIER: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// What a joiner receives, and where.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The vendor of the joiner's server.
    pub caller: Caller,
    /// Its version; `None`: it could not be told.
    pub version: Option<Version>,
    /// The data directory of the server, which waits for its files.
    pub datadir: PathBuf,
    /// `HOST:PORT`, as the server gives it, to listen at and to tell the donor.
    pub address: String,
    /// How this end identifies itself; `None`: by the secret alone.
    pub certificates: Option<PeerTls>,
    /// The tool that prepares the files; `None`: the vendor's as it is found.
    pub tool: Option<PathBuf>,
    /// Bytes of memory for it; `None`: half of what is free.
    pub memory: Option<u64>,
    /// `log_bin` of the server, a path without an ending; `None`: it has no binary log.
    pub binlog: Option<PathBuf>,
    /// `log_bin_index`; `None`: the same path with the usual ending.
    pub binlog_index: Option<PathBuf>,
    /// The position of the old data in the cluster's history, as given to the server at its start;
    /// `None`: it was given none. By now, the provider has overwritten what `grastate.dat` said.
    pub start: Option<GaleraPosition>,
}

/// What a joiner has received.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The position of its files in the cluster's history.
    pub position: GaleraPosition,
    /// `wsrep_gtid_domain_id` of the donor.
    pub domain: u32,
    /// Where its old data are kept; `None`: the new data include them, or there were none.
    pub kept: Option<PathBuf>,
    /// Whether it got files; if not, it gets write-sets.
    pub copied: bool,
}

/// Receives the files of a donor. `ready` is called with the address for it once this end listens.
///
/// # Errors
/// [`PhysicalError`]. The donor is told too. The data directory is as it was, unless the new files
/// were already moving into it: then the next transfer continues there.
pub fn join(
    options: &JoinOptions,
    run: &Run,
    ready: impl FnOnce(&str) -> Result<(), PhysicalError>,
) -> Result<Joined, PhysicalError> {
    let kind = options.caller.tool();
    let tool = find(&Host::Local, kind, options.tool.as_deref())?;
    let secret = Secret::random().with(options.certificates.clone());
    let receiver = listen(&options.address, &secret)?;
    let address = Address {
        peer: with_port(&options.address),
        tls: options.certificates.is_some(),
        secret: None,
    };
    ready(&address.with(&secret, options.caller))?;
    // The provider asks again and again until a donor is free.
    let receiver = receiver.patience(None);
    let words = receiver.receive(&run.dir.path().join("words"), None, run, || Ok(()))?;
    let greeting: Greeting = serde_json::from_str(&words.words).map_err(|_| damaged())?;
    let Some(announced) = &greeting.copy else {
        run.events
            .note("no copy is needed: write-sets will come (IST)");
        return Ok(Joined {
            position: greeting.position,
            domain: greeting.domain,
            kept: None,
            copied: false,
        });
    };
    run.events.note(format!(
        "Proceeding with SST: {} of {} will come",
        announced.host,
        bytes(announced.bytes)
    ));
    let receiver = receiver
        .patience(Some(PATIENCE))
        .expects(Some(announced.bytes));
    // An earlier copy may have to be waited for, put in place or removed.
    let begun = receiver.busy_while(|| Joiner::begin(options, tool, announced, run));
    let (joiner, building) = begun.inspect_err(|error| {
        receiver.turn_away(&refloat_host::chain(error));
    })?;
    let (position, kept) = joiner.get(building, &receiver)?;
    Ok(Joined {
        position,
        domain: greeting.domain,
        kept,
        copied: true,
    })
}

struct Joiner<'j> {
    options: &'j JoinOptions,
    run: &'j Run,
    tool: Tool,
    place: Place,
    binlog: Option<Binlog>,
}

impl<'j> Joiner<'j> {
    /// Begins the folder for the new files, if there is room for them.
    fn begin(
        options: &'j JoinOptions,
        tool: Tool,
        announced: &Announced,
        run: &'j Run,
    ) -> Result<(Self, Building), PhysicalError> {
        let (version, its) = (tool.version, announced.tool);
        let mut against = tool_bugs::for_prepare(&tool);
        if (version.0, version.1) != (its.0, its.1) || version < its {
            against.push(
                Refusal::new(format!(
                    "{} is {} on the joiner, and {} on {}",
                    tool.kind.program(),
                    text(version),
                    text(its),
                    announced.host
                ))
                .hint("The joiner's must be of the same series and not older."),
            );
        }
        if options.caller == Caller::Percona {
            against.extend(percona::does_not_fit(options.version, announced.server));
        }
        if !against.is_empty() {
            return Err(PhysicalError::Refused(against));
        }
        let paths = (options.binlog.as_deref(), options.binlog_index.as_deref());
        let binlog = match options.caller {
            // The tool may be newer than the server.
            Caller::MariaDb => Binlog::of(&options.datadir, paths, options.version)?,
            Caller::Percona => paths.0.map(|log| Binlog::of_percona(&options.datadir, log)),
        };
        let mut place = Place::under_server(&options.datadir)?;
        let folder = place.building();
        let (repository, label) = SST;
        if Building::is_filling(&folder)? {
            let building = Building::begin(&folder, repository, label, false)?;
            // What this transfer keeps needs a name of its own.
            let name = format!("{}-earlier", run.dir.id());
            let kept = place.fill(building, &name)?;
            place = Place::under_server(&options.datadir)?;
            run.events.note(format!(
                "an earlier transfer had begun to put its files in place: they are there now{}",
                kept.map_or_else(String::new, |kept| format!(
                    ", and what was there before is in {}",
                    kept.display()
                ))
            ));
        }
        // It is left from a transfer that ended before it had written anything.
        let _ = fs::remove_dir(&folder);
        let begun = Instant::now();
        let building = loop {
            match begin_again(&folder, SST, folder.exists()) {
                Err(PhysicalError::Refused(_))
                    if begun.elapsed() < EARLIER && matches!(try_locked(&folder), Ok(None)) =>
                {
                    run.cancel.sleep(POLL);
                }
                other => break other?,
            }
            if let Some(reason) = run.cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
        };
        let has_room = partial_copy::make_room(&building, announced.room, &run.events);
        has_room.inspect_err(|_| {
            let _ = fs::remove_dir_all(building.path());
        })?;
        let joiner = Self {
            options,
            run,
            tool,
            place,
            binlog,
        };
        Ok((joiner, building))
    }

    /// Receives the files, prepares them and puts them in place. Returns their position in the
    /// cluster's history, and where the old ones are kept.
    fn get(
        &self,
        mut building: Building,
        receiver: &Receiver,
    ) -> Result<(GaleraPosition, Option<PathBuf>), PhysicalError> {
        let (run, datadir) = (self.run, self.place.path());
        run.progress.set_phase(Phase::Data);
        let got = receiver.receive(building.path(), Some(datadir), run, || Ok(()))?;
        let about = got.about.ok_or_else(damaged)?;
        let position = about.galera.clone().ok_or_else(damaged)?;
        run.events.note(format!(
            "all files are here, up to {}:{}",
            position.uuid, position.seqno
        ));
        prepare::begin(&building, run);
        building.reach(Step::Preparing)?;
        prepare::prepare_node(&self.tool, &building, self.options.memory, &run.cancel)?;
        let sent = about.binlog.as_ref();
        let sent = sent.map(|log| confined(&log.file).map(|_| log.file.as_str()));
        let sent = sent.transpose()?;
        let is_percona = self.options.caller == Caller::Percona;
        let goes_on = self.binlog.as_ref().filter(|_| is_percona);
        if let Some(last) = sent
            && goes_on.is_none()
        {
            // From the donor; the server begins its own.
            binlog::drop_received(building.path(), last)?;
        }
        self.place
            .give_to_server(building.held(), building.path())?;
        building.reach(Step::Prepared)?;
        run.events
            .note("the redo log is applied: the files go in place");
        // Another server may have been started meanwhile, and have opened the old files.
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        let id = run.dir.id().as_str();
        // The log goes before the data: beside new data, the server would continue it.
        if let Some(binlog) = &self.binlog
            && let Some(kept) = binlog.set_aside(id)?
        {
            run.events
                .note(format!("the old binary log is kept in {}", kept.display()));
        }
        if let (Some(binlog), Some(last)) = (goes_on, sent) {
            binlog.take(building.path(), last)?;
            self.place
                .give_to_server(building.held(), building.path())?;
        }
        let old = self.place.fill(building, id)?;
        run.progress.set_phase(Phase::Done);
        Ok((position.clone(), self.dispose(old, &position)))
    }

    /// Removes the old data if the new ones hold all of it. Returns where they are otherwise.
    fn dispose(&self, old: Option<PathBuf>, new: &GaleraPosition) -> Option<PathBuf> {
        let is_held = (self.options.start.as_ref())
            .is_some_and(|was| was.uuid == new.uuid && was.seqno <= new.seqno);
        let old = old?;
        if !is_held {
            return Some(old);
        }
        // The new data are in place whether this succeeds or not.
        if let Err(error) = fs::remove_dir_all(&old) {
            let folder = old.display();
            self.run
                .events
                .warn(format!("{folder}: removing the old data failed: {error}"));
        }
        None
    }
}

/// A size for people.
fn bytes(count: u64) -> String {
    format!("{:.1} MiB", count as f64 / f64::from(1 << 20))
}

fn damaged() -> PhysicalError {
    PhysicalError::Transfer {
        peer: "the donor".to_owned(),
        source: ChannelError::Foreign("its message cannot be understood"),
    }
}

/// Listens at the server's address, or at that port on all addresses if the machine does not have
/// that address, as behind NAT.
fn listen(address: &str, secret: &Secret) -> Result<Receiver, PhysicalError> {
    let address = with_port(address);
    match Receiver::bind(&address, secret.clone()) {
        Err(PhysicalError::Transfer {
            source: ChannelError::Lost(error),
            ..
        }) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            let (_, port) = address.rsplit_once(':').unwrap_or_default();
            Receiver::bind(&format!("[::]:{port}"), secret.clone())
        }
        other => other,
    }
}

/// The address, with the usual port if it has none.
fn with_port(address: &str) -> String {
    let port = PORT;
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let is_bare = address.matches(':').count() > 1 && !address.starts_with('[');
    match (has_port && !is_bare, is_bare) {
        (true, _) => address.to_owned(),
        (false, true) => format!("[{address}]:{port}"),
        (false, false) => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_a_port_once() {
        for (address, with) in [
            ("10.0.0.1", "10.0.0.1:4444"),
            ("10.0.0.1:7", "10.0.0.1:7"),
            ("db1", "db1:4444"),
            ("[fe80::1]", "[fe80::1]:4444"),
            ("[fe80::1]:7", "[fe80::1]:7"),
            ("fe80::1", "[fe80::1]:4444"),
        ] {
            assert_eq!(with_port(address), with);
        }
    }
}
