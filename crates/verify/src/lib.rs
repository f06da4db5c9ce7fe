//! Compares definitions and rows of two servers, of a dump and a server, or of two dumps.
//!
//! [`verify`] is the recipe. `side` opens what is compared (`folder` Refloat's own dumps, `other`
//! those of other tools), `pair` decides how the two sides of a table are read, `work` digests them
//! with all readers, `narrow` finds the rows that differ, and `schema` compares definitions.
//! Nothing is written anywhere. No code that writes dumps is used to read them.

mod error;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod narrow;
mod options;
mod other;
mod outcome;
mod pair;
mod schema;
mod show;
mod side;
mod source;
mod work;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use refloat_run::progress::Phase;
use refloat_run::{Event, Refusal, Run};

pub use error::{VerifyError, VerifyFailure};
pub use options::{Compared, Endpoint, Relation, VerifyOptions};
pub use outcome::{
    ColumnDifference, NamedValue, RangeDifference, RowDifference, RowKind, SchemaDifference,
    SideInfo, TableDifference, VerifyOutcome,
};

use refloat_read::catalog::NAMES_HINT;
use refloat_read::session;
use refloat_run::kill_on_cancel;
use refloat_run::phases::Phases;

use narrow::Narrow;
use pair::{Pair, has_no_rows, out_of_reach};
pub use side::ServerSide;
use side::{Side, unmatched};
use source::Source;
use work::{Read, Work};

/// How many tables that differ from a dump of another tool have their differing rows looked up.
const TABLES_SHOWN: usize = 5;

/// Compares two servers, a dump and a server, or two dumps.
///
/// # Errors
/// [`VerifyFailure`] with the reason it stopped. A difference is not an error: see
/// [`VerifyOutcome::same`].
pub fn verify(options: &VerifyOptions, run: &Run) -> Result<VerifyOutcome, VerifyFailure> {
    verify_between(options, run, || {
        refuse_one_server(options, run)?;
        let [first, mut second] = open(options, run)?;
        if let (true, Side::Server(second)) = (options.more_in_second, &mut second) {
            second.keep_tables_of(&first);
        }
        Ok([first, second])
    })
}

/// Like [`verify`], for a first server whose snapshot is already open.
///
/// # Errors
/// As for [`verify`].
pub fn verify_kept(
    first: Box<ServerSide>,
    options: &VerifyOptions,
    run: &Run,
) -> Result<VerifyOutcome, VerifyFailure> {
    verify_between(options, run, || {
        let first = Side::Server(first);
        let mut second = Side::open(&options.b, &options.a, options, &known(&first), run)?;
        // Whatever else the target holds was not copied.
        if let Side::Server(second) = &mut second {
            second.keep_tables_of(&first);
        }
        Ok([first, second])
    })
}

fn verify_between(
    options: &VerifyOptions,
    run: &Run,
    open: impl FnOnce() -> Result<[Side; 2], VerifyError>,
) -> Result<VerifyOutcome, VerifyFailure> {
    let started = Instant::now();
    let mut outcome = VerifyOutcome {
        run: run.dir.id().to_string(),
        ..VerifyOutcome::default()
    };
    outcome.a.name = options.a.describe();
    outcome.b.name = options.b.describe();
    let clock = Phases::new(&run.events, &run.progress);
    let result = run_verify(options, run, &mut outcome, &clock, open);
    outcome.phases = clock.end();
    outcome.seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err(VerifyFailure {
            // Ctrl-C closes connections; the errors that this causes are not the reason it stopped.
            error: match error {
                VerifyError::Server(_) if run.cancel.is_cancelled() => {
                    VerifyError::interrupted(&run.cancel)
                }
                error => error,
            },
            outcome: Box::new(outcome),
        }),
    }
}

fn run_verify(
    options: &VerifyOptions,
    run: &Run,
    outcome: &mut VerifyOutcome,
    clock: &Phases,
    open: impl FnOnce() -> Result<[Side; 2], VerifyError>,
) -> Result<(), VerifyError> {
    clock.enter(Phase::Preflight);
    let mut sides = open()?;
    outcome.a = sides[0].info(&options.a);
    outcome.b = sides[1].info(&options.b);
    refuse(options, &sides)?;
    announce(options, run, outcome);
    moments(outcome);
    for side in &sides {
        if let Side::Server(server) = side {
            let caveat = server.snapshot.identities.caveat();
            let name = server.options.source.describe();
            outcome
                .notes
                .extend(caveat.map(|caveat| format!("{name}: {caveat}")));
        }
    }
    leave_out(options, &mut sides, outcome)?;
    schema::compare(options, &mut sides, outcome)?;
    if options.compared != Compared::Schema {
        compare_rows(options, run, &mut sides, outcome, clock)?;
    }
    for note in outcome
        .rows_not_compared
        .iter()
        .chain(&outcome.not_compared)
        .chain(&outcome.notes)
    {
        run.events.note(note.clone());
    }
    outcome.complete = true;
    outcome.same = !outcome.differs() && outcome.rows_not_compared.is_empty();
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// Refuses comparisons that would mean nothing.
fn refuse(options: &VerifyOptions, sides: &[Side; 2]) -> Result<(), VerifyError> {
    let unmatched = unmatched(options, [&sides[0], &sides[1]]);
    if !unmatched.is_empty() {
        return Err(VerifyError::Refused(Refusal {
            reason: format!("nothing on either side is called {}", unmatched.join(", ")),
            hint: NAMES_HINT.to_owned(),
        }));
    }
    if sides.iter().all(|side| side.databases().is_empty()) {
        return Err(VerifyError::Refused(Refusal {
            reason: "there is nothing to compare: neither side has a database but those of the server itself".to_owned(),
            hint: "Check the accounts' privileges with SHOW GRANTS.".to_owned(),
        }));
    }
    Ok(())
}

/// Refuses to compare a server with itself. This runs before the snapshots are taken: the first
/// side's DDL block would get in the way of the second side's lock for as long as a third session
/// waits to run DDL.
fn refuse_one_server(options: &VerifyOptions, run: &Run) -> Result<(), VerifyError> {
    let (Endpoint::Server(a), Endpoint::Server(b)) = (&options.a, &options.b) else {
        return Ok(());
    };
    let identity = |source| -> Result<_, VerifyError> {
        let conn = session::connect(&options::read_options(options, source), &run.cancel)?;
        Ok(conn.identity().clone())
    };
    let (a, b) = (identity(a)?, identity(b)?);
    if a == b {
        return Err(VerifyError::Refused(Refusal {
            reason: format!("both are the same server: {a}"),
            hint: "Name two servers, or a dump and a server.".to_owned(),
        }));
    }
    Ok(())
}

fn announce(options: &VerifyOptions, run: &Run, outcome: &VerifyOutcome) {
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "verify".to_owned(),
        source: outcome.a.name.clone(),
        target: outcome.b.name.clone(),
        plan: serde_json::json!({
            "a": outcome.a.server,
            "b": outcome.b.server,
            "threads": options.threads,
        }),
    });
}

/// Notes the moment at which each side was read, with a caveat where a snapshot is not consistent.
fn moments(outcome: &mut VerifyOutcome) {
    for side in [&outcome.a, &outcome.b] {
        let caveat = side.snapshot.caveat();
        outcome
            .notes
            .extend(caveat.map(|caveat| format!("{}: {caveat}", side.name)));
    }
    outcome.notes.push(format!(
        "the first is read as of {}, the second as of {} (each by its own clock): what was written between the two moments would show as a difference",
        outcome.a.snapshot.at, outcome.b.snapshot.at
    ));
}

/// Opens both sides, dumps first. Unless the user names databases, only those that the dump has are
/// read from the server; and no writer should wait for a lock while a dump is read.
fn open(options: &VerifyOptions, run: &Run) -> Result<[Side; 2], VerifyError> {
    let all = &options.databases;
    let chosen = !options.databases.is_empty() || !options.tables.is_empty();
    let open = |one, other, known: &[String]| Side::open(one, other, options, known, run);
    let (a, b) = (&options.a, &options.b);
    let of = |dump: &Side| if chosen { all.clone() } else { known(dump) };
    Ok(match (a, b) {
        (Endpoint::Dump(_), Endpoint::Server(_)) => {
            let first = open(a, b, all)?;
            let second = open(b, a, &of(&first))?;
            [first, second]
        }
        (Endpoint::Server(_), Endpoint::Dump(_)) => {
            let second = open(b, a, all)?;
            let first = open(a, b, &of(&second))?;
            [first, second]
        }
        _ => [open(a, b, all)?, open(b, a, all)?],
    })
}

/// The databases of a side, as patterns.
fn known(side: &Side) -> Vec<String> {
    let names = side.databases().into_iter().map(|of| of.name);
    // A dot would be parsed as the separator between database and table.
    names.map(|name| name.replace('.', "?")).collect()
}

/// Leaves out databases of a server that the dump does not have, and notes them as not compared.
fn leave_out(
    options: &VerifyOptions,
    sides: &mut [Side; 2],
    outcome: &mut VerifyOutcome,
) -> Result<(), VerifyError> {
    if !options.databases.is_empty() || !options.tables.is_empty() {
        return Ok(());
    }
    for (dump, server) in [(0, 1), (1, 0)] {
        let known: Vec<String> = match &sides[dump] {
            Side::Dump(_) | Side::Other(_) => sides[dump]
                .databases()
                .into_iter()
                .map(|of| of.name)
                .collect(),
            Side::Server(_) => continue,
        };
        if let Side::Server(server) = &mut sides[server] {
            let extra = server.keep(options, &known)?;
            for name in extra.iter().filter(|_| !options.more_in_second) {
                outcome.not_compared.push(format!(
                    "database {name}: it is on the server, but not in the dump"
                ));
            }
        }
    }
    Ok(())
}

/// Pairs up the tables that both sides have, and notes what is not compared.
fn pairs(options: &VerifyOptions, sides: &[Side; 2], outcome: &mut VerifyOutcome) -> Vec<Pair> {
    let vendors = [&sides[0], &sides[1]].map(Side::vendor);
    // A dump that does not name its vendor is taken to be of the other side's.
    let vendors = [
        vendors[0].as_deref().or(vendors[1].as_deref()),
        vendors[1].as_deref().or(vendors[0].as_deref()),
    ];
    let vendors = vendors.map(Option::unwrap_or_default);
    let (of_a, of_b) = (sides[0].tables(), sides[1].tables());
    let mut pairs = Vec::new();
    for (name, a) in of_a {
        let Some(b) = of_b.get(&name) else {
            continue;
        };
        let label = format!("{}.{}", name.0, name.1);
        let out = |table| out_of_reach(table, options.no_history);
        if let Some(reason) = out(a).or_else(|| out(*b)) {
            // If neither side stores rows of its own, nothing can differ.
            let list = if [a, *b].iter().all(has_no_rows) {
                &mut outcome.not_compared
            } else {
                &mut outcome.rows_not_compared
            };
            list.push(format!("rows of table {label}: {reason}"));
            continue;
        }
        let pair = Pair::new(label, [a, *b], vendors, options.relation);
        outcome.not_compared.extend(pair.left_out.iter().cloned());
        outcome
            .rows_not_compared
            .extend(pair.untold.iter().cloned());
        outcome.notes.extend(pair.notes.iter().cloned());
        if pair.columns.is_empty() {
            continue;
        }
        pairs.push(pair);
    }
    pairs
}

/// Compares locked tables first, since writers wait until they are read; then all others.
fn compare_rows(
    options: &VerifyOptions,
    run: &Run,
    sides: &mut [Side; 2],
    outcome: &mut VerifyOutcome,
    clock: &Phases,
) -> Result<(), VerifyError> {
    let pairs = pairs(options, sides, outcome);
    for side in sides.iter() {
        if let Side::Other(dump) = side {
            outcome.notes.extend(dump.notes.iter().cloned());
        }
    }
    let done = Arc::new(AtomicU64::new(0));
    let bytes = pairs.iter().flat_map(|pair| &pair.readings);
    let bytes = bytes.map(pair::Reading::bytes).sum();
    run.progress.set_source(Some(bytes), Arc::clone(&done));
    run.progress.set_tables_total(pairs.len() as u64);
    clock.enter(Phase::Data);
    let work = Work {
        pairs: &pairs,
        cancel: &run.cancel,
        events: &run.events,
        progress: &run.progress,
        done: &done,
    };
    for locked in [true, false] {
        if !locked {
            sides.iter_mut().try_for_each(Side::release)?;
        }
        let which: Vec<usize> = (0..pairs.len())
            .filter(|index| pairs[*index].locked == locked)
            .collect();
        if which.is_empty() {
            continue;
        }
        clock.enter(Phase::Data);
        let readers = sources(options, sides, options.threads.max(1));
        let read = work.read(readers, &which)?;
        clock.enter(Phase::Proof);
        // Check identities before calling rows different: they may be those of another table by
        // now.
        let labels = which.iter().map(|index| pairs[*index].label.as_str());
        let labels: HashSet<&str> = labels.collect();
        for (number, side) in sides.iter_mut().enumerate() {
            side.unchanged(&labels)
                .map_err(|error| error.on_side(number))?;
        }
        judge(options, run, &pairs, (read, locked), sides, outcome)?;
    }
    Ok(())
}

/// Readers of both sides.
fn sources<'s>(
    options: &'s VerifyOptions,
    sides: &'s mut [Side; 2],
    threads: usize,
) -> [Vec<Source<'s>>; 2] {
    sides.each_mut().map(|side| match side {
        Side::Server(server) => {
            let readers = server.snapshot.readers.iter_mut().take(threads);
            readers.map(Source::Server).collect()
        }
        Side::Dump(folder) => (0..threads).map(|_| Source::Dump(folder)).collect(),
        Side::Other(dump) => (0..threads).map(|_| Source::Other(dump, options)).collect(),
    })
}

/// Adds up what was read and looks for the rows of tables that differ.
fn judge(
    options: &VerifyOptions,
    run: &Run,
    pairs: &[Pair],
    (read, locked): (BTreeMap<usize, Read>, bool),
    sides: &mut [Side; 2],
    outcome: &mut VerifyOutcome,
) -> Result<(), VerifyError> {
    // To find rows, a dump of another tool must be read completely, again for each table.
    let whole = sides.iter().any(|side| matches!(side, Side::Other(_)));
    let mut readings = if locked && whole { 0 } else { TABLES_SHOWN };
    let [mut a, mut b] = sources(options, sides, 1);
    let (Some(a), Some(b)) = (a.pop(), b.pop()) else {
        return Ok(());
    };
    let mut one_of_each = [a, b];
    let _kill = one_of_each.each_ref().map(|source| match source {
        Source::Server(conn) => Some(kill_on_cancel(&run.cancel, conn)),
        Source::Dump(_) | Source::Other(..) => None,
    });
    for (index, read) in read {
        let digests = [0, 1].map(|side| read.digest(side));
        outcome.tables += 1;
        outcome.a.rows += digests[0].rows;
        outcome.b.rows += digests[1].rows;
        outcome.rows_read += digests[0].rows + digests[1].rows;
        outcome.bytes_read += read.bytes;
        if digests[0] == digests[1] {
            continue;
        }
        let pair = &pairs[index];
        if let Some(verb) = pair.overwrites(digests.map(|digest| digest.rows)) {
            outcome.rows_not_compared.push(format!(
                "rows of table {}: the dump writes them by {verb}, and there are fewer on the server: some may have the place of others",
                pair.label
            ));
            continue;
        }
        let shown = if whole && readings == 0 {
            0
        } else {
            options.rows_shown
        };
        readings = readings.saturating_sub(1);
        run.events.warn(match shown {
            0 => format!("rows of table {} differ", pair.label),
            _ => format!("rows of table {} differ: looking for them", pair.label),
        });
        let narrow = Narrow {
            pair,
            read: &read,
            cancel: &run.cancel,
            shown,
        };
        let difference = narrow.difference(&mut one_of_each)?;
        outcome.table_differences.push(difference);
    }
    Ok(())
}
