//! The program at the donor's end: it is started on that machine, by ssh, and sends its server's
//! files to whoever started it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Secret as Password};
use serde::{Deserialize, Serialize};

use crate::about::ServerFacts;
use crate::donor::{Donor, DonorOptions};
use crate::error::PhysicalError;
use crate::transfer::{Received, Secret, Sender, Sent};

/// What to send, and where. It arrives on standard input, because it holds secrets.
#[derive(Serialize, Deserialize)]
pub struct SendRequest {
    user: String,
    password: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    ssl_mode: String,
    ssl_ca: Option<PathBuf>,
    ssl_cert: Option<PathBuf>,
    ssl_key: Option<PathBuf>,
    tool: Option<PathBuf>,
    parallel: usize,
    max_rate: Option<u64>,
    /// Copy more slowly while the server has much else to do.
    gentle: bool,
    /// `HOST:PORT` where the receiver listens.
    address: String,
    /// The secret of the transfer, as hexadecimal digits.
    secret: String,
    /// Number of connections.
    streams: u16,
    /// The server, as the requesting machine sees it.
    server: ServerFacts,
}

/// The final answer of the program at the donor's end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum SendAnswer {
    /// Everything was sent, and is in its place.
    Done {
        /// Bytes of files, uncompressed.
        bytes: u64,
        /// Of these, bytes that the receiver had.
        same: u64,
        /// Bytes that went over the network.
        sent: u64,
        /// Seconds for which commits waited.
        blocked_seconds: f64,
    },
    /// Not all was sent.
    Failed {
        /// Whether it was refused before anything was begun.
        refused: bool,
        /// The error, with its causes.
        reason: String,
        /// What can be done about it.
        hints: Vec<String>,
    },
}

impl SendRequest {
    /// Requests the files of this server.
    pub(crate) fn new(
        (donor, server): (&DonorOptions, &ServerFacts),
        address: String,
        secret: &Secret,
        streams: u16,
    ) -> Self {
        let connect = &donor.source;
        Self {
            user: connect.user.clone(),
            password: connect
                .password
                .as_ref()
                .map(|password| String::from_utf8_lossy(password.expose()).into_owned()),
            host: connect.host.clone(),
            port: connect.port,
            socket: connect.socket.clone(),
            ssl_mode: connect.ssl_mode.to_string(),
            ssl_ca: connect.ssl_ca.clone(),
            ssl_cert: connect.ssl_cert.clone(),
            ssl_key: connect.ssl_key.clone(),
            tool: donor.tool.clone(),
            parallel: donor.parallel,
            max_rate: donor.max_rate,
            gentle: donor.gentle,
            address,
            secret: secret.to_hex(),
            streams,
            server: server.clone(),
        }
    }

    /// The same, to be sent to another address.
    pub(crate) fn to(self, address: String) -> Self {
        Self { address, ..self }
    }

    /// The data directory of the server.
    pub fn datadir(&self) -> &Path {
        Path::new(&self.server.datadir)
    }

    fn donor(&self) -> DonorOptions {
        DonorOptions {
            source: ConnectOptions {
                host: self.host.clone(),
                port: self.port,
                socket: self.socket.clone(),
                user: self.user.clone(),
                password: self.password.clone().map(Password::from),
                ssl_mode: self.ssl_mode.parse().unwrap_or_default(),
                ssl_ca: self.ssl_ca.clone(),
                ssl_cert: self.ssl_cert.clone(),
                ssl_key: self.ssl_key.clone(),
                ..ConnectOptions::default()
            },
            host: None,
            tool: self.tool.clone(),
            clones: false,
            parallel: self.parallel,
            max_rate: self.max_rate,
            gentle: self.gentle,
            // The other end takes care of that.
            desync: false,
        }
    }
}

/// Sends the files of a server on this machine, and reports the result.
pub fn serve(request: &SendRequest, run: &Run) -> SendAnswer {
    let mut blocked = Duration::ZERO;
    match attempt(request, run, &mut blocked) {
        Ok(sent) => SendAnswer::Done {
            bytes: sent.bytes,
            same: sent.same,
            sent: sent.framed,
            blocked_seconds: blocked.as_secs_f64(),
        },
        Err(error) => SendAnswer::Failed {
            refused: matches!(error, PhysicalError::Refused(_)),
            reason: refloat_host::chain(&error),
            hints: match &error {
                PhysicalError::Refused(against) => Refusal::hints(against),
                _ => Vec::new(),
            },
        },
    }
}

fn attempt(
    request: &SendRequest,
    run: &Run,
    blocked: &mut Duration,
) -> Result<Sent, PhysicalError> {
    let (donor, against) = Donor::look(&request.donor())?;
    if !against.is_empty() {
        return Err(PhysicalError::Refused(against));
    }
    let (here, there) = (&donor.server.facts, &request.server);
    if (&here.hostname, here.port, &here.datadir) != (&there.hostname, there.port, &there.datadir) {
        return Err(PhysicalError::refused(
            Refusal::new(format!(
                "the donor is {}:{} as seen from its machine, and {}:{} from the other one",
                here.hostname, here.port, there.hostname, there.port
            ))
            .hint("Name the server by an address that is the same on both machines."),
        ));
    }
    let secret = Secret::from_hex(&request.secret).ok_or_else(|| {
        PhysicalError::refused(Refusal::new("the secret of the transfer is damaged"))
    })?;
    send(
        &donor,
        (&request.address, &secret, request.streams),
        run,
        blocked,
    )
}

/// Sends the files of a server.
pub fn send(
    donor: &Donor,
    (address, secret, streams): (&str, &Secret, u16),
    run: &Run,
    blocked: &mut Duration,
) -> Result<Sent, PhysicalError> {
    let sender = Sender::connect(address, secret, streams, &run.cancel)?;
    match donor.copy(&sender, run, blocked) {
        Ok(copied) => {
            let list = Received {
                files: copied.files,
                about: Some(copied.about),
                words: String::new(),
            };
            sender.finish(&serde_json::to_vec(&list).unwrap_or_default())
        }
        Err(error) => {
            sender.give_up(&refloat_host::chain(&error));
            Err(error)
        }
    }
}
