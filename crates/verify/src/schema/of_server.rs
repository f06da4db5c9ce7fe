//! Gathers the definitions of a server, as the server prints them.

use std::collections::BTreeMap;

use refloat_read::ReadError;
use refloat_read::catalog::{Program, ShowCreate, show_create, show_create_database};
use refloat_sqltext::quote_ident;

use super::definitions::kind;
use super::{Definition, Definitions};
use crate::error::VerifyError;
use crate::side::ServerSide;

/// Collects the plan's definitions, and queries those that it does not hold.
pub fn read(server: &mut ServerSide) -> Result<Definitions, VerifyError> {
    let mut read = Definitions::default();
    for database in &server.plan.databases {
        let quoted = quote_ident(&database.name);
        if server.options.tables.is_empty() {
            let create = show_create_database(&mut server.control, &database.name)?;
            read.add("database", database.name.clone(), create);
        }
        for sequence in &database.sequences {
            let name = format!("{quoted}.{}", quote_ident(sequence));
            let label = format!("{}.{sequence}", database.name);
            let what = format!("sequence {label}");
            let create = show_create(
                &mut server.control,
                &what,
                &format!("SHOW CREATE SEQUENCE {name}"),
                &["Create Table"],
            )?;
            let value = server
                .control
                .query_value(format!("SELECT next_not_cached_value FROM {name}"))
                .map_err(|error| {
                    ReadError::server(format!("reading the value of {what}"), error)
                })?;
            let of = read.add("sequence", label, create.text);
            of.besides.extend(value.map(|value| ("next value", value)));
        }
    }
    let plan = &server.plan;
    for table in plan.tables.iter().flatten() {
        read.add("table", table.label(), table.definition.clone());
    }
    for view in &plan.programs.views {
        let label = format!("{}.{}", view.database, view.name);
        let of = read.add("view", label, view.create.text.clone());
        of.besides = besides(&view.create);
        of.besides.remove("sql_mode");
    }
    let programs = &plan.programs;
    for program in programs
        .routines
        .iter()
        .chain(&programs.triggers)
        .chain(&programs.events)
    {
        read.program(program);
    }
    Ok(read)
}

impl Definitions {
    pub(super) fn add(
        &mut self,
        kind: &'static str,
        name: String,
        text: Vec<u8>,
    ) -> &mut Definition {
        let of = self.all.entry((kind, name)).or_default();
        of.text = text;
        of
    }

    fn program(&mut self, program: &Program) {
        let label = format!("{}.{}", program.database, program.name);
        let kind = kind(&program.kind);
        if kind == "trigger" {
            self.triggers.push(label.clone());
        }
        let of = self.add(kind, label, program.create.text.clone());
        of.besides = besides(&program.create);
    }
}

fn besides(create: &ShowCreate) -> BTreeMap<&'static str, String> {
    let all = [
        ("sql_mode", &create.sql_mode),
        ("character_set_client", &create.client),
        ("collation_connection", &create.connection),
        ("collation of the database", &create.database),
        ("time_zone", &create.time_zone),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)))
        .collect()
}
