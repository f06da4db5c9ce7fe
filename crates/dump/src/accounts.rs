//! Accounts, roles and grants as SQL statements.

mod objects;
mod omitted;

use std::fmt::Write as _;

use refloat_schema::accounts::{grant_alone, split_default_role, with_literal};
use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, ResultSet, Vendor};

use super::error::DumpError;
use objects::Objects;
use omitted::UnshownParts;

/// Names of the server's own accounts, all at [`INTERNAL_HOST`].
const INTERNAL: &[&str] = &[
    "mysql.sys",
    "mysql.session",
    "mysql.infoschema",
    "mariadb.sys",
];
/// Host of the server's own accounts. The same names with other hosts may be users' accounts.
const INTERNAL_HOST: &str = "localhost";
/// MariaDB's `PUBLIC` (10.11 and newer). It is listed among the roles once it has a grant.
const EVERYBODY: &str = "PUBLIC";

/// Certificate requirements in a definition, in the order of [`Account::certificate`].
const CERTIFICATE: [&str; 3] = ["CIPHER", "ISSUER", "SUBJECT"];

/// An account or role.
struct Account {
    user: String,
    host: String,
    role: bool,
    /// Required values of [`CERTIFICATE`]; empty if the server shows them as proper literals.
    certificate: [String; 3],
}

impl Account {
    /// Whether this is MariaDB's `PUBLIC`, which has grants but is never created. An account may
    /// also have that name.
    fn is_everybody(&self, vendor: Vendor) -> bool {
        self.role && vendor == Vendor::MariaDb && self.user == EVERYBODY
    }

    /// The name as statements write it. MariaDB's roles have no host.
    fn quoted(&self, vendor: Vendor) -> String {
        if self.is_everybody(vendor) {
            // Quoted, it would be a role of that name.
            EVERYBODY.to_owned()
        } else if self.role && vendor == Vendor::MariaDb {
            quote_ident(&self.user)
        } else {
            format!("{}@{}", quote_ident(&self.user), quote_ident(&self.host))
        }
    }
}

/// How to query accounts on a given server version.
#[derive(Debug, PartialEq, Eq)]
struct Asking {
    /// Whether `print_identified_with_as_hex` exists. Hashes hold bytes that a text file cannot
    /// keep.
    hex: bool,
    /// Lists all accounts, roles first and marked with 1. The columns after that are those of
    /// [`CERTIFICATE`], if the server does not show them as literals.
    list: &'static str,
    /// Whether `SHOW CREATE USER` exists. Without it, the grants carry the password.
    creation: bool,
}

impl Asking {
    fn of(vendor: Vendor, version: (u16, u16, u16)) -> Self {
        match vendor {
            Vendor::MariaDb => Self {
                hex: false,
                list: "SELECT User, Host, is_role = 'Y' FROM mysql.user ORDER BY is_role = 'Y' DESC, User, Host",
                creation: version >= (10, 2, 0),
            },
            Vendor::MySql if version < (8, 0, 0) => Self {
                hex: false,
                list: "SELECT User, Host, 0, ssl_cipher, x509_issuer, x509_subject FROM mysql.user ORDER BY User, Host",
                creation: true,
            },
            Vendor::MySql => Self {
                hex: version >= (8, 0, 17),
                // MySQL's roles are accounts. Those granted to others come first.
                list: "SELECT User, Host, EXISTS(SELECT 1 FROM mysql.role_edges WHERE FROM_USER = User AND FROM_HOST = Host), \
                       ssl_cipher, x509_issuer, x509_subject \
                       FROM mysql.user ORDER BY 3 DESC, User, Host",
                creation: true,
            },
        }
    }
}

/// Statements that create all accounts except the server's own, and notes about what they leave
/// out.
pub fn read(conn: &mut Connection) -> Result<(Vec<u8>, Vec<String>), DumpError> {
    let failed = |error| DumpError::server("reading accounts", error);
    let vendor = conn.server().vendor;
    let asking = Asking::of(vendor, conn.server().version);
    if asking.hex {
        conn.exec("SET SESSION print_identified_with_as_hex = ON")
            .map_err(failed)?;
    }
    let list = conn.query(asking.list).map_err(failed)?;
    let mut accounts = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        let user = text(&list, (row, 0), "the name of an account")?;
        let mut certificate = <[String; 3]>::default();
        for (column, value) in (3..list.columns.len()).zip(&mut certificate) {
            let what = format!("the certificate of {user}");
            text(&list, (row, column), &what)?.clone_into(value);
        }
        let account = Account {
            certificate,
            host: text(&list, (row, 1), &format!("the host of {user}"))?.to_owned(),
            user: user.to_owned(),
            role: list.u64(row, 2) == Some(1),
        };
        if !INTERNAL.contains(&account.user.as_str()) || account.host != INTERNAL_HOST {
            accounts.push(account);
        }
    }
    let unshown = UnshownParts::read(conn)?;
    let mut sql = String::from("SET NAMES utf8mb4;\n");
    let mut defaults = String::new();
    let mut notes = Vec::new();
    for account in accounts.iter().filter(|one| !one.is_everybody(vendor)) {
        let name = account.quoted(vendor);
        if account.role && vendor == Vendor::MariaDb {
            let _ = writeln!(sql, "CREATE ROLE IF NOT EXISTS {name};");
            continue;
        }
        if !asking.creation {
            let _ = writeln!(sql, "CREATE USER IF NOT EXISTS {name};");
            continue;
        }
        let create = conn
            .query(format!("SHOW CREATE USER {name}"))
            .map_err(failed)?;
        let what = format!("the definition of {name}");
        let mut shown = text(&create, (0, 0), &what)?.to_owned();
        for (word, value) in CERTIFICATE.iter().zip(&account.certificate) {
            shown = with_literal(&shown, word, value);
        }
        let (created, default_role) = split_default_role(&shown);
        let created = created.replacen("CREATE USER ", "CREATE USER IF NOT EXISTS ", 1);
        let _ = writeln!(sql, "{created};");
        // MariaDB returns separate statements for an expired account and for its expiry interval.
        for row in 1..create.len() {
            let _ = writeln!(sql, "{};", text(&create, (row, 0), &what)?);
        }
        sql += &unshown.statements((&account.user, &account.host), &name);
        if let Some(roles) = default_role {
            let _ = writeln!(defaults, "ALTER USER {name} DEFAULT ROLE {roles};");
        }
    }
    let mut objects = Objects::default();
    for account in &accounts {
        let name = account.quoted(vendor);
        let grants: ResultSet = match conn.query(format!("SHOW GRANTS FOR {name}")) {
            Ok(grants) => grants,
            Err(error) if error.server_code().is_some() => {
                notes.push(format!("grants of {name} are not in the dump: {error}"));
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        for row in 0..grants.len() {
            let grant = text(&grants, (row, 0), &format!("a grant of {name}"))?;
            if let Some(gone) = objects.missing(conn, grant)? {
                let grant = grant_alone(grant);
                notes.push(format!(
                    "{gone} does not exist, so a grant on it is not in the dump: {grant}"
                ));
                continue;
            }
            match grant.strip_prefix("SET DEFAULT ROLE ") {
                // MariaDB lists it among the grants. It must run after all roles are granted.
                Some(rest) => {
                    let _ = writeln!(defaults, "SET DEFAULT ROLE {rest};");
                }
                None if asking.creation => {
                    let _ = writeln!(sql, "{};", grant_alone(grant));
                }
                None => {
                    let _ = writeln!(sql, "{grant};");
                }
            }
        }
    }
    sql += &defaults;
    Ok((sql.into_bytes(), notes))
}

/// A cell that must be text. Skipping or changing one that is not would lose it silently.
fn text<'r>(
    result: &'r ResultSet,
    (row, column): (usize, usize),
    what: &str,
) -> Result<&'r str, DumpError> {
    result.str(row, column).ok_or_else(|| DumpError::NoText {
        what: what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_what_it_knows() {
        use Vendor::{MariaDb, MySql};
        for (vendor, version, hex, roles, creation) in [
            (MySql, (5, 7, 44), false, false, true),
            (MySql, (8, 0, 0), false, true, true),
            (MySql, (8, 0, 16), false, true, true),
            (MySql, (8, 0, 17), true, true, true),
            (MySql, (9, 7, 0), true, true, true),
            (MariaDb, (10, 1, 23), false, false, false),
            (MariaDb, (10, 2, 0), false, false, true),
            (MariaDb, (11, 8, 6), false, false, true),
        ] {
            let asking = Asking::of(vendor, version);
            let edges = asking.list.contains("mysql.role_edges");
            let is_role = asking.list.contains("is_role");
            assert_eq!(
                (asking.hex, edges, is_role, asking.creation),
                (hex, roles, vendor == MariaDb, creation),
                "{vendor} {version:?}"
            );
        }
    }

    #[test]
    fn what_is_no_text_is_never_left_out() {
        let result = ResultSet {
            rows: vec![vec![
                Some(b"caf\xe9".to_vec()),
                None,
                Some(b"cafe".to_vec()),
            ]],
            ..ResultSet::default()
        };
        for cell in [(0, 0), (0, 1), (1, 0)] {
            let error = text(&result, cell, "a grant of `x`").unwrap_err();
            assert_eq!(
                error.to_string(),
                "the server returns a grant of `x` as text that is not UTF-8, so it cannot be dumped"
            );
        }
        assert_eq!(text(&result, (0, 2), "x").unwrap(), "cafe");
    }
}
