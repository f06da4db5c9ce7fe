//! Polls one node.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_host::chain;
use refloat_run::Cancel;
use refloat_wire::{ConnectOptions, Connection, Error};
use serde::Serialize;

use super::HealthdOptions;
use super::judge::{ASKED, Rules, Verdict, judge};
use crate::node::Values;
use crate::observe::values;

/// An answer older than this many intervals counts as none.
const OLD: u32 = 4;
/// Minimum time that the node has to answer, however often it is polled.
const ANSWER_AT_LEAST: Duration = Duration::from_secs(1);

/// What is known about a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// Whether it may take traffic.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// `user@host:port` of the node.
    pub node: String,
    /// Age of the last answer, in seconds.
    pub age_seconds: f64,
}

/// A node that is being polled.
#[derive(Debug)]
pub(super) struct Watched {
    connect: ConnectOptions,
    rules: Rules,
    interval: Duration,
    last: Mutex<(Verdict, Instant)>,
}

impl Watched {
    pub fn new(options: &HealthdOptions) -> Self {
        let patience = options.interval.max(ANSWER_AT_LEAST);
        let node = &options.node;
        Self {
            connect: ConnectOptions {
                connect_timeout: node.connect_timeout.min(patience),
                read_timeout: Some(patience),
                write_timeout: Some(patience),
                database: None,
                ..node.clone()
            },
            rules: options.rules,
            interval: options.interval,
            last: Mutex::new((
                Verdict::down("unreachable", "the node has not been asked yet"),
                Instant::now(),
            )),
        }
    }

    pub fn health(&self) -> Health {
        let (verdict, at) = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let age = at.elapsed();
        let old = (self.interval * OLD).max(ANSWER_AT_LEAST * 2);
        let verdict = if age > old && verdict.state != "unreachable" {
            Verdict::down(
                "unreachable",
                format!("the node has not answered for {:.1} s", age.as_secs_f64()),
            )
        } else {
            verdict
        };
        Health {
            verdict,
            node: self.connect.describe(),
            age_seconds: age.as_secs_f64(),
        }
    }

    /// Polls until `cancel` says to stop.
    pub fn watch(&self, cancel: &Cancel, report: impl Fn(&str)) {
        let mut server = None;
        let mut before = String::new();
        while !cancel.is_cancelled() {
            let begun = Instant::now();
            let verdict = match ask(&mut server, &self.connect) {
                Ok(values) => judge(&values, self.rules),
                Err(error) => Verdict::down("unreachable", chain(&error)),
            };
            if before != verdict.state {
                verdict.state.clone_into(&mut before);
                report(&format!(
                    "{}: {}: {}",
                    self.connect.describe(),
                    verdict.state,
                    verdict.reason
                ));
            }
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (verdict, Instant::now());
            cancel.sleep(self.interval.saturating_sub(begun.elapsed()));
        }
    }
}

/// Queries over the open connection. A connection that fails is not used again.
fn ask(server: &mut Option<Connection>, connect: &ConnectOptions) -> Result<Values, Error> {
    let mut open = match server.take() {
        Some(open) => open,
        None => Connection::connect(connect)?,
    };
    let mut all = Values::new();
    for ask in ASKED {
        all.extend(values(&mut open, ask)?);
    }
    *server = Some(open);
    Ok(all)
}
