//! Compares the definitions of both sides: which objects exist, and whether they are the same.
//!
//! Servers of the same version print a definition in the same way, so texts are compared. Across
//! versions and vendors, tables are compared by the meaning of their definitions, as a load
//! compares them with its dump, and programs word by word. Whatever the vendors print in ways that
//! do not map is listed as not compared.

mod definitions;
mod lines;
mod numbers;
mod of_dump;
mod of_server;
mod words;

pub use definitions::Definitions;
use definitions::{Definition, Name};
pub use of_dump::Reader;

use std::collections::BTreeMap;

use refloat_read::strip;
use refloat_schema::definition::{ServerVersion, differences, written_for};
use refloat_sqltext::LexMode;
use refloat_wire::Vendor;

use super::error::VerifyError;
use super::options::{Compared, Relation, VerifyOptions};
use super::outcome::{SchemaDifference, VerifyOutcome};
use super::side::Side;

/// Characters of a definition to show, from shortly before the first difference.
const SHOWN: usize = 160;

/// Compares definitions, or only which tables exist.
pub fn compare(
    options: &VerifyOptions,
    sides: &mut [Side; 2],
    outcome: &mut VerifyOutcome,
) -> Result<(), VerifyError> {
    let mut read = Vec::with_capacity(2);
    for side in sides.iter_mut() {
        read.push(match side {
            Side::Server(server) => of_server::read(server)?,
            Side::Dump(folder) => of_dump::read(folder, options)?,
            Side::Other(dump) => std::mem::take(&mut dump.definitions),
        });
    }
    let (Some(b), Some(a)) = (read.pop(), read.pop()) else {
        return Ok(());
    };
    // A dump that does not name its server is read as if the other side's had made it.
    let known = [version(&sides[0]), version(&sides[1])];
    let unknown = known.iter().all(Option::is_none);
    let versions = match known.into() {
        (Some(a), Some(b)) => [a, b],
        (Some(one), None) | (None, Some(one)) => [one, one],
        // If neither dump names one, their definitions are compared as text.
        (None, None) => {
            [ServerVersion {
                vendor: Vendor::MariaDb,
                version: (0, 0, 0),
            }; 2]
        }
    };
    let of_dump = sides.each_ref().map(|side| !side.is_server());
    let in_pieces = sides.each_ref().map(|side| matches!(side, Side::Other(_)));
    let comparison = Comparison {
        in_pieces,
        alike: (in_pieces == [false, false] || unknown)
            && versions[0].vendor == versions[1].vendor
            && versions[0].version.0 == versions[1].version.0
            && versions[0].version.1 == versions[1].version.1,
        across: versions[0].vendor != versions[1].vendor,
        versions,
        of_dump,
        tables_only: options.compared == Compared::Rows,
    };
    comparison.run(&a, &b, outcome);
    if !comparison.tables_only || options.relation == Relation::MadeOfFirst {
        numbers::compare(&comparison, (&a, &b), options.relation, outcome);
    }
    Ok(())
}

fn version(side: &Side) -> Option<ServerVersion> {
    let (vendor, version) = match side {
        Side::Server(server) => return Some(server.control.server().into()),
        Side::Dump(folder) => {
            let about = &folder.manifest.server;
            (&about.vendor, &about.version)
        }
        Side::Other(dump) => {
            let (vendor, version) = dump.server.as_ref()?;
            (vendor, version)
        }
    };
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|digits| digits.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Some(ServerVersion {
        vendor: if vendor == "MySQL" {
            Vendor::MySql
        } else {
            Vendor::MariaDb
        },
        version: (next(), next(), next()),
    })
}

struct Comparison {
    /// Both sides print definitions in the same way.
    alike: bool,
    /// The sides are of different vendors.
    across: bool,
    versions: [ServerVersion; 2],
    of_dump: [bool; 2],
    /// Dumps of other tools, which write views and programs in pieces and may omit some kinds.
    in_pieces: [bool; 2],
    tables_only: bool,
}

impl Comparison {
    fn run(&self, a: &Definitions, b: &Definitions, outcome: &mut VerifyOutcome) {
        let mut views_left_out = 0_u64;
        let (mut in_pieces, mut undefined) = (0_u64, 0_u64);
        // Kinds that a dump does not have at all: it was made without them.
        let without = |of: &Definitions, kind: &str| !of.names().any(|(other, _)| other == kind);
        let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
        let undefined_names: Vec<Name> = a
            .undefined
            .union(&b.undefined)
            .map(|name| ("table", name.clone()))
            .collect();
        let mut names: Vec<&Name> = a.all.keys().chain(b.all.keys()).collect();
        names.extend(&undefined_names);
        names.sort_unstable();
        names.dedup();
        for name in names {
            if self.tables_only && name.0 != "table" {
                continue;
            }
            let side_without = [(a, 0), (b, 1)]
                .into_iter()
                .any(|(of, side)| self.in_pieces[side] && without(of, name.0));
            if side_without && name.0 != "table" {
                *left_out.entry(name.0).or_default() += 1;
                continue;
            }
            let there =
                [a, b].map(|of| of.all.contains_key(name) || of.undefined.contains(&name.1));
            if undefined_names.binary_search(name).is_ok() && there == [true, true] {
                undefined += 1;
                continue;
            }
            let about = format!("{} {}", name.0, name.1);
            let mut differ = |part: &str, a: String, b: String| {
                let about = if part.is_empty() {
                    about.clone()
                } else {
                    format!("{about}: {part}")
                };
                outcome
                    .schema_differences
                    .push(SchemaDifference { about, a, b });
            };
            let (Some(of_a), Some(of_b)) = (a.all.get(name), b.all.get(name)) else {
                let words = |there: bool| if there { "there" } else { "missing" };
                differ("", words(there[0]).to_owned(), words(there[1]).to_owned());
                continue;
            };
            if self.tables_only {
                continue;
            }
            if self.in_pieces != [false, false] && name.0 != "table" {
                in_pieces += 1;
                continue;
            }
            if self.across && matches!(name.0, "view" | "database") {
                views_left_out += 1;
                continue;
            }
            match name.0 {
                "table" => self.table(&name.1, of_a, of_b, &mut differ),
                _ => self.program(of_a, of_b, &mut differ),
            }
            outcome.definitions += 1;
        }
        for (kind, count) in left_out {
            outcome.not_compared.push(format!(
                "{kind}: one side has {count}, and the dump none at all"
            ));
        }
        if undefined > 0 && !self.tables_only {
            outcome.not_compared.push(format!(
                "the definitions of {undefined} tables: the dump has only rows of them, or changes them by ALTER TABLE"
            ));
        }
        if in_pieces > 0 {
            outcome.not_compared.push(format!(
                "the text of {in_pieces} databases, views and programs: only looked for by name, since SQL dumps write it in pieces"
            ));
        }
        if views_left_out > 0 {
            outcome.not_compared.push(format!(
                "the text of {views_left_out} databases and views: the vendors write the same one in two ways; only looked for by name"
            ));
        }
        if self.across && !self.tables_only {
            outcome.not_compared.push(
                "sql_mode, character sets and collations of routines, triggers and events: the vendors have other ones".to_owned(),
            );
        }
        if !self.tables_only && self.in_pieces == [false, false] {
            order(a, b, outcome);
        }
    }

    fn table(
        &self,
        label: &str,
        a: &Definition,
        b: &Definition,
        differ: &mut dyn FnMut(&str, String, String),
    ) {
        if a.text == b.text {
            return;
        }
        let (text_a, text_b) = (
            String::from_utf8_lossy(&a.text),
            String::from_utf8_lossy(&b.text),
        );
        if self.alike {
            lines::compare(&text_a, &text_b, differ);
            return;
        }
        // What the first side says and the second lacks, and the other way round.
        let mode = LexMode::default();
        let for_b = written_for(&a.text, mode, self.versions[1]);
        let for_a = written_for(&b.text, mode, self.versions[0]);
        let there = differences(self.versions[1], label, &for_b.text, mode, &text_b);
        let back = differences(self.versions[0], label, &for_a.text, mode, &text_a);
        // A part that cannot be written for the other server's version is missing there.
        for one in &for_b.lost {
            differ(
                one.part.trim_end_matches(": "),
                one.comment.clone(),
                "not there".to_owned(),
            );
        }
        for one in &for_a.lost {
            differ(
                one.part.trim_end_matches(": "),
                "not there".to_owned(),
                one.comment.clone(),
            );
        }
        let part = |about: &str| {
            let part = about.split_once(": ").map_or(about, |(_, part)| part);
            part.to_owned()
        };
        let mut reported = Vec::new();
        for one in there {
            reported.push(one.about.clone());
            differ(&part(&one.about), one.expected, one.found);
        }
        for one in back
            .into_iter()
            .filter(|one| !reported.contains(&one.about))
        {
            differ(&part(&one.about), one.found, one.expected);
        }
    }

    fn program(
        &self,
        a: &Definition,
        b: &Definition,
        differ: &mut dyn FnMut(&str, String, String),
    ) {
        let sql_mode = a.besides.get("sql_mode").map_or("", String::as_str);
        let same = |a: &[u8], b: &[u8]| {
            let (a, b) = (a.trim_ascii(), b.trim_ascii());
            a == b || (!self.alike && words::same(a, b, sql_mode))
        };
        if !self.same_text(&a.text, &b.text, same) {
            let (a, b) = lines::from_difference(
                &String::from_utf8_lossy(&a.text),
                &String::from_utf8_lossy(&b.text),
                SHOWN,
            );
            differ("", a, b);
        }
        if self.across {
            return;
        }
        for (what, of_a) in &a.besides {
            match b.besides.get(what) {
                Some(of_b) if !words::modern(of_a).eq_ignore_ascii_case(&words::modern(of_b)) => {
                    differ(what, of_a.clone(), of_b.clone());
                }
                // Only one side states it.
                _ => {}
            }
        }
    }

    /// A dump may have been made without definers.
    fn same_text(&self, a: &[u8], b: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        same(a, b)
            || (self.of_dump[0] && same(a, &strip::definer(b)))
            || (self.of_dump[1] && same(&strip::definer(a), b))
    }
}

/// Triggers that both sides have must fire in the same order.
fn order(a: &Definitions, b: &Definitions, outcome: &mut VerifyOutcome) {
    let common = |of: &Definitions, other: &Definitions| -> Vec<String> {
        let there = of
            .triggers
            .iter()
            .filter(|name| other.triggers.contains(name));
        there.cloned().collect()
    };
    let (of_a, of_b) = (common(a, b), common(b, a));
    if let Some(at) = (0..of_a.len().min(of_b.len())).find(|at| of_a[*at] != of_b[*at]) {
        outcome.schema_differences.push(SchemaDifference {
            about: "order of triggers".to_owned(),
            a: format!("{} first", of_a[at]),
            b: format!("{} first", of_b[at]),
        });
    }
}
