//! Rebuilds a server from another one, in one step: its files come while they are copied, are
//! prepared here, and take the place of the old ones.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use refloat_host::{Host, datadir, last_line};
use refloat_run::progress::Phase;
use refloat_run::{Event, Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Target};
use serde::Serialize;

use crate::about::{About, GaleraPosition};
use crate::agent::Agent;
use crate::donor::DonorOptions;
use crate::error::PhysicalError;
use crate::find::find;
use crate::folder::{Building, Step};
use crate::outcome::RebuildOutcome;
use crate::prepare::prepare;
use crate::serve::SendRequest;
use crate::server::Server;
use crate::swap::Place;
use crate::tool::{Tool, ToolKind};
use crate::transfer::{ChannelError, Receiver, Secret};

/// How long a start command may take: systemd's own units wait for as long as a node joins.
const START: Duration = Duration::from_secs(3600);
/// How often the new server is asked.
const POLL: Duration = Duration::from_millis(500);
/// How long the process of the new server may be missing before it counts as ended.
const GONE: Duration = Duration::from_secs(20);
/// After this time it is told what is waited for.
const TELL: Duration = Duration::from_secs(10);
/// `ER_ACCESS_DENIED_ERROR`.
const ACCESS_DENIED: u16 = 1045;
/// What marks a folder of a rebuild, in the place of a repository's id.
const REBUILD: &str = "rebuild";

/// What is to be rebuilt from what.
#[derive(Debug, Clone)]
pub struct RebuildOptions {
    /// The server whose files are copied, and how.
    pub donor: DonorOptions,
    /// This program on the donor's machine.
    pub program: PathBuf,
    /// The data directory, on this machine.
    pub datadir: PathBuf,
    /// Whether what the data directory holds may be set aside.
    pub replace: bool,
    /// Whether blocks that the data directory holds already are taken from there.
    pub delta: bool,
    /// The address to listen at, with a port or 0; `None`: that of the network by which the donor
    /// is reached, and any port.
    pub listen: Option<String>,
    /// Number of TCP connections.
    pub streams: u16,
    /// The tool's program here; `None`: as it is found.
    pub tool: Option<PathBuf>,
    /// Bytes of memory for applying the redo log; `None`: half of what is free.
    pub memory: Option<u64>,
    /// A command that starts the server here; `None`: it is not started.
    pub start: Option<String>,
    /// The new server, to ask whether it answers; `None`: it is not asked.
    pub check: Option<ConnectOptions>,
}

/// What a rebuild would do.
#[derive(Debug, Clone, Serialize)]
pub struct RebuildPlan {
    /// The server whose files are copied, as it was named, without secrets.
    pub donor: String,
    /// The version that it tells.
    pub server: String,
    /// The machine on which the donor's tool runs.
    pub machine: String,
    /// The data directory.
    pub datadir: PathBuf,
    /// Where the files are made ready.
    pub building: PathBuf,
    /// Where what the data directory holds goes; `None`: it holds nothing.
    pub aside: Option<PathBuf>,
    /// The tool that prepares them here.
    pub tool: Tool,
    /// Whether the donor is a node of a Galera cluster: the new one joins by IST then.
    pub is_node: bool,
}

struct Ready {
    server: Server,
    tool: Tool,
    place: Place,
}

/// Says what a rebuild would do. Changes nothing.
///
/// # Errors
/// What it would be refused for, as far as it can be seen from here.
pub fn plan(options: &RebuildOptions) -> Result<RebuildPlan, PhysicalError> {
    Ok(look(options)?.plan(options, "RUN"))
}

/// Rebuilds a server.
///
/// # Errors
/// [`PhysicalError`], with what was done until then. Before the files have taken their place, the
/// data directory is as it was.
pub fn rebuild(
    options: &RebuildOptions,
    run: &Run,
) -> Result<RebuildOutcome, (PhysicalError, Box<RebuildOutcome>)> {
    let begun = Instant::now();
    let mut outcome = RebuildOutcome {
        run: run.dir.id().to_string(),
        donor: options.donor.source.describe(),
        datadir: options.datadir.clone(),
        ..RebuildOutcome::default()
    };
    let result = attempt(options, run, &mut outcome);
    outcome.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err((error, Box::new(outcome))),
    }
}

fn attempt(
    options: &RebuildOptions,
    run: &Run,
    outcome: &mut RebuildOutcome,
) -> Result<(), PhysicalError> {
    run.progress.set_phase(Phase::Preflight);
    let ready = look(options)?;
    if ready.is_filled()? {
        run.events
            .note("an earlier rebuild had put its files in place".to_owned());
        outcome.aside = ready.place.tidy(run.dir.id().as_str())?;
        return begin(options, &ready.place, run, outcome);
    }
    let plan = ready.plan(options, run.dir.id().as_str());
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "rebuild".to_owned(),
        source: plan.donor.clone(),
        target: plan.datadir.display().to_string(),
        plan: serde_json::to_value(&plan).unwrap_or_default(),
    });
    // The tool at the other end cannot go on where an earlier one was.
    let label = ready.label();
    if Building::is_prepared(&plan.building, REBUILD, &label)? {
        let building = Building::begin(&plan.building, REBUILD, &label, false)?;
        run.events
            .note("an earlier rebuild had prepared its files".to_owned());
        outcome.aside = ready.place.fill(building, run.dir.id().as_str())?;
        return begin(options, &ready.place, run, outcome);
    }
    let restart = Building::is_of(&plan.building, REBUILD, &label)?;
    let mut building = Building::begin(&plan.building, REBUILD, &label, restart)?;
    run.progress.set_phase(Phase::Data);
    let begun = Instant::now();
    let about = ready.receive(options, &building, run, outcome)?;
    outcome.copy_seconds = begun.elapsed().as_secs_f64();
    run.progress.set_phase(Phase::Prepare);
    let begun = Instant::now();
    building.reach(Step::Preparing)?;
    prepare(&ready.tool, &building, options.memory, &run.cancel)?;
    if let Some(position) = &about.galera {
        write_place(building.path(), position)?;
    }
    ready.place.own(building.path())?;
    building.reach(Step::Prepared)?;
    outcome.prepare_seconds = begun.elapsed().as_secs_f64();
    outcome.about = Some(about);
    outcome.aside = ready.place.fill(building, run.dir.id().as_str())?;
    begin(options, &ready.place, run, outcome)
}

/// Starts the rebuilt server, if that is asked for.
fn begin(
    options: &RebuildOptions,
    place: &Place,
    run: &Run,
    outcome: &mut RebuildOutcome,
) -> Result<(), PhysicalError> {
    if let Some(command) = &options.start {
        start(command, place.path(), options.check.as_ref(), run)?;
        outcome.started = true;
    }
    run.progress.set_phase(Phase::Done);
    Ok(())
}

fn look(options: &RebuildOptions) -> Result<Ready, PhysicalError> {
    let mut conn = Connection::connect(&options.donor.source)
        .map_err(PhysicalError::server("connecting to the donor"))?;
    let server = Server::look(&mut conn)?;
    let place = Place::look(&options.datadir)?;
    let label = Ready::label_of(&server);
    let is_filled = place.is_filled(REBUILD, &label)?;
    let mut against = place.objections(options.replace || is_filled)?;
    let kind = ToolKind::of(server.info.vendor);
    let tool = match find(&Host::Local, kind, options.tool.as_deref()) {
        Ok(tool) => {
            against.extend(tool.objections(&server.info));
            Some(tool)
        }
        Err(PhysicalError::Refused(more)) => {
            against.extend(more);
            None
        }
        Err(error) => return Err(error),
    };
    if options.check.is_some() && options.start.is_none() {
        against.push(
            Refusal::new("the new server is to be asked, and nothing starts it")
                .hint("Give --start COMMAND as well."),
        );
    }
    match tool {
        Some(tool) if against.is_empty() => Ok(Ready {
            server,
            tool,
            place,
        }),
        _ => Err(PhysicalError::Refused(against)),
    }
}

impl Ready {
    /// What marks a folder of a rebuild from this donor, in the place of a backup's label.
    fn label(&self) -> String {
        Self::label_of(&self.server)
    }

    fn label_of(server: &Server) -> String {
        let facts = &server.facts;
        format!("{}:{}{}", facts.hostname, facts.port, facts.datadir)
    }

    /// Whether an earlier rebuild was ended right after it had put its files in place.
    fn is_filled(&self) -> Result<bool, PhysicalError> {
        self.place.is_filled(REBUILD, &self.label())
    }

    fn plan(&self, options: &RebuildOptions, run: &str) -> RebuildPlan {
        let host = options.donor.host.as_ref().unwrap_or(&Host::Local);
        RebuildPlan {
            donor: options.donor.source.describe(),
            server: self.server.facts.version.clone(),
            machine: host.name().to_owned(),
            datadir: self.place.path().to_owned(),
            building: self.place.building(),
            aside: self.place.aside(run),
            tool: self.tool.clone(),
            is_node: self.server.is_node,
        }
    }

    /// Starts the program at the other end, and receives the files.
    fn receive(
        &self,
        options: &RebuildOptions,
        building: &Building,
        run: &Run,
        outcome: &mut RebuildOutcome,
    ) -> Result<About, PhysicalError> {
        let host = options.donor.host.as_ref().unwrap_or(&Host::Local);
        let listen = options.listen.clone().unwrap_or_else(|| {
            let own = own_address(&options.donor.source);
            SocketAddr::new(own, 0).to_string()
        });
        let receiver = Receiver::bind(&listen, Secret::random())?;
        let address = receiver.address().map(|address| address.to_string());
        let request = SendRequest::new(
            (&options.donor, &self.server.facts),
            address.unwrap_or(listen),
            receiver.secret(),
            options.streams,
        );
        let old = options.delta.then(|| self.place.path());
        let old = old.filter(|old| old.exists());
        let mut agent = Agent::start(host, &options.program, &request)?;
        let files = receiver.receive(building.path(), old, run, || agent.is_alive())?;
        let (bytes, same, sent, blocked) = agent.finish()?;
        (outcome.bytes, outcome.same, outcome.sent) = (bytes, same, sent);
        outcome.blocked_seconds = blocked;
        outcome.files = files.files.len() as u64;
        files.about.ok_or_else(|| PhysicalError::Transfer {
            peer: host.name().to_owned(),
            source: ChannelError::Foreign("it does not say what the copy is"),
        })
    }
}

/// The address of this machine in the network by which the donor is reached.
fn own_address(donor: &ConnectOptions) -> IpAddr {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let Target::Tcp(host, port) = donor.target() else {
        return local;
    };
    // Connecting a datagram socket sends nothing, and chooses the address.
    let any = if host.contains(':') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let find = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind(any)?;
        socket.connect((host.as_str(), port))?;
        Ok(socket.local_addr()?.ip())
    };
    find().unwrap_or(local)
}

/// Writes down where in the cluster's history the files are, so that the node joins by IST.
fn write_place(folder: &Path, position: &GaleraPosition) -> Result<(), PhysicalError> {
    let path = folder.join("grastate.dat");
    let text = format!(
        "# GALERA saved state\nversion: 2.1\nuuid:    {}\nseqno:   {}\nsafe_to_bootstrap: 0\n",
        position.uuid, position.seqno
    );
    fs::write(&path, text).map_err(PhysicalError::file(&path, "writing it"))
}

/// Starts the server, and waits until it answers, and as a node until it is in step.
fn start(
    command: &str,
    folder: &Path,
    check: Option<&ConnectOptions>,
    run: &Run,
) -> Result<(), PhysicalError> {
    let failed = |what: &str, reason: String| PhysicalError::Tool {
        tool: "the rebuilt server".to_owned(),
        what: what.to_owned(),
        reason,
    };
    let output = Host::Local.run_apart(command, START)?;
    if !output.status.success() {
        return Err(failed("could not be started", last_line(&output.stderr)));
    }
    let Some(check) = check else { return Ok(()) };
    let (begun, mut told) = (Instant::now(), false);
    let mut seen = Instant::now();
    loop {
        let last = match look_at(check) {
            Ok(true) => return Ok(()),
            Ok(false) => "it is not in step yet".to_owned(),
            // The accounts are the donor's now.
            Err(error) if error.server_code() == Some(ACCESS_DENIED) => {
                return Err(failed(
                    "answers, and refuses this account",
                    error.to_string(),
                ));
            }
            Err(error) => refloat_host::chain(&error),
        };
        if !told && begun.elapsed() > TELL {
            run.events
                .note(format!("the rebuilt server is waited for: {last}"));
            told = true;
        }
        if begun.elapsed() > START {
            return Err(failed("is not ready", last));
        }
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        if datadir::server_in(&Host::Local, folder)?.is_some() {
            seen = Instant::now();
        } else if seen.elapsed() > GONE {
            return Err(failed("has ended, or was not started", last));
        }
        run.cancel.sleep(POLL);
    }
}

/// Whether a server answers, and is in step if it is a node.
fn look_at(check: &ConnectOptions) -> Result<bool, refloat_wire::Error> {
    let mut conn = Connection::connect(check)?;
    let state = conn.query("SHOW GLOBAL STATUS LIKE 'wsrep_local_state_comment'")?;
    let state = state.str(0, 1).unwrap_or_default();
    Ok(state.is_empty() || state == "Synced" || state == "Disconnected" && !is_node(&mut conn)?)
}

fn is_node(conn: &mut Connection) -> Result<bool, refloat_wire::Error> {
    let on = conn.query_value("SELECT @@GLOBAL.wsrep_on")?;
    Ok(on.as_deref() == Some("1"))
}
