//! Examines a node's machine before a restore.

use std::path::{Path, PathBuf};

use refloat_host::Control;
use refloat_host::{
    chain,
    datadir::{self, Folder},
};
use refloat_run::Refusal;
use refloat_run::settings::Facts;
use refloat_wire::Connection;

use super::keepers;
use crate::join::runs;
use crate::member::{Member, impatient};
use crate::observe::values;
use crate::view::NodeView;

/// Directories that a full copy empties on the joiner, wherever they are.
const FOLDERS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_data_home_dir', 'innodb_log_group_home_dir', 'innodb_undo_directory')";

/// What was found on a node's machine, besides what the node reports.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub folder: Option<Result<Folder, Refusal>>,
    pub runs: bool,
    pub lacks: Option<String>,
    pub restarts: Option<String>,
    /// Programs on its machine that may start and stop it on their own.
    pub keepers: Vec<String>,
    pub recovered: Option<(String, u64)>,
    /// Why its position is unknown, if its file does not give it.
    pub unknown: Option<String>,
    pub facts: Option<Facts>,
    /// Which of its files are outside its data directory, according to the server.
    pub elsewhere: Option<String>,
}

/// Examines one node's machine. A position that the node did not write down is recovered, which
/// starts its server for a moment.
pub(super) fn see(member: &Member, node: &NodeView, control: Option<&Control>) -> Seen {
    let datadir = datadir_of(member, node);
    let folder = member.host.as_ref().map(|host| {
        if node.state.is_none() {
            member.known_folder()?;
        }
        datadir::look_at(host, &datadir).map_err(|error| chain(&error).into())
    });
    let Some(control) = control else {
        return Seen {
            folder,
            runs: node.state.is_some(),
            lacks: Some(
                "the list of nodes does not say how it is started and stopped (control)".to_owned(),
            ),
            ..Seen::default()
        };
    };
    // Unknown counts as running, so nothing on the node is touched; each step checks again.
    let seen = runs(control, member);
    let runs = node.state.is_some() || !matches!(seen, Ok(false));
    let mut conn = Connection::connect(&impatient(&member.connect)).ok();
    let folders = conn.as_mut().and_then(|conn| elsewhere(conn, &datadir));
    // This includes a file without a history: a start that fails late leaves one beside intact
    // tables.
    let lost = node
        .grastate
        .as_ref()
        .is_some_and(|file| file.seqno.is_none());
    let (recovered, unknown) = match (lost && !runs).then(|| control.recover()) {
        None => (None, None),
        Some(Ok(Some(place))) => (Some(place), None),
        Some(Ok(None)) => (
            None,
            Some("its tables hold no position, or could not be read".to_owned()),
        ),
        Some(Err(error)) => (None, Some(chain(&error))),
    };
    Seen {
        folder,
        runs,
        lacks: control.lacks().map(str::to_owned),
        restarts: control.restarts_by_itself(),
        keepers: member.host.as_ref().map(keepers::on).unwrap_or_default(),
        recovered,
        unknown,
        facts: conn.and_then(|mut conn| Facts::read(&mut conn).ok()),
        elsewhere: folders,
    }
}

pub(super) fn datadir_of(member: &Member, node: &NodeView) -> PathBuf {
    member.folder_by(node.state.as_ref())
}

/// The settings that place a server's files outside its data directory.
fn elsewhere(conn: &mut Connection, datadir: &Path) -> Option<String> {
    let settings = values(conn, FOLDERS).ok()?;
    let outside = |value: &str| {
        let path = Path::new(value);
        path.is_absolute() && !path.starts_with(datadir) || value.contains("..")
    };
    let mut all: Vec<&str> = settings
        .iter()
        .filter(|(_, value)| outside(value))
        .map(|(name, _)| name.as_str())
        .collect();
    all.sort_unstable();
    (!all.is_empty()).then(|| format!("its files are in other folders too ({})", all.join(", ")))
}
