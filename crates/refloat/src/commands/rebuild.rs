//! `refloat rebuild`: makes a data directory of a running server's files.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use refloat_host::Host;
use refloat_physical::DonorOptions;
use refloat_physical::rebuild::{RebuildOptions, plan, rebuild};
use refloat_report::summary;

use crate::commands::load::OutputArgs;
use crate::connect::SourceArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::record::{conclude, print_plan};
use crate::sizes::parse_bytes;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  A node of a Galera cluster that was down too long, on its own machine:
      systemctl stop mariadb
      refloat rebuild --from mysql://root@db1/ --host root@db1 \\
          --to /var/lib/mysql --replace --delta \\
          --start 'systemctl start mariadb'

  A new server, not started:
      refloat rebuild --from mysql://root@db1/ --host root@db1 \\
          --to /var/lib/mysql

The donor's machine needs refloat as well. It connects to this one, at a free port or the one of --listen; what \
is sent is encrypted with a key that is made for this one transfer and that goes through ssh.";

/// Rebuild a server from another one, in one step
///
/// The donor's own tool copies its files while it runs. They are cut into blocks, compressed,
/// encrypted and sent through several connections, checked and written beside the data directory
/// here; the redo log is applied; and then the two are exchanged. What the data directory held is
/// kept. A lost connection is made again and goes on where it was. Of a Galera node, the place in
/// the cluster's history is written down, so that the new node joins by IST and not by SST. Runs on
/// the machine of the data directory.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RebuildArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    /// The donor's machine, as ssh takes it [default: this one]
    #[arg(long, value_name = "[USER@]HOST", help_heading = "Donor's machine")]
    pub host: Option<String>,

    /// refloat on the donor's machine [default: refloat in the search path]
    #[arg(long, value_name = "PATH", help_heading = "Donor's machine")]
    pub program: Option<PathBuf>,

    /// The tool's program on the donor's machine [default: as it is found there]
    #[arg(long, value_name = "PATH", help_heading = "Donor's machine")]
    pub donor_tool: Option<PathBuf>,

    /// The data directory
    #[arg(long = "to", value_name = "DATADIR", help_heading = "Data directory")]
    pub to: PathBuf,

    /// Take the place of what the data directory holds, which is kept beside it
    #[arg(long, help_heading = "Data directory")]
    pub replace: bool,

    /// Do not send what the data directory holds already
    ///
    /// Its files are read and compared block by block.
    #[arg(long, requires = "replace", help_heading = "Data directory")]
    pub delta: bool,

    /// A command that starts the server afterwards, such as 'systemctl start mariadb'
    #[arg(long, value_name = "COMMAND", help_heading = "Data directory")]
    pub start: Option<String>,

    /// The new server: wait until it answers, and as a node until it is in step
    #[arg(
        long,
        value_name = "URL",
        requires = "start",
        help_heading = "Data directory"
    )]
    pub check: Option<String>,

    /// The tool's program here [default: mariadb-backup or xtrabackup in the search path]
    #[arg(long, value_name = "PATH", help_heading = "Speed and safety")]
    pub tool: Option<PathBuf>,

    /// Connections through which files are sent
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed and safety")]
    pub streams: u16,

    /// Files that the tool reads at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed and safety")]
    pub parallel: u16,

    /// Read at most this much per second on the donor, such as 50M; at least 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub max_rate: Option<u64>,

    /// The address at which this machine listens, with a port or 0 [default: that of the network
    /// by which the donor is reached, and a free port]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Speed and safety")]
    pub listen: Option<String>,

    /// Memory for applying the redo log, such as 4G [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub memory: Option<u64>,

    /// Check what can be checked from here, say what would be done, and touch nothing
    #[arg(long, help_heading = "Output")]
    pub plan: bool,

    #[command(flatten)]
    pub output: OutputArgs,
}

pub fn run(args: &RebuildArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = args.options(context)?;
    if args.plan {
        let plan = plan(&options)?;
        return print_plan(&plan, &args.output, summary::rebuild_plan);
    }
    let (watch, run) = Watch::begin("rebuild", args.output.show(), context)?;
    let (outcome, error) = match rebuild(&options, &run) {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        (&outcome, outcome.seconds, error.as_ref()),
        (&args.output, context),
        summary::rebuild,
    )
}

impl RebuildArgs {
    fn options(&self, context: &Context) -> anyhow::Result<RebuildOptions> {
        let check = self
            .check
            .as_ref()
            .map(|url| self.source.options.resolve_flag("--check", url, context));
        let program = match (&self.program, &self.host) {
            (Some(program), _) => program.clone(),
            (None, Some(_)) => PathBuf::from("refloat"),
            (None, None) => std::env::current_exe().context("cannot find this program")?,
        };
        Ok(RebuildOptions {
            donor: DonorOptions {
                source: self.source.resolve(context)?,
                host: self.host.clone().map(Host::Ssh),
                tool: self.donor_tool.clone(),
                clones: false,
                parallel: usize::from(self.parallel),
                max_rate: self.max_rate,
            },
            program,
            datadir: self.to.clone(),
            replace: self.replace,
            delta: self.delta,
            listen: self.listen.clone(),
            streams: self.streams,
            tool: self.tool.clone(),
            memory: self.memory,
            start: self.start.clone(),
            check: check.transpose()?,
        })
    }
}
