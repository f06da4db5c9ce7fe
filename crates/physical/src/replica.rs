//! Makes a rebuilt server replicate from its donor, starting at the position of the copied files.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_run::progress::Phase;
use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Error, Secret, Target, Vendor};

use crate::about::BinlogPosition;
use crate::binlog::archive::{ServerLog, server_logs};
use crate::binlog::until::number_of;
use crate::donor::DonorOptions;
use crate::error::PhysicalError;
use crate::held::open_file;
use crate::server::Server;

/// How long both threads of the replica may take to start.
const RUNNING: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
/// How long a replica that catches up may be without its donor: longer than the server waits
/// between attempts, which is a minute unless somebody has set another time.
const AWAY: Duration = Duration::from_secs(600);

/// The account with which a replica reads from its source.
#[derive(Debug, Clone)]
pub struct ReplicaAccount {
    /// Name of the account, which exists on the source.
    pub user: String,
    /// Password of the account; the replica keeps it.
    pub password: Secret,
}

/// Why a server cannot be made a replica of this donor.
pub fn objections((donor, server): (&DonorOptions, &Server), is_checked: bool) -> Vec<Refusal> {
    let mut against = Vec::new();
    if !is_checked {
        against.push(
            Refusal::new(
                "a replica is set up on the running server, and no connection to it is given",
            )
            .hint("Give --start COMMAND and --check URL as well."),
        );
    }
    if server.info.vendor == Vendor::MySql && !donor.is_cloned(server) {
        against.push(
            Refusal::new("setting up a replica from a copy by XtraBackup is not supported")
                .hint("Set replication up by hand, or leave --tool and --donor-tool out: the donor then sends its files itself."),
        );
    }
    if server.info.vendor == Vendor::MySql && server.is_replica && !has_gtids(server) {
        against.push(
            Refusal::new("the donor is a replica itself, or the account may not ask whether it is, and it has no GTIDs (gtid_mode is not ON)")
                .hint("If it is not a replica, GRANT REPLICATION CLIENT ON *.* to the account of --from. If it is, the new server would begin with what the donor's source sends: start it with skip_replica_start, and set replication up by hand."),
        );
    }
    if !server.has_binlog {
        against.push(
            Refusal::new("the donor has no binary log (log_bin is OFF)")
                .hint("A server without one cannot have replicas."),
        );
    }
    if !matches!(donor.source.target(), Target::Tcp(..)) {
        against.push(
            Refusal::new("the donor is named by a socket, which a replica cannot connect to")
                .hint("Give its host: --from mysql://USER@HOST:PORT/."),
        );
    }
    against
}

/// Why nobody could tell whether a new replica has caught up with this donor.
pub fn no_look_at_logs(donor: &mut Connection) -> Vec<Refusal> {
    match server_logs(donor) {
        Err(PhysicalError::Refused(against)) => against,
        _ => Vec::new(),
    }
}

/// Whether transactions of a `MySQL` server have GTIDs.
fn has_gtids(server: &Server) -> bool {
    server.variable("gtid_mode") == Some("ON")
}

/// Sets replication up on the server at `conn`, and waits until it runs.
pub fn replicate(
    (account, donor, server): (&ReplicaAccount, &ConnectOptions, &Server),
    conn: &mut Connection,
    datadir: &Path,
    run: &Run,
) -> Result<(), PhysicalError> {
    let Target::Tcp(host, port) = donor.target() else {
        return Ok(());
    };
    let failed = PhysicalError::server("setting replication up on the new server");
    let position = match server.info.vendor {
        Vendor::MariaDb => position(datadir)?,
        Vendor::MySql => cloned_position(conn, has_gtids(server))?,
    };
    let set = match server.info.vendor {
        Vendor::MariaDb => set_up(conn, account, (&host, port), &position),
        Vendor::MySql => {
            let is_tls = server.info.is_tls;
            set_up_mysql(conn, account, (&host, port, is_tls), &position)
        }
    };
    set.map_err(failed)?;
    let begun = Instant::now();
    loop {
        let state = State::look(conn)?;
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

/// Waits until the new server has replicated what its donor has written up to now.
///
/// # Errors
/// It stops replicating, or one of the two does not answer.
pub fn catch_up(
    donor: &ConnectOptions,
    conn: &mut Connection,
    run: &Run,
) -> Result<(), PhysicalError> {
    run.progress.set_phase(Phase::CatchUp);
    let mut donor = Connection::connect(donor)
        .map_err(PhysicalError::server("asking the donor for its logs"))?;
    let logs = server_logs(&mut donor)?;
    drop(donor);
    let mut lost: Option<Instant> = None;
    loop {
        let state = State::look(conn)?;
        let is_away = lost.is_some_and(|since| since.elapsed() > AWAY);
        if state.has_stopped() || is_away && !state.is_running() {
            return Err(PhysicalError::Start {
                what: "no longer replicates",
                reason: state.reason(),
            });
        }
        if state.is_running() {
            lost = None;
        } else if lost.is_none() && !state.error.is_empty() {
            run.events.note(format!(
                "the new server has lost its connection to the donor, and tries again: {}",
                state.error
            ));
            lost = Some(Instant::now());
        }
        if let Some(left) = left_of(&logs, &state.file, state.position) {
            run.progress.set_behind(left);
            if left == 0 {
                return Ok(());
            }
        }
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::CatchingUp(reason));
        }
        run.cancel.sleep(POLL);
    }
}

/// Bytes between a position and the end of these logs. `None`: none of them has that name, as
/// before the first event has arrived.
fn left_of(logs: &[ServerLog], file: &str, position: u64) -> Option<u64> {
    if let Some(at) = logs.iter().position(|log| log.name == file) {
        let bytes: u64 = logs[at..].iter().map(|log| log.size).sum();
        return Some(bytes.saturating_sub(position));
    }
    // A log that was begun since.
    (number_of(file)? > logs.last()?.number).then_some(0)
}

/// The donor's position in its binary log, as the tool left it beside the files.
fn position(datadir: &Path) -> Result<BinlogPosition, PhysicalError> {
    let names = ["xtrabackup_binlog_info", "mariadb_backup_binlog_info"];
    let found = names
        .iter()
        .find_map(|name| io::read_to_string(open_file(&datadir.join(name)).ok()?).ok());
    let position = found.and_then(|text| BinlogPosition::parse(&text));
    position.ok_or_else(|| PhysicalError::Start {
        what: "cannot be made a replica",
        reason: format!("{} does not say where the donor stood", datadir.display()),
    })
}

/// The donor's position in its binary log, as shown by a server that has started on its files.
fn cloned_position(
    conn: &mut Connection,
    has_gtids: bool,
) -> Result<BinlogPosition, PhysicalError> {
    let status = conn
        .query(
            "SELECT BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED FROM performance_schema.clone_status",
        )
        .map_err(PhysicalError::server("asking the new server where the donor stood"))?;
    let text = |column| status.str(0, column).unwrap_or_default();
    if status.is_empty() || text(0).is_empty() {
        return Err(PhysicalError::Start {
            what: "cannot be made a replica",
            reason: "performance_schema.clone_status does not say where the donor stood".to_owned(),
        });
    }
    Ok(BinlogPosition {
        file: text(0).to_owned(),
        position: status.u64(0, 1).unwrap_or_default(),
        gtid: if has_gtids {
            text(2).split_whitespace().collect()
        } else {
            String::new()
        },
    })
}

/// Quotes a text as an SQL literal. Replication statements accept only plain literals, and under
/// [`MODE`] only quotes need escaping.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

const MODE: &str = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'";

fn set_up_mysql(
    conn: &mut Connection,
    account: &ReplicaAccount,
    (host, port, is_tls): (&str, u16, bool),
    position: &BinlogPosition,
) -> Result<(), Error> {
    conn.exec(MODE)?;
    // The donor's own replication settings came with its files, and replication may be running by
    // now.
    conn.exec("STOP REPLICA")?;
    conn.exec("RESET REPLICA ALL")?;
    let place = if position.gtid.is_empty() {
        format!(
            "SOURCE_LOG_FILE = {}, SOURCE_LOG_POS = {}, SOURCE_AUTO_POSITION = 0",
            literal(&position.file),
            position.position
        )
    } else {
        "SOURCE_AUTO_POSITION = 1".to_owned()
    };
    let password = String::from_utf8_lossy(account.password.expose());
    // Encrypted if this program's own connection to the donor is. Without encryption, the password
    // can be sent only with the public key of the donor.
    conn.exec(format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = {}, SOURCE_PORT = {port}, SOURCE_USER = {}, SOURCE_PASSWORD = {}, SOURCE_SSL = {}, GET_SOURCE_PUBLIC_KEY = 1, {place}",
        literal(host),
        literal(&account.user),
        literal(&password),
        u8::from(is_tls),
    ))?;
    conn.exec("START REPLICA")?;
    Ok(())
}

fn set_up(
    conn: &mut Connection,
    account: &ReplicaAccount,
    (host, port): (&str, u16),
    position: &BinlogPosition,
) -> Result<(), Error> {
    conn.exec(MODE)?;
    let password = String::from_utf8_lossy(account.password.expose());
    let place = if position.gtid.is_empty() {
        format!(
            "MASTER_LOG_FILE = {}, MASTER_LOG_POS = {}, MASTER_USE_GTID = no",
            literal(&position.file),
            position.position
        )
    } else {
        // Its own binary log is a new one, so the history in the donor's log does not apply to it.
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

/// What `SHOW SLAVE STATUS` or `SHOW REPLICA STATUS` says.
struct State {
    io: String,
    sql: String,
    error: String,
    /// Up to where in the donor's log it has replicated.
    file: String,
    position: u64,
}

impl State {
    fn look(conn: &mut Connection) -> Result<Self, PhysicalError> {
        let asked = PhysicalError::server("asking the new server how it replicates");
        Self::of(conn).map_err(asked)
    }

    fn of(conn: &mut Connection) -> Result<Self, Error> {
        let is_mysql = conn.server().vendor == Vendor::MySql;
        let (show, thread, source) = if is_mysql {
            ("SHOW REPLICA STATUS", "Replica", "Source")
        } else {
            ("SHOW SLAVE STATUS", "Slave", "Master")
        };
        let rows = conn.query(show)?;
        let of = |name: &str| {
            let column = rows.columns.iter().position(|column| column.name == name);
            let text = column.and_then(|column| rows.str(0, column));
            text.unwrap_or_default().to_owned()
        };
        let sql = of(&format!("{thread}_SQL_Running"));
        // A thread that tries again has an error, too; one that has stopped says why.
        let mut errors = ["Last_IO_Error", "Last_SQL_Error"];
        if sql == "No" {
            errors.reverse();
        }
        Ok(Self {
            io: of(&format!("{thread}_IO_Running")),
            sql,
            error: errors
                .into_iter()
                .map(of)
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
            file: of(&format!("Relay_{source}_Log_File")),
            position: of(&format!("Exec_{source}_Log_Pos"))
                .parse()
                .unwrap_or_default(),
        })
    }

    fn is_running(&self) -> bool {
        self.io == "Yes" && self.sql == "Yes"
    }

    /// Whether it stays as it is until somebody does something. A thread without a connection tries
    /// again, with an error to show.
    fn has_stopped(&self) -> bool {
        self.io == "No" || self.sql == "No"
    }

    fn reason(&self) -> String {
        if self.error.is_empty() {
            format!("its threads are: IO {}, SQL {}", self.io, self.sql)
        } else {
            self.error.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_lost_is_made_again() {
        let state = |io: &str, sql: &str, error: &str| State {
            io: io.to_owned(),
            sql: sql.to_owned(),
            error: error.to_owned(),
            file: String::new(),
            position: 0,
        };
        let lost = state("Connecting", "Yes", "Lost connection to server");
        assert!(!lost.has_stopped() && !lost.is_running());
        assert!(!state("Preparing", "Yes", "").has_stopped());
        assert!(state("No", "Yes", "binary logs purged").has_stopped());
        assert!(state("Yes", "No", "Duplicate entry").has_stopped());
        assert_eq!(
            state("Yes", "No", "").reason(),
            "its threads are: IO Yes, SQL No"
        );
    }

    #[test]
    fn how_far_a_replica_is_behind() {
        let log = |number: u64, size| ServerLog {
            name: format!("b.{number:06}"),
            number,
            size,
        };
        let logs = [log(9, 500), log(10, 300)];
        let left = |file, position| left_of(&logs, file, position);
        assert_eq!(left("b.000009", 100), Some(700));
        assert_eq!(left("b.000010", 300), Some(0));
        // Written to, or rotated, since the donor was asked.
        assert_eq!(left("b.000010", 400), Some(0));
        assert_eq!(left("b.000011", 4), Some(0));
        assert_eq!(left("", 0), None);
        assert_eq!(left("b.000008", 4), None);
    }
}
