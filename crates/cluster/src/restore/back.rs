//! The steps from a one-node cluster to the whole cluster: the others take full copies, and all are
//! compared.

use std::time::Duration;

use refloat_host::datadir;
use refloat_run::Refusal;

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::advise::{AdviseOptions, Mistake, advise};
use crate::compare::{Apart, Comparison, brief};
use crate::join::look;
use crate::node::{NodeState, Role};
use crate::proof::CameBy;
use crate::rejoin::{DonorChoice, Giver, Leave, RejoinPlan, Rejoining};
use crate::restore::planned::{OldData, RestoreWay};
use crate::view::{Rejoin, RejoinKind};

/// Short, because rates do not affect whether a copy can succeed.
const SAMPLE: Duration = Duration::from_millis(100);

impl Restore<'_> {
    /// Has the other nodes take full copies, one at a time.
    pub(super) fn rejoin_others(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Rejoin;
        let chosen = state.plan.at;
        let Some(uuid) = state.uuid.clone() else {
            return Err(self.wrong(STEP, chosen, "its new history was not written down"));
        };
        self.set_all_aside(state)?;
        for at in self.others(state) {
            if state.nodes[at].joined.is_some() && self.is_member(at, &uuid) {
                continue;
            }
            self.may_go_on(STEP)?;
            let donor = self.donor(state, &uuid, STEP)?;
            self.rejoin(state, at, &uuid, donor)?;
            self.write(state)?;
        }
        Ok(())
    }

    fn rejoin(
        &self,
        state: &mut RestoreState,
        at: usize,
        uuid: &str,
        donor: String,
    ) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Rejoin;
        let (member, control) = (&self.members[at], self.control(at)?);
        let up = self.has_server(state, at)?;
        // Only a copy leads into the new history. A node that was in that history needs only what
        // it has missed since.
        let was_there = !up && self.has_joined(state, at)?;
        if !up {
            let planned = &state.plan.nodes[at];
            match &planned.old {
                // This may already be done. Repeating it does no harm.
                OldData::Aside { path } if !state.nodes[at].overtaken => {
                    datadir::set_aside(self.host(at), &planned.datadir, path)?;
                }
                // It rejoins with what it has.
                _ if was_there => {}
                // It has no position in the new history anyway. Without one in the old history, it
                // cannot return there by mistake either.
                _ => self.give_place_up(state, at, false)?,
            }
            if !was_there {
                self.copy_works(state, at)?;
                self.remove_half_copy(state, at)?;
            }
        }
        let chosen = self.members[state.plan.at].name.clone();
        let plan = RejoinPlan {
            node: member.name.clone(),
            at,
            forecast: Rejoin {
                kind: RejoinKind::Sst {
                    bytes: None,
                    seconds: None,
                },
                reason: "rows came without write-sets".to_owned(),
            },
            seqno: None,
            uuid: uuid.to_owned(),
            donors: vec![DonorChoice {
                name: chosen.clone(),
                node_name: donor,
                why: "it was loaded into".to_owned(),
            }],
            runs: up,
            only_copy: None,
            fails: Vec::new(),
            hold: None,
            history: None,
            place: None,
            gives_up: false,
        };
        let leave = Leave {
            sst: true,
            discard: None,
            failing: true,
        };
        let rejoining = Rejoining {
            members: self.members,
            control,
            state_dir: self.state_dir,
            run: self.run,
            // A copy has no time limit.
            start_limit: None,
        };
        let giver = Giver {
            member: &self.members[state.plan.at],
            control: self.control(state.plan.at)?,
        };
        let joined = rejoining.bring_back_by(&plan, &leave, Some(giver))?;
        let now = look(member).map_err(|reason| self.wrong(STEP, at, reason))?;
        if now.cluster_uuid != uuid {
            let wrong = Refusal::new(format!(
                "it has joined {}, and the cluster is {uuid}",
                now.cluster_uuid
            ))
            .hint(format!("Stop {}.", member.name));
            return Err(self.wrong(STEP, at, wrong));
        }
        if joined.proof.by == CameBy::Ist && !up && !was_there {
            let wrong = Refusal::new(format!(
                "it has come by IST, so it holds what it held before: {}",
                joined.proof.evidence
            ))
            .hint(format!("Stop {}.", member.name));
            return Err(self.wrong(STEP, at, wrong));
        }
        let way = if joined.proof.by == CameBy::Ist {
            "what it has missed (IST)"
        } else {
            "a full copy"
        };
        self.run
            .events
            .note(format!("{} is back by {way}", member.name));
        state.nodes[at].joined = Some(joined);
        // Whatever was found in a comparison, it is a different server now.
        state.nodes[at].same = false;
        Ok(())
    }

    /// Removes what is left of a copy that failed halfway, for example because a disk was full. The
    /// node's earlier data is set aside, and half a copy is worthless.
    fn remove_half_copy(&self, state: &RestoreState, at: usize) -> Result<(), RestoreError> {
        let planned = &state.plan.nodes[at];
        let OldData::Aside { path } = &planned.old else {
            return Ok(());
        };
        // Checking for what makes a copy fail takes a while, and something may have started the
        // node since.
        if self.has_server(state, at)? {
            let reason = "something has started it meanwhile";
            return Err(self.wrong(RestoreStep::Rejoin, at, reason));
        }
        if !state.nodes[at].overtaken
            && datadir::remove_half_copy(self.host(at), &planned.datadir, path)?
        {
            self.run.events.note(format!(
                "what has arrived of an earlier copy to {} is removed: no server starts with half of one",
                planned.name
            ));
        }
        Ok(())
    }

    /// Proves, as far as possible, that a full copy to this node can work. When the plan was made,
    /// all nodes may have been down, and the size of the copy was a guess.
    fn copy_works(&self, state: &RestoreState, at: usize) -> Result<(), RestoreError> {
        let options = AdviseOptions {
            joiner: Some(self.members[at].name.clone()),
            sample: SAMPLE,
            ..AdviseOptions::default()
        };
        // Nodes that are down are checked by the facts from when they ran.
        let mut candidates = self.candidates.to_vec();
        for (candidate, planned) in candidates.iter_mut().zip(&state.plan.nodes) {
            candidate.shown.clone_from(&planned.shown);
        }
        let Ok(advice) = advise(&state.cluster, &candidates, &options) else {
            // There are no nodes to check.
            return Ok(());
        };
        let fails: Vec<String> = advice.failing().map(Mistake::describe).collect();
        if fails.is_empty() {
            return Ok(());
        }
        let wrong = Refusal::new(format!(
            "a full copy to it would fail, so it was not started: {}",
            fails.join("; ")
        ))
        .hint("--ignore-advice starts it all the same.");
        Err(self.wrong(RestoreStep::Rejoin, at, wrong))
    }

    /// Proves that all nodes are up and synced. The error names the node that is at fault; the
    /// others only see one member less.
    fn all_are_in_step(&self, state: &RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Verify;
        let mut seen = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            let now = look(member).map_err(|reason| {
                let wrong = Refusal::new(reason);
                // With this way, the start of nodes may not be configured.
                let wrong = match state.plan.way {
                    RestoreWay::Replicate => wrong.hint(
                        "Start it if it is down: it gets what it has missed, and is compared then.",
                    ),
                    RestoreWay::Rebuild => wrong,
                };
                self.wrong(STEP, at, wrong)
            })?;
            seen.push(now);
        }
        let most = self.members.len() as u64;
        let is_apart = |now: &NodeState| !now.primary || now.role != Role::Synced;
        let wrong = seen.iter().position(is_apart);
        let wrong = wrong.or_else(|| seen.iter().position(|now| now.size != most));
        let Some(at) = wrong else {
            return Ok(());
        };
        let now = &seen[at];
        let reason = format!(
            "it is {}, and sees {} of {most} members",
            now.state, now.size
        );
        Err(self.wrong(STEP, at, reason))
    }

    fn compare(&self, state: &RestoreState, at: usize) -> Result<(), RestoreError> {
        let chosen = state.plan.at;
        let comparison = Comparison {
            members: self.members,
            threads: Some(self.load.threads),
            run: self.run,
        };
        let (node, from) = (
            self.members[at].name.clone(),
            self.members[chosen].name.clone(),
        );
        let compared = comparison.compare(chosen, at, Vec::new());
        compared.map(drop).map_err(|apart| match apart {
            Apart::Differs(names) => RestoreError::Differs {
                node,
                from,
                uuid: look(&self.members[chosen])
                    .map_or_else(|_| "UUID".to_owned(), |now| now.cluster_uuid),
                dump: state.plan.source.clone(),
                reason: brief(&names),
            },
            Apart::Unsettled(names) => RestoreError::Unsettled {
                node,
                from,
                reason: brief(&names),
            },
            Apart::Failed(source) => RestoreError::Verify { node, source },
            Apart::Stopped => RestoreError::Interrupted {
                step: RestoreStep::Verify,
            },
        })
    }

    /// Compares every node with the chosen one.
    pub(super) fn verify(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Verify;
        let chosen = state.plan.at;
        if state.plan.way == RestoreWay::Rebuild {
            // A node may have left since it rejoined.
            self.rejoin_others(state)?;
        }
        self.all_are_in_step(state)?;
        self.forget_marks(state, false)?;
        state.nodes[chosen].same = true;
        for at in self.others(state) {
            if state.nodes[at].same {
                continue;
            }
            self.may_go_on(STEP)?;
            let node = self.members[at].name.clone();
            self.run.events.note(format!(
                "comparing {node} with {}",
                self.members[chosen].name
            ));
            self.compare(state, at)?;
            state.nodes[at].same = true;
            self.write(state)?;
        }
        // A node may have left since it was compared.
        self.all_are_in_step(state)
    }
}
