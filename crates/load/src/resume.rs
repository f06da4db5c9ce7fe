//! Finds an unfinished load of the same source, and takes it over.

use std::collections::HashSet;
use std::time::Duration;

use refloat_run::cancel::abandonable;
use refloat_run::settings::Grants;
use refloat_run::{Owner, Refusal, Run, probe};
use refloat_source::SourceFormat;
use refloat_sqltext::quote_ident;
use refloat_wire::codes::{NO_SUCH_TABLE, UNKNOWN_DATABASE};
use refloat_wire::{ConnectOptions, Connection};

use super::error::{LoadError, START_OVER};
use super::marks::{self, About, Fingerprint, Found, Gone, Marks, take_over};
use super::open_source::OpenSource;
use super::options::{ExistingPolicy, LoadOptions, ResumeMode};
use super::own_tables::refuse_on_target;

/// Connections that hold a lock, besides those of the writers: the catalogue's, and one for
/// triggers and events.
const MORE_SLOTS: usize = 2;

/// How long another node may take to answer: longer than it may take to end a connection.
const NODE_ANSWER: Duration = Duration::from_secs(90);
/// How long another node may take to accept a connection.
const NODE_TIMEOUT: Duration = Duration::from_secs(4);

/// A load that another process began.
pub struct Begun {
    /// Id of the run that began it.
    pub run: String,
    /// What its marks record about the load as a whole.
    pub about: About,
    /// What it has done, from its marks.
    pub found: Found,
}

impl Begun {
    /// Makes sure that the process that began the load has nothing running on a server.
    fn end_on(&self, conn: &mut Connection, server: &str) -> Result<(), LoadError> {
        let gone = take_over(conn, &self.run, &self.about)
            .map_err(|error| LoadError::server("taking over an earlier load", error))?;
        let (reason, hint) = match gone {
            Gone::Yes => return Ok(()),
            Gone::No {
                connection,
                host,
                pid,
            } => (
                format!(
                    "run {} is loading this source into {server}: process {pid} on {host}, connection {connection} of the server",
                    self.run
                ),
                format!(
                    "Wait for it, or end it. If that process is gone, end its connection with KILL {connection}, and run the same command again."
                ),
            ),
            Gone::Stays(connection) => (
                format!(
                    "connection {connection} of run {} is still working on {server}, and was told to end",
                    self.run
                ),
                "Wait until the server has ended it (SHOW PROCESSLIST), and run the same command again.".to_owned(),
            ),
        };
        Err(LoadError::Refused(vec![Refusal { reason, hint }]))
    }

    /// A load whose marks have not been read yet.
    fn of(run: String, about: About) -> Self {
        Self {
            run,
            about,
            found: Found::default(),
        }
    }

    /// The same load without what its marks say.
    fn shell(&self) -> Self {
        Self::of(self.run.clone(), self.about.clone())
    }

    /// [`Begun::end_on`] for the other nodes of a cluster: the marks are on all of them, and the
    /// process may have written to another one.
    fn end_elsewhere(&self, options: &LoadOptions, run: &Run) -> Result<(), LoadError> {
        for node in &options.galera.others {
            let name = node.target().to_string();
            let options = ConnectOptions {
                database: None,
                connect_timeout: node.connect_timeout.min(NODE_TIMEOUT),
                read_timeout: Some(NODE_ANSWER),
                ..node.clone()
            };
            let (begun, at) = (self.shell(), format!("node {name}"));
            let asked = abandonable(&run.cancel, move || {
                Connection::connect(&options).map(|mut conn| begun.end_on(&mut conn, &at))
            });
            match asked {
                None => return Err(LoadError::interrupted(&run.cancel)),
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => run.events.warn(format!(
                    "node {name} cannot be asked whether the process that began this load still writes there: {error}"
                )),
            }
        }
        Ok(())
    }

    /// Ends what still runs of the load, and removes its marks.
    fn forget(
        &self,
        options: &LoadOptions,
        conn: &mut Connection,
        source: &OpenSource,
        run: &Run,
    ) -> Result<(), LoadError> {
        let failed = |error| LoadError::server("taking over an earlier load", error);
        self.end_elsewhere(options, run)?;
        self.end_on(conn, "this server")?;
        // Includes what the process did between the first look and its end.
        let found = Found::read(conn, &self.run).map_err(failed)?;
        let marks = Marks::new(&self.run, self.about.clone(), &source.root());
        marks.left(false, true).remove(conn).map_err(failed)?;
        run.events.note(format!(
            "the load that began at {} is forgotten; {} of its rows stay on the server",
            self.about.begun,
            found.stored()
        ));
        Ok(())
    }

    /// Databases that contain nothing but what the load brought, or what was there before it began.
    pub fn databases(&self) -> HashSet<String> {
        self.found.databases.keys().cloned().collect()
    }
}

/// Refuses to resume a load if the server stopped in its first seconds: definitions recorded as
/// done may be missing.
fn refuse_lost(found: &Found, about: &About, conn: &mut Connection) -> Result<(), LoadError> {
    let Some(before) = found.unsettled else {
        return Ok(());
    };
    let now = probe::server_started(conn)
        .map_err(|error| LoadError::server("asking how long the server has been up", error))?;
    // Both values come from clocks that count in whole seconds.
    if now.is_some_and(|now| (now - before).abs() <= 1) {
        return Ok(());
    }
    Err(LoadError::Refused(vec![Refusal {
        reason: format!(
            "the server stopped in the first seconds of the load begun at {}, before its changes \
            to tables were on disk; it is not known whether they survived",
            about.begun
        ),
        hint: START_OVER.to_owned(),
    }]))
}

/// Earlier loads of a source.
pub struct Earlier {
    /// Identifies the source.
    pub fingerprint: Fingerprint,
    /// The load to resume.
    pub begun: Option<Begun>,
    /// Loads of the same source with other options.
    pub others: Vec<(String, About)>,
    /// Those of them that `--restart --replace` forgets too: they were begun without `--replace`.
    forgotten: Vec<(String, About)>,
}

impl Earlier {
    /// Looks for earlier loads; changes nothing.
    pub fn look(
        options: &LoadOptions,
        source: &mut OpenSource,
        conn: &mut Connection,
    ) -> Result<Self, LoadError> {
        refuse_on_target(conn)?;
        if !keeps_marks(source) {
            return Ok(Self {
                fingerprint: Fingerprint::default(),
                begun: None,
                others: Vec::new(),
                forgotten: Vec::new(),
            });
        }
        let fingerprint = Fingerprint::of(source, &options.source)?;
        let failed = |error| LoadError::server("looking for the marks of an earlier load", error);
        let loads = Found::loads(conn, &fingerprint).map_err(failed)?;
        let wanted = marks::deciding(options);
        let (mut same, others): (Vec<_>, Vec<_>) = loads
            .into_iter()
            .partition(|(_, about)| about.options == wanted);
        let over =
            options.resume == ResumeMode::Restart && options.existing == ExistingPolicy::Replace;
        let (forgotten, others) = others
            .into_iter()
            .partition(|(_, about)| over && is_the_same_but_existing(&about.options, &wanted));
        let begun = if same.is_empty() {
            None
        } else {
            let (run, about) = same.swap_remove(0);
            let found = Found::read(conn, &run).map_err(failed)?;
            if options.resume != ResumeMode::Restart {
                refuse_lost(&found, &about, conn)?;
            }
            Some(Begun { run, about, found })
        };
        Ok(Self {
            fingerprint,
            begun,
            others,
            forgotten,
        })
    }

    /// Decides whether to resume, and takes over from the process that began the load.
    pub fn take_over(
        &mut self,
        options: &LoadOptions,
        conn: &mut Connection,
        source: &OpenSource,
        run: &Run,
    ) -> Result<(), LoadError> {
        let events = &run.events;
        for (earlier, about) in std::mem::take(&mut self.forgotten) {
            Begun::of(earlier, about).forget(options, conn, source, run)?;
        }
        let Some(begun) = self.begun.take() else {
            return match options.resume {
                ResumeMode::Require => Err(LoadError::Refused(vec![self.nothing_to_resume()])),
                ResumeMode::Auto | ResumeMode::Restart => Ok(()),
            };
        };
        if options.resume == ResumeMode::Restart {
            return begun.forget(options, conn, source, run);
        }
        let failed = |error| LoadError::server("taking over an earlier load", error);
        begun.end_elsewhere(options, run)?;
        begun.end_on(conn, "this server")?;
        // Includes what the process did between the first look and its end.
        let found = Found::read(conn, &begun.run).map_err(failed)?;
        let marks = Marks::new(&begun.run, begun.about.clone(), &source.root());
        if !found.tables.is_empty() && all_gone(&found, conn).map_err(failed)? {
            marks.left(false, true).remove(conn).map_err(failed)?;
            events.note(format!(
                "the load that began at {} is forgotten: none of the tables that it wrote into \
                exists any more",
                begun.about.begun
            ));
            return Ok(());
        }
        if !found.is_empty() {
            events.note(format!(
                "resuming the load that began at {} (run {}): {} rows are already loaded",
                begun.about.begun,
                begun.run,
                found.stored()
            ));
        }
        self.begun = Some(Begun { found, ..begun });
        Ok(())
    }

    /// For a plan: does not resume what a restart will forget.
    #[must_use]
    pub fn without_forgotten(mut self, options: &LoadOptions) -> Self {
        if options.resume == ResumeMode::Restart {
            self.begun = None;
        }
        self
    }

    fn nothing_to_resume(&self) -> Refusal {
        let reason = match self.others.first() {
            None => "there is no unfinished load of this source on this server".to_owned(),
            Some((run, about)) => format!(
                "there is no unfinished load of this source with these options; run {run} was begun with: {}",
                about.options
            ),
        };
        Refusal {
            reason,
            hint: "Without --resume the load begins from the start.".to_owned(),
        }
    }
}

/// Whether two loads differ at most in what they do with tables that exist: starting over takes
/// `--replace` where an earlier load has made some.
fn is_the_same_but_existing(begun: &str, wanted: &str) -> bool {
    let rest = |options: &str| {
        let (before, behind) = options.split_once(", existing ")?;
        let (_, behind) = behind.split_once(", collations ")?;
        Some(format!("{before}, collations {behind}"))
    };
    rest(begun).is_some_and(|begun| Some(begun) == rest(wanted))
}

/// Whether the source is the same when it is read again. A server is not: its data keeps changing.
pub fn keeps_marks(source: &OpenSource) -> bool {
    source.format() != SourceFormat::Server
}

/// Whether none of the tables that rows were written into exists any more.
fn all_gone(found: &Found, conn: &mut Connection) -> Result<bool, refloat_wire::Error> {
    for (db, table) in found.tables.keys() {
        let shown = conn.query(format!(
            "SHOW COLUMNS FROM {}.{}",
            quote_ident(db),
            quote_ident(table)
        ));
        match shown {
            // ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR.
            Err(error) if matches!(error.server_code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE)) => {
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// The marks of a load: those of an earlier process, or new ones. `None` if the account may not
/// keep any, or the source is a server.
pub fn begin_marks(
    options: &LoadOptions,
    earlier: &Earlier,
    source: &OpenSource,
    conn: &mut Connection,
    (run, empty_server, grants): (&str, bool, &Grants),
) -> Result<Option<Marks>, refloat_wire::Error> {
    let (owner, slots) = (Owner::this(), options.threads.max(1) + MORE_SLOTS);
    if let Some(begun) = &earlier.begun {
        let about = About {
            owner,
            slots,
            ..begun.about.clone()
        };
        let marks = Marks::new(&begun.run, about, &source.root());
        marks.note_owner(conn)?;
        return Ok(Some(marks));
    }
    let about = About {
        source: source.name(),
        fingerprint: earlier.fingerprint.clone(),
        options: marks::deciding(options),
        begun: start_of(run),
        owner,
        slots,
        empty_server,
    };
    let may = keeps_marks(source) && Marks::are_allowed(grants);
    Ok(may.then(|| Marks::new(run, about, &source.root())))
}

/// The time in a run id, for display.
fn start_of(run: &str) -> String {
    match run.as_bytes() {
        [date @ .., b'-', _, _, _, _, _, _] if date.len() == 15 => {
            let part = |range: std::ops::Range<usize>| run.get(range).unwrap_or_default();
            format!(
                "{}-{}-{} {}:{}:{} UTC",
                part(0..4),
                part(4..6),
                part(6..8),
                part(9..11),
                part(11..13),
                part(13..15)
            )
        }
        _ => run.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_run_says_when_it_began() {
        assert_eq!(
            start_of("20261121-203001-abc123"),
            "2026-11-21 20:30:01 UTC"
        );
        assert_eq!(start_of("something else"), "something else");
    }
}
