//! Flags for loading into a Galera cluster, and the choice of the node to load through.

use clap::Args;
use refloat_cluster::Entrance;
use refloat_load::{GaleraMode, LoadOptions};
use refloat_run::cancel::abandonable;
use refloat_run::{Cancel, Events};

use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};

/// Receives a message, with `true` if it is a warning.
pub type Say<'a> = dyn Fn(bool, String) + 'a;

/// Reports messages as events of a run.
pub fn by_events(events: &Events) -> impl Fn(bool, String) + '_ {
    |warning, words| {
        if warning {
            events.warn(words);
        } else {
            events.note(words);
        }
    }
}

/// Reports messages on stderr, for use without a run.
pub fn by_lines(context: &Context) -> impl Fn(bool, String) + '_ {
    |warning, words| {
        let kind = if warning { "warning" } else { "note" };
        exit::print_line(kind, &words, context.colour());
    }
}

/// How a Galera cluster is loaded. The flags say nothing about other servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Galera cluster")]
pub struct GaleraArgs {
    /// Where rows go if the target is a node of a Galera cluster
    #[arg(long, value_name = "WHERE", value_enum)]
    pub galera: Option<GaleraMode>,

    /// Percentage of the time that flow control may pause any node
    ///
    /// The load slows down before the nodes that apply its rows fall behind. Transactions stay
    /// small and indexes are built with the rows, so that applications can keep working. With 100
    /// nothing holds the load back: transactions are large, and each index build blocks writes on
    /// all nodes for as long as it takes. Default: 100 until somebody else writes to the cluster, 5
    /// from then on.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub max_paused: Option<f64>,

    /// Load through a load balancer even if it leads to different nodes
    ///
    /// By default refloat asks the cluster for the addresses of its nodes, and connects to one of
    /// them directly.
    #[arg(long)]
    pub through_proxy: bool,

    /// Allow rows of engines that Galera does not replicate; they stay on one node
    #[arg(long)]
    pub local_engines: bool,
}

impl GaleraArgs {
    /// Applies the flags, chooses a node to load through, and reports what it found.
    ///
    /// # Errors
    /// The load balancer leads to several nodes, none of which can be reached directly.
    pub fn enter(&self, options: &mut LoadOptions, run: &Cancel, say: &Say) -> anyhow::Result<()> {
        options.galera.mode = self.galera;
        options.galera.max_paused = self.max_paused.map(|percent| percent / 100.0);
        options.galera.local_engines = self.local_engines;
        // If the server cannot be queried, leave it to the load to report that.
        let target = options.target.clone();
        let Some(Ok(Some(way))) = abandonable(run, move || Entrance::look(&target)) else {
            return Ok(());
        };
        options.galera.others.clone_from(&way.others);
        if !way.is_behind {
            return Ok(());
        }
        let address = options.target.describe();
        let what = if way.is_balanced() {
            format!(
                "{address} is a load balancer before Galera cluster {}: connections land on {}",
                way.cluster,
                way.seen.join(", ")
            )
        } else {
            format!(
                "{address} is not node {}'s own address in Galera cluster {}: something stands in between",
                way.node.name, way.cluster
            )
        };
        if self.through_proxy {
            if way.is_balanced() {
                say(true, format!("{what}. This is the slowest way to load it"));
                options.galera.through_proxy = true;
                options.galera.others.extend(way.node.address);
            }
            return Ok(());
        }
        match &way.direct {
            Some(direct) => {
                let slow = if way.is_balanced() {
                    ", which is the slowest way to load it"
                } else {
                    ""
                };
                say(
                    false,
                    format!(
                        "{what}{slow}. The load goes to node {} directly, at {} (--through-proxy prevents that)",
                        way.node.name,
                        direct.target()
                    ),
                );
                options.target = direct.clone();
                Ok(())
            }
            None if way.is_balanced() => Err(ProgramError::new(
                Exit::Refused,
                format!("{what}, and node {} cannot be reached by itself", way.node.name),
            )
            .hint("Name a node with --to; or use --through-proxy, which is slower: every connection then waits for the writes of the others.")
            .into()),
            // All connections lead to one node; the load checks this.
            None => Ok(()),
        }
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim_end()
        .parse()
        .map_err(|_| "write a number from 0 to 100".to_owned())?;
    if (0.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err("write a number from 0 to 100".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        assert_eq!(parse_percent("5"), Ok(5.0));
        assert_eq!(parse_percent("2.5 %"), Ok(2.5));
        for wrong in ["-1", "101", "x", "", "NaN"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
