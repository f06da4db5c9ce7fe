//! Makes a rebuilt server replicate from its donor, from the place that its files are of.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Error, Secret, Target, Vendor};

use crate::about::BinlogPosition;
use crate::error::PhysicalError;
use crate::server::Server;

/// How long both threads of the replica may take to run.
const RUNNING: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// The account by which a replica reads its source.
#[derive(Debug, Clone)]
pub struct ReplicaAccount {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: Secret,
}

/// Why a server cannot be made a replica of this donor.
pub fn objections(donor: &ConnectOptions, server: &Server, is_checked: bool) -> Vec<Refusal> {
    let mut against = Vec::new();
    if !is_checked {
        against.push(
            Refusal::new("a replica is set up on the running server, which is not asked")
                .hint("Give --start COMMAND and --check URL as well."),
        );
    }
    if server.info.vendor != Vendor::MariaDb {
        against.push(Refusal::new(
            "replication is set up between MariaDB servers only",
        ));
    }
    if !server.has_binlog {
        against.push(
            Refusal::new("the donor has no binary log (log_bin is OFF)")
                .hint("A server without one has no replicas."),
        );
    }
    if !matches!(donor.target(), Target::Tcp(..)) {
        against.push(
            Refusal::new("the donor is named by a socket, which a replica cannot connect to")
                .hint("Give its host: --from mysql://USER@HOST:PORT/."),
        );
    }
    against
}

/// Sets replication up on the server at `check`, and waits until it runs.
pub fn replicate(
    account: &ReplicaAccount,
    donor: &ConnectOptions,
    check: &ConnectOptions,
    datadir: &Path,
    run: &Run,
) -> Result<(), PhysicalError> {
    let Target::Tcp(host, port) = donor.target() else {
        return Ok(());
    };
    let position = position(datadir)?;
    let failed = PhysicalError::server("setting replication up on the new server");
    let mut conn = Connection::connect(check)
        .map_err(PhysicalError::server("connecting to the new server"))?;
    set_up(&mut conn, account, (&host, port), &position).map_err(failed)?;
    let begun = Instant::now();
    loop {
        let asked = PhysicalError::server("asking the new server how it replicates");
        let state = State::of(&mut conn).map_err(asked)?;
        if state.is_running() {
            run.events.note(format!(
                "the new server replicates from {host}:{port}, from {} on",
                if position.gtid.is_empty() {
                    &position.file
                } else {
                    &position.gtid
                }
            ));
            return Ok(());
        }
        if !state.error.is_empty() || begun.elapsed() > RUNNING {
            return Err(PhysicalError::Start {
                what: "does not replicate",
                reason: state.reason(),
            });
        }
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        run.cancel.sleep(POLL);
    }
}

/// Where the donor's binary log stood, as the tool left it beside the files.
fn position(datadir: &Path) -> Result<BinlogPosition, PhysicalError> {
    let names = ["xtrabackup_binlog_info", "mariadb_backup_binlog_info"];
    let found = names
        .iter()
        .find_map(|name| fs::read_to_string(datadir.join(name)).ok());
    let position = found.and_then(|text| BinlogPosition::parse(&text));
    position.ok_or_else(|| PhysicalError::Start {
        what: "cannot be made a replica",
        reason: format!("{} does not say where the donor stood", datadir.display()),
    })
}

fn set_up(
    conn: &mut Connection,
    account: &ReplicaAccount,
    (host, port): (&str, u16),
    position: &BinlogPosition,
) -> Result<(), Error> {
    // These statements take plain literals only. In this mode a quote is all that needs care.
    conn.exec("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")?;
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let password = String::from_utf8_lossy(account.password.expose());
    let place = if position.gtid.is_empty() {
        format!(
            "MASTER_LOG_FILE = {}, MASTER_LOG_POS = {}, MASTER_USE_GTID = no",
            literal(&position.file),
            position.position
        )
    } else {
        // Its own binary log is a new one: what the donor's says of the past is no history of it.
        let gtid = literal(&position.gtid);
        conn.exec(format!("SET GLOBAL gtid_slave_pos = {gtid}"))?;
        "MASTER_USE_GTID = slave_pos".to_owned()
    };
    conn.exec(format!(
        "CHANGE MASTER TO MASTER_HOST = {}, MASTER_PORT = {port}, MASTER_USER = {}, MASTER_PASSWORD = {}, {place}",
        literal(host),
        literal(&account.user),
        literal(&password),
    ))?;
    conn.exec("START SLAVE")?;
    Ok(())
}

/// What `SHOW SLAVE STATUS` says.
struct State {
    io: String,
    sql: String,
    error: String,
}

impl State {
    fn of(conn: &mut Connection) -> Result<Self, Error> {
        let rows = conn.query("SHOW SLAVE STATUS")?;
        let of = |name: &str| {
            let column = rows.columns.iter().position(|column| column.name == name);
            let text = column.and_then(|column| rows.str(0, column));
            text.unwrap_or_default().to_owned()
        };
        let errors = [of("Last_IO_Error"), of("Last_SQL_Error")];
        Ok(Self {
            io: of("Slave_IO_Running"),
            sql: of("Slave_SQL_Running"),
            error: errors
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
        })
    }

    fn is_running(&self) -> bool {
        self.io == "Yes" && self.sql == "Yes"
    }

    fn reason(&self) -> String {
        if self.error.is_empty() {
            format!("its threads are: IO {}, SQL {}", self.io, self.sql)
        } else {
            self.error.clone()
        }
    }
}
