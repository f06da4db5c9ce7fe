//! Observes all nodes at once: each is queried in a thread of its own, so one that does not answer
//! does not hold up the others for long.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use refloat_host::{Copying, GraState, Host, chain, datadir};
use refloat_run::settings::Grants;
use refloat_wire::{Connection, Error};

use crate::ddl::long_ddl;
use crate::member::{Member, Observation, WantedTables, impatient};
use crate::node::{NodeState, Sample, Values};
use crate::view::{ClusterView, NodeView, Tables};

/// File in which a node keeps its position in the cluster.
pub(crate) const GRASTATE: &str = "grastate.dat";
/// Number of tables that are examined without a request to do so: MariaDB opens each of them.
const TABLES_LOOKED_THROUGH: u64 = 5_000;
/// How long an examination of all tables may take if it was requested.
const TABLES_PATIENCE: Duration = Duration::from_secs(600);
/// Maximum number of such tables that are listed by name.
const TABLES_NAMED: u64 = 20;

/// The settings that are read: all of `wsrep`, and a few more.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'wsrep%' OR Variable_name IN \
    ('version', 'datadir', 'log_error', 'read_only', 'binlog_format', 'innodb_autoinc_lock_mode', 'hostname', 'port')";
const STATUS: &str =
    "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'wsrep%' OR Variable_name = 'Uptime'";

/// Queries all nodes at the same time and combines their answers.
pub fn observe(name: &str, members: &[Member], how: &Observation) -> ClusterView {
    let nodes = thread::scope(|scope| {
        let asked: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(move || ask(member, how)))
            .collect();
        let answers = asked.into_iter().zip(members);
        answers
            .map(|(thread, member)| {
                thread.join().unwrap_or_else(|_| NodeView {
                    unreachable: Some("asking it ended in a defect of this program".to_owned()),
                    ..NodeView::silent(member)
                })
            })
            .collect()
    });
    let mut view = ClusterView::new(name, nodes, how);
    match tables(members, &view, how.tables) {
        Ok(tables) => view.tables = tables,
        Err(reason) => view.tables_unread = Some(reason),
    }
    view.look_for_trouble();
    view
}

pub(crate) fn ask(member: &Member, how: &Observation) -> NodeView {
    let mut view = NodeView::silent(member);
    match ask_server(member, how) {
        Ok(state) => view.state = Some(state),
        Err(error) => view.unreachable = Some(chain(&error)),
    }
    let datadir = match view.state {
        Some(_) => member.folder_by(view.state.as_ref()),
        None => match member.known_folder() {
            Ok(datadir) => datadir,
            Err(unknown) => {
                view.files_unreadable = Some(unknown.reason);
                return view;
            }
        },
    };
    // A server that answers reports its position, and meanwhile its file says -1.
    if let (Some(host), true) = (
        &member.host,
        view.state.as_ref().is_none_or(|state| !state.primary),
    ) {
        if view.state.is_none() {
            view.receives = datadir::copy_comes(host, &datadir).unwrap_or(None);
        }
        match grastate(host, &datadir) {
            // The provider rewrites the file once the copy is complete.
            _ if view.receives.is_some() => {}
            Ok(state) => view.grastate = state,
            Err(reason) => view.files_unreadable = Some(reason),
        }
    }
    // A healthy node is not worth a login at each observation.
    let is_near = view.state.is_none() || member.host == Some(Host::Local);
    let is_looked_for = how.rebuilds && is_near;
    let is_donor = (view.state.as_ref()).is_some_and(|state| state.state.starts_with("Donor"));
    if let Some(host) = &member.host
        && (is_donor || view.receives.is_some() || is_looked_for)
    {
        view.copying = Copying::look(host, &datadir).unwrap_or(None);
    }
    view
}

fn grastate(host: &Host, datadir: &Path) -> Result<Option<GraState>, String> {
    let path = datadir.join(GRASTATE);
    let Some(text) = host.read(&path).map_err(|error| chain(&error))? else {
        return Err(format!("there is no {} on {}", path.display(), host.name()));
    };
    match GraState::parse(&text) {
        Some(state) => Ok(Some(state)),
        None if text.trim().is_empty() => Err(format!(
            "{} on {} is empty, as that of a server is that has just been started without one",
            path.display(),
            host.name()
        )),
        None => Err(format!("{} on {} is damaged", path.display(), host.name())),
    }
}

fn ask_server(member: &Member, how: &Observation) -> Result<NodeState, Error> {
    let mut server = Connection::connect(&impatient(&member.connect))?;
    let begun = Instant::now();
    let first = Sample {
        status: values(&mut server, STATUS)?,
        at: begun.elapsed(),
    };
    let variables = values(&mut server, VARIABLES)?;
    thread::sleep(how.sample.saturating_sub(begun.elapsed()));
    let last = Sample {
        status: values(&mut server, STATUS)?,
        at: begun.elapsed(),
    };
    let mut state = NodeState::new(&first, &last, &variables);
    state.sst.bytes = data_bytes(&mut server);
    // An account that may not see other users' sessions sees only its own.
    state.ddl = long_ddl(&mut server).unwrap_or(None);
    Ok(state)
}

/// Queries names and values. Names are converted to lower case.
pub(crate) fn values(server: &mut Connection, ask: &str) -> Result<Values, Error> {
    let rows = server.query(ask)?;
    let text = |row, column| {
        rows.bytes(row, column)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    Ok((0..rows.len())
        .filter_map(|row| Some((text(row, 0)?.to_ascii_lowercase(), text(row, 1)?)))
        .collect())
}

/// Bytes of InnoDB tablespaces, which a copy transfers. All are listed, including those of tables
/// that have not been opened since the server started (seen after clean restarts of MariaDB 10.11
/// and 11.8). Needs the PROCESS privilege. Outside a primary component there is no answer.
fn data_bytes(server: &mut Connection) -> Option<u64> {
    let asked = [
        "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME <> 'innodb_temporary'",
        "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_TABLESPACES WHERE NAME <> 'innodb_temporary'",
    ];
    asked
        .iter()
        .find_map(|ask| server.query(ask).ok()?.str(0, 0)?.parse().ok())
}

/// Looks for tables that do not work well with Galera, on one synced node of the primary component.
fn tables(
    members: &[Member],
    view: &ClusterView,
    wanted: WantedTables,
) -> Result<Option<Tables>, String> {
    if wanted == WantedTables::Never {
        return Ok(None);
    }
    match view.serving().next() {
        Some((at, _)) => {
            let tables = look_through(&members[at], wanted).map_err(|error| chain(&error))?;
            tables
                .map(Some)
                .ok_or_else(|| "the account has no SELECT on all databases".to_owned())
        }
        None if wanted == WantedTables::Always => Err("no node serves".to_owned()),
        None => Ok(None),
    }
}

/// `None`: all tables are wanted, and the account cannot read them all.
fn look_through(member: &Member, wanted: WantedTables) -> Result<Option<Tables>, Error> {
    const OURS: &str = "TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND TABLE_TYPE = 'BASE TABLE'";
    let mut connect = impatient(&member.connect);
    if wanted == WantedTables::Always {
        connect.read_timeout = Some(member.connect.read_timeout.unwrap_or(TABLES_PATIENCE));
    }
    let mut server = Connection::connect(&connect)?;
    if wanted == WantedTables::Always && !Grants::read(&mut server)?.reads_everything() {
        return Ok(None);
    }
    let all = format!("SELECT COUNT(*) FROM information_schema.TABLES WHERE {OURS}");
    let all = server.query(all)?.u64(0, 0).unwrap_or(0);
    let mut tables = Tables {
        node: member.name.clone(),
        all,
        ..Tables::default()
    };
    if all > TABLES_LOOKED_THROUGH && wanted == WantedTables::WhereCheap {
        return Ok(Some(tables));
    }
    let without_key = format!(
        "FROM information_schema.TABLES t WHERE {OURS} AND NOT EXISTS (SELECT 1 FROM information_schema.STATISTICS s \
         WHERE s.TABLE_SCHEMA = t.TABLE_SCHEMA AND s.TABLE_NAME = t.TABLE_NAME AND s.NON_UNIQUE = 0 AND s.INDEX_TYPE <> 'HASH' \
         GROUP BY s.INDEX_NAME HAVING s.INDEX_NAME = 'PRIMARY' OR SUM(s.NULLABLE = 'YES' OR s.SUB_PART IS NOT NULL) = 0)"
    );
    let other_engines = format!(
        "FROM information_schema.TABLES t WHERE {OURS} AND ENGINE NOT IN ('InnoDB', 'SEQUENCE')"
    );
    let mut list = |what: &str| -> Result<(u64, Vec<String>), Error> {
        let count = server
            .query(format!("SELECT COUNT(*) {what}"))?
            .u64(0, 0)
            .unwrap_or(0);
        let names = server.query(format!(
            "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) {what} ORDER BY 1 LIMIT {TABLES_NAMED}"
        ))?;
        let names = names.texts(0).map(str::to_owned).collect();
        Ok((count, names))
    };
    (tables.without_key, tables.without_key_names) = list(&without_key)?;
    (tables.other_engine, tables.other_engine_names) = list(&other_engines)?;
    tables.looked_through = true;
    Ok(Some(tables))
}
