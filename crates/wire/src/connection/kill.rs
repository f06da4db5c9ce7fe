//! Kills the statement or session of another connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::error::Error;
use crate::options::ConnectOptions;
use crate::server::{Identity, ServerInfo};

/// Timeout of the killing connection for every wait: someone pressed Ctrl-C and is waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// `ER_NO_SUCH_THREAD`: the session has already ended.
const NO_SUCH_THREAD: u16 = 1094;
/// How far the server's uptime, in whole seconds, may lag behind.
const UPTIME_SLACK: Duration = Duration::from_secs(2);

/// Kills the statement or the session of one connection, from any thread, through a second
/// connection.
///
/// Before killing, it checks that the second connection reached the same server, that the server
/// has not restarted since, and that the session still belongs to our account: connection ids are
/// reused after a restart.
#[derive(Debug, Clone)]
pub struct KillHandle {
    options: Arc<ConnectOptions>,
    identity: Identity,
    server: ServerInfo,
    opened_at: Instant,
}

impl KillHandle {
    pub(crate) fn new(
        options: Arc<ConnectOptions>,
        identity: Identity,
        server: ServerInfo,
        opened_at: Instant,
    ) -> Self {
        Self {
            options,
            identity,
            server,
            opened_at,
        }
    }

    /// Kills the running statement; its connection gets error 1317 and stays usable. Returns
    /// `false` if the session was gone.
    pub fn kill_query(&self) -> Result<bool, Error> {
        self.kill("KILL QUERY")
    }

    /// Kills the session. Returns `false` if it was gone.
    pub fn kill_connection(&self) -> Result<bool, Error> {
        self.kill("KILL CONNECTION")
    }

    fn kill(&self, verb: &str) -> Result<bool, Error> {
        let options = ConnectOptions {
            database: None,
            connect_timeout: self.options.connect_timeout.min(PATIENCE),
            read_timeout: Some(PATIENCE),
            write_timeout: Some(PATIENCE),
            ..(*self.options).clone()
        };
        let mut second = Connection::connect(&options)?;
        second.expect_identity(&self.identity)?;
        self.expect_no_restart(&mut second)?;
        let id = self.server.connection_id;
        let ours = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND USER = SUBSTRING_INDEX(USER(), '@', 1)"
        );
        if second.query_value(ours)?.as_deref() != Some("1") {
            return Ok(false);
        }
        match second.exec(format!("{verb} {id}")) {
            Ok(_) => Ok(true),
            Err(Error::Server {
                code: NO_SUCH_THREAD,
                ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn expect_no_restart(&self, second: &mut Connection) -> Result<(), Error> {
        let result = second.query("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        let up = Duration::from_secs(result.u64(0, 1).unwrap_or_default());
        if up + UPTIME_SLACK >= self.opened_at.elapsed() {
            return Ok(());
        }
        Err(Error::WrongServer {
            expected: format!(
                "{}, up since before the connection was opened",
                self.identity
            ),
            found: format!("the same after a restart {} s ago", up.as_secs()),
        })
    }
}
