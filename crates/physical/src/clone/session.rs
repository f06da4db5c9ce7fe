//! The connections of a copy: one leads it, one acknowledges, others share the work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Error, Identity, RawConnection, ShutdownHandle};

use crate::clone::arrivals::{Arrivals, broken, encrypted};
use crate::clone::protocol::{self, Answer, Descriptor, StageInfo};
use crate::clone::task::Task;
use crate::error::PhysicalError;
use crate::pace::Pacer;
use crate::stream::Blocks;

/// How long either end may be silent. Donors send a heartbeat every five seconds while they wait; a
/// repository may be slow.
const SILENCE: Duration = Duration::from_secs(600);
/// How long the donor may take to learn of the end of a stage, or of the copy.
const ACKNOWLEDGED: Duration = Duration::from_secs(60);
/// Between two attempts to reach the donor again.
const PAUSE: Duration = Duration::from_secs(1);
/// `ER_CLONE_TOO_MANY_CONCURRENT_CLONES`.
const TOO_MANY: u32 = 3634;
/// `ER_CLONE_ENCRYPTION`: the donor does not even send names of encrypted files without TLS.
const ENCRYPTED: u32 = 3872;
/// The oldest connection that copies the donor's files. Without PROCESS, only those of this account
/// are visible.
const OTHERS: &str = "SELECT ID, CONCAT(USER, '@', HOST), TIME FROM performance_schema.processlist WHERE COMMAND = 'Clone' ORDER BY ID LIMIT 1";
/// `ER_QUERY_INTERRUPTED`: what the donor is told when this end cannot continue the copy.
const INTERRUPTED: u32 = 1317;
/// Errors by which a server names a connection that it has lost, from `ER_NET_PACKET_TOO_LARGE` to
/// `ER_NET_WRITE_INTERRUPTED`.
const LOST: std::ops::RangeInclusive<u16> = 1153..=1161;

/// A copy of one server.
pub struct Session<'a, 'w, W: Blocks> {
    options: ConnectOptions,
    identity: Identity,
    /// Connections that receive files.
    connections: usize,
    rate: Rate,
    arrivals: &'a Arrivals<'w, W>,
    run: &'a Run,
    /// Names the copy for the donor, once it has begun.
    locator: Vec<u8>,
    /// For how long the donor waits when connections are lost.
    patience: Duration,
    position: Arc<AtomicU64>,
}

/// The connections of an attempt, and why it failed.
#[derive(Default)]
struct Gate {
    handles: Arc<Mutex<Vec<ShutdownHandle>>>,
    failed: Mutex<Option<PhysicalError>>,
}

impl Gate {
    fn add(&self, conn: &RawConnection) {
        let handle = conn.shutdown_handle();
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() {
            handle.shutdown();
        }
        let handles = self.handles.lock();
        handles.unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// The first failure ends all connections.
    fn fail(&self, error: PhysicalError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
        shut(&self.handles);
    }
}

fn shut(handles: &Mutex<Vec<ShutdownHandle>>) {
    let handles = handles.lock().unwrap_or_else(PoisonError::into_inner);
    handles.iter().for_each(ShutdownHandle::shutdown);
}

impl<'a, 'w, W: Blocks> Session<'a, 'w, W> {
    pub fn new(
        (options, identity): (&ConnectOptions, Identity),
        (connections, pacer): (usize, Pacer),
        arrivals: &'a Arrivals<'w, W>,
        run: &'a Run,
    ) -> Self {
        Self {
            options: options.clone(),
            identity,
            connections,
            rate: Rate::of(pacer),
            arrivals,
            run,
            locator: Vec::new(),
            patience: Duration::ZERO,
            position: Arc::default(),
        }
    }

    pub fn copy(&mut self) -> Result<(), PhysicalError> {
        let mut opening = protocol::INIT;
        // When something last arrived, as far as is known here.
        let (mut since, mut before) = (Instant::now(), 0);
        loop {
            let error = match self.attempt(opening) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Some(reason) = self.run.cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            let position = self.position.load(Ordering::Relaxed);
            if position > before {
                (since, before) = (Instant::now(), position);
            }
            let is_over = since.elapsed() > self.patience;
            if !is_lost(&error) || !self.arrivals.has_begun() || is_over {
                return Err(error);
            }
            let why = refloat_host::chain(&error);
            self.run
                .events
                .warn(format!("a connection was lost; the copy continues: {why}"));
            self.run.cancel.sleep(PAUSE);
            opening = protocol::REINIT;
        }
    }

    /// Begins, or resumes where the connections were lost, until they are lost again.
    fn attempt(&mut self, opening: u8) -> Result<(), PhysicalError> {
        let gate = Gate::default();
        let handles = Arc::clone(&gate.handles);
        let _hook = self.run.cancel.on_cancel(move || shut(&handles));
        let mut master = self.open(SILENCE)?;
        gate.add(&master);
        // It is not shut down with the others: it tells a donor that might wait for them that they
        // do not come back.
        let mut second = self.open(ACKNOWLEDGED)?;
        let copied = self.share(opening, &gate, (&mut master, &mut second));
        if let Err(error) = &copied
            && !self.locator.is_empty()
            && (!is_lost(error) || self.run.cancel.is_cancelled())
        {
            let body = protocol::acknowledging(&self.locator, INTERRUPTED, &[]);
            let _ = second.send(protocol::ACK, &body);
            let _ = second.receive();
        }
        copied
    }

    /// Copies with these connections and those that share the work.
    fn share(
        &mut self,
        opening: u8,
        gate: &Gate,
        (master, second): (&mut RawConnection, &mut RawConnection),
    ) -> Result<(), PhysicalError> {
        let locator = if opening == protocol::INIT {
            protocol::no_copy()
        } else {
            let (stage, knows_files, progress) = self.arrivals.resume();
            protocol::resumed(&self.locator, stage, knows_files, &progress)
        };
        send(master, opening, &protocol::opening(&locator))?;
        self.agree(master, opening == protocol::INIT)?;
        let this = &*self;
        std::thread::scope(|scope| {
            for number in 1..this.connections {
                scope.spawn(move || this.work(number, gate));
            }
            let mut task = Task::new(this.arrivals, 0);
            let led = this.lead(master, second, &mut task);
            // Even after an error: what has arrived need not be sent again.
            let flushed = task.flush();
            for error in [led, flushed].into_iter().filter_map(Result::err) {
                gate.fail(error);
                this.arrivals.give_up();
            }
        });
        let mut failed = gate.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed.take() {
            return Err(error);
        }
        for conn in [second, master] {
            // Everything has arrived; how the donor closes the connection is its own affair.
            let _ = conn.send(protocol::EXIT, &[]);
            let _ = conn.receive();
        }
        Ok(())
    }

    /// Opens a connection that speaks the protocol.
    fn open(&self, silence: Duration) -> Result<RawConnection, PhysicalError> {
        let connecting = PhysicalError::server("connecting to the server");
        let options = ConnectOptions {
            read_timeout: Some(silence),
            write_timeout: Some(silence),
            ..self.options.clone()
        };
        let mut conn = Connection::connect(&options).map_err(connecting)?;
        let seconds = SILENCE.as_secs();
        // The connection that acknowledges is silent for as long as files arrive.
        let set = format!(
            "SET SESSION net_read_timeout = {seconds}, net_write_timeout = {seconds}, wait_timeout = 31536000"
        );
        let begun = conn
            .expect_identity(&self.identity)
            .and_then(|()| conn.exec(set))
            .and_then(|_| conn.into_raw(protocol::COM_CLONE));
        begun.map_err(PhysicalError::server("asking for a copy of its files"))
    }

    /// Waits until the donor has begun.
    fn agree(&mut self, conn: &mut RawConnection, is_new: bool) -> Result<(), PhysicalError> {
        loop {
            match receive(conn)? {
                Answer::Locator(locator) if is_new => self.locator = locator.to_vec(),
                Answer::Patience(minutes) => {
                    self.patience = Duration::from_secs(minutes.saturating_mul(60));
                }
                Answer::Locator(_) | Answer::Fact => {}
                Answer::Complete if self.locator.is_empty() => {
                    return Err(broken("it names no copy"));
                }
                Answer::Complete => return Ok(()),
                Answer::Failed { code: TOO_MANY, .. } => return Err(self.another()),
                Answer::Failed { message, .. } if !is_new => {
                    let why = format!("the server does not resume it: {message}");
                    return Err(broken(why));
                }
                Answer::Failed { code, message } => return Err(failed(code, message)),
                Answer::Descriptor(_) | Answer::Data(_) => {
                    return Err(broken("files come before they were asked for"));
                }
            }
        }
    }

    /// Refuses to disturb another copy. The donor gives up a copy whose connections it knows to be
    /// lost when a new one comes; here, either it has not noticed the loss yet, or they are not
    /// lost.
    fn another(&self) -> PhysicalError {
        let ask = || -> Result<Option<(String, String)>, Error> {
            let mut conn = Connection::connect(&self.options)?;
            let all = conn.query(OTHERS)?;
            let text = |column| all.str(0, column).unwrap_or_default();
            let words = format!(", by {} for {} s", text(1), text(2));
            Ok((!all.is_empty()).then(|| (text(0).to_owned(), words)))
        };
        let found = ask().ok().flatten();
        let (hint, by) = found.map_or_else(
            || (String::new(), String::new()),
            |(id, by)| (format!(" If its client is gone, `KILL {id}` ends it."), by),
        );
        PhysicalError::refused(
            Refusal::new(format!(
                "another copy of the server's files is being made{by}"
            ))
            .hint(format!(
                "A server allows one at a time: wait until it has ended.{hint}"
            )),
        )
    }

    fn lead(
        &self,
        master: &mut RawConnection,
        second: &mut RawConnection,
        task: &mut Task<'_, '_, W>,
    ) -> Result<(), PhysicalError> {
        send(master, protocol::EXECUTE, &[])?;
        self.receive(master, task, &mut |info| {
            self.arrivals.complete_stage(info.stage)?;
            let body = protocol::acknowledging(&self.locator, 0, &info.acknowledgement);
            send(second, protocol::ACK, &body)?;
            match receive(second)? {
                Answer::Complete => Ok(()),
                Answer::Failed { code, message } => Err(failed(code, message)),
                _ => Err(broken("it does not take an acknowledgement")),
            }
        })
    }

    /// Shares the work, if the donor lets it.
    fn work(&self, number: usize, gate: &Gate) {
        // A copy works with fewer connections, too.
        let Ok(mut conn) = self.open(SILENCE) else {
            return;
        };
        gate.add(&conn);
        if let Err(error) = self.take_part(number, &mut conn) {
            gate.fail(error);
            self.arrivals.give_up();
        }
        self.arrivals.remove_worker(number);
    }

    fn take_part(&self, number: usize, conn: &mut RawConnection) -> Result<(), PhysicalError> {
        send(conn, protocol::ATTACH, &protocol::opening(&self.locator))?;
        loop {
            match receive(conn)? {
                Answer::Complete => break,
                // Perhaps the copy is over already. That is no failure.
                Answer::Failed { .. } => return Ok(()),
                _ => {}
            }
        }
        // Not before: the donor lets nobody join while it moves to the next stage, and it moves
        // only when the master has acknowledged the previous one. Nothing more arrives of that one.
        self.arrivals.add_worker(number);
        send(conn, protocol::EXECUTE, &[])?;
        let mut task = Task::new(self.arrivals, number);
        let received = self.receive(conn, &mut task, &mut |_| Ok(()));
        // Even after an error: what has arrived need not be sent again.
        let flushed = task.flush();
        received.and(flushed)?;
        let _ = conn.send(protocol::EXIT, &[]);
        let _ = conn.receive();
        Ok(())
    }

    /// Takes what arrives over a connection. `ended` is called when all of a stage has arrived over
    /// it.
    fn receive(
        &self,
        conn: &mut RawConnection,
        task: &mut Task<'_, '_, W>,
        ended: &mut dyn FnMut(&StageInfo) -> Result<(), PhysicalError>,
    ) -> Result<(), PhysicalError> {
        let is_master = task.number() == 0;
        loop {
            if let Some(reason) = self.run.cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            let descriptor = match receive(conn)? {
                Answer::Complete => return Ok(()),
                Answer::Failed { code, message } => return Err(failed(code, message)),
                Answer::Data(_) => return Err(broken("bytes come of no file")),
                Answer::Descriptor(descriptor) => descriptor,
                Answer::Locator(_) | Answer::Patience(_) | Answer::Fact => continue,
            };
            match descriptor {
                Descriptor::Task => {}
                Descriptor::File(info) => task.file(&info)?,
                Descriptor::Data(info) => {
                    let Answer::Data(bytes) = receive(conn)? else {
                        return Err(broken("a file's bytes are missing"));
                    };
                    task.data(&info, bytes)?;
                    self.passed(bytes.len());
                }
                Descriptor::Stage(info) if info.is_ping => {}
                Descriptor::Stage(info) if info.begins && is_master => {
                    if info.stage == protocol::Stage::Files {
                        let position = Arc::clone(&self.position);
                        self.run.progress.set_source(Some(info.bytes), position);
                    }
                    self.arrivals.begin_stage(&info);
                }
                Descriptor::Stage(info) if info.begins => self.arrivals.reach_stage(info.stage)?,
                Descriptor::Stage(info) => {
                    task.flush()?;
                    self.arrivals.end_stage(task.number(), info.stage);
                    ended(&info)?;
                }
            }
        }
    }

    fn passed(&self, count: usize) {
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        self.run.progress.add_bytes(count as u64);
        if let Some(wait) = self.rate.pass(count) {
            self.run.cancel.sleep(wait);
        }
    }
}

/// Holds all connections to one rate. The donor keeps track of what changes meanwhile.
struct Rate {
    pacer: Pacer,
    due: Mutex<Instant>,
}

impl Rate {
    fn of(pacer: Pacer) -> Self {
        Self {
            pacer,
            due: Mutex::new(Instant::now()),
        }
    }

    /// How long a connection that has received this many bytes should wait.
    fn pass(&self, count: usize) -> Option<Duration> {
        self.pacer.count(count);
        let rate = self.pacer.rate()?;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        *due = (*due).max(now) + Duration::from_secs_f64(count as f64 / rate as f64);
        Some(*due - now)
    }
}

fn send(conn: &mut RawConnection, command: u8, body: &[u8]) -> Result<(), PhysicalError> {
    conn.send(command, body)
        .map_err(PhysicalError::server("copying its files"))
}

fn receive(conn: &mut RawConnection) -> Result<Answer<'_>, PhysicalError> {
    let payload = conn
        .receive()
        .map_err(PhysicalError::server("copying its files"))?;
    Answer::parse(payload).map_err(broken)
}

/// The donor's error.
fn failed(code: u32, message: String) -> PhysicalError {
    if code == ENCRYPTED {
        return encrypted("a tablespace or a log of the server");
    }
    PhysicalError::Server {
        doing: "copying its files",
        source: Error::Server {
            code: u16::try_from(code).unwrap_or(u16::MAX),
            sqlstate: "HY000".to_owned(),
            message,
        },
    }
}

/// Whether a copy can be resumed with new connections.
fn is_lost(error: &PhysicalError) -> bool {
    let PhysicalError::Server { source, .. } = error else {
        return false;
    };
    match source {
        Error::Io { .. } | Error::Timeout { .. } | Error::Closed { .. } => true,
        Error::Server { code, .. } => LOST.contains(code),
        _ => false,
    }
}
