//! Which donor a starting node prefers.
//!
//! The server takes it as a command-line option, which stays in force until the next start. So it
//! is recorded before the start, and restored once the node has joined.

use std::path::Path;

use refloat_host::scripts::SERVER;
use refloat_host::{Control, ControlError, Host, StartAs, chain, last_line};
use refloat_run::settings::{self, Grants, JournalEntry, SST_DONOR, ServerMark};
use refloat_run::{Run, RunDir};
use refloat_wire::{Connection, Target};

use crate::join::runs;
use crate::member::{Member, impatient};

/// Name of the runs that record the donors that nodes were told to prefer.
const START: &str = "cluster start";
const LOOK: &str = include_str!("asked.sh");

/// One start of a node that joins its cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    /// All nodes of the cluster.
    pub members: &'a [Member],
    pub member: &'a Member,
    pub control: &'a Control,
    /// Where runs keep their folders.
    pub state_dir: &'a Path,
    pub run: &'a Run,
}

/// The account's grants on one of the nodes. All are queried at the same time, because nodes that
/// are down may take long to fail.
fn grants_of_any(members: &[Member]) -> Option<Grants> {
    let grants = |one: &Member| {
        let mut conn = Connection::connect(&impatient(&one.connect)).ok()?;
        Grants::read(&mut conn).ok()
    };
    std::thread::scope(|scope| {
        let ask = |one| scope.spawn(move || grants(one));
        let asked: Vec<_> = members.iter().map(ask).collect();
        asked.into_iter().find_map(|one| one.join().ok()?)
    })
}

/// The server's own options, without the donors passed at its start.
#[derive(Debug, PartialEq, Eq)]
struct OwnOptions {
    hostname: String,
    port: Option<u16>,
    donors: String,
}

impl Start<'_> {
    /// Starts the node. It prefers `donor` (a `wsrep_node_name`), if that can be restored later.
    ///
    /// # Errors
    /// [`ControlError`]: the node could not be started.
    pub fn begin(&self, donor: Option<&str>) -> Result<(), ControlError> {
        let mut donor = donor.filter(|donor| !donor.is_empty());
        let record = |name| {
            if self.may_put_back() {
                self.write_down(&given(name))
            } else {
                Err("the account lacks SUPER".to_owned())
            }
        };
        if let Some(name) = donor
            && let Err(reason) = record(name)
        {
            self.run.events.note(format!(
                "{} is not told to ask {name} first, because that could not be put back: {reason}",
                self.member.name
            ));
            donor = None;
        }
        self.control.start(StartAs::Member, donor.as_slice())
    }

    /// Whether the account may set the donors once the node is up. The other nodes are queried,
    /// because accounts are the same on all nodes and this one is down. Unknown counts as yes.
    fn may_put_back(&self) -> bool {
        grants_of_any(self.members).is_none_or(|grants| grants.may(&["SUPER"]))
    }

    fn write_down(&self, donors: &str) -> Result<(), String> {
        let configured = self.own_options(donors)?;
        let port = match self.member.connect.target() {
            Target::Tcp(_, port) => port,
            Target::Unix(_) => configured
                .port
                .unwrap_or(refloat_wire::options::DEFAULT_PORT),
        };
        let server = ServerMark {
            peer: self.member.connect.describe(),
            uuid: None,
            hostname: configured.hostname,
            port,
            // Servers report it with a trailing slash.
            datadir: format!(
                "{}/",
                self.member.folder().to_string_lossy().trim_end_matches('/')
            ),
            version: String::new(),
            started: 0,
        };
        let entry = JournalEntry {
            name: SST_DONOR.to_owned(),
            old: configured.donors,
            new: donors.to_owned(),
            applied: None,
            reason: format!("{} asks this one first when it starts", self.member.name),
        };
        let dir = RunDir::create(self.state_dir, START).map_err(|error| chain(&error))?;
        settings::write_down_start(&dir, server, entry).map_err(|error| chain(&error))
    }

    /// Restores the donors on a node that has joined, whoever started it that way.
    pub fn arrived(&self) {
        if !settings::was_started(self.state_dir, SST_DONOR) {
            return;
        }
        let name = &self.member.name;
        let left = |reason: String| {
            self.run.events.warn(format!(
                "{name} still asks first whom it was told to ({SST_DONOR}): {reason}. `refloat settings revert` puts it back"
            ));
        };
        let mut conn = match Connection::connect(&impatient(&self.member.connect)) {
            Ok(conn) => conn,
            Err(error) => return left(chain(&error)),
        };
        let now = conn.query_value(format!("SELECT @@GLOBAL.{SST_DONOR}"));
        let options = match now {
            // The value in force is the one to ignore on its command line.
            Ok(now) => self.own_options(&now.unwrap_or_default()).ok(),
            Err(error) => return left(chain(&error)),
        };
        let donors = options.map(|options| options.donors);
        let events = &self.run.events;
        let put = settings::put_back_start(
            self.state_dir,
            &mut conn,
            (SST_DONOR, donors.as_deref()),
            events,
        );
        match put {
            Ok(reports) if reports.iter().any(|report| !report.complete) => {
                left("the server refuses".to_owned());
            }
            Ok(_) => {}
            Err(error) => left(chain(&error)),
        }
    }

    /// Closes the record of a node that is down again.
    pub fn failed(&self) {
        let written = settings::was_started(self.state_dir, SST_DONOR);
        if written && matches!(runs(self.control, self.member), Ok(false)) {
            let peer = self.member.connect.describe();
            if let Err(error) = settings::forget_start(self.state_dir, SST_DONOR, &peer) {
                self.run.events.warn(chain(&error));
            }
        }
    }

    /// The server's own options, ignoring the donors in `given`.
    fn own_options(&self, given: &str) -> Result<OwnOptions, String> {
        let defaults = self.member.defaults_file.as_deref();
        let defaults = defaults.unwrap_or(Path::new("")).to_string_lossy();
        let folder = self.member.folder();
        let script = format!(
            "datadir={} defaults={} given={}\n{SERVER}{LOOK}",
            Host::word(&folder.to_string_lossy()),
            Host::word(&defaults),
            Host::word(given)
        );
        let output = self
            .control
            .host()
            .run(&script)
            .map_err(|error| chain(&error))?;
        if !output.status.success() {
            return Err(format!(
                "its option files cannot be read ({})",
                last_line(&output.stderr)
            ));
        }
        OwnOptions::parse(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| "its option files cannot be read".to_owned())
    }
}

/// The trailing comma allows any other node as donor if this one cannot.
fn given(donor: &str) -> String {
    format!("{donor},")
}

impl OwnOptions {
    fn parse(output: &str) -> Option<Self> {
        let mut lines = output.split('\n');
        Some(Self {
            hostname: lines.next()?.to_owned(),
            port: lines.next()?.parse().ok(),
            donors: lines.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use refloat_wire::ConnectOptions;

    use super::*;

    #[test]
    fn nodes_that_say_nothing_are_waited_for_together() {
        const NODES: u32 = 8;
        const PATIENCE: Duration = Duration::from_secs(1);
        let silent: Vec<TcpListener> = (0..NODES)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let member = |listener: &TcpListener| Member {
            name: "n".to_owned(),
            connect: ConnectOptions {
                connect_timeout: PATIENCE,
                ..ConnectOptions::tcp("127.0.0.1", listener.local_addr().unwrap().port(), "root")
            },
            host: None,
            datadir: None,
            log: None,
            defaults_file: None,
        };
        let members: Vec<Member> = silent.iter().map(member).collect();
        let begun = Instant::now();
        assert!(grants_of_any(&members).is_none());
        assert!(begun.elapsed() < PATIENCE * NODES / 2);
    }

    #[test]
    fn its_own_donors_are_those_of_its_files_and_not_those_of_this_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.cnf");
        let options_of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let script = format!(
                "datadir={} defaults={} given=a,\n{SERVER}{LOOK}",
                Host::word(&folder.path().to_string_lossy()),
                Host::word(&file.to_string_lossy())
            );
            let output = Host::Local.run(&script).unwrap();
            assert!(output.status.success(), "{output:?}");
            OwnOptions::parse(&String::from_utf8_lossy(&output.stdout)).unwrap()
        };
        let none = options_of("[mysqld]\nport = 3333\n");
        assert_eq!((none.port, none.donors.as_str()), (Some(3333), ""));
        assert!(!none.hostname.is_empty());
        let some = options_of(
            "[mysqld]\nwsrep_sst_donor = b,c\n[galera]\nloose-wsrep-sst-donor = \"a,\"\n",
        );
        assert_eq!((some.port, some.donors.as_str()), (None, "a,"));
    }
}
