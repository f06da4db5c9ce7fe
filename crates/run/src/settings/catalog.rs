//! The catalog of settings: what is worth changing, on which server, to which value, and why.
//!
//! Unless stated otherwise, gains were measured loading 2 × 1.5 million rows on two cores. A gain
//! that was not measured says so.

mod rules;

use serde::{Deserialize, Serialize};

use super::{Durability, Facts, Hints};

/// A global setting to change for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// Name of the setting; `redo_log` stands for `ALTER INSTANCE … INNODB REDO_LOG`.
    pub name: String,
    /// Current value.
    pub old: String,
    /// Value for the run.
    pub new: String,
    /// Why the change helps.
    pub reason: String,
    /// Expected gain.
    pub gain: String,
}

/// A setting for the run's own sessions. Not journalled: it ends with the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionChange {
    /// Name of the session variable.
    pub name: String,
    /// Value for the session.
    pub value: String,
    /// Why the change helps.
    pub reason: String,
}

/// A setting that would help but that the run leaves alone: it needs a restart, or someone's
/// consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The variable that someone would have to change.
    pub name: String,
    /// Current value.
    pub now: String,
    /// The value that would help.
    pub better: String,
    /// Whether the change needs a restart of the server.
    pub restart: bool,
    /// Why the change helps.
    pub reason: String,
    /// Expected gain.
    pub gain: String,
}

/// A change that was considered but not planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The global variable, or `redo_log`.
    pub name: String,
    /// Why it was not planned.
    pub reason: String,
    /// The privilege that would allow it, if its absence is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_privilege: Option<String>,
}

/// What to do about settings; [`super::AppliedSettings::apply`] does exactly this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsPlan {
    /// The durability level that was asked for.
    pub durability: Durability,
    /// Global changes, in the order to make them.
    pub changes: Vec<PlannedChange>,
    /// Settings for the run's own sessions.
    pub session: Vec<SessionChange>,
    /// Settings that the user could change.
    pub advice: Vec<Advice>,
    /// Changes that were considered and left out.
    pub skipped: Vec<Skipped>,
}

/// Makes a plan from facts alone, without asking the server.
pub fn plan(facts: &Facts, durability: Durability, hints: &Hints) -> SettingsPlan {
    let mut planner = Planner {
        facts,
        durability,
        hints,
        plan: SettingsPlan {
            durability,
            ..SettingsPlan::default()
        },
    };
    planner.run();
    planner.plan
}

struct Planner<'a> {
    facts: &'a Facts,
    durability: Durability,
    hints: &'a Hints,
    plan: SettingsPlan,
}

/// What a rule wants: the level that it needs, and its texts for the plan.
struct Wish<'a> {
    name: &'a str,
    new: String,
    level: Durability,
    reason: &'a str,
    gain: &'a str,
}

impl Planner<'_> {
    /// Turns a wish into a change, advice, or a reason for neither.
    fn wish(&mut self, wish: Wish<'_>) {
        let Some(old) = self.facts.get(wish.name).map(str::to_owned) else {
            return;
        };
        if super::value::same(&old, &wish.new) {
            return;
        }
        let fixed = self.facts.startup_only.contains(wish.name);
        if fixed {
            self.advise(&wish, &old, true);
        } else if self.durability < wish.level {
            if self.durability == Durability::Keep {
                self.advise(&wish, &old, false);
            } else {
                let reason = format!("needs --durability {}", wish.level);
                self.skip(wish.name, reason);
            }
        } else if let Some(missing) = self.missing_privilege(wish.name) {
            self.skip_for_lack(wish.name, missing, format!("the account lacks {missing}"));
        } else {
            self.plan.changes.push(PlannedChange {
                name: wish.name.to_owned(),
                old,
                new: wish.new,
                reason: wish.reason.to_owned(),
                gain: wish.gain.to_owned(),
            });
        }
    }

    fn advise(&mut self, wish: &Wish<'_>, now: &str, restart: bool) {
        self.plan.advice.push(Advice {
            name: wish.name.to_owned(),
            now: now.to_owned(),
            better: wish.new.clone(),
            restart,
            reason: wish.reason.to_owned(),
            gain: wish.gain.to_owned(),
        });
    }

    fn skip(&mut self, name: &str, reason: impl Into<String>) {
        self.plan.skipped.push(Skipped {
            name: name.to_owned(),
            reason: reason.into(),
            missing_privilege: None,
        });
    }

    /// Same as [`Planner::skip`], for lack of a privilege.
    fn skip_for_lack(&mut self, name: &str, privilege: &str, reason: impl Into<String>) {
        self.plan.skipped.push(Skipped {
            name: name.to_owned(),
            reason: reason.into(),
            missing_privilege: Some(privilege.to_owned()),
        });
    }

    /// The privilege that the account lacks to change `name`, as the vendor calls it.
    fn missing_privilege(&self, name: &str) -> Option<&'static str> {
        use refloat_wire::Vendor::{MariaDb, MySql};
        let since = |version| self.facts.version >= version;
        let (any, privilege): (&[&str], &str) = match (self.facts.vendor, name) {
            (MySql, super::facts::REDO_LOG) => {
                (&["INNODB_REDO_LOG_ENABLE"], "INNODB_REDO_LOG_ENABLE")
            }
            (MySql, "sql_log_bin") => (
                &["SUPER", "SYSTEM_VARIABLES_ADMIN", "SESSION_VARIABLES_ADMIN"],
                "SESSION_VARIABLES_ADMIN",
            ),
            (MySql, _) => (
                &["SUPER", "SYSTEM_VARIABLES_ADMIN"],
                "SYSTEM_VARIABLES_ADMIN",
            ),
            // Since 11.0, SUPER covers less.
            (MariaDb, "sync_binlog" | "sql_log_bin") if since((11, 0, 0)) => {
                (&["BINLOG ADMIN"], "BINLOG ADMIN")
            }
            (MariaDb, "sync_binlog" | "sql_log_bin") if since((10, 5, 2)) => {
                (&["SUPER", "BINLOG ADMIN"], "BINLOG ADMIN")
            }
            (MariaDb, _) => (&["SUPER"], "SUPER"),
        };
        (!self.facts.may(any)).then_some(privilege)
    }
}
