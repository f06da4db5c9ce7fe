//! Rebuilds a server from another one, in one step: its files arrive while they are copied, are
//! prepared here, and replace the old ones.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use refloat_host::Host;
use refloat_run::progress::Phase;
use refloat_run::{Event, Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Target};
use serde::Serialize;

use crate::about::{About, GaleraPosition};
use crate::agent::Agent;
use crate::desync::while_desynced;
use crate::donor::{Donor, DonorOptions};
use crate::error::PhysicalError;
use crate::find::find;
use crate::folder::{Building, REBUILD, Step};
use crate::incoming::Incoming;
use crate::option_file;
use crate::outcome::RebuildOutcome;
use crate::outside_files;
use crate::partial_copy::{self, begin_again};
use crate::prepare;
use crate::replica::{self, ReplicaAccount};
use crate::serve::SendRequest;
use crate::server::{Server, Volume, volume};
use crate::swap::Place;
use crate::target::{TargetOptions, dispose, start};
use crate::tool::{Tool, ToolKind};
use crate::tool_bugs;
use crate::transfer::{ChannelError, Receiver, Secret};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What is to be rebuilt from what.
#[derive(Debug, Clone)]
pub struct RebuildOptions {
    /// The server whose files are copied, and how.
    pub donor: DonorOptions,
    /// This program on the donor's machine. A server that sends its files itself needs none.
    pub program: PathBuf,
    /// The data directory, on this machine.
    pub target: TargetOptions,
    /// The account with which the new server replicates from the donor; `None`: it does not.
    pub replica: Option<ReplicaAccount>,
    /// Where the donor's machine connects to.
    pub listen: Listen,
    /// Number of connections through which files are sent.
    pub streams: u16,
    /// The donor's name and why it was chosen; `None`: the user named it.
    pub chosen: Option<String>,
}

/// Where the donor's machine connects to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Listen {
    /// This machine's address in the network that leads to the donor, and any free port.
    #[default]
    Near,
    /// This address, with a port or 0.
    At(String),
    /// Through the ssh connection that exists anyway: no port is opened to the network.
    ThroughSsh,
}

/// What a rebuild would do.
#[derive(Debug, Clone, Serialize)]
pub struct RebuildPlan {
    /// The server whose files are copied, as it was named, without secrets.
    pub donor: String,
    /// Its name and why it was chosen; `None`: the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The version that it tells.
    pub server: String,
    /// The machine on which the donor's tool runs, or the donor if it sends its files itself.
    pub machine: String,
    /// The data directory that would be filled.
    pub datadir: PathBuf,
    /// The folder in which the files are prepared.
    pub building: PathBuf,
    /// Where the current contents of the data directory will go; `None`: it is empty.
    pub aside: Option<PathBuf>,
    /// The tool that prepares the files here.
    pub tool: Tool,
    /// Whether the donor is a node of a Galera cluster: the new one joins by IST then.
    pub is_node: bool,
    /// What the user should know.
    pub warnings: Vec<String>,
}

struct Ready {
    server: Server,
    /// The donor, if it sends its files itself.
    cloned: Option<Donor>,
    tool: Tool,
    place: Place,
    /// What the donor's data directory holds; `None`: not visible from here.
    volume: Option<Volume>,
    /// The warning about what the new server will find outside its data directory.
    warning: Option<String>,
    /// Bytes of redo log that the donor has not checkpointed, where it tells them.
    redo: Option<u64>,
}

/// Plans a rebuild. Changes nothing.
///
/// # Errors
/// What it would be refused for, as far as visible from here.
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
        datadir: options.target.datadir.clone(),
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
    let mut ready = look(options)?;
    if ready.is_filled()? {
        run.events
            .note("an earlier rebuild had put its files in place".to_owned());
        outcome.aside = ready.place.tidy(run.dir.id().as_str())?;
        return begin(options, (&ready.server, &ready.place), run, outcome);
    }
    let plan = ready.plan(options, run.dir.id().as_str());
    for warning in &plan.warnings {
        run.events.warn(warning.clone());
    }
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "rebuild".to_owned(),
        source: plan.donor.clone(),
        target: plan.datadir.display().to_string(),
        plan: serde_json::to_value(&plan).unwrap_or_default(),
    });
    // The tool at the other end cannot resume where an earlier one stopped.
    let label = ready.label();
    if Building::is_prepared(&plan.building, REBUILD, &label)? {
        let building = Building::begin(&plan.building, REBUILD, &label, false)?;
        ready.place.guard(&building)?;
        run.events
            .note("an earlier rebuild had prepared its files".to_owned());
        outcome.aside = ready.place.fill(building, run.dir.id().as_str())?;
        return begin(options, (&ready.server, &ready.place), run, outcome);
    }
    let mut building = if ready.cloned.is_some() {
        let restart = Building::is_of(&plan.building, REBUILD, &label)?;
        Building::begin(&plan.building, REBUILD, &label, restart)?
    } else {
        begin_again(&plan.building, (REBUILD, &label), false)?
    };
    ready.place.guard(&building)?;
    if let Some(volume) = &ready.volume {
        partial_copy::make_room(&building, volume.room, &run.events)?;
    }
    if let Some(bytes) = ready.redo {
        run.progress.set_redo(bytes);
    }
    run.progress.set_phase(Phase::Data);
    let begun = Instant::now();
    let mut left = Vec::new();
    let facts = &ready.server.facts;
    let about = match &ready.cloned {
        Some(donor) => take(donor, &building, run, outcome),
        None => while_desynced((&options.donor, facts), run, &mut left, || {
            ready.receive(options, &building, run, outcome)
        }),
    };
    outcome.settings_left = left;
    let about = about?;
    outcome.copy_seconds = begun.elapsed().as_secs_f64();
    prepare::begin(&building, run);
    let begun = Instant::now();
    building.reach(Step::Preparing)?;
    outside_files::remove_links(building.path())?;
    prepare::prepare(&ready.tool, &building, options.target.memory, &run.cancel)?;
    if let Some(position) = &about.galera {
        write_place(building.path(), position)?;
    }
    ready
        .place
        .give_to_server(building.held(), building.path())?;
    building.reach(Step::Prepared)?;
    outcome.prepare_seconds = begun.elapsed().as_secs_f64();
    outcome.about = Some(about);
    outcome.aside = ready.place.fill(building, run.dir.id().as_str())?;
    begin(options, (&ready.server, &ready.place), run, outcome)
}

/// Starts the rebuilt server and makes it a replica, if these were asked for.
fn begin(
    options: &RebuildOptions,
    (server, place): (&Server, &Place),
    run: &Run,
    outcome: &mut RebuildOutcome,
) -> Result<(), PhysicalError> {
    start(&options.target, place, run, &mut outcome.started)?;
    if let (Some(account), Some(check)) = (&options.replica, &options.target.check) {
        let donor = &options.donor.source;
        let mut conn = Connection::connect(check)
            .map_err(PhysicalError::server("connecting to the new server"))?;
        replica::replicate((account, donor, server), &mut conn, place.path(), run)?;
        outcome.replicates = true;
        let begun = Instant::now();
        replica::catch_up(donor, &mut conn, run)?;
        outcome.catch_up_seconds = begun.elapsed().as_secs_f64();
        run.progress.set_phase(Phase::Done);
    }
    dispose(&options.target, &mut outcome.aside, run);
    Ok(())
}

fn look(options: &RebuildOptions) -> Result<Ready, PhysicalError> {
    let mut conn = Connection::connect(&options.donor.source)
        .map_err(PhysicalError::server("connecting to the donor"))?;
    let server = Server::look(&mut conn)?;
    let redo = conn
        .query("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'")
        .map_err(PhysicalError::server("asking for the size of its redo log"))?
        .u64(0, 1);
    let kind = ToolKind::of(server.info.vendor);
    let place = Place::look(&options.target.datadir)?;
    let label = Ready::label_of(&server);
    let is_filled = place.is_filled(REBUILD, &label)?;
    let mut against = place.objections(options.target.replace || is_filled)?;
    let (more, warning) = options.target.objections(&server.facts, place.path())?;
    against.extend(more);
    if options.listen == Listen::ThroughSsh && options.donor.host.is_none() {
        let reason = "the donor is on this machine, to which no ssh leads";
        against.push(Refusal::new(reason).hint("Leave --listen ssh out, or name --host."));
    }
    if options.replica.is_some() {
        let is_checked = options.target.check.is_some();
        against.extend(replica::objections((&options.donor, &server), is_checked));
        if server.has_binlog {
            against.extend(replica::no_look_at_logs(&mut conn));
        }
    }
    against.extend(options.donor.no_desync(&server));
    against.extend(option_file::missing_keys_of(&server));
    let outside = &server.tables_outside;
    if let Some(one) = outside.first().filter(|_| !options.target.all_in_datadir) {
        against.push(outside_files::tables(outside.len(), one));
    }
    let is_cloned = options.donor.is_cloned(&server);
    let by = if is_cloned { ToolKind::Clone } else { kind };
    against.extend(options.target.no_server_for(by, server.info.version));
    if is_cloned {
        return look_at_sender(options, (place, warning), against);
    }
    let tool = match find(&Host::Local, kind, options.target.tool.as_deref()) {
        Ok(tool) => {
            against.extend(tool.objections(&server.info));
            against.extend(tool_bugs::for_prepare(&tool));
            Some(tool)
        }
        Err(PhysicalError::Refused(more)) => {
            against.extend(more);
            None
        }
        Err(error) => return Err(error),
    };
    // If this account cannot see the files, the program at the other end says so.
    let host = options.donor.host.as_ref().unwrap_or(&Host::Local);
    let volume = volume(host, &server.facts.datadir).ok();
    against.extend(volume.and_then(|volume| place.lacks_room(volume.room)));
    match tool {
        Some(tool) if against.is_empty() => Ok(Ready {
            server,
            cloned: None,
            tool,
            place,
            volume,
            warning,
            redo,
        }),
        _ => Err(PhysicalError::Refused(against)),
    }
}

/// The remaining checks, for a donor that sends its files itself.
fn look_at_sender(
    options: &RebuildOptions,
    (place, warning): (Place, Option<String>),
    mut against: Vec<Refusal>,
) -> Result<Ready, PhysicalError> {
    let (donor, more) = Donor::look(&DonorOptions {
        parallel: usize::from(options.streams),
        ..options.donor.clone()
    })?;
    against.extend(more);
    against.extend(place.lacks_room(donor.volume.room));
    let of_no_use = [
        (
            options.target.delta,
            "--delta",
            "it always sends all of them",
        ),
        (
            options.listen != Listen::Near,
            "--listen",
            "this machine asks for the files, and nothing listens here",
        ),
    ];
    for (_, flag, why) in of_no_use.into_iter().filter(|(is_given, ..)| *is_given) {
        let reason =
            format!("{flag} does not apply to a MySQL server, which sends its files itself: {why}");
        against.push(Refusal::new(reason).hint(format!("Leave {flag} out.")));
    }
    if !against.is_empty() {
        return Err(PhysicalError::Refused(against));
    }
    Ok(Ready {
        server: donor.server.clone(),
        tool: donor.tool.clone(),
        volume: Some(donor.volume),
        cloned: Some(donor),
        place,
        warning,
        // The server itself applies it.
        redo: None,
    })
}

/// Receives the files of a donor that sends them itself.
fn take(
    donor: &Donor,
    building: &Building,
    run: &Run,
    outcome: &mut RebuildOutcome,
) -> Result<About, PhysicalError> {
    let incoming = Incoming::begin(building.path())?;
    let mut blocked = Duration::ZERO;
    let copied = donor.copy(&incoming, run, &mut blocked)?;
    incoming.finish(&copied.files)?;
    outcome.blocked_seconds = blocked.as_secs_f64();
    outcome.files = copied.files.len() as u64;
    outcome.bytes = copied.files.iter().map(|(.., size)| size).sum();
    outcome.sent = run.progress.snapshot().bytes_done;
    Ok(copied.about)
}

impl Ready {
    /// Marks a folder of a rebuild from this donor, in place of a backup's label.
    fn label(&self) -> String {
        Self::label_of(&self.server)
    }

    fn label_of(server: &Server) -> String {
        let facts = &server.facts;
        format!("{}:{}{}", facts.hostname, facts.port, facts.datadir)
    }

    /// Whether an earlier rebuild ended right after it had put its files in place.
    fn is_filled(&self) -> Result<bool, PhysicalError> {
        self.place.is_filled(REBUILD, &self.label())
    }

    fn plan(&self, options: &RebuildOptions, run: &str) -> RebuildPlan {
        let host = options.donor.host.as_ref().unwrap_or(&Host::Local);
        let cloned = self.cloned.as_ref();
        RebuildPlan {
            donor: options.donor.source.describe(),
            chosen: options.chosen.clone(),
            server: self.server.facts.version.clone(),
            machine: cloned.map_or(host.name(), Donor::machine).to_owned(),
            datadir: self.place.path().to_owned(),
            building: self.place.building(),
            aside: self.place.aside(run),
            tool: self.tool.clone(),
            is_node: self.server.is_node,
            warnings: cloned
                .map_or_else(Vec::new, |donor| donor.warnings.clone())
                .into_iter()
                .chain(self.warning.clone())
                .collect(),
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
        let listen = match &options.listen {
            Listen::At(address) => address.clone(),
            Listen::Near => SocketAddr::new(own_address(&options.donor.source), 0).to_string(),
            Listen::ThroughSsh => SocketAddr::new(LOCAL, 0).to_string(),
        };
        let receiver = Receiver::bind(&listen, Secret::random())?
            .expects(self.volume.map(|volume| volume.bytes));
        let tunnel = receiver.address();
        let tunnel = tunnel.filter(|_| options.listen == Listen::ThroughSsh);
        let address = receiver.address().map(|mut address| {
            // It listens on all addresses, and the donor needs one to connect to.
            if address.ip().is_unspecified() {
                address.set_ip(own_address(&options.donor.source));
            }
            address.to_string()
        });
        let request = SendRequest::new(
            (&options.donor, &self.server.facts),
            address.unwrap_or(listen),
            receiver.secret(),
            options.streams,
        );
        let old = options.target.delta.then(|| self.place.path());
        let old = old.filter(|old| old.exists());
        let mut agent = Agent::start(host, &options.program, request, tunnel)?;
        let files = receiver.receive(building.path(), old, run, || agent.is_alive());
        // Stops listening first, so that the other end, which is waited for next, does not keep
        // trying to connect.
        drop(receiver);
        let files = files?;
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

/// This machine's address in the network that leads to the donor.
fn own_address(donor: &ConnectOptions) -> IpAddr {
    let Target::Tcp(host, port) = donor.target() else {
        return LOCAL;
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
    find().unwrap_or(LOCAL)
}

/// Records the files' position in the cluster's history, so that the node joins by IST.
fn write_place(folder: &Path, position: &GaleraPosition) -> Result<(), PhysicalError> {
    let path = folder.join("grastate.dat");
    let text = format!(
        "# GALERA saved state\nversion: 2.1\nuuid:    {}\nseqno:   {}\nsafe_to_bootstrap: 0\n",
        position.uuid, position.seqno
    );
    fs::write(&path, text).map_err(PhysicalError::file(&path, "writing it"))
}
