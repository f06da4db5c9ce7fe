//! Measures rates that no earlier run has measured, for a second each, so that a way can be chosen.
//!
//! Rows go into a database of Refloat's own: once replicated, until all nodes have applied them,
//! and once without replication, as into a standalone node. Dropping that database is replicated,
//! so nothing stays on any node. The rate of a full copy is measured from one node's data directory
//! to another node's disk, through the port and the program that copies use.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use refloat_host::scripts::{ENTER, SERVER};
use refloat_host::{Host, chain, last_line};
use refloat_run::own_tables::{RATES_SCHEMA, RATES_TABLES, namesakes};
use refloat_wire::{ConnectOptions, Connection, Error, Target};

use super::rates::{Rate, RateFrom, Rates};
use crate::advise::receives_at;
use crate::member::{Member, impatient};
use crate::restore::examined_host::datadir_of;
use crate::view::ClusterView;

/// How long rows are written.
const WHILE: Duration = Duration::from_secs(1);
/// As many sessions as a load has workers on a small machine.
const SESSIONS: usize = 4;
/// Rows per statement: about as much text as in a chunk of a load.
const ROWS: usize = 4_000;
/// Time limit of a copy's scripts; their own limits are shorter.
const COPY_LIMIT: Duration = Duration::from_secs(30);
/// The scratch file of a trial copy, removed afterwards.
const FILE: &str = ".refloat-rate";

const RECEIVE: &str = include_str!("receive.sh");
const SEND: &str = include_str!("send.sh");

/// Measures the unknown rates. Rates that could not be measured stay unchanged; returns the
/// reasons.
pub(super) fn measure(
    rates: &mut Rates,
    view: &ClusterView,
    members: &[Member],
    at: usize,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if !rates.load.is_known() || !rates.replicate.is_known() {
        let others = members.iter().enumerate().filter(|(other, _)| *other != at);
        let others: Vec<&ConnectOptions> = others.map(|(_, member)| &member.connect).collect();
        match Scratch::new(&members[at].connect) {
            Ok(scratch) => {
                if !rates.replicate.is_known() {
                    let rate = scratch.write(RATES_TABLES[0], Some(&others));
                    take(
                        &mut rates.replicate,
                        rate,
                        "through replication",
                        &mut warnings,
                    );
                }
                if !rates.load.is_known() {
                    let rate = scratch.write(RATES_TABLES[1], None);
                    take(&mut rates.load, rate, "of a load", &mut warnings);
                }
                if let Err(error) = scratch.drop_all() {
                    warnings.push(format!(
                        "the database {RATES_SCHEMA}, in which rates were measured, could not be dropped: {}",
                        chain(&error)
                    ));
                }
            }
            Err(reason) => warnings.push(format!("rates of loads could not be measured: {reason}")),
        }
    }
    if !rates.copy.is_known() {
        let rate = copy(view, members, at);
        take(&mut rates.copy, rate, "of full copies", &mut warnings);
    }
    warnings
}

fn take(rate: &mut Rate, measured: Result<f64, String>, of: &str, warnings: &mut Vec<String>) {
    match measured {
        Ok(bytes_per_second) => {
            *rate = Rate {
                bytes_per_second,
                from: RateFrom::Tried,
            };
        }
        Err(reason) => warnings.push(format!("the rate {of} could not be measured: {reason}")),
    }
}

/// The database that rows are written to.
struct Scratch<'a> {
    connect: &'a ConnectOptions,
    infile: bool,
}

impl<'a> Scratch<'a> {
    fn new(connect: &'a ConnectOptions) -> Result<Self, String> {
        let describe = |error: Error| chain(&error);
        let mut conn = Connection::connect(connect).map_err(describe)?;
        // A killed process may have left its database behind.
        let others = conn
            .query_value(format!(
                "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{RATES_SCHEMA}' AND TABLE_NAME NOT IN ('{}', '{}')",
                RATES_TABLES[0], RATES_TABLES[1]
            ))
            .map_err(describe)?;
        let names = namesakes(&mut conn, RATES_SCHEMA).map_err(describe)?;
        if others.as_deref() != Some("0") || !names.is_empty() {
            return Err(format!(
                "a database {RATES_SCHEMA} is there, and holds somebody's tables"
            ));
        }
        conn.exec(format!("DROP DATABASE IF EXISTS {RATES_SCHEMA}"))
            .map_err(describe)?;
        conn.exec(format!("CREATE DATABASE {RATES_SCHEMA}"))
            .map_err(describe)?;
        let scratch = Self {
            connect,
            infile: false,
        };
        for table in RATES_TABLES {
            let made = conn.exec(format!(
                "CREATE TABLE {RATES_SCHEMA}.{table} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT, moment DATETIME, name VARCHAR(40), text VARCHAR(200), KEY (n)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
            ));
            if let Err(error) = made {
                let _ = scratch.drop_all();
                return Err(describe(error));
            }
        }
        let infile = conn.query_value("SELECT @@GLOBAL.local_infile");
        Ok(Self {
            infile: infile.is_ok_and(|on| on.as_deref() == Some("1")),
            ..scratch
        })
    }

    fn drop_all(&self) -> Result<(), Error> {
        let mut conn = Connection::connect(self.connect)?;
        conn.exec(format!("DROP DATABASE IF EXISTS {RATES_SCHEMA}"))?;
        Ok(())
    }

    /// Writes to a table for a while, then waits until `others` have applied it. `None` writes
    /// without replication. Returns bytes of text per second.
    fn write(&self, table: &str, others: Option<&[&ConnectOptions]>) -> Result<f64, String> {
        let alone = others.is_none();
        let begun = Instant::now();
        let written: Result<Vec<u64>, Error> = thread::scope(|scope| {
            let session = |number| move || self.session(table, alone, number, begun);
            let threads: Vec<_> = (0..SESSIONS)
                .map(|number| scope.spawn(session(number)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let failed = |_| Err(Error::Source("a session ended".into()));
                thread.join().unwrap_or_else(failed)
            });
            joined.collect()
        });
        let bytes: u64 = written.map_err(|error| chain(&error))?.iter().sum();
        for connect in others.unwrap_or_default() {
            applied(connect).map_err(|error| chain(&error))?;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    }

    fn session(
        &self,
        table: &str,
        alone: bool,
        number: usize,
        begun: Instant,
    ) -> Result<u64, Error> {
        let mut conn = Connection::connect(self.connect)?;
        conn.exec("SET SESSION sql_mode = '', foreign_key_checks = 0")?;
        if alone {
            conn.exec("SET SESSION wsrep_on = 0")?;
            conn.exec("SET SESSION sql_log_bin = 0")?;
        }
        let mut sent = 0;
        while begun.elapsed() < WHILE {
            let lines = rows(number as u64 * 7_919 + sent);
            sent += lines.len() as u64;
            if self.infile {
                let sql = format!(
                    "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {RATES_SCHEMA}.{table} CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' (n, moment, name, text)"
                );
                conn.load_data(sql, &mut |stream| stream.write(lines.as_bytes()))?;
            } else {
                let tuples: Vec<String> = lines
                    .lines()
                    .map(|line| format!("('{}')", line.replace(',', "','")))
                    .collect();
                conn.exec(format!(
                    "INSERT INTO {RATES_SCHEMA}.{table} (n, moment, name, text) VALUES {}",
                    tuples.join(",")
                ))?;
            }
        }
        Ok(sent)
    }
}

/// Dump-like rows of about 200 bytes each, whose secondary key is not in order.
fn rows(mut seed: u64) -> String {
    let mut lines = String::new();
    for _ in 0..ROWS {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let n = seed >> 40;
        let word = format!("{seed:016x}");
        let text = word.repeat(9);
        let _ = writeln!(lines, "{n},2024-02-29 01:02:03,name of {n},{text}");
    }
    lines
}

/// Waits until a node has applied everything that the cluster had committed when asked.
fn applied(connect: &ConnectOptions) -> Result<(), Error> {
    let mut conn = Connection::connect(&ConnectOptions {
        read_timeout: Some(Duration::from_secs(60)),
        ..impatient(connect)
    })?;
    conn.exec("SET SESSION wsrep_sync_wait = 15")?;
    conn.query(format!(
        "SELECT id FROM {RATES_SCHEMA}.{} LIMIT 1",
        RATES_TABLES[0]
    ))?;
    Ok(())
}

/// Measures how many bytes per second a copy moves from one node to another.
fn copy(view: &ClusterView, members: &[Member], at: usize) -> Result<f64, String> {
    let nodes = || view.nodes.iter().zip(members).enumerate();
    let other = nodes().find(|(other, (node, member))| {
        *other != at && node.state.is_some() && member.host.is_some()
    });
    let Some((other, _)) = other else {
        return Err("no machine of another node is known (ssh)".to_owned());
    };
    let place = |at: usize| {
        let (node, member) = (&view.nodes[at], &members[at]);
        let host = member.host.as_ref();
        let host = host.ok_or_else(|| format!("the machine of {} is not known (ssh)", node.name));
        let folder = datadir_of(member, node);
        Ok::<_, String>((host?, Host::word(&folder.to_string_lossy())))
    };
    let ((from, source), (to, target)) = (place(at)?, place(other)?);
    let (host, port) = joiner_at(&members[other])?;
    let port_word = Host::word(&port.to_string());
    let at_target = format!(
        "datadir={target} defaults= port={port_word} scratch={}\n{SERVER}{ENTER}{RECEIVE}",
        Host::word(FILE)
    );
    let at_source = format!(
        "datadir={source} defaults= host={} port={port_word}\n{SERVER}{ENTER}{SEND}",
        Host::word(&host)
    );
    let answer = thread::scope(|scope| {
        let sent = scope.spawn(|| from.run_for(&at_source, COPY_LIMIT));
        let received = to.run_for(&at_target, COPY_LIMIT);
        let sent = sent.join();
        let output = received.map_err(|error| chain(&error))?;
        match sent {
            Ok(Ok(sent)) if !sent.status.success() => Err(last_line(&sent.stderr)),
            Ok(Err(error)) => Err(chain(&error)),
            _ => Ok(output),
        }
    })?;
    let stdout = String::from_utf8_lossy(&answer.stdout);
    let mut words = stdout.split_ascii_whitespace().map(str::parse::<f64>);
    match (words.next(), words.next()) {
        (Some(Ok(bytes)), Some(Ok(nanoseconds))) if bytes > 0.0 && nanoseconds > 0.0 => {
            Ok(bytes * 1e9 / nanoseconds)
        }
        _ if !answer.stderr.is_empty() => Err(last_line(&answer.stderr)),
        _ => Err(format!(
            "nothing came from {} at {host}:{port}",
            view.nodes[at].name
        )),
    }
}

/// The host and port where a node receives full copies.
fn joiner_at(member: &Member) -> Result<(String, u16), String> {
    let describe = |error: Error| chain(&error);
    let mut conn = Connection::connect(&impatient(&member.connect)).map_err(describe)?;
    let mut setting = |name: &str| {
        let value = conn.query_value(format!("SELECT @@GLOBAL.{name}"));
        value.map(Option::unwrap_or_default).map_err(describe)
    };
    let receive = setting("wsrep_sst_receive_address")?;
    let node_address = setting("wsrep_node_address")?;
    let (host, port) = receives_at(Some(&receive), Some(&node_address));
    let host = host.or_else(|| match member.connect.target() {
        Target::Tcp(host, port) => receives_at(Some(&format!("{host}:{port}")), None).0,
        Target::Unix(_) => None,
    });
    let host = host.filter(|host| !host.contains(':'));
    let host = host.ok_or_else(|| format!("the address of {} is not known", member.name))?;
    Ok((host, port))
}
