//! Exit code and hints for each kind of error.

use refloat_cluster::{
    BootstrapError, ConfigError, MaintainError, RejoinError, RestoreError, RestoreWay,
    VerifyNodesError,
};
use refloat_copy::CopyError;
use refloat_dump::DumpError;
use refloat_load::{LoadError, StatementFailure, Stray, other_collation};
use refloat_read::ReadError;
use refloat_run::Refusal;
use refloat_source::SourceError;
use refloat_sqltext::ScanError;
use refloat_store::{ArchiveError, InputError};
use refloat_verify::VerifyError;
use refloat_wire::codes::{DUPLICATE_ENTRY, WRONG_VALUE_FOR_VAR};

use super::Exit;
use super::physical_hints::of_repository;
use crate::shell::word;

/// `ER_TABLE_EXISTS_ERROR`.
const TABLE_EXISTS: u16 = 1050;
/// `ER_CANT_CREATE_TABLE`, with the handler's error in its message: `HA_ERR_TABLESPACE_EXISTS`.
const CANNOT_CREATE: (u16, &str) = (1005, "(errno: 184 ");
/// `ER_TABLESPACE_EXISTS`.
const TABLESPACE_EXISTS: u16 = 1813;
/// `ER_UNKNOWN_CHARACTER_SET`.
const UNKNOWN_CHARSET: u16 = 1115;
/// `ER_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN` (MySQL).
const GENERATED: u16 = 3105;
/// `ER_TOO_MANY_USER_CONNECTIONS`, `ER_USER_LIMIT_REACHED`.
const USER_LIMIT: &[u16] = &[1203, 1226];
/// Errors for values that do not fit: out of range, truncated, not a number or date, not valid
/// text, too long.
const CHANGED: &[u16] = &[1264, 1265, 1292, 1366, 1406];
/// `ER_UNKNOWN_COLLATION`.
const UNKNOWN_COLLATION: u16 = 1273;
/// Hint for text that ends too early.
const CUT: &str = "The dump is truncated: copy it again and compare checksums, or make it again.";

/// Exit code and hints for refusals on a cluster, with a sentence about its state.
fn refused(against: &[Refusal], state: &str) -> (Exit, Vec<String>) {
    let mut hints = Refusal::hints(against);
    hints.push(state.to_owned());
    (Exit::Refused, hints)
}

/// Exit code and hints for a failure at a node, with a hint that always applies.
fn failed(wrong: &Refusal, more: &str) -> (Exit, Vec<String>) {
    let mut hints = Refusal::hints(std::slice::from_ref(wrong));
    hints.push(more.to_owned());
    (Exit::Failed, hints)
}

/// Exit code and hints for an unusable list of nodes.
pub fn of_config(error: &ConfigError) -> (Exit, Vec<String>) {
    let hint = match error {
        ConfigError::Read { .. } => {
            "Give --cluster the path of a cluster.toml, or the URL of a node: mysql://USER@HOST:PORT/"
        }
        _ => "`refloat cluster --help` shows what a cluster.toml looks like.",
    };
    (Exit::Usage, vec![hint.to_owned()])
}

/// Exit code and hints for a maintenance after which the node is not back.
pub fn of_maintain(error: &MaintainError) -> (Exit, Vec<String>) {
    let (exit, hint) = match error {
        MaintainError::Short { .. } => (
            Exit::Refused,
            "Let the others hold more write-sets with --hold, shorten the absence with --for, or \
            go on with --allow-sst. Nothing was stopped.",
        ),
        MaintainError::MustStay { against, .. } => {
            return refused(against, "Nothing was stopped.");
        }
        MaintainError::NotHeld { .. } => (
            Exit::Refused,
            "Nothing was stopped. `refloat settings list` shows what is changed and by whom.",
        ),
        MaintainError::NotBack { wrong, .. } => {
            return failed(
                wrong,
                "`refloat cluster status` says what a rejoin would cost now.",
            );
        }
        MaintainError::Interrupted => (Exit::Interrupted, "Nothing was stopped."),
        _ => (
            Exit::Failed,
            "`refloat cluster status` shows where the node is, `refloat settings list` what is still changed.",
        ),
    };
    (exit, vec![hint.to_owned()])
}

/// Exit code and hints for a restore that stopped. `None` if the cause says more.
pub fn of_restore(error: &RestoreError) -> Option<(Exit, Vec<String>)> {
    const AGAIN: &str = "The same command resumes at this step.";
    let and_again = |(exit, mut hints): (Exit, Vec<String>)| {
        hints.push(AGAIN.to_owned());
        Some((exit, hints))
    };
    let (exit, hint) = match error {
        RestoreError::Refused(against) => {
            return Some(refused(
                against,
                "Nothing was touched. `refloat cluster status` shows the state of every node.",
            ));
        }
        RestoreError::Unloadable { source, .. } => {
            let (exit, mut hints) = of_load(source);
            hints.push("Nothing was touched: every node is as it was.".to_owned());
            // Before anything has started, it is a refusal, whatever the load calls it.
            let exit = match exit {
                Exit::Failed | Exit::ProofFailed => Exit::Refused,
                other => other,
            };
            return Some((exit, hints));
        }
        RestoreError::Load { source, .. } => return and_again(of_load(source)),
        RestoreError::Verify { source, .. } => return and_again(of_verify(source)),
        RestoreError::Rejoin(source) => return and_again(of_rejoin(source)),
        RestoreError::NotProven {
            way: RestoreWay::Replicate,
            ..
        } => (
            Exit::ProofFailed,
            "What was loaded is on every node, and all of them serve it: look at it there, and keep applications away from it. --give-up ends the restore, and then the same command with --replace starts over.",
        ),
        RestoreError::NotProven { .. } => (
            Exit::ProofFailed,
            "The node runs standalone with what was loaded, and the others are down with their old data. Look at it there; --give-up ends the restore and says where every node is, and then the same command with --replace starts over.",
        ),
        RestoreError::Differs {
            node, uuid, dump, ..
        } => {
            let hint = format!(
                "Let nobody use {node}. `refloat cluster verify` names the tables. End the restore with `refloat cluster restore {} --give-up`, and stop the server of {node}: then `refloat cluster rejoin {node} --allow-sst --discard {uuid}` gives it a new copy.",
                word(dump)
            );
            return Some((Exit::ProofFailed, vec![hint]));
        }
        RestoreError::Unsettled { .. } => (
            Exit::ProofFailed,
            "Applications write there all the time: run the same command again, best while they pause for a moment.",
        ),
        RestoreError::Interrupted { .. } => (Exit::Interrupted, AGAIN),
        RestoreError::Node { wrong, .. } => {
            return and_again((Exit::Failed, Refusal::hints(std::slice::from_ref(wrong))));
        }
        RestoreError::Control(_) | RestoreError::Host(_) => (Exit::Failed, AGAIN),
        RestoreError::Folder(_) => return None,
    };
    Some((exit, vec![hint.to_owned()]))
}

/// Exit code and hints for a bootstrap that did not start the cluster.
pub fn of_bootstrap(error: &BootstrapError) -> (Exit, Vec<String>) {
    const LOG_AND_AGAIN: &str = "Its log says more; run the same command again to resume.";
    match error {
        BootstrapError::Refused(against) => refused(against, "Nothing was started."),
        BootstrapError::Unclear(_) => (
            Exit::Refused,
            vec![
                "Nothing was started. --node NODE bootstraps from that one: what only others hold \
                is then on them alone, and is lost when they take full copies.".to_owned(),
                "To look at what one holds, start its server by itself (wsrep_on=OFF, wsrep_provider=none, another port); `refloat dump` takes it.".to_owned(),
            ],
        ),
        BootstrapError::Interrupted { .. } => (Exit::Interrupted, Vec::new()),
        BootstrapError::NotBegun { wrong, .. } => failed(wrong, LOG_AND_AGAIN),
        BootstrapError::Control(_) | BootstrapError::Host(_) => {
            (Exit::Failed, vec![LOG_AND_AGAIN.to_owned()])
        }
    }
}

/// Exit code and hints for a comparison of nodes that failed. `None` if the cause says more.
pub fn of_verify_nodes(error: &VerifyNodesError) -> Option<(Exit, Vec<String>)> {
    match error {
        VerifyNodesError::Alone(why) => Some((Exit::Refused, Refusal::hints(why))),
        VerifyNodesError::Interrupted => Some((Exit::Interrupted, Vec::new())),
        VerifyNodesError::Verify { .. } | VerifyNodesError::Server { .. } => None,
    }
}

/// Exit code and hints for a node that does not come back.
pub fn of_rejoin(error: &RejoinError) -> (Exit, Vec<String>) {
    const LOG_AND_STATUS: &str =
        "Its log says more; `refloat cluster status` shows where the node is.";
    match error {
        RejoinError::Refused(against) => refused(against, "Nothing was started."),
        RejoinError::Parted { history, .. } => (
            Exit::Refused,
            vec![
                format!("Nothing was started. A full copy makes it like the others, and what only it holds is gone then: --allow-sst, and --discard {history} where it holds anything."),
                "To see or keep that, start its server by itself (wsrep_on=OFF, wsrep_provider=none, another port): `refloat verify URL-OF-A-NODE URL-OF-IT` names the rows, `refloat dump` takes them.".to_owned(),
            ],
        ),
        RejoinError::OnlyCopy(lost) => (
            Exit::Refused,
            vec![format!(
                "Nothing was started. When you are sure that nobody needs it: --allow-sst --discard {}. Keep a copy of its data directory.",
                lost.history
            )],
        ),
        RejoinError::CopyFails { .. } | RejoinError::WouldFail { .. } => (
            Exit::Refused,
            vec!["Nothing was started. `refloat cluster advise` says what to do; --ignore-advice continues all the same.".to_owned()],
        ),
        RejoinError::Interrupted { .. } | RejoinError::NotStarted { .. } => (Exit::Interrupted, Vec::new()),
        RejoinError::NeedsCopy { .. } => (
            Exit::Refused,
            vec!["Nothing was started. A full copy wipes what the node has: allow it with --allow-sst.".to_owned()],
        ),
        RejoinError::NotBack { wrong, .. } => failed(wrong, LOG_AND_STATUS),
        RejoinError::Control(_) => (Exit::Failed, vec![LOG_AND_STATUS.to_owned()]),
    }
}

/// Exit code and hints for a comparison that stopped.
pub fn of_verify(error: &VerifyError) -> (Exit, Vec<String>) {
    match error {
        VerifyError::Refused(Refusal { hint, .. }) => (Exit::Refused, vec![hint.clone()]),
        VerifyError::Source(SourceError::Archive(error)) => (Exit::Refused, archive_hints(error)),
        VerifyError::Source(SourceError::Input(InputError::Cancelled { .. })) => {
            (Exit::Interrupted, Vec::new())
        }
        VerifyError::Source(SourceError::Input(error)) => (Exit::Failed, input_hints(error)),
        VerifyError::Interrupted(_) => (Exit::Interrupted, Vec::new()),
        VerifyError::Damaged { .. } => (
            Exit::Failed,
            vec![
                "The dump is not what it was when it was made: copy it again, or make it again."
                    .to_owned(),
            ],
        ),
        VerifyError::Server(read) => {
            let (exit, mut hints) = of_read(read);
            if let ReadError::Changed { .. } = read {
                hints = vec!["Compare again when nobody changes definitions.".to_owned()];
            }
            (exit, hints)
        }
        VerifyError::Changed { .. } => (
            Exit::Failed,
            vec!["Compare again when nobody changes definitions.".to_owned()],
        ),
        _ => (Exit::Failed, Vec::new()),
    }
}

/// Hint for settings that a run could not put back.
pub const SETTINGS_LEFT: &str = "Settings of the server are still changed. Put them back with `refloat settings revert --to URL`.";

/// Hint about what a stopped dump leaves behind.
pub const NO_DUMP: &str = "What was written is not a dump: it has no manifest. Remove it, or name another place, and start again.";

/// Exit code and hints for a server that could not be read.
fn of_read(error: &ReadError) -> (Exit, Vec<String>) {
    let hint = match error {
        ReadError::Refused(Refusal { hint, .. }) => return (Exit::Refused, vec![hint.clone()]),
        ReadError::NoLock { .. } => {
            return (
                Exit::Refused,
                vec!["Wait until that is done, or end it; --lock-wait waits longer; --threads 1 needs no lock on MariaDB with its binary log on; --consistency none takes no lock at all.".to_owned()],
            );
        }
        ReadError::Interrupted(_) => return (Exit::Interrupted, Vec::new()),
        ReadError::Server { source, .. } if source.is_lock_wait() => {
            "Another session has locked that table, or waits to lock it: SHOW PROCESSLIST shows it. --lock-wait has a dump or copy wait longer, up to a minute for each statement."
        }
        ReadError::Server { source, .. } => return (Exit::Failed, wire_hints(source)),
        ReadError::Behind => {
            "Take another node, or wait until `refloat cluster status` shows that it keeps pace; SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT10M' has it wait longer (where the plugin wsrep_provider is loaded, as in MariaDB 11.8: SET GLOBAL wsrep_provider_repl_causal_read_timeout = 600)."
        }
        ReadError::TooLarge { .. } => {
            "Allow more on the source while it is read: `SET GLOBAL max_allowed_packet = 1073741824`."
        }
        ReadError::Changed { .. } => "Dump again when nobody changes definitions.",
        ReadError::Uncounted { .. } => {
            "CHECK TABLE says whether an index is damaged; with --threads 1 tables are read whole. Please report it."
        }
        _ => return (Exit::Failed, Vec::new()),
    };
    (Exit::Failed, vec![hint.to_owned()])
}

/// Exit code and hints for a dump that stopped.
pub fn of_dump(error: &DumpError) -> (Exit, Vec<String>) {
    let (exit, mut hints) = match error {
        DumpError::Read(read) => {
            let found = of_read(read);
            // Nothing has been written yet.
            if matches!(read, ReadError::Refused(_) | ReadError::NoLock { .. } | ReadError::Behind) {
                return found;
            }
            found
        }
        DumpError::NoText { .. } => (
            Exit::Failed,
            vec!["Rename or remove the account, or dump without --users.".to_owned()],
        ),
        DumpError::Given { .. } => (
            Exit::Failed,
            vec!["The limit is --max-history or --max-age; more --threads or a quieter hour make it shorter.".to_owned()],
        ),
        // Nothing of it is left.
        DumpError::Repository(error) => return of_repository(error),
        DumpError::Folder { source } if source.is_disk_full() => (
            Exit::Failed,
            vec!["The disk is full: make room, or name another place.".to_owned()],
        ),
        _ => (Exit::Failed, Vec::new()),
    };
    hints.push(NO_DUMP.to_owned());
    (exit, hints)
}

/// Exit code and hints for a copy that stopped.
pub fn of_copy(error: &CopyError) -> (Exit, Vec<String>) {
    match error {
        CopyError::Refused(Refusal { hint, .. }) => (Exit::Refused, vec![hint.clone()]),
        CopyError::Target(load) => of_load(load),
        CopyError::Source { source, .. } => {
            let (exit, mut hints) = of_dump(source);
            // A copy writes no folder; the summary says which rows the target holds.
            hints.retain(|hint| hint != NO_DUMP && !hint.contains("load again"));
            match source {
                DumpError::Read(ReadError::Refused(_) | ReadError::NoLock { .. }) => {}
                DumpError::Read(ReadError::Changed { .. }) => {
                    hints = vec!["Copy again when nobody changes definitions; with --replace, it starts over.".to_owned()];
                }
                _ => hints.push("What is on the target is not complete: copy again with --replace, which starts over.".to_owned()),
            }
            (exit, hints)
        }
        // Everything is copied by then.
        CopyError::Verify(VerifyError::Refused(Refusal { hint, .. })) => {
            (Exit::ProofFailed, vec![hint.clone()])
        }
        CopyError::Verify(error) => of_verify(error),
        _ => (Exit::Failed, Vec::new()),
    }
}

/// Exit code and hints for a load that stopped.
pub fn of_load(error: &LoadError) -> (Exit, Vec<String>) {
    match error {
        LoadError::Refused(refusals) => (Exit::Refused, Refusal::hints(refusals)),
        LoadError::Stopped(refusals) => (Exit::Failed, Refusal::hints(refusals)),
        LoadError::SourceChanged { .. } => (
            Exit::Failed,
            vec!["Wait until the dump is complete, then load it again with --replace.".to_owned()],
        ),
        LoadError::Source(SourceError::Archive(error)) => (Exit::Refused, archive_hints(error)),
        LoadError::Source(_) => (
            Exit::Refused,
            vec!["`refloat inspect SOURCE` says what a source is; --source-format says it where it cannot be seen.".to_owned()],
        ),
        LoadError::Fields { .. } => (
            Exit::Failed,
            vec!["Set how fields and lines end with --fields-terminated-by, --fields-enclosed-by, \
                --fields-escaped-by and --lines-terminated-by; name the column of each field with \
                --columns or --header.".to_owned()],
        ),
        LoadError::SourceDiffers { .. } | LoadError::SourceLacks { .. } => (
            Exit::Failed,
            vec!["Resume with the same dump that the load began with (a pipe must deliver the same \
                text again), or start over with --restart --replace.".to_owned()],
        ),
        LoadError::MarksLeft(_) => (
            Exit::Failed,
            vec![
                "Run the same command again to remove what is left of them, in the database refloat_load. If it is refused because the tables are there, they are gone."
                    .to_owned(),
            ],
        ),
        LoadError::Interrupted(_) | LoadError::Input(InputError::Cancelled { .. }) => (Exit::Interrupted, Vec::new()),
        LoadError::Input(input) => (Exit::Failed, input_hints(input)),
        LoadError::MissingTrailer { .. } => (
            Exit::Failed,
            vec!["Make the dump again. If it was made with --skip-comments or --compact it has no such line: load it with --accept-missing-trailer.".to_owned()],
        ),
        LoadError::RowTooLarge { size, .. } => {
            // The packet also holds the statement around the row.
            let wanted = (size + 1025).next_power_of_two().clamp(1 << 20, 1 << 30);
            (Exit::Failed, vec![format!("Run `SET GLOBAL max_allowed_packet = {wanted}` on the server and load again.")])
        }
        LoadError::Statement { failure, .. } => {
            let mut hints: Vec<String> = failure_hint(failure).into_iter().collect();
            if failure.hint.contains("--skip ") {
                // Skipping is a choice, too.
                return (Exit::Failed, hints);
            }
            hints.push("With --on-error continue, the load continues after a refused statement, lists all of them and exits with 1.".to_owned());
            (Exit::Failed, hints)
        }
        LoadError::Scan {
            source: ScanError::Message { .. },
            ..
        } => (Exit::Failed, vec![Stray::Message.hint().to_owned()]),
        LoadError::Scan { source, .. } if is_cut(source) => (Exit::Failed, vec![CUT.to_owned()]),
        LoadError::Scan { .. } => (Exit::Failed, vec!["The dump is damaged here: make it again, or copy it again and compare checksums.".to_owned()]),
        LoadError::Text { message, .. } if message.ends_with("no delimiter follows it") => (
            Exit::Failed,
            vec!["If the dump is whole and an editor or a tool has left the delimiter out, \
                --accept-missing-trailer runs that statement, as the stock client does. Otherwise \
                the dump is truncated: copy it again and compare checksums, or make it \
                again.".to_owned()],
        ),
        LoadError::Text { .. } | LoadError::RowsMissing { .. } => {
            (Exit::Failed, vec![CUT.to_owned()])
        }
        LoadError::StoredOtherwise(_) | LoadError::RowNotFound(_) => (
            Exit::ProofFailed,
            vec!["With --write-path insert, the dump's own statements are sent: the same command with it resumes from here. Please report this.".to_owned()],
        ),
        LoadError::CommitLost { .. } => (
            Exit::Failed,
            vec!["Connect to the server itself, past any proxy. On a Galera cluster, let nothing else write to the node while it loads.".to_owned()],
        ),
        LoadError::Orphans(_) => (
            Exit::Failed,
            vec!["The rows are in. The stock client would have stopped at the first of these. With --foreign-keys checked, the load continues, lists all of them and exits with 4.".to_owned()],
        ),
        LoadError::Index { source, .. } if source.server_code() == Some(DUPLICATE_ENTRY) => (
            Exit::Failed,
            vec!["The rows are in, the key is not. With --on-error continue unique keys are built with the rows, and each row that breaks one is named by its line.".to_owned()],
        ),
        LoadError::Tablespace { .. } => (
            Exit::Failed,
            vec!["With --write-path auto, the same command loads the table over SQL.".to_owned()],
        ),
        LoadError::Server { source, .. } | LoadError::Index { source, .. } => (Exit::Failed, wire_hints(source)),
        _ => (Exit::Failed, Vec::new()),
    }
}

/// Whether the text ends where no dump can end.
fn is_cut(error: &ScanError) -> bool {
    matches!(
        error,
        ScanError::UnterminatedQuote { .. }
            | ScanError::UnterminatedComment { .. }
            | ScanError::UnterminatedRows { .. }
    )
}

/// What the user can do about a refused statement or row.
pub fn failure_hint(failure: &StatementFailure) -> Option<String> {
    if !failure.hint.is_empty() {
        return Some(failure.hint.clone());
    }
    let quoted = failure.message.rsplit('\'').nth(1).unwrap_or_default();
    match failure.code {
        UNKNOWN_COLLATION => {
            let other = other_collation(quoted);
            Some(format!(
                "Replace it with another collation: --map-collation {quoted}={other}. SHOW \
                COLLATION lists those that the server has."
            ))
        }
        UNKNOWN_CHARSET => Some(
            "SHOW CHARACTER SET lists those that the server has: dump again with one of them, or load into a server that has it.".to_owned(),
        ),
        GENERATED => Some(
            "MariaDB's dump programs write values of generated columns, which MySQL does not take. Dump with `refloat dump`, or copy with `refloat copy`: \
             they leave such columns out."
                .to_owned(),
        ),
        WRONG_VALUE_FOR_VAR if failure.message.contains("sql_mode") => Some(format!(
            "Leave the word out with --map-sql-mode {quoted}=, or write another after the =."
        )),
        TABLE_EXISTS => kept_partition(&failure.message).map(|kept| {
            format!(
                "There is no such table, only this part of it: MariaDB keeps it when it is killed while it makes or drops a table with partitions. \
                 If no other table has lost it, run DROP TABLE {kept} on the server, then the same command again."
            )
        }),
        code if CHANGED.contains(&code) => Some(
            "A load never changes a value to make it fit, even where the dump's sql_mode is not strict: there the stock client stores it changed, with a \
             warning. Correct the value or the column's definition in the dump."
                .to_owned(),
        ),
        code if is_unknown_file(code, &failure.message) => Some(unknown_file(
            failure.table.as_deref().unwrap_or("DATABASE.TABLE"),
        )),
        _ => None,
    }
}

/// Whether a table cannot be created because a file is in its place.
fn is_unknown_file(code: u16, message: &str) -> bool {
    code == TABLESPACE_EXISTS || code == CANNOT_CREATE.0 && message.contains(CANNOT_CREATE.1)
}

/// Hint for a data file that belongs to no table.
fn unknown_file(table: &str) -> String {
    let file = table.replacen('.', "/", 1);
    format!(
        "A file of rows of that name is in the server's data folder, and the server does not know it: a power cut or a crash has brought it \
         back after its table was dropped. Move {file}.ibd out of the data folder, then give the same command again."
    )
}

/// The table that a server error names as `` `database`.`table` ``.
fn named_table(message: &str) -> Option<String> {
    let (before, after) = message.split_once("`.`")?;
    let (_, database) = before.rsplit_once('`')?;
    let (table, _) = after.split_once('`')?;
    Some(format!("{database}.{table}"))
}

/// The name under which MariaDB drops a partition whose table no longer exists, from its message
/// ``Table '`d`.`t` /* Partition `p` */' already exists``.
fn kept_partition(message: &str) -> Option<String> {
    let (_, kept) = message.split_once("'`")?;
    let (table, rest) = kept.split_once("` /* Partition `")?;
    let (database, table) = table.split_once("`.`")?;
    let (partitions, _) = rest.split_once("` */")?;
    let (partition, part) = match partitions.split_once("`, Subpartition `") {
        Some((partition, part)) => (partition, format!("#SP#{part}")),
        None => (partitions, String::new()),
    };
    // Other names are encoded differently on disk.
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let all_plain = plain(table) && plain(partition) && plain(part.trim_start_matches("#SP#"));
    all_plain.then(|| format!("`{database}`.`#mysql50#{table}#P#{partition}{part}`"))
}

fn archive_hints(error: &ArchiveError) -> Vec<String> {
    let hint = match error {
        ArchiveError::Cut { .. } | ArchiveError::Damaged { .. } => CUT,
        ArchiveError::NoRoom { .. } => {
            "--scratch names another folder; or unpack the archive yourself and name the folder."
        }
        ArchiveError::Scratch { .. } => "--scratch names another folder.",
        ArchiveError::Entry { .. } => {
            "Nothing of it was loaded. Look at it with `tar -tvf`; what is unpacked by hand can be loaded as a folder."
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

fn input_hints(error: &InputError) -> Vec<String> {
    let hint = match error {
        InputError::Truncated { .. } => {
            "The file is shorter than it was when it was written: copy it again and compare checksums."
        }
        InputError::Corrupt { .. }
        | InputError::TrailingGarbage { .. }
        | InputError::Checksum { .. } => {
            "The file is damaged: copy it again and compare checksums."
        }
        InputError::Empty { .. } => {
            "The program that should have written it has failed: look at the dump's own messages."
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

/// What the user can do about a connection error.
pub fn wire_hints(error: &refloat_wire::Error) -> Vec<String> {
    let message = error.to_string();
    if is_unknown_file(error.server_code().unwrap_or(0), &message)
        && let Some(table) = named_table(&message)
    {
        return vec![unknown_file(&table)];
    }
    let hint = match error {
        _ if error.server_code() == Some(1045) => {
            "Check the user name in the URL; give the password in ~/.my.cnf, in MYSQL_PWD or with --ask-password."
        }
        _ if error
            .server_code()
            .is_some_and(|code| USER_LIMIT.contains(&code))
            && message.contains("max_user_connections") =>
        {
            "The account may have only so many connections at a time: fewer --threads need fewer, \
            another account may have more, and ALTER USER … WITH MAX_USER_CONNECTIONS 100 allows more."
        }
        _ if error.is_access_denied() => "Ask for the missing privilege, or use another account.",
        _ if error.is_disk_full() => "The server's disk is full: make room, then load again.",
        refloat_wire::Error::Io {
            phase: refloat_wire::Phase::Connect,
            ..
        } => "Check host, port or socket in the URL, and that the server is running.",
        _ if error.is_lost_connection() && !matches!(error, refloat_wire::Error::Tls { .. }) => {
            "The connection to the server was lost in the middle: its error log says whether it was restarted or the connection killed."
        }
        refloat_wire::Error::Tls { .. } => {
            "--ssl-mode says how far TLS is used and checked; --ssl-ca names the authority to trust."
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}
