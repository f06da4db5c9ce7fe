//! A server whose files are copied: the tool that does it, and what it sends.

use std::path::PathBuf;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use refloat_host::Host;
use refloat_run::desync::no_node;
use refloat_run::progress::Phase;
use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Vendor};

use crate::about::{About, InfoFiles};
use crate::clone::{self, Copying};
use crate::error::PhysicalError;
use crate::find::find;
use crate::pace::{Calm, Pacer};
use crate::preflight;
use crate::producer::Producer;
use crate::server::{Server, Volume, elsewhere, volume};
use crate::stall;
use crate::stream::{Blocks, Demultiplexer, Files};
use crate::swap::INSIDE;
use crate::throttle::{Throttle, is_late};
use crate::tool::{Tool, ToolKind};

/// Connections of a copy besides those that receive files: they begin it and monitor it.
const CONTROL: usize = 2;

/// The server that is copied, and how.
#[derive(Debug, Clone)]
pub struct DonorOptions {
    /// The server, and how to connect to it.
    pub source: ConnectOptions,
    /// The machine that it runs on; `None`: this one.
    pub host: Option<Host>,
    /// The tool's program; `None`: as it is found on the machine.
    pub tool: Option<PathBuf>,
    /// Whether the clone plugin of a `MySQL` server copies it, unless a tool is named.
    pub clones: bool,
    /// Number of files that the tool reads at the same time, or of connections.
    pub parallel: usize,
    /// Bytes per second that the tool may read, at least 8 MiB; `None`: as fast as it goes.
    pub max_rate: Option<u64>,
    /// Copy more slowly while the server has much else to do.
    pub gentle: bool,
    /// Let a node of a Galera cluster fall behind while it is copied.
    pub desync: bool,
}

impl DonorOptions {
    /// Why a node cannot be told that it may fall behind.
    pub(crate) fn no_desync(&self, server: &Server) -> Option<Refusal> {
        (self.desync && !server.is_node).then(no_node)
    }
}

/// A server that can be copied.
pub struct Donor {
    pub server: Server,
    pub host: Host,
    pub tool: Tool,
    pub volume: Volume,
    /// What the user should know.
    pub warnings: Vec<String>,
    options: DonorOptions,
}

/// What a copy consists of besides its blocks.
pub struct Copied<F> {
    pub files: Files<F>,
    pub about: About,
}

impl DonorOptions {
    /// Whether this server's clone plugin copies it.
    pub(crate) fn is_cloned(&self, server: &Server) -> bool {
        self.clones && self.tool.is_none() && server.info.vendor == Vendor::MySql
    }
}

impl Donor {
    /// Checks the server and its machine. Also returns the objections to copying it.
    pub fn look(options: &DonorOptions) -> Result<(Self, Vec<Refusal>), PhysicalError> {
        Self::look_at(options, elsewhere)
    }

    /// The same for the server that has started this program, under its own account: that account
    /// may not see the working directory of a server that root has started.
    pub fn look_at_parent(options: &DonorOptions) -> Result<(Self, Vec<Refusal>), PhysicalError> {
        Self::look_at(options, |_, _| Ok(None))
    }

    fn look_at(
        options: &DonorOptions,
        elsewhere: impl Fn(&Host, &Server) -> Result<Option<String>, PhysicalError>,
    ) -> Result<(Self, Vec<Refusal>), PhysicalError> {
        let mut conn = Connection::connect(&options.source)
            .map_err(PhysicalError::server("connecting to the server"))?;
        let server = Server::look(&mut conn)?;
        if options.is_cloned(&server) {
            let (tool, volume, warnings) = clone::look(&mut conn, &server);
            let mut against = clone::objections(&mut conn, &server, &tool);
            against.extend(options.no_desync(&server));
            let donor = Self {
                server,
                host: Host::Local,
                tool,
                volume,
                warnings,
                options: options.clone(),
            };
            return Ok((donor, against));
        }
        let host = options.host.clone().unwrap_or(Host::Local);
        let kind = ToolKind::of(server.info.vendor);
        let mut against = preflight::of_server(&mut conn, &server, kind, options.max_rate);
        against.extend(options.no_desync(&server));
        if let Some(why) = elsewhere(&host, &server)? {
            against.push(
                Refusal::new(format!(
                    "the files of the server are not on {}: {why}",
                    host.name()
                ))
                .hint("The files are copied on the server's own machine: name it with --host, as ssh takes it, or run as an account that can see the server's process."),
            );
            return Err(PhysicalError::Refused(against));
        }
        let tool = find(&host, kind, options.tool.as_deref());
        let tool = PhysicalError::gather(tool, &mut against)?;
        let volume = volume(&host, &server.facts.datadir);
        let volume = PhysicalError::gather(volume, &mut against)?;
        let (Some(tool), Some(volume)) = (tool, volume) else {
            return Err(PhysicalError::Refused(against));
        };
        against.extend(preflight::of_tool(&server, &tool, &volume));
        let donor = Self {
            server,
            host,
            warnings: tool.warnings(),
            tool,
            volume,
            options: options.clone(),
        };
        Ok((donor, against))
    }

    /// Runs the tool, and puts what it sends where blocks are taken. `blocked` is how long commits
    /// waited, even if the copy fails.
    pub fn copy<W: Blocks>(
        &self,
        writer: &W,
        run: &Run,
        blocked: &mut Duration,
    ) -> Result<Copied<W::File>, PhysicalError> {
        run.progress.set_phase(Phase::Data);
        // Before anything is copied.
        let source = &self.options.source;
        let calm = self.options.gentle.then(|| {
            let is_clone = self.tool.kind == ToolKind::Clone;
            let files = if is_clone { self.options.parallel } else { 0 };
            Calm::look(source, files + CONTROL)
        });
        let calm = calm.transpose()?;
        if self.tool.kind == ToolKind::Clone {
            let copying = Copying {
                server: &self.server,
                source,
                tool: &self.tool,
                connections: self.options.parallel,
                // What the server keeps during the copy is on its disk.
                pacer: Pacer::start(self.options.max_rate, calm, source, &run.events, |_| false),
            };
            let (files, about) = copying.copy(writer, run)?;
            return Ok(Copied { files, about });
        }
        let (producer, mut stream) = Producer::back_up(
            &self.host,
            &self.tool,
            (&self.server, source),
            self.options.parallel,
            &run.cancel,
        )?;
        let log = producer.log();
        let mut files = Demultiplexer::new(writer, producer.name(), run.dir.path());
        let late = is_late(self.redo_bytes(), Arc::clone(&log));
        let pacer = Pacer::start(self.options.max_rate, calm, source, &run.events, late);
        let throttle = Throttle::new(pacer, Arc::clone(&log));
        let taken = Arc::new(AtomicU64::new(0));
        let (read, is_stalled) = stall::watched(
            (&log, &taken),
            (stall::LIMIT, &producer.lifeline()),
            &run.events,
            || self.read(&mut files, &mut stream, (throttle, &taken), run),
        );
        *blocked = log.blocked();
        if is_stalled && run.cancel.reason().is_none() {
            // The tool's own message would only say that it was killed.
            return Err(PhysicalError::Tool {
                tool: producer.name().to_owned(),
                what: format!(
                    "was ended after commits had waited for {} s",
                    blocked.as_secs()
                ),
                reason: match read {
                    Ok(()) => "nothing was stored or sent meanwhile".to_owned(),
                    Err(error) => refloat_host::chain(&error),
                },
            });
        }
        // The tool's own message says more than the truncated stream. The tool must not fail just
        // because nobody reads: the stream is closed only after the tool was asked to end.
        match read {
            Ok(()) => producer.finish(&run.cancel)?,
            Err(error) => return Err(producer.give_up(error, stream, &run.cancel)),
        }
        self.copied(files.finish()?)
    }

    /// What a stream has brought that ended by itself, and whose tool succeeded.
    fn copied<F>(
        &self,
        (mut files, info): (Files<F>, InfoFiles),
    ) -> Result<Copied<F>, PhysicalError> {
        // The tool takes every folder for a database, including those that refloat keeps there.
        files.retain(|(_, path, _)| !path.starts_with(INSIDE));
        let about = About::of(&info, self.server.facts.clone(), self.tool.clone());
        let about = about.map_err(|reason| PhysicalError::Incomplete {
            tool: self.tool.kind.program().to_owned(),
            reason,
        })?;
        // Without it, a restored server does not know where to continue.
        let lacks = |what: &str| PhysicalError::Incomplete {
            tool: self.tool.kind.program().to_owned(),
            reason: format!("it does not say where {what} stood"),
        };
        if self.server.is_node && about.galera.is_none() {
            return Err(lacks("the cluster"));
        }
        if self.server.has_binlog && about.binlog.is_none() {
            return Err(lacks("the binary log"));
        }
        Ok(Copied { files, about })
    }

    /// The machine on which the copying program runs.
    pub fn machine(&self) -> &str {
        match self.tool.kind {
            ToolKind::Clone => &self.server.info.peer,
            _ => self.host.name(),
        }
    }

    fn read<W: Blocks>(
        &self,
        files: &mut Demultiplexer<'_, W>,
        stream: &mut ChildStdout,
        (mut throttle, taken): (Throttle, &Arc<AtomicU64>),
        run: &Run,
    ) -> Result<(), PhysicalError> {
        run.progress
            .set_source(Some(self.volume.bytes), Arc::clone(taken));
        files.read(stream, self.tool.kind.dialect(), |bytes| {
            taken.fetch_add(bytes as u64, Ordering::Relaxed);
            run.progress.add_bytes(bytes as u64);
            if let Some(reason) = run.cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            throttle.pass(bytes, &run.cancel);
            Ok(())
        })
    }

    /// Size of the server's redo log, in bytes.
    fn redo_bytes(&self) -> Option<u64> {
        let number = |name: &str| self.server.variable(name)?.parse::<u64>().ok();
        if let Some(capacity) = number("innodb_redo_log_capacity") {
            return Some(capacity);
        }
        let files = number("innodb_log_files_in_group").unwrap_or(1);
        number("innodb_log_file_size").map(|size| size * files)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read as _;
    use std::path::Path;

    use refloat_repository::BLOCK;
    use refloat_run::Cancel;
    use refloat_sandbox::{Ephemeral, ServerKind};
    use refloat_testkit::servers;

    use super::*;

    /// Takes blocks and keeps none.
    struct Nowhere;

    impl Blocks for Nowhere {
        type File = ();

        fn begin(&self, _: &Path) {}

        fn buffer(&self) -> Vec<u8> {
            Vec::with_capacity(BLOCK)
        }

        fn put(&self, (): (), _: u64, _: Vec<u8>) -> Result<(), PhysicalError> {
            Ok(())
        }
    }

    fn look(server: &Ephemeral, folder: &Path) -> Donor {
        let options = DonorOptions {
            source: servers::target(server),
            host: None,
            tool: Some(servers::program(server, "mariadb-backup", folder)),
            clones: false,
            parallel: 1,
            max_rate: None,
            gentle: false,
            desync: false,
        };
        let (donor, against) = Donor::look(&options).unwrap();
        assert!(against.is_empty(), "{against:?}");
        donor
    }

    /// All that the tool sends of a server.
    fn stream_of(donor: &Donor) -> Vec<u8> {
        let (cancel, mut stream) = (Cancel::new(), Vec::new());
        let source = (&donor.server, &donor.options.source);
        let (producer, mut output) =
            Producer::back_up(&donor.host, &donor.tool, source, 1, &cancel).unwrap();
        output.read_to_end(&mut stream).unwrap();
        producer.finish(&cancel).unwrap();
        stream
    }

    /// What a backup takes for the files of a server.
    fn take(donor: &Donor, stream: &[u8], folder: &Path) -> Result<Copied<()>, PhysicalError> {
        let mut files = Demultiplexer::new(&Nowhere, "mariadb-backup", folder);
        files.read(stream, donor.tool.kind.dialect(), |_| Ok(()))?;
        donor.copied(files.finish()?)
    }

    /// Where the chunks of a stream end, and whether all files that have begun have ended there.
    /// `refloat_xbstream` has the format.
    fn borders(stream: &[u8]) -> Vec<(usize, bool)> {
        let number = |at: usize| {
            let bytes = [0, 1, 2, 3].map(|byte| stream[at + byte]);
            u32::from_le_bytes(bytes) as usize
        };
        let (mut at, mut open, mut found) = (0, BTreeSet::new(), Vec::new());
        while at < stream.len() {
            assert_eq!(stream[at..at + 8], *b"XBSTCK01");
            let (kind, path) = (stream[at + 9], at + 14);
            let rest = path + number(at + 10);
            let name = &stream[path..rest];
            at = match kind {
                b'P' => rest + 20 + number(rest),
                b'S' => rest + 8,
                b'R' => rest + 4 + number(rest),
                _ => rest,
            };
            match kind {
                b'P' | b'S' => drop(open.insert(name)),
                b'E' => drop(open.remove(name)),
                _ => {}
            }
            found.push((at, open.is_empty()));
        }
        found
    }

    /// The tools' own extractors take a stream for whole that was cut where no file is open.
    // Hazard of files: P-04 a stream that is cut at any border of its chunks, between two files and
    //   within one
    #[test]
    fn a_stream_that_is_cut_between_two_chunks_is_no_backup() {
        // Streams of MariaDB 11.8 begin with large undo tablespaces.
        for (kind, last) in [
            (ServerKind::MariaDb1011, usize::MAX),
            (ServerKind::MariaDb118, 80),
        ] {
            let server = servers::start(&servers::quick(kind).option("log_bin", "bin"));
            let sql = "CREATE DATABASE shop; CREATE TABLE shop.inno (id INT) ENGINE=InnoDB; CREATE TABLE shop.aria (id INT) ENGINE=Aria";
            servers::client(&server, &[], sql.as_bytes()).unwrap();
            let folder = tempfile::tempdir_in(server.folder()).unwrap();
            let donor = look(&server, folder.path());
            let stream = stream_of(&donor);
            let take = |length| take(&donor, &stream[..length], folder.path());
            let mut borders = borders(&stream);
            assert_eq!(borders.pop(), Some((stream.len(), true)));
            let whole = take(stream.len()).unwrap();
            let between = borders.iter().filter(|(_, is_between)| *is_between);
            assert!(
                between.count() * 2 > whole.files.len(),
                "{kind}: {borders:?}"
            );
            assert!(take(0).is_err());
            for (length, is_between) in borders.into_iter().rev().take(last) {
                let error = take(length).err();
                let is_seen = match &error {
                    Some(PhysicalError::Incomplete { .. }) => is_between,
                    Some(PhysicalError::Stream { .. }) => !is_between,
                    _ => false,
                };
                assert!(is_seen, "{kind}: cut at {length}: {error:?}");
            }
        }
    }
}
