//! One throw-away server of each kind for a whole test binary.

use std::sync::OnceLock;

use refloat_sandbox::{Ephemeral, Instance, Sandbox, ServerKind, StartOptions};
use refloat_wire::{ConnectOptions, Connection};

/// The shared server of this kind. It goes away with the test process.
///
/// # Panics
/// When it does not start: a missing server is a failure, not a skip.
pub fn server(kind: ServerKind) -> &'static Ephemeral {
    static SERVERS: [OnceLock<Ephemeral>; ServerKind::ALL.len()] =
        [const { OnceLock::new() }; ServerKind::ALL.len()];
    let index = ServerKind::ALL
        .iter()
        .position(|one| *one == kind)
        .unwrap_or_default();
    SERVERS[index].get_or_init(|| start(&quick(kind)))
}

/// Options of a server that need not survive a crash of the machine, so that tests wait less for its disk.
pub fn quick(kind: ServerKind) -> StartOptions {
    StartOptions::new(kind)
        .option("innodb_flush_log_at_trx_commit", "0")
        .option("sync_binlog", "0")
        .option("innodb_doublewrite", "0")
        .option("local_infile", "1")
        .option("max_allowed_packet", (64 << 20).to_string())
}

/// Starts a server of its own for one test.
///
/// # Panics
/// When it does not start.
pub fn start(options: &StartOptions) -> Ephemeral {
    sandbox().start_ephemeral(options).unwrap_or_else(|error| {
        panic!(
            "{} does not start; scripts/install-servers installs it: {error}",
            options.kind
        )
    })
}

/// Where servers of tests live, with their initialised data directories kept for later runs.
pub fn sandbox() -> Sandbox {
    Sandbox::new(std::env::temp_dir().join("refloat-testkit"))
}

/// Root over the unix socket.
///
/// # Panics
/// When the sandbox gives a URL that is none.
pub fn target(server: &Instance) -> ConnectOptions {
    ConnectOptions::from_url(&server.socket_url())
        .unwrap_or_else(|error| panic!("{}: {error}", server.socket_url()))
}

/// A connection as root over the unix socket.
///
/// # Panics
/// When the server does not answer.
pub fn connect(server: &Instance) -> Connection {
    Connection::connect(&target(server))
        .unwrap_or_else(|error| panic!("connecting to {}: {error}", server.name()))
}
