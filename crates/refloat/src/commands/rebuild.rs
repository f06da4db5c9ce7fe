//! `refloat rebuild`: makes a data directory from a running server's files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::{Observation, WantedTables, copy_donors, observe};
use refloat_host::{Copying, Host};
use refloat_physical::rebuild::{Listen, RebuildOptions, plan, rebuild};
use refloat_physical::{DonorOptions, ReplicaAccount};
use refloat_report::summary;
use refloat_wire::{ConnectOptions, Secret};

use crate::commands::cluster::members::ClusterOf;
use crate::commands::copy_status::CopyStatus;
use crate::commands::datadir::DatadirArgs;
use crate::commands::load::OutputArgs;
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::record::{End, conclude, print_plan};
use crate::sizes::parse_bytes;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  A node of a Galera cluster that was down too long, on its own machine:
      systemctl stop mariadb
      refloat rebuild --from mysql://root@db1/ --host root@db1 \\
          --to /var/lib/mysql --replace --delta \\
          --start 'systemctl start mariadb'

  The same, and the donor is chosen among the nodes of a list:
      refloat rebuild --cluster cluster.toml --to /var/lib/mysql \\
          --replace --delta --start 'systemctl start mariadb'

  A new replica of the donor; its option file has a server_id of its own:
      refloat rebuild --from mysql://root@db1/ --host root@db1 \\
          --to /var/lib/mysql --start 'systemctl start mariadb' \\
          --check mysql://root@localhost/ \\
          --replica-user repl --replica-password-file /etc/refloat.repl

  A new server, not started:
      refloat rebuild --from mysql://root@db1/ --host root@db1 \\
          --to /var/lib/mysql

  A MySQL server, from another one that has the clone plugin:
      refloat rebuild --from mysql://backup@db1/ --to /var/lib/mysql

The donor's machine needs refloat as well. It connects to this one, on a free port or the one of --listen; what \
is sent is encrypted with a key that is made for this one transfer and passed through ssh. A MySQL server sends its \
files itself: nothing is needed on its machine, and the files are encrypted if the connection to it is.";

/// Rebuild a server from another one, in one step
///
/// The donor's own tool copies its files while it runs. They are cut into blocks, compressed,
/// encrypted, sent through several connections, and checked and written beside the data directory
/// here. Then the redo log is applied, and the two are exchanged. What the data directory held is
/// kept. A lost connection is made again, and the copy resumes where it was.
///
/// The position of a Galera node in the cluster's history is recorded, so that the new node joins
/// by IST and not by SST. A MySQL server sends its files itself, by its clone plugin. Run this on
/// the machine of the data directory.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RebuildArgs {
    #[command(flatten)]
    pub donor: DonorArgs,

    /// The donor's machine, as ssh takes it [default: this one; with --cluster, as the list says]
    #[arg(
        long,
        value_name = "[USER@]HOST",
        conflicts_with = "cluster",
        help_heading = "Donor's machine"
    )]
    pub host: Option<String>,

    /// refloat on the donor's machine [default: refloat in the search path]
    #[arg(long, value_name = "PATH", help_heading = "Donor's machine")]
    pub program: Option<PathBuf>,

    /// The tool's program on the donor's machine [default: the one found there]
    #[arg(long, value_name = "PATH", help_heading = "Donor's machine")]
    pub donor_tool: Option<PathBuf>,

    #[command(flatten)]
    pub datadir: DatadirArgs,

    /// Make the new server a replica of the donor, by this account of the donor
    ///
    /// It starts at the position in the donor's binary log that the copied files have. Replication
    /// is set up on the server that --check names, and must run before the rebuild counts as done.
    #[arg(
        long,
        value_name = "USER",
        requires = "replica_password_file",
        help_heading = "Replication"
    )]
    pub replica_user: Option<String>,

    /// The file with the password of --replica-user, in its first line
    #[arg(
        long,
        value_name = "FILE",
        requires = "replica_user",
        help_heading = "Replication"
    )]
    pub replica_password_file: Option<PathBuf>,

    /// Connections through which files are sent
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed and safety")]
    pub streams: u16,

    /// Files that the tool reads at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed and safety")]
    pub parallel: u16,

    /// Read at most this much per second on the donor, such as 50M; at least 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub max_rate: Option<u64>,

    /// Slow the copy down while the server is busy
    ///
    /// Twice a second, the server is compared with how it was before the copy: write-sets that wait
    /// (on a cluster node), how long a statement takes that does nothing, how many statements run.
    /// While it is worse, the rate is halved, down to 8 MiB per second; then it grows again.
    #[arg(long, help_heading = "Speed and safety")]
    pub gentle: bool,

    /// Let a node of a Galera cluster fall behind while it is copied
    ///
    /// Sets `wsrep_desync` ON until the copy is complete and the node has caught up, so that it
    /// does not hold up the other nodes.
    #[arg(long, help_heading = "Speed and safety")]
    pub desync: bool,

    /// The address at which this machine listens, with a port or 0; or `ssh` [default: that of the
    /// network by which the donor is reached, and a free port]
    ///
    /// With `ssh`, files come through the ssh connection, and no port is opened to the network.
    /// That is slower on a fast network, but the only way through some firewalls.
    #[arg(
        long,
        value_name = "ADDRESS:PORT|ssh",
        help_heading = "Speed and safety"
    )]
    pub listen: Option<String>,

    /// Check what can be checked from here, say what would be done, and touch nothing
    #[arg(long, help_heading = "Output")]
    pub plan: bool,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which server is copied.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct DonorArgs {
    /// The donor
    ///
    /// mysql://USER@HOST:PORT/ or mariadb://USER@HOST:PORT/, with options after a question mark:
    /// ?socket=PATH for a unix socket, ?ssl-mode=MODE. A password in the URL is refused: it would
    /// show in the process list.
    #[arg(long = "from", value_name = "URL", required_unless_present = "cluster")]
    pub from: Option<String>,

    /// Choose the donor from a list of the cluster's nodes (cluster.toml)
    ///
    /// The list is that of `refloat cluster`. The donor is a node in sync, if possible one that
    /// applications do not write to, and of those the one with the fewest write-sets to apply.
    /// Segments are not considered.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub cluster: Option<String>,

    #[command(flatten)]
    pub options: ConnectArgs,
}

/// The server that the copy comes from.
struct Donor {
    source: ConnectOptions,
    host: Option<Host>,
    /// Its name and why it was chosen, if the user did not name it.
    chosen: Option<String>,
}

pub fn run(args: &RebuildArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = args.options(context)?;
    if args.plan {
        let plan = plan(&options)?;
        return print_plan(&plan, &args.output, summary::rebuild_plan);
    }
    let (watch, run) = Watch::begin("rebuild", args.output.show(), context)?;
    if let Some(chosen) = &options.chosen {
        run.events.note(format!("the donor is {chosen}"));
    }
    let status = CopyStatus::start(&options.target.datadir, Copying::REBUILT, &run, |_, _| {});
    let done = rebuild(&options, &run);
    status.end();
    let (outcome, error) = match done {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End {
            outcome: &outcome,
            seconds: outcome.seconds,
            error: error.as_ref(),
            settings_left: &outcome.settings_left,
            beside: false,
        },
        (&args.output, context),
        summary::rebuild,
    )
}

impl RebuildArgs {
    fn donor(&self, context: &Context) -> anyhow::Result<Donor> {
        let connect = &self.donor.options;
        let Some(cluster) = &self.donor.cluster else {
            let from = self.donor.from.as_deref().unwrap_or_default();
            return Ok(Donor {
                source: connect.resolve_flag("--from", from, context)?,
                host: self.host.clone().map(Host::Ssh),
                chosen: None,
            });
        };
        if cluster.contains("://") {
            return Err(ProgramError::usage(
                "--cluster takes a file here, which says which machines the nodes are on; name a single \
                server with --from",
            )
            .into());
        }
        let list = ClusterOf {
            cluster: cluster.clone(),
            options: connect.clone(),
        };
        let nodes = list.nodes(context)?;
        let how = Observation {
            tables: WantedTables::Never,
            ..Observation::default()
        };
        let view = observe(&nodes.name, &nodes.members, &how);
        let refused = |reason: String, hint: String| {
            Err(ProgramError::new(Exit::Refused, reason).hint(hint).into())
        };
        let (mut here, mut donors) = (None, Vec::new());
        for one in copy_donors(&view) {
            let at = nodes.at(&one.name)?;
            let folder = view.nodes[at].state.as_ref().map(|state| &state.datadir);
            let is_here = nodes.members[at].host == Some(Host::Local)
                && folder.is_some_and(|folder| Path::new(folder) == self.datadir.to);
            if is_here {
                here = Some(one.name);
            } else {
                donors.push((at, one));
            }
        }
        let Some((at, first)) = donors.into_iter().next() else {
            if let Some(here) = here {
                return refused(
                    format!(
                        "{here} is the only node in sync, and it runs in {}",
                        self.datadir.to.display()
                    ),
                    "There is nothing to rebuild it from, and no need to.".to_owned(),
                );
            }
            return refused(
                format!("no node of {cluster} is in sync, so there is none to copy"),
                format!(
                    "See `refloat cluster status {}`. --from takes any server, in sync or not.",
                    list.flags()
                ),
            );
        };
        let member = &nodes.members[at];
        let host = match &member.host {
            Some(Host::Local) => None,
            Some(host) => Some(host.clone()),
            None => {
                return refused(
                    format!(
                        "{} is to be copied, but {cluster} does not say which machine it is on",
                        first.name
                    ),
                    "Write `ssh = \"USER@HOST\"` into the list, or name it with --from and --host."
                        .to_owned(),
                );
            }
        };
        Ok(Donor {
            source: member.connect.clone(),
            host,
            chosen: Some(format!("{}: {}", first.name, first.why)),
        })
    }

    fn options(&self, context: &Context) -> anyhow::Result<RebuildOptions> {
        let donor = self.donor(context)?;
        let program = match (&self.program, &donor.host) {
            (Some(program), _) => program.clone(),
            (None, Some(_)) => PathBuf::from("refloat"),
            (None, None) => std::env::current_exe().context("cannot find this program")?,
        };
        Ok(RebuildOptions {
            donor: DonorOptions {
                source: donor.source,
                host: donor.host,
                tool: self.donor_tool.clone(),
                clones: self.datadir.tool.is_none(),
                parallel: usize::from(self.parallel),
                max_rate: self.max_rate,
                gentle: self.gentle,
                desync: self.desync,
            },
            program,
            target: self.datadir.options(&self.donor.options, context)?,
            replica: self.replica()?,
            listen: match self.listen.as_deref() {
                None => Listen::Near,
                Some("ssh") => Listen::ThroughSsh,
                Some(address) => Listen::At(address.to_owned()),
            },
            streams: self.streams,
            chosen: donor.chosen,
        })
    }

    fn replica(&self) -> anyhow::Result<Option<ReplicaAccount>> {
        let (Some(user), Some(file)) = (&self.replica_user, &self.replica_password_file) else {
            return Ok(None);
        };
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let password = text.lines().next().unwrap_or_default();
        Ok(Some(ReplicaAccount {
            user: user.clone(),
            password: Secret::from(password.to_owned()),
        }))
    }
}
