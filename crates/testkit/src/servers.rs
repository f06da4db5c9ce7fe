//! Starts throw-away servers for tests, and shares one of each kind within a test binary.

use std::io::{Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use refloat_run::own_tables::MARKS_SCHEMA;
use refloat_run::settings::provider_variable;
use refloat_sandbox::{
    Ephemeral, GaleraNode, GaleraOptions, Instance, Sandbox, ServerKind, StartOptions, Tls,
};
use refloat_wire::{ConnectOptions, Connection};

use crate::{memory, oracle};

/// The shared server of this kind. It ends with the test process.
///
/// # Panics
/// If it does not start: a missing server is a failure, not a skip.
pub fn server(kind: ServerKind) -> &'static Ephemeral {
    static SERVERS: [OnceLock<Ephemeral>; ServerKind::ALL.len()] =
        [const { OnceLock::new() }; ServerKind::ALL.len()];
    let index = ServerKind::ALL
        .iter()
        .position(|one| *one == kind)
        .unwrap_or_default();
    SERVERS[index].get_or_init(|| start(&quick(kind)))
}

/// Environment variable that selects the server kind for clusters, unless a test chooses one
/// itself.
const NODES: &str = "REFLOAT_NODES";

/// The server kind for clusters: MariaDB 10.11, or the one that the environment variable
/// `REFLOAT_NODES` names (such as `mariadb-11.8`).
///
/// # Panics
/// If it names an unknown kind.
pub fn nodes() -> ServerKind {
    nodes_or(ServerKind::MariaDb1011)
}

/// Like [`nodes`], with another default.
///
/// # Panics
/// If the variable names an unknown kind.
pub fn nodes_or(usual: ServerKind) -> ServerKind {
    std::env::var(NODES).map_or(usual, |name| {
        name.parse()
            .unwrap_or_else(|error| panic!("{NODES}: {error}"))
    })
}

/// Environment variable with the path of the Galera provider that [`freezing`] uses.
const PROVIDER: &str = "REFLOAT_FREEZING_PROVIDER";

/// Options for a cluster of `count` nodes whose provider can stop discarding write-sets
/// (`gcache.freeze_purge_at_seqno`).
///
/// Only the provider of Percona XtraDB Cluster can, and no package offers it for MariaDB. The
/// environment variable `REFLOAT_FREEZING_PROVIDER` holds its path (see `docs/design/cluster.md`).
///
/// # Panics
/// If the variable is not set: tests that need this provider must not be skipped silently.
pub fn freezing(count: u32) -> GaleraOptions {
    let file = std::env::var(PROVIDER).unwrap_or_else(|_| panic!("{PROVIDER} is not set"));
    GaleraOptions::new(nodes(), count).option("wsrep_provider", file)
}

/// Starts a cluster node that was killed.
///
/// Occasionally Galera starts an IST beyond the position that such a node expects, and the node
/// gives up. The next attempt succeeds, so this tries twice.
///
/// # Panics
/// If the second attempt fails too.
pub fn start_killed(node: &GaleraNode) {
    if node.start().is_err() {
        node.crash().expect("what is left of it can be ended");
        node.start().expect("a node that was killed starts");
    }
}

/// Sets a provider option of a node, in the way that its server supports.
///
/// # Panics
/// If the server refuses.
pub fn set_provider_option(node: &Instance, option: &str, value: &str) {
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

/// Options of a fast server: it need not survive a crash of the machine, so tests wait less for the
/// disk.
pub fn quick(kind: ServerKind) -> StartOptions {
    // MariaDB 11.8 makes a key at each start, which takes a core a second.
    let tls = if kind == ServerKind::MariaDb118 {
        Tls::Generated
    } else {
        Tls::Usual
    };
    StartOptions::new(kind)
        .tls(tls)
        .option("innodb_flush_log_at_trx_commit", "0")
        .option("sync_binlog", "0")
        .option("innodb_doublewrite", "0")
        .option("local_infile", "1")
        .option("max_allowed_packet", (64 << 20).to_string())
}

/// Starts a separate server for one test.
///
/// # Panics
/// If it does not start.
pub fn start(options: &StartOptions) -> Ephemeral {
    sandbox().start_ephemeral(options).unwrap_or_else(|error| {
        panic!(
            "{} does not start; scripts/install-servers installs it: {error}",
            options.kind
        )
    })
}

/// The folder of the sandboxes of all tests, within another one.
const FOLDER: &str = "refloat-testkit";

/// The sandbox for test servers. It keeps initialised data directories for later runs.
pub fn sandbox() -> Sandbox {
    Sandbox::new(memory::folder().join(FOLDER)).with_cache_dir(cache())
}

/// The folder of initialised data directories, for sandboxes that tests create themselves.
pub fn cache() -> PathBuf {
    std::env::temp_dir().join(FOLDER).join("cache")
}

/// Connection options for root over the Unix socket.
///
/// # Panics
/// If the sandbox returns an invalid URL.
pub fn target(server: &Instance) -> ConnectOptions {
    ConnectOptions::from_url(&server.socket_url())
        .unwrap_or_else(|error| panic!("{}: {error}", server.socket_url()))
}

/// The longest wait for one answer. Without a limit, a server that hangs would make the test wait
/// forever. Some tests run a statement that blocks others until it is killed, so it is not shorter.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Connects as root over the Unix socket. Each wait for an answer is limited to five minutes.
///
/// # Panics
/// If the server does not answer.
pub fn connect(server: &Instance) -> Connection {
    let mut options = target(server);
    options.read_timeout = Some(READ_TIMEOUT);
    Connection::connect(&options)
        .unwrap_or_else(|error| panic!("connecting to {}: {error}", server.name()))
}

/// Drops all databases except the server's own, drops the progress marks of loads, and resets the
/// global settings that dumps change.
///
/// # Panics
/// If the server refuses.
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

/// Runs a script in the server's own client, as a user would: `mysql ARGS < script`. Discards its
/// output.
///
/// # Errors
/// The client's error message.
///
/// # Panics
/// If the client cannot be started. It comes with the server.
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

/// A program of a server's installation, such as `mariadb-backup` or the server itself, as a single
/// executable in this folder.
///
/// # Panics
/// If the installation has no such program.
pub fn program(server: &Instance, name: &str, folder: &Path) -> PathBuf {
    let installation = server.installation().expect("the server is installed");
    let command = installation.other(name).expect("it has the program");
    let word = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy());
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(word)
        .collect();
    // Its paths follow the first option, which may be one that must come first.
    let paths: Vec<String> = match name {
        "mariadbd" | "mysqld" => installation
            .server_paths()
            .iter()
            .map(|path| word(path))
            .collect(),
        _ => Vec::new(),
    };
    let path = folder.join(name);
    let script = format!(
        "#!/bin/sh\nfirst=$1; shift; exec {} \"$first\" {} \"$@\"\n",
        words.join(" "),
        paths.join(" ")
    );
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::write(&path, script)
        .and_then(|()| std::fs::set_permissions(&path, executable))
        .expect("a script can be written");
    path
}
