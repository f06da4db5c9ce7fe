//! One throw-away server of each kind for a whole test binary.

use std::io::{Seek as _, Write as _};
use std::process::Stdio;
use std::sync::OnceLock;

use refloat_run::own::MARKS_SCHEMA;
use refloat_run::settings::provider_variable;
use refloat_sandbox::{
    Ephemeral, GaleraNode, GaleraOptions, Instance, Sandbox, ServerKind, StartOptions,
};
use refloat_wire::{ConnectOptions, Connection};

use crate::oracle;

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

/// Names the servers that clusters are made of, where a test does not say which.
const NODES: &str = "REFLOAT_NODES";

/// The servers that clusters are made of: MariaDB 10.11, or what the environment variable `REFLOAT_NODES` names (`mariadb-11.8`).
///
/// # Panics
/// When it names none that is known.
pub fn nodes() -> ServerKind {
    nodes_or(ServerKind::MariaDb1011)
}

/// The same for clusters that are of another kind unless the variable names one.
///
/// # Panics
/// When it names none that is known.
pub fn nodes_or(usual: ServerKind) -> ServerKind {
    std::env::var(NODES).map_or(usual, |name| {
        name.parse()
            .unwrap_or_else(|error| panic!("{NODES}: {error}"))
    })
}

/// Names the file of a provider of another make, with which [`freezing`] makes clusters.
const PROVIDER: &str = "REFLOAT_FREEZING_PROVIDER";

/// A cluster of so many nodes whose provider can be told to throw no write-sets away (`gcache.freeze_purge_at_seqno`): that of Percona XtraDB
/// Cluster, which no package brings for MariaDB. The environment variable `REFLOAT_FREEZING_PROVIDER` names its file (`docs/design/cluster.md`).
///
/// # Panics
/// When it names none: what needs such a provider is not to be passed over.
pub fn freezing(count: u32) -> GaleraOptions {
    let file = std::env::var(PROVIDER).unwrap_or_else(|_| panic!("{PROVIDER} is not set"));
    GaleraOptions::new(nodes(), count).option("wsrep_provider", file)
}

/// Starts a node of a cluster that was killed. Now and then Galera begins an IST behind what such a node expects, has the node give up, and sends it
/// well the next time.
///
/// # Panics
/// When it does not come the second time either.
pub fn start_killed(node: &GaleraNode) {
    if node.start().is_err() {
        node.crash().expect("what is left of it can be ended");
        node.start().expect("a node that was killed starts");
    }
}

/// Tells a node's provider something, by the way that its server has for that.
///
/// # Panics
/// When it refuses.
pub fn tell_provider(node: &Instance, option: &str, value: &str) {
    let mut conn = connect(node);
    let variable = provider_variable(option);
    let by_variable = conn
        .query(format!(
            "SHOW GLOBAL VARIABLES WHERE Variable_name = '{variable}'"
        ))
        .is_ok_and(|rows| !rows.is_empty());
    let sql = if by_variable {
        format!("SET GLOBAL {variable} = {value}")
    } else {
        format!("SET GLOBAL wsrep_provider_options = '{option}={value}'")
    };
    conn.exec(&sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
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

/// Drops every database that is not the server's, and the progress marks of loads, and puts back the global settings that dumps change.
///
/// # Panics
/// When the server refuses.
pub fn empty(server: &Instance) {
    let mut conn = connect(server);
    let databases = oracle::databases(&mut conn)
        .unwrap_or_else(|error| panic!("{}: listing databases: {error}", server.name()));
    let mut exec = |sql: String| {
        conn.exec(&sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", server.name()));
    };
    exec("SET SESSION foreign_key_checks = 0".to_owned());
    exec("SET GLOBAL time_zone = 'SYSTEM', GLOBAL sql_mode = DEFAULT".to_owned());
    exec(format!("DROP DATABASE IF EXISTS {MARKS_SCHEMA}"));
    for database in databases.iter().filter(|name| *name != MARKS_SCHEMA) {
        exec(format!("DROP DATABASE {}", oracle::quote(database)));
    }
}

/// Feeds a script to the server's own client, as a person would: `mysql ARGS < script`. What the client prints is dropped.
///
/// # Errors
/// What the client says when it fails.
///
/// # Panics
/// When the client cannot be started: it comes with the server.
pub fn client(server: &Instance, args: &[&str], script: &[u8]) -> Result<(), String> {
    let mut input = tempfile::tempfile().expect("a temporary file can be made");
    input
        .write_all(script)
        .and_then(|()| input.rewind())
        .expect("a temporary file can be written");
    let output = server
        .client_command()
        .unwrap_or_else(|error| panic!("{}: {error}", server.name()))
        .args(args)
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .output()
        .expect("the stock client starts");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
