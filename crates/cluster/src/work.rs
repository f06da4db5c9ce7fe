//! Refloat's own unfinished work on a cluster.

use serde::Serialize;

/// What of Refloat's own work can be left unfinished on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A restore of the whole cluster.
    Restore,
    /// Maintenance of one node.
    Maintenance,
}

/// Work that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenWork {
    /// A restore, or maintenance of one node.
    pub kind: WorkKind,
    /// ID of the run.
    pub run: String,
    /// Name of the node that is loaded into, or maintained.
    pub node: String,
    /// The next step, in the words of the run. `None`: only the machine where it began knows.
    pub step: Option<String>,
    /// The process that drives it, and its machine.
    pub process: String,
    /// Whether that process runs. `None`: that cannot be seen from here.
    pub running: Option<bool>,
    /// The command that resumes it.
    pub next: String,
}

impl OpenWork {
    /// The work in one sentence.
    pub(crate) fn describe(&self) -> String {
        let Self { run, process, .. } = self;
        let state = match self.running {
            Some(true) => format!("{process} works on it"),
            Some(false) => format!("{process} no longer works on it"),
            None => format!("it cannot be seen from here whether {process} works on it"),
        };
        let step = self
            .step
            .as_ref()
            .map_or_else(String::new, |step| format!(", at the step {step}"));
        let what = match self.kind {
            WorkKind::Restore => {
                "a restore of the cluster has not ended: this is the node that it continues with, so let nobody start or bootstrap another one by hand"
            }
            WorkKind::Maintenance => "a maintenance of it has not ended",
        };
        let next = match self.running {
            Some(true) => String::new(),
            _ => format!(". To go on: {}", self.next),
        };
        format!("{what} (run {run}{step}; {state}){next}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::view;

    #[test]
    fn who_has_gone_on_with_it_is_named() {
        let of = |process: &str, running, step: Option<&str>| OpenWork {
            kind: WorkKind::Restore,
            run: "r".to_owned(),
            node: "n1".to_owned(),
            step: step.map(str::to_owned),
            process: process.to_owned(),
            running,
            next: "again".to_owned(),
        };
        let mut view = view(vec![None]);
        view.note_work(vec![of("process 1 on h", Some(false), Some("load"))]);
        view.note_work(vec![of("process 2 on h", Some(true), None)]);
        let description = view.work[0].describe();
        assert!(
            view.work.len() == 1
                && description.contains("at the step load; process 2 on h works on it"),
            "{description}"
        );
    }
}
