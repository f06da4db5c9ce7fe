//! `wsrep_sst_refloat`: this program under the name by which the servers of a Galera cluster start
//! it. `refloat cluster install-sst` creates the link.
//!
//! The server reads standard output. A joiner first prints the address where it listens, and at the
//! end the position of the files in the cluster's history; a donor prints its result. Standard
//! error goes to the server's log.

mod call;
mod face;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use refloat_physical::sst::{
    Address, Caller, DonateOptions, JoinOptions, Settings, bundled, donate, join, position,
    server_version, version_in,
};
use refloat_physical::{
    DonorOptions, GaleraPosition, OwnFolder, PhysicalError, RATE_MIN, TransferSecret,
};
use refloat_run::signals::install_signal_handlers;
use refloat_run::{Cancel, Events, Progress, Refusal, Run, RunDir};
use refloat_wire::{ConnectOptions, PeerTls};

use crate::context::Context;
use crate::sizes::parse_bytes;
use call::{Call, Role, Secrets};
use face::{LogFace, copy_status, line};

/// The prefix of the name by which servers start this program.
const NAME: &str = "wsrep_sst_refloat";
/// The prefix of folders that last as long as a transfer.
const RECORDS: &str = "refloat-sst-";
/// Number of connections for the files.
const STREAMS: u16 = 4;
/// Number of files that the tool reads in parallel, unless the option `backup-threads` sets it.
const PARALLEL: usize = 4;

/// Runs a state transfer if a server called the program for one. `None`: none did.
pub fn called_by_a_server(args: &[OsString]) -> Option<ExitCode> {
    let name = Path::new(args.first()?).file_name()?.to_str()?;
    if !name.starts_with(NAME) {
        return None;
    }
    let words = args.iter().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let context = Context::from_environment();
    face::write_for(call::caller(&words));
    let Err(error) = transfer(&words, &context) else {
        return Some(ExitCode::SUCCESS);
    };
    line("ERROR", &crate::exit::chain_text(&error));
    if let Some(PhysicalError::Refused(against)) = error.downcast_ref() {
        for hint in Refusal::hints(against) {
            line("ERROR", &format!("hint: {hint}"));
        }
    }
    Some(ExitCode::from(errno_of(&error)))
}

fn transfer(words: &[String], context: &Context) -> anyhow::Result<()> {
    let call = Call::parse(words)?;
    let (cancel, events, progress) = (Cancel::new(), Events::new(), Progress::new());
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    events.add(Arc::new(LogFace));
    face::end_with_the_server(&call, &cancel);
    let settings = Settings::read(call.caller, &call.defaults, &call.words)?;
    // Nothing in it is needed afterwards: all that matters is in the server's log.
    let folder = settings
        .of_sst("tmpdir")
        .map_or_else(std::env::temp_dir, PathBuf::from);
    OwnFolder::remove_left(&folder, RECORDS);
    let record = OwnFolder::begin(&folder, RECORDS)?;
    let run = Run {
        dir: RunDir::create(record.path(), "sst")?,
        cancel,
        events,
        progress,
    };
    let status = copy_status(&call, &run);
    let done = match call.role {
        Role::Joiner => joiner(&call, &settings, &run),
        Role::Donor => donor(&call, &settings, &run, context),
    };
    status.end();
    done
}

fn joiner(call: &Call, settings: &Settings, run: &Run) -> anyhow::Result<()> {
    settings.refuse_other_folders(&call.datadir)?;
    let memory = settings.of_sst("use-memory").map(size).transpose()?;
    let start = settings.of_server("wsrep-start-position");
    let version = match &call.version {
        Some(text) => version_in(text),
        None => call.parent.and_then(server_version),
    };
    let options = JoinOptions {
        caller: call.caller,
        version,
        datadir: call.datadir.clone(),
        address: call.address.clone(),
        certificates: certificates(call, settings)?,
        tool: tool(call),
        memory,
        binlog: call.binlog.clone(),
        binlog_index: call.binlog_index.clone(),
        start: start.and_then(position),
    };
    run.events.note(match options.certificates {
        Some(_) => "listens for a donor with a certificate of the cluster",
        None => "listens for a donor",
    });
    let ready = |words: &str| {
        say(&format!("ready {words}")).map_err(|source| PhysicalError::File {
            path: PathBuf::from("standard output"),
            doing: "telling the server where to send",
            source,
        })
    };
    let joined = join(&options, run, ready)?;
    if let Some(kept) = &joined.kept {
        run.events.warn(format!(
            "the old data may hold what the cluster does not: they are kept in {} until you remove them",
            kept.display()
        ));
    }
    say(&place(call.caller, &joined.position, joined.domain))?;
    Ok(())
}

/// The position of the files, in the format for the joiner's server.
fn place(caller: Caller, at: &GaleraPosition, domain: u32) -> String {
    match caller {
        Caller::MariaDb => format!("{}:{} {domain}", at.uuid, at.seqno),
        Caller::Percona => format!("{}:{}", at.uuid, at.seqno),
    }
}

/// The certificates that identify this end, if any are configured.
fn certificates(call: &Call, settings: &Settings) -> Result<Option<PeerTls>, PhysicalError> {
    if call.caller == Caller::MariaDb {
        return settings.certificates();
    }
    settings.refuse_keyrings(&call.datadir, &call.basedir)?;
    settings.percona_certificates(&call.datadir).map(Some)
}

/// The backup tool that Percona's servers bring along.
fn tool(call: &Call) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    bundled(call.version.as_deref()?, &path)
}

fn donor(call: &Call, settings: &Settings, run: &Run, context: &Context) -> anyhow::Result<()> {
    let secrets = Secrets::read(settings)?;
    let address = Address::parse(&call.address)?;
    let gtid = call.gtid.clone().unwrap_or_default();
    let at = position(&gtid).context("the server does not say where it stands (--gtid)")?;
    let secret = address.secret.as_ref().unwrap_or(&secrets.transfer);
    let secret = TransferSecret::from_hex(secret);
    let secret = secret.ok_or_else(|| {
        PhysicalError::Refused(vec![Refusal::new(
            "the joiner has not sent a secret for the transfer",
        )])
    })?;
    let files = certificates(call, settings)?;
    // The joiner is told in the form that it understands.
    let (certificates, refused) = match (files, address.tls) {
        (files @ Some(_), true) => (files, None),
        (None, false) => (None, None),
        (Some(_), false) => (
            None,
            Some("the donor has certificates for state transfers, but the joiner has none"),
        ),
        (None, true) => (
            None,
            Some("the joiner has certificates for state transfers, but the donor has none"),
        ),
    };
    let rate = settings.of_sst("rlimit").map(size).transpose()?;
    let rate = rate.filter(|rate| *rate > 0);
    if rate.is_some_and(|rate| rate < RATE_MIN) {
        run.events
            .warn("rlimit is below 8M, at which a copy would fail: 8M is taken");
    }
    let user = secrets.user.clone();
    let options = DonateOptions {
        caller: call.caller,
        donor: DonorOptions {
            source: ConnectOptions {
                socket: call.socket.clone(),
                user: user
                    .or_else(|| context.login().map(str::to_owned))
                    .unwrap_or_else(|| "mysql".to_owned()),
                password: secrets.password.clone().map(Into::into),
                ..ConnectOptions::default()
            },
            host: None,
            tool: tool(call),
            parallel: settings
                .of_sst("backup-threads")
                .and_then(|text| text.parse().ok())
                .unwrap_or(PARALLEL),
            max_rate: rate.map(|rate| rate.max(RATE_MIN)),
            gentle: false,
            desync: false,
            clones: false,
        },
        peer: address.peer,
        secret: secret.with(certificates),
        position: at,
        domain: call.domain,
        bypass: call.bypass,
        refused: refused.map(str::to_owned),
        streams: STREAMS,
    };
    if call.bypass {
        // The server need not wait.
        say("continue")?;
    }
    let sent = donate(&options, run)?;
    if !call.bypass {
        let human = refloat_report::human::bytes;
        run.events.note(format!(
            "sent: {} of files, of which the joiner had {}; {} over the network",
            human(sent.bytes),
            human(sent.same),
            human(sent.framed)
        ));
    }
    say(&format!("done {gtid}"))?;
    Ok(())
}

/// Prints a line for the server.
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn size(text: &str) -> anyhow::Result<u64> {
    parse_bytes(text).map_err(|why| anyhow::anyhow!("in the option files: {why}"))
}

/// The errno that the server reads from the exit code.
fn errno_of(error: &anyhow::Error) -> u8 {
    const INTERRUPTED: u8 = 4;
    const IO: u8 = 5;
    const INVALID: u8 = 22;
    const BROKEN_PIPE: u8 = 32;
    let by_system = error.chain().find_map(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>()?;
        u8::try_from(cause.raw_os_error()?).ok()
    });
    by_system.unwrap_or(match error.downcast_ref::<PhysicalError>() {
        Some(PhysicalError::Cancelled(_)) => INTERRUPTED,
        Some(PhysicalError::Transfer { .. }) => BROKEN_PIPE,
        Some(PhysicalError::Tool { .. } | PhysicalError::Incomplete { .. }) => IO,
        _ => INVALID,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reads_where_the_files_stand() {
        let at = GaleraPosition {
            uuid: "7a5c1d2e-0000-11f0-8000-aabbccddeeff".to_owned(),
            seqno: 42,
        };
        let text = |caller| place(caller, &at, 9);
        assert_eq!(text(Caller::MariaDb), format!("{}:42 9", at.uuid));
        assert_eq!(text(Caller::Percona), format!("{}:42", at.uuid));
    }
}
