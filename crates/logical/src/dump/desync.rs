//! A node of a Galera cluster that need not keep pace with the others while it is read.
//!
//! A node that falls behind holds all of them up (flow control), and reading a whole server makes a node fall behind. With
//! `wsrep_desync` it may, and catches up afterwards. The setting is journalled before it is changed and put back whatever happens, like
//! those of a load.

use refloat_run::settings::{
    AppliedSettings, Durability, PlannedChange, SettingsPlan, WSREP_DESYNC,
};
use refloat_run::{Cancel, Run};
use refloat_wire::Connection;

use super::error::DumpError;
use super::options::DumpOptions;
use super::session;

/// A node that need not keep pace.
pub struct Desync {
    applied: AppliedSettings,
}

impl Desync {
    /// Nothing changed yet.
    pub fn new(run: &Run) -> Self {
        Self {
            applied: AppliedSettings::new(&run.dir),
        }
    }

    /// Lets the node fall behind, where that is asked for. After an error it may have been let all the same: [`Desync::end`] follows
    /// in any case.
    pub fn begin(
        &mut self,
        options: &DumpOptions,
        run: &Run,
        control: &mut Connection,
    ) -> Result<(), DumpError> {
        if !options.desync {
            return Ok(());
        }
        let now = control
            .query(format!(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{WSREP_DESYNC}', 'wsrep_on')"
            ))
            .map_err(|error| DumpError::server("asking for the settings of the cluster", error))?;
        let value = |name: &str| {
            let mut rows = 0..now.len();
            let row = rows.find(|&row| now.str(row, 0) == Some(name))?;
            now.str(row, 1)
        };
        let (Some(old), Some("ON")) = (value(WSREP_DESYNC), value("wsrep_on")) else {
            return Err(DumpError::Refused {
                reason:
                    "the server is no node of a Galera cluster, so --desync has no meaning here"
                        .to_owned(),
                hint: "Leave --desync out.".to_owned(),
            });
        };
        if old == "ON" {
            run.events.note(format!(
                "{WSREP_DESYNC} is ON already: somebody else lets the node fall behind, and it stays so"
            ));
            return Ok(());
        }
        let plan = SettingsPlan {
            durability: Durability::Keep,
            changes: vec![PlannedChange {
                name: WSREP_DESYNC.to_owned(),
                old: old.to_owned(),
                new: "ON".to_owned(),
                reason: "the cluster does not wait for this node while it is read".to_owned(),
                gain: "no flow control because of this node".to_owned(),
            }],
            ..SettingsPlan::default()
        };
        match self.applied.apply(control, &plan, &run.events) {
            Ok(()) => {}
            Err(_) if run.cancel.is_cancelled() => return Err(DumpError::interrupted(&run.cancel)),
            Err(error) => return Err(error.into()),
        }
        match self.applied.skipped().first() {
            None => Ok(()),
            Some(skipped) => Err(DumpError::Refused {
                reason: format!("{WSREP_DESYNC} cannot be changed: {}", skipped.reason),
                hint: "The account needs SUPER for it; without --desync the dump is made at the pace of the cluster.".to_owned(),
            }),
        }
    }

    /// Puts the setting back, on a connection of its own: Ctrl-C may have ended the others. What could not be put back is named.
    pub fn end(
        &mut self,
        options: &DumpOptions,
        run: &Run,
    ) -> (Vec<String>, Result<(), DumpError>) {
        // Ctrl-C is no reason to leave the node as it is.
        self.applied
            .put_back(run, || session::connect(options, &Cancel::new()))
    }
}
