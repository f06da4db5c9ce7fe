//! Shares one server of each kind across all tests, with a database for each test.

use std::path::PathBuf;
use std::sync::OnceLock;

use refloat_sandbox::{Ephemeral, Sandbox, ServerKind, StartOptions, Tls};
use refloat_wire::{ConnectOptions, Connection};

pub const ALL: [ServerKind; 3] = ServerKind::ALL;
pub const MARIADB: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

/// Large enough for the packets of these tests, in bytes.
pub const MAX_ALLOWED_PACKET: usize = 64 << 20;

pub fn sandbox() -> Sandbox {
    let folder = std::env::temp_dir().join("refloat-wire-tests");
    Sandbox::new(folder)
}

/// The shared server of this kind. It ends with the test process.
pub fn server(kind: ServerKind) -> &'static Ephemeral {
    static SERVERS: [OnceLock<Ephemeral>; 3] = [const { OnceLock::new() }; 3];
    let index = ALL.iter().position(|k| *k == kind).unwrap();
    SERVERS[index].get_or_init(|| {
        let options = StartOptions::new(kind)
            .tls(Tls::Generated)
            .option("max_allowed_packet", MAX_ALLOWED_PACKET.to_string())
            .option("local_infile", "1");
        sandbox().start_ephemeral(&options).unwrap_or_else(|e| {
            panic!("{kind} does not start; scripts/install-servers installs it: {e}")
        })
    })
}

/// Connects as root over the unix socket.
pub fn unix(kind: ServerKind) -> ConnectOptions {
    ConnectOptions::from_url(&server(kind).socket_url()).unwrap()
}

/// Connects as root over TCP.
pub fn tcp(kind: ServerKind) -> ConnectOptions {
    ConnectOptions::from_url(&server(kind).url()).unwrap()
}

/// A connection as root over the socket, in a new, empty database of this name.
pub fn connect(kind: ServerKind, database: &str) -> Connection {
    let mut c = Connection::connect(&unix(kind)).unwrap();
    c.exec(format!("DROP DATABASE IF EXISTS {database}"))
        .unwrap();
    c.exec(format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"))
        .unwrap();
    c.exec(format!("USE {database}")).unwrap();
    c
}

pub fn ca(kind: ServerKind) -> PathBuf {
    server(kind).ca_file().expect("generated").to_owned()
}
