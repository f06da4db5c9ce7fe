//! What a load does with a statement.
//!
//! The verdict needs only the statement and a few facts, no server. The load, its plan and the
//! quick look at a dump all use it, so a plan cannot approve what the load refuses. What only the
//! server knows (what exists already, what it does not support) is decided where the statement
//! runs, and beforehand by [`preflight`](super::preflight) and [`plan::stops`](super::plan).

use refloat_run::own_tables::is_own_schema;
use refloat_schema::pattern::may_choose_in;
use refloat_source::stray::{Stray, stray};
use refloat_sqltext::{ClientCommand, Danger, LexMode, ObjectName, StatementKind, shown};

use super::choice::{Choice, Whose};
use super::options::{ExistingPolicy, LoadOptions, StatementClass, SystemSchemaMode};
use super::renamed;

/// A dump of MySQL's own schema sets this global variable around the server's statistics tables.
/// The statement counts as part of that schema.
const STATS_AUTO_RECALC: &[u8] = b"SET GLOBAL INNODB_STATS_AUTO_RECALC";

/// What a load does with a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs, as its kind requires.
    Runs,
    /// It is left out, and listed: the user asked for that.
    LeftOut,
    /// It is left out, and listed: what it is about stays as it is.
    Kept,
    /// It is left out together with the table, database or schema that it belongs to.
    Silent,
    /// It must not run, for this reason.
    Refused(Reason),
}

/// Why a statement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its class is neither allowed nor left out.
    Class(StatementClass),
    /// It is never run.
    Dangerous(Danger),
    /// It is no statement at all.
    Stray(Stray),
    /// It would undo rows that are committed already.
    Rollback,
    /// It is unclear whether it concerns only chosen tables.
    Unclear,
    /// It holds rows for something that is not chosen, which may pass them on to a chosen table.
    PassedOn,
    /// It is in a file that may hold only rows.
    NotRows,
    /// It is a command of the stock client, which would do this.
    Client(&'static str),
}

impl Reason {
    /// Why a command of the stock client is refused; `None` if it is not.
    pub fn of_command(command: &ClientCommand) -> Option<Self> {
        Some(Self::Client(match command {
            ClientCommand::Delimiter(_) => return None,
            ClientCommand::System | ClientCommand::Pager => "runs a program on this machine",
            ClientCommand::Source => "reads another file",
            ClientCommand::Tee => "writes a file",
            ClientCommand::Charset => "changes how the client reads the rest of the dump",
            ClientCommand::Other(_) => "is for the stock client, not for the server",
        }))
    }

    /// What the user can do about it; empty if there is nothing to say.
    pub fn hint(self) -> String {
        let words = match self {
            Self::Class(class) => return class.hint(),
            Self::Stray(stray) => stray.hint(),
            Self::Dangerous(_) => {
                "Take the statement out of the dump, or list it with --on-error continue."
            }
            Self::Unclear => {
                "Choose all tables that it names, or the whole database, as --tables 'db.*'."
            }
            Self::PassedOn => "Choose this table as well, or take the rows out of the dump.",
            Self::Client(_) => {
                "Commands of the stock client are never run: take the line out of the dump, or list it with --on-error continue."
            }
            Self::Rollback | Self::NotRows => "",
        };
        words.to_owned()
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Class(class) => class.reason(),
            Self::Stray(stray) => stray.reason(),
            Self::Rollback => "rows before it are committed already, in transactions of their own",
            Self::Unclear => {
                "with --tables it is not clear whether it changes only tables that are chosen"
            }
            Self::PassedOn => {
                "with --tables it is not clear whether a view or a trigger passes these rows on to a chosen table"
            }
            Self::NotRows => "a file of rows may hold only rows and the settings that they need",
            Self::Client(what) => return write!(f, "this client command {what}"),
            Self::Dangerous(danger) => match danger {
                Danger::LoadData => "it reads a file of this machine or of the server",
                Danger::OutFile => "it writes a file on the server",
                Danger::Plugin => "it installs or removes a plugin or component",
                Danger::LoadableFunction => "it runs a shared library in the server",
                Danger::Instance => {
                    "it stops or locks the server, or ends other people's connections"
                }
                Danger::LowLevel => "it bypasses the tables' definitions",
                Danger::DynamicSql => "what it runs cannot be seen",
                Danger::Ambiguous => "different servers would run different statements",
            },
        })
    }
}

/// What the verdict depends on, apart from the statement.
pub struct Facts<'a> {
    pub options: &'a LoadOptions,
    /// The chosen tables, and those that the dump has named so far.
    pub choice: &'a Choice,
    /// The current database at this place of the dump.
    pub database: Option<&'a str>,
    /// The database that was dumped, if the dump says.
    pub origin: Option<&'a str>,
    /// How the statement is lexed.
    pub mode: LexMode,
    /// Whether the file may only contain rows.
    pub rows_only: bool,
}

/// Decides what happens to a statement. `text` may be cut off, as long as the names are in it.
pub fn verdict(kind: &StatementKind, text: &[u8], facts: &Facts<'_>) -> Fate {
    if facts.rows_only && !goes_with_rows(kind) {
        return Fate::Refused(Reason::NotRows);
    }
    if is_of_session(kind) {
        return Fate::Runs;
    }
    let dynamic = matches!(kind, StatementKind::Dangerous(Danger::DynamicSql));
    if let Some(class) = StatementClass::of(kind) {
        let fate = facts.class(class, text);
        // Text that the dump assembles at run time may concern any table.
        if !dynamic || fate != Fate::Runs {
            return fate;
        }
    }
    match kind {
        StatementKind::Dangerous(danger) if !dynamic => {
            return Fate::Refused(Reason::Dangerous(*danger));
        }
        StatementKind::Rollback => return Fate::Refused(Reason::Rollback),
        _ => {}
    }
    // A message in the middle of a dump may have swallowed a `USE`.
    if let Some(stray) = stray(kind, text) {
        return Fate::Refused(Reason::Stray(stray));
    }
    if facts.leaves_out_all(kind) {
        return Fate::Silent;
    }
    match facts.by_kind(kind, text) {
        Fate::Runs if facts.names_origin(kind, text) => {
            facts.class(StatementClass::OldDatabase, text)
        }
        fate => fate,
    }
}

impl Facts<'_> {
    fn class(&self, class: StatementClass, text: &[u8]) -> Fate {
        let of_system = memchr::memmem::find(text, STATS_AUTO_RECALC).is_some();
        let schema = of_system.then_some(self.options.system_schema);
        if self.options.allow.contains(&class) || schema == Some(SystemSchemaMode::Load) {
            Fate::Runs
        } else if self.options.skip.contains(&class) || schema == Some(SystemSchemaMode::Skip) {
            Fate::LeftOut
        } else {
            Fate::Refused(Reason::Class(class))
        }
    }

    /// A statement that is in no class.
    fn by_kind(&self, kind: &StatementKind, text: &[u8]) -> Fate {
        match kind {
            StatementKind::CreateDatabase { database, .. } => self.of_database(&shown(database)),
            StatementKind::AlterDatabase { database } => {
                let named = database.as_deref().map(shown);
                let database = named.as_deref().or(self.database);
                database.map_or(Fate::Runs, |database| self.of_database(database))
            }
            StatementKind::DropDatabase { database } => self.drop_database(&shown(database)),
            StatementKind::CreateTable {
                temporary: false,
                like: false,
                select: false,
                table,
                ..
            }
            | StatementKind::CreateTrigger { table, .. }
            | StatementKind::AlterTableKeys { table, .. } => or_silent(self.wants(table)),
            StatementKind::DropTable { tables: names }
            | StatementKind::DropSequence { sequences: names }
            | StatementKind::DropView { views: names } => {
                or_silent(names.iter().any(|name| self.wants(name)))
            }
            StatementKind::CreateView { view: name }
            | StatementKind::CreateSequence { sequence: name } => or_left_out(self.wants(name)),
            StatementKind::CreateRoutine { routine: name, .. }
            | StatementKind::CreateEvent { event: name } => {
                or_left_out(self.chooses_database_of(name))
            }
            StatementKind::DropRoutine { routine: name, .. }
            | StatementKind::DropEvent { event: name } => or_silent(self.chooses_database_of(name)),
            // The load itself finds out which table the trigger belongs to.
            StatementKind::DropTrigger { .. } => Fate::Runs,
            _ => match self.choice.whose(kind, text, self.mode, self.database) {
                Whose::Chosen => Fate::Runs,
                Whose::Others => Fate::LeftOut,
                Whose::Unclear => Fate::Refused(Reason::Unclear),
            },
        }
    }

    fn of_database(&self, database: &str) -> Fate {
        or_silent(may_choose_in(&self.options.tables, database))
    }

    /// Dropping a database removes more than the chosen tables, and with `--append` nothing is
    /// dropped. Refloat's own tables always stay.
    fn drop_database(&self, database: &str) -> Fate {
        let stays = is_own_schema(database) || self.options.existing == ExistingPolicy::Append;
        match self.of_database(database) {
            Fate::Runs if stays => Fate::Kept,
            Fate::Runs if self.choice.is_partial() => Fate::LeftOut,
            fate => fate,
        }
    }

    /// Whether a table, view or sequence is chosen; never one of Refloat's own.
    fn wants(&self, name: &ObjectName) -> bool {
        let qualifier = name.database.as_deref().map(shown);
        let database = qualifier.as_deref().or(self.database).unwrap_or_default();
        self.choice.wants(database, &shown(&name.name))
    }

    /// Whether a routine or event is chosen, which it is only with its whole database.
    fn chooses_database_of(&self, name: &ObjectName) -> bool {
        let qualifier = name.database.as_deref().map(shown);
        self.choice
            .has_all_of(qualifier.as_deref().or(self.database).unwrap_or_default())
    }

    /// Whether everything that a statement is about is in databases that are left out.
    fn leaves_out_all(&self, kind: &StatementKind) -> bool {
        let placed = |database: Option<String>| {
            let database = database.as_deref().or(self.database);
            database.is_some_and(|database| self.options.leaves_out(database))
        };
        match kind {
            StatementKind::DropTable { tables: names }
            | StatementKind::DropSequence { sequences: names }
            | StatementKind::DropView { views: names } => names
                .iter()
                .all(|name| placed(name.database.as_deref().map(shown))),
            kind => placed(database_of(kind)),
        }
    }

    /// Whether a statement defines something that names the database that was dumped, when the dump
    /// goes into another one.
    fn names_origin(&self, kind: &StatementKind, text: &[u8]) -> bool {
        let defines = matches!(
            kind,
            StatementKind::CreateTable { .. }
                | StatementKind::CreateView { .. }
                | StatementKind::CreateTrigger { .. }
                | StatementKind::CreateRoutine { .. }
                | StatementKind::CreateEvent { .. }
        );
        let origin = renamed::other_origin(self.options, self.origin);
        defines && origin.is_some_and(|origin| renamed::names(text, self.mode, origin))
    }
}

fn or_silent(wanted: bool) -> Fate {
    if wanted { Fate::Runs } else { Fate::Silent }
}

fn or_left_out(wanted: bool) -> Fate {
    if wanted { Fate::Runs } else { Fate::LeftOut }
}

/// Whether a statement is about a database or something in one, and not about the session or the
/// server.
pub fn is_about_database(kind: &StatementKind) -> bool {
    !is_of_session(kind)
        && StatementClass::of(kind).is_none()
        && !matches!(kind, StatementKind::Dangerous(_))
}

/// Whether a statement only concerns the session, its locks or its transaction.
fn is_of_session(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Empty
            | StatementKind::Set
            | StatementKind::Use { .. }
            | StatementKind::LockTables
            | StatementKind::UnlockTables
            | StatementKind::StartTransaction
            | StatementKind::Commit
    )
}

/// Whether a statement may be in a file of rows, which is read alongside other files.
fn goes_with_rows(kind: &StatementKind) -> bool {
    let switches = matches!(kind, StatementKind::AlterTableKeys { .. });
    switches || is_of_session(kind) && !matches!(kind, StatementKind::Use { .. })
}

/// The database of what a statement creates, changes or drops, if it names one.
pub fn database_of(kind: &StatementKind) -> Option<String> {
    let named = |database: &Option<Vec<u8>>| database.as_deref().map(shown);
    match kind {
        StatementKind::CreateTable { table: name, .. }
        | StatementKind::CreateTrigger { table: name, .. }
        | StatementKind::CreateView { view: name }
        | StatementKind::CreateRoutine { routine: name, .. }
        | StatementKind::CreateSequence { sequence: name }
        | StatementKind::CreateEvent { event: name }
        | StatementKind::DropRoutine { routine: name, .. }
        | StatementKind::DropEvent { event: name }
        | StatementKind::DropTrigger { trigger: name }
        | StatementKind::AlterTableKeys { table: name, .. }
        | StatementKind::AlterTable { table: name, .. }
        | StatementKind::Truncate { table: name } => named(&name.database),
        StatementKind::CreateDatabase { database, .. }
        | StatementKind::DropDatabase { database } => Some(shown(database)),
        StatementKind::AlterDatabase { database } => named(database),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::classify;
    use refloat_wire::ConnectOptions;

    use super::*;

    fn options() -> LoadOptions {
        LoadOptions::new("-", ConnectOptions::tcp("127.0.0.1", 3306, "root"))
    }

    /// The verdict in database `shop`, of a dump that was made of `old`.
    fn fate(options: &LoadOptions, text: &str) -> Fate {
        let mode = LexMode::default();
        let facts = Facts {
            options,
            choice: &Choice::new(&options.tables),
            database: Some("shop"),
            origin: Some("old"),
            mode,
            rows_only: false,
        };
        verdict(&classify(text.as_bytes(), mode), text.as_bytes(), &facts)
    }

    #[test]
    fn classes_run_only_by_name() {
        let mut options = options();
        let grant = "GRANT ALL ON *.* TO x";
        let refused = Fate::Refused(Reason::Class(StatementClass::Accounts));
        assert_eq!(fate(&options, grant), refused);
        options.skip.push(StatementClass::Accounts);
        assert_eq!(fate(&options, grant), Fate::LeftOut);
        options.allow.push(StatementClass::Accounts);
        assert_eq!(fate(&options, grant), Fate::Runs);
        let recalc = "SET GLOBAL INNODB_STATS_AUTO_RECALC=OFF";
        assert!(matches!(fate(&options, recalc), Fate::Refused(_)));
        options.system_schema = SystemSchemaMode::Skip;
        assert_eq!(fate(&options, recalc), Fate::LeftOut);
        assert_eq!(fate(&options, "CREATE TABLE mysql.t (a int)"), Fate::Silent);
        assert_eq!(fate(&options, "DROP TABLE mysql.t, sys.u"), Fate::Silent);
        assert_eq!(fate(&options, "DROP TABLE mysql.t, u"), Fate::Runs);
        options.system_schema = SystemSchemaMode::Load;
        assert_eq!(fate(&options, recalc), Fate::Runs);
    }

    #[test]
    fn what_is_not_chosen_is_left_out() {
        let mut options = options();
        options.tables = vec!["shop.item".to_owned()];
        for (text, expected) in [
            ("CREATE TABLE item (a int)", Fate::Runs),
            ("CREATE TABLE other (a int)", Fate::Silent),
            ("DROP TABLE other, item", Fate::Runs),
            ("DROP TABLE other", Fate::Silent),
            (
                "CREATE TRIGGER tr AFTER INSERT ON item FOR EACH ROW SET @a = 1",
                Fate::Runs,
            ),
            (
                "CREATE TRIGGER tr AFTER INSERT ON other FOR EACH ROW SET @a = 1",
                Fate::Silent,
            ),
            ("CREATE VIEW v AS SELECT 1", Fate::LeftOut),
            ("CREATE PROCEDURE p() SELECT 1", Fate::LeftOut),
            ("DROP PROCEDURE p", Fate::Silent),
            ("CREATE DATABASE shop", Fate::Runs),
            ("CREATE DATABASE elsewhere", Fate::Silent),
            ("DROP DATABASE shop", Fate::LeftOut),
            ("ALTER TABLE item ADD KEY (a)", Fate::Runs),
            ("ALTER TABLE other ADD KEY (a)", Fate::LeftOut),
            ("CALL p()", Fate::Refused(Reason::Unclear)),
            ("SELECT 1", Fate::Runs),
            ("SET @a = 1", Fate::Runs),
            ("USE elsewhere", Fate::Runs),
        ] {
            assert_eq!(fate(&options, text), expected, "{text}");
        }
    }

    #[test]
    fn a_definition_that_names_the_old_database_is_a_class() {
        let mut options = options();
        options.database = Some("shop".to_owned());
        let view = "CREATE VIEW v AS SELECT * FROM old.t";
        let refused = Fate::Refused(Reason::Class(StatementClass::OldDatabase));
        assert_eq!(fate(&options, view), refused);
        assert_eq!(fate(&options, "CREATE VIEW v AS SELECT 1"), Fate::Runs);
        options.tables = vec!["item".to_owned()];
        assert_eq!(fate(&options, view), Fate::LeftOut, "it is not chosen");
        options.tables = vec!["*".to_owned()];
        assert_eq!(fate(&options, view), refused);
    }

    #[test]
    fn some_statements_never_run() {
        let options = options();
        let refused = |text: &str| match fate(&options, text) {
            Fate::Refused(reason) => reason,
            fate => panic!("{text}: {fate:?}"),
        };
        assert_eq!(refused("ROLLBACK"), Reason::Rollback);
        let danger = Reason::Dangerous(Danger::LoadData);
        assert_eq!(refused("LOAD DATA INFILE 'x' INTO TABLE t"), danger);
        assert_eq!(
            refused("mysqldump: Error: x"),
            Reason::Stray(Stray::Message)
        );
        for reason in [danger, Reason::Rollback, Reason::Unclear, Reason::PassedOn] {
            assert!(!reason.to_string().is_empty());
        }
    }

    #[test]
    fn a_message_is_refused_even_where_everything_else_is_left_out() {
        let mut options = options();
        options.system_schema = SystemSchemaMode::Skip;
        options.allow.push(StatementClass::DynamicSql);
        let mode = LexMode::default();
        let facts = Facts {
            options: &options,
            choice: &Choice::new(&[]),
            database: Some("mysql"),
            origin: None,
            mode,
            rows_only: false,
        };
        let fate = |text: &str| {
            let text = text.as_bytes();
            verdict(&classify(text, mode), text, &facts)
        };
        let stray = Fate::Refused(Reason::Stray(Stray::Mark));
        assert_eq!(fate("\u{feff}USE `shop`"), stray);
        assert_eq!(fate("ROLLBACK"), Fate::Refused(Reason::Rollback));
        assert_eq!(fate("DROP TABLE shop.t"), Fate::Runs);
        for text in ["DROP TABLE t", "EXECUTE s", "INSERT INTO t SELECT 1"] {
            assert_eq!(fate(text), Fate::Silent, "{text}");
        }
    }

    #[test]
    fn text_that_a_dump_puts_together_may_change_tables_that_are_not_chosen() {
        let mut options = options();
        options.allow.push(StatementClass::DynamicSql);
        assert_eq!(fate(&options, "EXECUTE s"), Fate::Runs);
        options.tables = vec!["shop.item".to_owned()];
        assert_eq!(fate(&options, "EXECUTE s"), Fate::Refused(Reason::Unclear));
    }

    #[test]
    fn a_file_of_rows_holds_nothing_else() {
        let options = options();
        let mode = LexMode::default();
        let facts = Facts {
            options: &options,
            choice: &Choice::new(&[]),
            database: None,
            origin: None,
            mode,
            rows_only: true,
        };
        let fate = |text: &[u8]| verdict(&classify(text, mode), text, &facts);
        assert_eq!(fate(b"SET NAMES binary"), Fate::Runs);
        assert_eq!(fate(b"ALTER TABLE t DISABLE KEYS"), Fate::Runs);
        for text in ["DROP TABLE t", "USE other", "DO 1"] {
            assert_eq!(fate(text.as_bytes()), Fate::Refused(Reason::NotRows));
        }
    }
}
