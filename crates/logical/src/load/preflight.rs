//! What is looked at before anything is touched.

use refloat_run::probe::ServerProbe;
use refloat_run::settings::Facts;
use refloat_sqltext::quote_ident;
use refloat_store::{Input, LooksLike};
use refloat_wire::{Connection, Vendor};

use super::context::init_session;
use super::error::{LoadError, Refusal};
use super::options::{ExistingPolicy, IndexMode, LoadOptions, SystemSchemaMode, WritePath};
use super::outline::Outline;
use super::pattern::is_system_database;

/// What preflight found out.
pub struct Preflight {
    /// What the dump seems to hold; only of plain files.
    pub outline: Option<Outline>,
    /// The path that rows will take.
    pub write_path: WritePath,
    /// Why it is not the fastest one, and how to allow that.
    pub advice: Vec<String>,
    /// Whether the server holds nothing but what this dump may replace.
    pub empty_server: bool,
    /// Whether the server runs on this machine.
    pub server_is_local: bool,
}

/// The path again, after settings were changed: `local_infile` may be on now.
pub fn path_now(options: &LoadOptions, facts: &Facts, before: WritePath) -> WritePath {
    if options.write_path == WritePath::Auto
        && before == WritePath::Insert
        && facts.is_on("local_infile")
    {
        WritePath::LoadData
    } else {
        before
    }
}

/// Looks at a source: is it a dump, and is it whole as far as that can be seen?
pub fn look_at_source(
    options: &LoadOptions,
    input: &mut Input,
) -> Result<Option<Outline>, LoadError> {
    let content = input.content()?;
    if !matches!(content, LooksLike::Sql | LooksLike::Text) {
        return Err(LoadError::Refused(vec![Refusal {
            reason: format!("{}: this is no SQL dump, it looks like {content}", input.name()),
            hint: "Give a file that mysqldump or mariadb-dump wrote, plain or compressed with gzip, zstd, xz or bzip2.".to_owned(),
        }]));
    }
    if !input.rewindable() || input.compression() != refloat_store::Compression::None {
        return Ok(None);
    }
    let outline =
        Outline::of(&options.source).map_err(|source| refloat_store::InputError::Read {
            name: input.name().to_owned(),
            at: 0,
            source,
        })?;
    if let Some(outline) = &outline
        && outline.header
        && !outline.completed
        && !options.accept_missing_trailer
    {
        let offset = input.total_bytes().unwrap_or(0);
        return Err(LoadError::MissingTrailer {
            file: input.name().to_owned(),
            offset,
        });
    }
    Ok(outline)
}

/// Looks at the server: may this account do it, is there room for it, and what is the fastest way?
pub fn look_at_server(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: Option<Outline>,
) -> Result<Preflight, LoadError> {
    let server = |error| LoadError::server("looking at the server", error);
    let mut refusals = Vec::new();
    if facts.is_on("read_only")
        && !facts.may(&[
            "SUPER",
            "CONNECTION_ADMIN",
            "READ ONLY ADMIN",
            "READ_ONLY ADMIN",
        ])
        || facts.is_on("super_read_only")
    {
        refusals.push(Refusal {
            reason: "the server is read-only".to_owned(),
            hint: "Load into the primary, or set read_only (and super_read_only) off.".to_owned(),
        });
    }
    let mut databases: Vec<String> = outline
        .iter()
        .flat_map(|outline| outline.databases.iter().cloned())
        .collect();
    databases.extend(
        options
            .database
            .clone()
            .or_else(|| options.target.database.clone()),
    );
    databases.sort();
    databases.dedup();
    refusals.extend(privileges(options, conn, &databases, outline.as_ref()).map_err(server)?);
    if options.system_schema == SystemSchemaMode::Refuse
        && databases.iter().any(|name| name == "mysql")
    {
        refusals.push(Refusal::system_schema("mysql"));
    }
    refusals.extend(not_empty(options, conn, &databases, outline.as_ref()).map_err(server)?);
    let (write_path, advice) = choose_path(options, conn, facts, &mut refusals);
    if !refusals.is_empty() {
        return Err(LoadError::Refused(refusals));
    }
    let empty_server = holds_nothing_else(conn).map_err(server)?;
    let server_is_local =
        ServerProbe::find(&conn.identity().hostname, conn.identity().port).is_some();
    Ok(Preflight {
        outline,
        write_path,
        advice,
        empty_server,
        server_is_local,
    })
}

/// The fastest path that is allowed.
fn choose_path(
    options: &LoadOptions,
    conn: &Connection,
    facts: &Facts,
    refusals: &mut Vec<Refusal>,
) -> (WritePath, Vec<String>) {
    let local_infile = facts.is_on("local_infile");
    let bulk = conn.server().has_bulk;
    let mut advice = Vec::new();
    let path = match options.write_path {
        WritePath::Auto if bulk => WritePath::Bulk,
        WritePath::Auto if local_infile => WritePath::LoadData,
        WritePath::Auto => {
            advice.push(
                "rows go as INSERT text because local_infile is off on the server; LOAD DATA is about 3 times as fast: \
                 SET GLOBAL local_infile = ON allows it (or --durability relaxed, which switches it on for the load and off again)"
                    .to_owned(),
            );
            WritePath::Insert
        }
        WritePath::Bulk if !bulk => {
            refusals.push(Refusal {
                reason: "the server has no array-bound insert (it is MariaDB's, since 10.2)"
                    .to_owned(),
                hint: "Use --write-path auto.".to_owned(),
            });
            WritePath::Bulk
        }
        WritePath::LoadData if !local_infile => {
            refusals.push(Refusal {
                reason: "local_infile is off on the server, so it refuses LOAD DATA LOCAL"
                    .to_owned(),
                hint: "SET GLOBAL local_infile = ON allows it; --write-path auto takes what works."
                    .to_owned(),
            });
            WritePath::LoadData
        }
        other => other,
    };
    (path, advice)
}

/// Names every privilege that is missing on the databases.
fn privileges(
    options: &LoadOptions,
    conn: &mut Connection,
    databases: &[String],
    outline: Option<&Outline>,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let grants = Grants::read(conn)?;
    let mut needed = vec!["SELECT", "INSERT"];
    let defines = outline.is_none_or(|outline| outline.tables > 0);
    if defines {
        needed.extend(["CREATE", "DROP", "ALTER", "REFERENCES"]);
        if options.indexes == IndexMode::Deferred {
            needed.push("INDEX");
        }
    }
    if let Some(outline) = outline {
        for (has, privilege) in [
            (outline.triggers, "TRIGGER"),
            (outline.routines, "CREATE ROUTINE"),
            (outline.routines, "ALTER ROUTINE"),
            (outline.events, "EVENT"),
            (outline.views, "CREATE VIEW"),
        ] {
            if has {
                needed.push(privilege);
            }
        }
    }
    let mut refusals = Vec::new();
    for database in databases {
        let missing: Vec<&str> = needed
            .iter()
            .copied()
            .filter(|privilege| !grants.has(privilege, database))
            .collect();
        if !missing.is_empty() {
            refusals.push(Refusal {
                reason: format!(
                    "the account {} lacks {} on database {database}",
                    grants.account,
                    missing.join(", ")
                ),
                hint: format!(
                    "GRANT {} ON {}.* TO {};",
                    missing.join(", "),
                    quote_ident(database),
                    grants.account
                ),
            });
        }
    }
    Ok(refusals)
}

/// Privileges of the account, as `SHOW GRANTS` tells them.
struct Grants {
    account: String,
    /// Privileges and the scope they hold for: `*` or a database pattern.
    list: Vec<(Vec<String>, String)>,
}

impl Grants {
    fn read(conn: &mut Connection) -> Result<Self, refloat_wire::Error> {
        let account = conn
            .query_value("SELECT CURRENT_USER()")?
            .unwrap_or_default();
        let account = account
            .split_once('@')
            .map_or(account.clone(), |(user, host)| format!("'{user}'@'{host}'"));
        let mut list = Vec::new();
        // Roles that are active count too; MySQL tells their privileges only when it is asked with USING.
        let mut statement = "SHOW GRANTS".to_owned();
        if conn.server().vendor == Vendor::MySql
            && let Some(roles) = conn
                .query_value("SELECT CURRENT_ROLE()")?
                .filter(|roles| roles != "NONE")
        {
            statement = format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}");
        }
        let result = conn.query(statement)?;
        for line in result.texts(0) {
            let Some(rest) = line.strip_prefix("GRANT ") else {
                continue;
            };
            let Some((privileges, rest)) = rest.split_once(" ON ") else {
                continue;
            };
            let Some((scope, _)) = rest.split_once(" TO ") else {
                continue;
            };
            let Some((database, "*")) = scope.rsplit_once('.') else {
                continue;
            };
            let database = database.trim_matches('`').replace("``", "`");
            let privileges = privileges
                .split(", ")
                .map(|one| one.trim().to_ascii_uppercase())
                .collect();
            list.push((privileges, database));
        }
        Ok(Self { account, list })
    }

    fn has(&self, privilege: &str, database: &str) -> bool {
        self.list.iter().any(|(privileges, scope)| {
            (scope == "*" || like(scope.as_bytes(), database.as_bytes()))
                && privileges
                    .iter()
                    .any(|one| one == privilege || one == "ALL PRIVILEGES" || one == "ALL")
        })
    }
}

/// `LIKE` as grants use it: `%`, `_`, and a backslash before either.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'%', rest)) => (0..=text.len()).any(|skip| like(rest, &text[skip..])),
        Some((b'\\', rest)) if !rest.is_empty() => {
            text.first() == rest.first() && like(&rest[1..], &text[1..])
        }
        Some((b'_', rest)) => !text.is_empty() && like(rest, &text[1..]),
        Some((byte, rest)) => text.first() == Some(byte) && like(rest, &text[1..]),
    }
}

/// Databases of the dump that already hold tables.
fn not_empty(
    options: &LoadOptions,
    conn: &mut Connection,
    databases: &[String],
    outline: Option<&Outline>,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    if options.existing != ExistingPolicy::Refuse
        || outline.is_none_or(|outline| outline.tables == 0)
    {
        return Ok(refusals);
    }
    for database in databases.iter().filter(|database| *database != "mysql") {
        let result = match conn.query(format!("SHOW FULL TABLES FROM {}", quote_ident(database))) {
            Ok(result) => result,
            // It does not exist, or the account has no privilege on it at all, which is named already.
            Err(error) if matches!(error.server_code(), Some(1049 | 1044)) => continue,
            Err(error) => return Err(error),
        };
        if !result.is_empty() {
            let names: Vec<&str> = result.texts(0).collect();
            refusals.push(Refusal::not_empty(database, &names));
        }
    }
    Ok(refusals)
}

/// Whether no database has a table yet, those of the dump included: then nobody's durability is at stake.
fn holds_nothing_else(conn: &mut Connection) -> Result<bool, refloat_wire::Error> {
    let result = conn.query("SHOW DATABASES")?;
    for name in result.texts(0) {
        if is_system_database(name) || name == "refloat" {
            continue;
        }
        if !conn
            .query(format!("SHOW TABLES FROM {}", quote_ident(name)))?
            .is_empty()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The connection that runs the dump's own statements: its session is the stock client's, not ours.
pub fn control_connection(options: &LoadOptions, conn: &mut Connection) -> Result<(), LoadError> {
    let failed = |error| LoadError::server("preparing the session of the dump", error);
    let mode = conn
        .query_value("SELECT @@global.sql_mode")
        .map_err(failed)?
        .unwrap_or_default();
    init_session(conn, false).map_err(failed)?;
    // A dump without a header runs under the server's own sql_mode, as it would with the stock client.
    conn.exec(format!(
        "SET SESSION sql_mode = '{}'",
        mode.replace('\'', "''")
    ))
    .map_err(failed)?;
    if let Some(database) = &options.database {
        let name = quote_ident(database);
        conn.exec(format!("CREATE DATABASE IF NOT EXISTS {name}"))
            .map_err(failed)?;
        conn.exec(format!("USE {name}")).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_match_databases_by_pattern() {
        assert!(like(b"shop", b"shop"));
        assert!(like(br"tort\_%", b"tort_1"));
        assert!(!like(br"tort\_%", b"tortx1"));
        assert!(like(b"%", b"anything"));
        assert!(like(b"a_c", b"abc"));
        assert!(!like(b"a_c", b"ac"));
        assert!(!like(br"a\_", b"a"));
    }
}
