//! What the report says about statements: how many ran, and what was left out or found.

use std::collections::HashSet;

use refloat_run::outcome::Bounded;
use refloat_sqltext::head;

use super::here::{Here, at_line};
use super::name::TableKey;
use crate::outcome::OrphanRows;

/// What was run, left out and found so far.
#[derive(Default)]
pub struct Findings {
    /// Bytes of text read.
    pub bytes: u64,
    /// Statements run in the dump's session.
    pub statements: u64,
    /// Statements that the user excluded.
    pub skipped: Bounded<String>,
    /// Statements about what stays as it is.
    pub kept: Bounded<String>,
    /// Accounts that existed and were left unchanged, named as in the dump.
    pub accounts_left: Vec<String>,
    /// Refloat's own tables in the dump, which are not loaded.
    pub own_left_out: HashSet<TableKey>,
    /// How many collations differ here because the dump names only their character sets.
    pub other_defaults: u32,
    /// Rows whose parents do not exist.
    pub orphans: Vec<OrphanRows>,
    /// Something on the server was created, changed or removed: a refusal from now on leaves part
    /// of the dump behind.
    pub touched: bool,
}

impl Findings {
    /// Lists a statement that the user excluded.
    pub fn leave_out(&mut self, here: Here<'_>) {
        self.skipped.push(listed(here));
    }

    /// Lists a statement about something that stays as it is.
    pub fn keep(&mut self, here: Here<'_>) {
        self.kept.push(listed(here));
    }
}

fn listed(here: Here<'_>) -> String {
    format!("{}{}", at_line(here.item.line), head(here.text))
}
