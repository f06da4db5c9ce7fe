//! Accounts, roles and grants, as statements.

mod objects;
mod unshown;

use std::fmt::Write as _;

use refloat_schema::accounts::{grant_alone, split_default_role, with_literal};
use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, ResultSet, Vendor};

use super::error::DumpError;
use objects::Objects;
use unshown::UnshownParts;

/// Accounts that belong to the server itself, all of [`INTERNAL_HOST`].
const INTERNAL: &[&str] = &[
    "mysql.sys",
    "mysql.session",
    "mysql.infoschema",
    "mariadb.sys",
];
/// The host of the server's own accounts: somebody may have others of these names.
const INTERNAL_HOST: &str = "localhost";
/// MariaDB's name for everybody (10.11 and newer), which is listed among the roles once something is granted to it.
const EVERYBODY: &str = "PUBLIC";

/// What a definition asks of a certificate, in the order of [`Account::certificate`].
const CERTIFICATE: [&str; 3] = ["CIPHER", "ISSUER", "SUBJECT"];

/// An account or role.
struct Account {
    user: String,
    host: String,
    role: bool,
    /// What its certificate has to be; nothing of it where the server shows that in a way that can be read.
    certificate: [String; 3],
}

impl Account {
    /// Whether it is MariaDB's word for everybody, which has grants and is never created. An account may be called so too.
    fn is_everybody(&self, vendor: Vendor) -> bool {
        self.role && vendor == Vendor::MariaDb && self.user == EVERYBODY
    }

    /// As statements name it. MariaDB's roles have no host.
    fn quoted(&self, vendor: Vendor) -> String {
        if self.is_everybody(vendor) {
            // In quotes it would be a role of that name.
            EVERYBODY.to_owned()
        } else if self.role && vendor == Vendor::MariaDb {
            quote_ident(&self.user)
        } else {
            format!("{}@{}", quote_ident(&self.user), quote_ident(&self.host))
        }
    }
}

/// How a server of some version is asked about its accounts.
#[derive(Debug, PartialEq, Eq)]
struct Asking {
    /// `print_identified_with_as_hex` is there: hashes hold bytes that no text file keeps.
    hex: bool,
    /// All accounts, with 1 for roles, which come first; then what [`CERTIFICATE`] names, where the server shows that as no literal.
    list: &'static str,
    /// `SHOW CREATE USER` is there. Without it the grants tell the password too.
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
                // A role of MySQL is an account: one that is granted comes first.
                list: "SELECT User, Host, EXISTS(SELECT 1 FROM mysql.role_edges WHERE FROM_USER = User AND FROM_HOST = Host), \
                       ssl_cipher, x509_issuer, x509_subject \
                       FROM mysql.user ORDER BY 3 DESC, User, Host",
                creation: true,
            },
        }
    }
}

/// Statements that create all accounts but the server's own, and notes about what is not among them.
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
        // MariaDB tells of an account that is expired, and of when it would have expired by itself, in two statements.
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
                    "{gone} is not there, so a grant on it is not in the dump: {grant}"
                ));
                continue;
            }
            match grant.strip_prefix("SET DEFAULT ROLE ") {
                // MariaDB writes it among the grants; it comes when all roles are granted.
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

/// A cell that has to be text: what is left out or changed here would be missing in silence.
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
                "the server shows a grant of `x` as what is no UTF-8 text, so it cannot be dumped"
            );
        }
        assert_eq!(text(&result, (0, 2), "x").unwrap(), "cafe");
    }
}
