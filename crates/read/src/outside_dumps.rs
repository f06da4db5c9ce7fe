//! Counts what a server holds outside its databases. No logical dump contains it, so the user is
//! told in advance.

use refloat_run::settings::Facts;
use refloat_wire::{Connection, Vendor};

use super::error::ReadError;
use super::options::ReadOptions;

/// `ER_XAER_RMERR`: MySQL's answer to an account without `XA_RECOVER_ADMIN`.
const XA_DENIED: u16 = 1401;
/// `ER_NO_SUCH_TABLE`, `ER_UNKNOWN_TABLE`, `ER_BAD_FIELD_ERROR`: this version lacks the table or
/// column.
const NOT_HAD: &[u16] = &[1146, 1109, 1054];

/// Kinds of server-wide objects: vendor (`None` for both), name, and where to count them.
const KINDS: &[(Option<Vendor>, &str, &str)] = &[
    (None, "loadable functions", "mysql.func"),
    (None, "servers of CREATE SERVER", "mysql.servers"),
    (
        None,
        "plugins that were installed",
        "information_schema.PLUGINS WHERE PLUGIN_LIBRARY IS NOT NULL",
    ),
    (Some(Vendor::MySql), "components", "mysql.component"),
    (
        Some(Vendor::MySql),
        "resource groups",
        "information_schema.RESOURCE_GROUPS WHERE RESOURCE_GROUP_NAME NOT IN ('USR_default', 'SYS_default')",
    ),
    (
        Some(Vendor::MySql),
        "spatial reference systems of your own",
        "information_schema.ST_SPATIAL_REFERENCE_SYSTEMS WHERE SRS_ID <> 0 AND COALESCE(ORGANIZATION, '') <> 'EPSG'",
    ),
    (
        Some(Vendor::MySql),
        "histograms",
        "information_schema.COLUMN_STATISTICS",
    ),
    (
        Some(Vendor::MariaDb),
        "statistics of columns (ANALYZE … PERSISTENT)",
        "mysql.column_stats WHERE db_name <> 'mysql'",
    ),
];

/// Notes on what the dump leaves out. Prepared XA transactions are always reported, server-wide
/// objects only when all databases are dumped.
pub fn notes(
    conn: &mut Connection,
    options: &ReadOptions,
    facts: &Facts,
) -> Result<Vec<String>, ReadError> {
    let mut notes: Vec<String> = prepared(conn)?.into_iter().collect();
    if !options.databases.is_empty() || !options.tables.is_empty() {
        return Ok(notes);
    }
    let (mut found, mut hidden) = (Vec::new(), Vec::new());
    for (_, what, source) in KINDS
        .iter()
        .filter(|(vendor, ..)| vendor.is_none_or(|vendor| vendor == facts.vendor))
    {
        match conn.query(format!("SELECT COUNT(*) FROM {source}")) {
            Ok(result) => match result.u64(0, 0) {
                Some(0) | None => {}
                Some(count) => found.push(format!("{count} {what}")),
            },
            Err(error) if error.is_access_denied() => hidden.push(*what),
            Err(error)
                if error
                    .server_code()
                    .is_some_and(|code| NOT_HAD.contains(&code)) => {}
            Err(error) => return Err(ReadError::server(format!("counting {what}"), error)),
        }
    }
    if !found.is_empty() {
        notes.push(format!(
            "the server has more than databases, and this is not in the dump: {}",
            found.join(", ")
        ));
    }
    if !hidden.is_empty() {
        notes.push(format!(
            "the account may not see whether the server has {}; they would not be in the dump",
            hidden.join(", ")
        ));
    }
    Ok(notes)
}

/// Prepared transactions that wait for `XA COMMIT`: their rows are not visible yet. `None` also
/// when the account may not list them.
fn prepared(conn: &mut Connection) -> Result<Option<String>, ReadError> {
    let result = match conn.query("XA RECOVER") {
        Ok(result) => result,
        Err(error) if error.is_access_denied() || error.server_code() == Some(XA_DENIED) => {
            return Ok(None);
        }
        Err(error) => return Err(ReadError::server("listing prepared transactions", error)),
    };
    Ok((!result.is_empty()).then(|| {
        format!(
            "{} prepared XA transactions (XA RECOVER lists them) are not in the dump: what they have written comes only with XA COMMIT",
            result.len()
        )
    }))
}
