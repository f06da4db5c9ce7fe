//! Exit codes and hints for backups of files and their storages.

use refloat_physical::PhysicalError;
use refloat_repository::RepositoryError;
use refloat_run::{CancelReason, Refusal};
use refloat_store::storage::{StorageError, StorageErrorKind};

use super::Exit;

/// Exit code and hints for a physical backup or restore. `None`: the cause decides.
pub fn of_physical(error: &PhysicalError) -> Option<(Exit, Vec<String>)> {
    match error {
        PhysicalError::Refused(against) => Some((Exit::Refused, Refusal::hints(against))),
        PhysicalError::Cancelled(reason) => Some((
            of_reason(reason),
            vec!["Run the same command again: it keeps what was fetched, or starts over.".to_owned()],
        )),
        PhysicalError::CatchingUp(_) => Some((
            Exit::Interrupted,
            vec!["The new server works, and goes on replicating: its status says how far it is behind. The old data are kept.".to_owned()],
        )),
        PhysicalError::Repository(error) => Some(of_repository(error)),
        PhysicalError::DamagedPages(_) => Some((
            Exit::Failed,
            vec!["Nothing was copied. Copy another server of the same data, such as a replica. An earlier backup has these tables: `refloat restore LABEL --tables`. Reading such a page can crash the server, by CHECK TABLE, too.".to_owned()],
        )),
        PhysicalError::Start { .. } => Some((
            Exit::Failed,
            vec!["See the server's log, and start it by hand: its files are complete, and the old ones are kept.".to_owned()],
        )),
        PhysicalError::Replay { .. } => Some((
            Exit::Failed,
            vec![
                "The data directory is as it was. The same command starts the replay over; with --until FILE:POSITION it stops before that statement.".to_owned(),
            ],
        )),
        PhysicalError::Binlog { .. } => Some((
            Exit::ProofFailed,
            vec!["Nothing beyond that point can be trusted. Get the file again, or stop before it.".to_owned()],
        )),
        _ => None,
    }
}

/// Nobody has interrupted what ended because something else did.
fn of_reason(reason: &CancelReason) -> Exit {
    match reason {
        CancelReason::Signal(_) => Exit::Interrupted,
        CancelReason::Failed(_) => Exit::Failed,
    }
}

/// Exit code and hints for a storage.
pub fn of_storage(error: &StorageError) -> (Exit, Vec<String>) {
    let (exit, hint) = match error.kind() {
        StorageErrorKind::Scheme => (
            Exit::Usage,
            "Write a path, file:///PATH, ssh://HOST/PATH, s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX.",
        ),
        StorageErrorKind::Denied => (
            Exit::Failed,
            "The account or key may not do that there: check which one is used, and its permissions.",
        ),
        StorageErrorKind::Full => (Exit::Failed, "Make room there."),
        StorageErrorKind::Lost | StorageErrorKind::Ended => (
            Exit::Failed,
            "Run the same command again: it resumes, or starts over.",
        ),
        _ => (Exit::Failed, ""),
    };
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    (exit, hint.into_iter().map(str::to_owned).collect())
}

/// Exit code and hints for a repository.
pub fn of_repository(error: &RepositoryError) -> (Exit, Vec<String>) {
    let (exit, hint) = match error {
        RepositoryError::Storage(error) => return of_storage(error),
        RepositoryError::Missing { .. } => (
            Exit::Failed,
            "Is the path right? `refloat backups init` makes a repository in an empty place.",
        ),
        RepositoryError::Occupied { .. } => (Exit::Refused, "Give the path of an empty place."),
        RepositoryError::Damaged { .. } => (
            Exit::ProofFailed,
            "Restore another backup; `refloat backups verify` says which can be read.",
        ),
        RepositoryError::Foreign { .. } => (
            Exit::Refused,
            "Import it into an empty place: blocks are copied as they are.",
        ),
        RepositoryError::Stream { .. } => (
            Exit::Failed,
            "The repository does not keep any backup of it. Make the stream again.",
        ),
        RepositoryError::Swept { .. } => (
            Exit::Failed,
            "Blocks that were shared were pruned meanwhile. Make the backup again.",
        ),
        RepositoryError::LeftBehind { .. } => {
            (Exit::Failed, "Remove it: `refloat backups remove` does.")
        }
        RepositoryError::Key { .. } => (Exit::Usage, "See --key-file and --identity."),
        RepositoryError::AnotherKind { found, .. } => (
            Exit::Refused,
            match found.as_str() {
                "logical" => "It is a dump: `refloat load LABEL --repo URL --to SERVER` loads it.",
                "physical" => {
                    "It holds files: `refloat restore LABEL --repo URL --to DATADIR` makes a data directory of it."
                }
                _ => "`refloat backups list` shows the kinds.",
            },
        ),
        RepositoryError::SeveralServers { labels, .. } => {
            let labels = labels.join(", ");
            let hint = format!("Give the label: the newest ones are {labels}.");
            return (Exit::Refused, vec![hint]);
        }
        RepositoryError::NoBackup { .. } => {
            (Exit::Failed, "`refloat backups list` shows what is there.")
        }
        RepositoryError::LabelTaken { .. } => (
            Exit::Refused,
            "Choose another label, or leave it out; with `backups import`, it may be there already.",
        ),
        RepositoryError::Label { .. } => (Exit::Usage, ""),
        RepositoryError::Cancelled(reason) => (
            of_reason(reason),
            "Run the same command again: it resumes, or starts over.",
        ),
        _ => (Exit::Failed, ""),
    };
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    (exit, hint.into_iter().map(str::to_owned).collect())
}
