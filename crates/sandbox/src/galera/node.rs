//! One node of a cluster.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use refloat_host::{GraState, Position};
use rustix::process::Signal;

use super::{ClusterFolder, network};
use crate::process::{ProcessId, find_marked};
use crate::record::NodeRecord;
use crate::user::ServerUser;
use crate::{Error, Instance, Result, Status, files, launch, ports, stop};

/// Receiving a full copy of a big database, or waiting for a donor, takes a while.
const JOIN_PATIENCE: Duration = Duration::from_secs(300);

const POLL: Duration = Duration::from_millis(50);

/// How long a process may take to stop or continue: threads that wait for a slow disk react late.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);
const SIGNAL_POLL: Duration = Duration::from_millis(2);

/// A query that a node answers even before it accepts others.
const STATE: &str = "SHOW STATUS LIKE 'wsrep_local_state_comment'";

/// The argument that bootstraps a new group. It is passed once and never stored: a node that kept
/// it would bootstrap another group at its next start.
const NEW_CLUSTER: &str = "--wsrep-new-cluster";

/// How to start a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStart {
    /// Bootstraps a new group instead of joining the others.
    pub bootstrap: bool,
    /// Arguments for this start only, after all others: name without dashes, and value. With
    /// `wsrep_on=OFF` or `wsrep_provider=none`, the node is a standalone server: it needs no
    /// position, and is ready once it answers.
    pub arguments: Vec<(String, Option<String>)>,
}

impl NodeStart {
    /// Joins the others.
    pub fn join() -> Self {
        Self::default()
    }

    /// Bootstraps a new group.
    pub fn bootstrap() -> Self {
        Self {
            bootstrap: true,
            ..Self::default()
        }
    }

    /// Whether the node joins no cluster.
    fn is_alone(&self) -> bool {
        self.arguments.iter().any(|(key, value)| {
            let value = value.as_deref().unwrap_or_default();
            matches!(
                (
                    key.replace('-', "_").as_str(),
                    value.to_ascii_lowercase().as_str()
                ),
                ("wsrep_on", "off" | "0") | ("wsrep_provider", "none")
            )
        })
    }

    /// Adds an argument with a value, for this start only.
    #[must_use]
    pub fn argument(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.push((key.into(), Some(value.into())));
        self
    }
}

/// One node of a Galera cluster. It dereferences to its [`Instance`]: its address, its client, its
/// directories.
///
/// Unlike an instance, its methods cache nothing: every call reads the node's current state. So a
/// value can be shared between threads, and stays valid across restarts.
#[derive(Debug, Clone)]
pub struct GaleraNode {
    instance: Instance,
    node: NodeRecord,
}

impl Deref for GaleraNode {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl GaleraNode {
    /// The instance as a node.
    ///
    /// # Errors
    /// [`Error::NotANode`].
    pub fn new(instance: Instance) -> Result<Self> {
        match instance.record.node.clone() {
            Some(node) => Ok(Self { instance, node }),
            None => Err(Error::NotANode {
                name: instance.name().to_owned(),
            }),
        }
    }

    /// As in `wsrep_cluster_name`.
    pub fn cluster_name(&self) -> &str {
        &self.node.cluster
    }

    /// Its number in the cluster, from 1.
    pub const fn number(&self) -> u32 {
        self.node.number
    }

    /// `HOST:PORT` for group communication with the other members.
    pub fn group_address(&self) -> String {
        format!("{}:{}", self.node.host, self.node.group_port)
    }

    /// `HOST:PORT` where it receives full state transfers (SST).
    pub fn sst_address(&self) -> String {
        format!("{}:{}", self.node.host, self.node.sst_port)
    }

    /// `HOST:PORT` where it receives incremental state transfers (IST).
    pub fn ist_address(&self) -> String {
        format!("{}:{}", self.node.host, self.node.ist_port)
    }

    /// The folder that comes first in its search path.
    pub fn programs(&self) -> &Path {
        &self.node.programs
    }

    /// The file in which the provider keeps its position.
    pub fn grastate(&self) -> PathBuf {
        self.instance.folder.grastate()
    }

    /// The option file, which lists all members.
    pub fn config(&self) -> PathBuf {
        self.instance.folder.config()
    }

    /// The parsed `grastate.dat`. `None` if there is no such file, or it cannot be parsed.
    pub fn state(&self) -> Option<GraState> {
        GraState::parse(&fs::read_to_string(self.grastate()).ok()?)
    }

    /// What the node is doing now.
    pub fn status(&self) -> Result<Status> {
        Ok(self.fresh()?.status())
    }

    /// Its process ID. `None` if it is not running.
    pub fn pid(&self) -> Result<Option<u32>> {
        let fresh = self.fresh()?;
        Ok(fresh.pid().filter(|_| fresh.status().is_alive()))
    }

    /// Process IDs of the helpers that the server has started and that still run: state transfer
    /// scripts and their children. Only root sees those of other users.
    pub fn helpers(&self) -> Vec<u32> {
        let server = self.pid().ok().flatten();
        find_marked(&self.instance.folder.setting())
            .into_iter()
            .map(|process| process.pid)
            .filter(|&pid| Some(pid) != server)
            .collect()
    }

    /// Starts it, and returns once it is synced with the others. If it is already running, only
    /// waits for that.
    ///
    /// # Errors
    /// [`Error::Start`] with the end of its log; [`Error::PortTaken`].
    pub fn start(&self) -> Result<()> {
        self.start_with(&NodeStart::join())
    }

    /// Starts it as `how` says, and returns once it is ready.
    pub fn start_with(&self, how: &NodeStart) -> Result<()> {
        self.begin(how)?;
        self.wait_ready(JOIN_PATIENCE)
    }

    /// Starts it, and returns as soon as its process exists. [`Self::wait_ready`] waits for the
    /// rest.
    pub fn begin(&self, how: &NodeStart) -> Result<()> {
        let _lock = self.instance.lock()?;
        let mut fresh = self.fresh()?;
        if fresh.status().is_alive() {
            return Ok(());
        }
        let user = ServerUser::for_this_process()?;
        self.check_addresses()?;
        let server = fresh.sandbox.installation(fresh.kind())?;
        let mut arguments = Vec::new();
        if !how.is_alone() && self.needs_recovery() {
            let position = self.recover_locked(&fresh, user.as_ref())?;
            arguments.push(format!("--wsrep-start-position={position}"));
        }
        if how.bootstrap {
            arguments.push(NEW_CLUSTER.to_owned());
        }
        let more = how.arguments.iter();
        arguments.extend(more.map(|(key, value)| crate::options::argument(key, value.as_deref())));
        let log_start = files::length(&fresh.error_log());
        let (_, process) = launch::spawn(
            &server,
            &fresh.folder,
            &fresh.record,
            user.as_ref(),
            &arguments,
        )?;
        fresh.record.process = Some(process);
        if let Some(node) = &mut fresh.record.node {
            node.starting = true;
            node.log_start = log_start;
        }
        fresh.folder.write(&fresh.record)
    }

    /// Waits until a node that was started is synced with the others.
    ///
    /// # Errors
    /// [`Error::Start`] with the end of its log if it ends, or is not ready in time. In the second
    /// case it keeps starting.
    pub fn wait_ready(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut last = "it does not listen".to_owned();
        loop {
            let fresh = self.fresh()?;
            let log_start = fresh.record.node.as_ref().map_or(0, |node| node.log_start);
            let failed = |reason: String| {
                launch::start_error(&fresh.record, &fresh.folder, log_start, reason)
            };
            match fresh.status() {
                Status::Running | Status::Cut | Status::Busy => match self.ready_version() {
                    Ok(version) => return self.note_ready(version),
                    Err(_)
                        if files::errors_and_tail(&fresh.error_log(), log_start)
                            .contains(GAVE_UP) =>
                    {
                        return Err(failed("it has given up its IST".to_owned()));
                    }
                    Err(reason) => last = reason,
                },
                Status::Starting => {}
                Status::Frozen => "it is frozen".clone_into(&mut last),
                // A process that is ending cannot be identified for a moment.
                Status::Stopped | Status::Broken
                    if fresh
                        .record
                        .process
                        .is_some_and(|process| process.holds_on(&fresh.folder.mark())) => {}
                Status::Stopped | Status::Broken => {
                    if let Some(process) = fresh.record.process {
                        process.reap();
                    }
                    return Err(failed("it ended".to_owned()));
                }
            }
            if Instant::now() > deadline {
                return Err(failed(format!(
                    "it is not ready after {} s: {last}",
                    patience.as_secs()
                )));
            }
            thread::sleep(POLL);
        }
    }

    /// Shuts it down cleanly and waits until it is gone. Does nothing if it is not running.
    ///
    /// # Errors
    /// [`Error::Frozen`], [`Error::StillRunning`].
    pub fn stop(&self) -> Result<()> {
        self.fresh()?.stop()
    }

    /// Ends the server with SIGKILL, as the kernel does when memory runs out. Its helpers keep
    /// running, as they would on any machine.
    pub fn kill(&self) -> Result<()> {
        self.fresh()?.kill()
    }

    /// Ends the server and all its helpers with SIGKILL, as if the power failed.
    pub fn crash(&self) -> Result<()> {
        self.kill()?;
        stop::end_helpers(&self.instance.folder);
        Ok(())
    }

    /// Stops the server and all its helpers with SIGSTOP. Connections to it stay open and answer
    /// nothing.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn freeze(&self) -> Result<()> {
        self.send_all(Signal::STOP)
    }

    /// Lets a frozen node continue.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn thaw(&self) -> Result<()> {
        self.send_all(Signal::CONT)
    }

    /// Cuts its network off: nothing gets in or out, as if its cable were unplugged. Its unix
    /// socket still works.
    ///
    /// # Errors
    /// [`Error::NotIsolated`] if the cluster was not started with networks of its own.
    pub fn cut(&self) -> Result<()> {
        self.set_cut(true)
    }

    /// Reconnects its network.
    ///
    /// # Errors
    /// [`Error::NotIsolated`].
    pub fn heal(&self) -> Result<()> {
        self.set_cut(false)
    }

    /// Finds the position of a stopped node with `--wsrep-recover`: the server recovers its tables
    /// and exits.
    ///
    /// # Errors
    /// [`Error::Running`]; [`Error::NoPosition`] with the end of its output.
    pub fn recover(&self) -> Result<Position> {
        let _lock = self.instance.lock()?;
        let fresh = self.fresh()?;
        if fresh.status().is_alive() {
            return Err(Error::Running {
                name: self.name().to_owned(),
            });
        }
        self.recover_locked(&fresh, ServerUser::for_this_process()?.as_ref())
    }

    /// The instance with its current state file.
    fn fresh(&self) -> Result<Instance> {
        let mut instance = self.instance.clone();
        instance.refresh()?;
        Ok(instance)
    }

    /// A crashed node does not know its position. A node that never joined has none to recover.
    fn needs_recovery(&self) -> bool {
        self.grastate().exists() && !self.state().is_some_and(|state| state.is_known())
    }

    fn recover_locked(&self, fresh: &Instance, user: Option<&ServerUser>) -> Result<Position> {
        let server = fresh.sandbox.installation(fresh.kind())?;
        let path = fresh.folder.0.join("recover.log");
        let log = File::create(&path).map_err(Error::io("create", &path))?;
        let again = log.try_clone().map_err(Error::io("open", &path))?;
        let mut command: Command = launch::command(&server, &fresh.folder, &fresh.record, user);
        let status = command
            .arg("--wsrep-recover")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .status()
            .map_err(|error| match launch::without_data(&fresh.folder, &error) {
                Some(missing) => missing,
                None => Error::Helper {
                    program: "setsid".to_owned(),
                    reason: error.to_string(),
                },
            })?;
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        let found = Position::in_log(&String::from_utf8_lossy(&text));
        found
            .filter(|_| status.success())
            .ok_or_else(|| Error::NoPosition {
                name: self.name().to_owned(),
                log: files::tail(&path, 0),
            })
    }

    /// Its ports stay its own, but another program may have taken one while it was down.
    fn check_addresses(&self) -> Result<()> {
        if let Some(network) = self.network()? {
            network.ensure()?;
            if self.fresh()?.status() == Status::Cut {
                network.set_cable(self.number(), false)?;
            }
            return Ok(());
        }
        for port in [self.port(), self.node.group_port] {
            if !ports::becomes_free(port, ports::PATIENCE) {
                return Err(Error::PortTaken {
                    name: self.name().to_owned(),
                    port,
                });
            }
        }
        Ok(())
    }

    /// Its version, if it is ready; otherwise the reason why not.
    fn ready_version(&self) -> std::result::Result<String, String> {
        let answer = |sql: &str| self.query(sql).map_err(|error| error.to_string());
        let version = answer("SELECT @@version, @@wsrep_on, @@wsrep_provider")?;
        let mut fields = version.split('\t');
        let version = fields.next().unwrap_or_default().to_owned();
        let alone = fields.next() == Some("0") || fields.next() == Some("none");
        let state = answer(STATE)?;
        let state = state.split('\t').nth(1).unwrap_or_default();
        if alone || state == "Synced" {
            Ok(version)
        } else {
            Err(format!("its state is {state:?}"))
        }
    }

    fn note_ready(&self, version: String) -> Result<()> {
        let _lock = self.instance.lock()?;
        let mut fresh = self.fresh()?;
        let Some(process) = fresh.record.process else {
            // It was stopped in between.
            return Ok(());
        };
        if let Some(node) = &mut fresh.record.node {
            node.starting = false;
        }
        fresh.started(process, version)
    }

    fn send_all(&self, signal: Signal) -> Result<()> {
        let fresh = self.fresh()?;
        let folder = &fresh.folder;
        let sent = |process: &ProcessId| process.signal(&folder.mark(), signal);
        let server = fresh.record.process.filter(sent);
        let server = server.ok_or_else(|| Error::NotRunning {
            name: self.name().to_owned(),
        })?;
        let setting = folder.setting();
        // The kernel stops a process when its threads get around to it, not when the signal is
        // sent. A script may also have started another program between the search and the signal.
        let deadline = Instant::now() + SIGNAL_PATIENCE;
        let as_asked = |process: &ProcessId| process.is_frozen() == (signal == Signal::STOP);
        loop {
            let mut helpers = find_marked(&setting);
            helpers.retain(|process| *process != server && !as_asked(process));
            for process in &helpers {
                process.signal_marked(&setting, signal);
            }
            if helpers.is_empty() && as_asked(&server) || Instant::now() >= deadline {
                return Ok(());
            }
            thread::sleep(SIGNAL_POLL);
        }
    }

    fn set_cut(&self, cut: bool) -> Result<()> {
        let _lock = self.instance.lock()?;
        let network = self.network()?.ok_or_else(|| Error::NotIsolated {
            cluster: self.node.cluster.clone(),
        })?;
        network.set_cable(self.number(), !cut)?;
        let mut fresh = self.fresh()?;
        if let Some(node) = &mut fresh.record.node {
            node.cut = cut;
        }
        fresh.folder.write(&fresh.record)
    }

    fn network(&self) -> Result<Option<network::Network>> {
        let folder: ClusterFolder = self.instance.sandbox.cluster_folder(&self.node.cluster);
        Ok(folder.read()?.and_then(|record| record.network))
    }
}

/// What a node logs that will never be in sync: now and then Galera begins an IST beyond the
/// position that the joiner expects. The next start succeeds.
const GAVE_UP: &str = "Receiving IST failed, node restart required";

/// Starts all nodes that are not running, at the same time. Where they must wait for each other,
/// the donor sees to it.
pub fn join(nodes: &[GaleraNode]) -> Result<()> {
    thread::scope(|scope| {
        let joiners: Vec<_> = nodes
            .iter()
            .map(|node| {
                scope.spawn(move || match node.start() {
                    Err(Error::Start { reason, .. }) if reason.contains("given up its IST") => {
                        node.crash()?;
                        node.start()
                    }
                    other => other,
                })
            })
            .collect();
        let ended: Vec<Result<()>> = joiners
            .into_iter()
            .filter_map(|joiner| joiner.join().ok())
            .collect();
        ended.into_iter().collect()
    })
}
