//! Account properties that MySQL's `SHOW CREATE USER` omits.
//!
//! These are the password retained in addition to the current one (`RETAIN CURRENT PASSWORD`,
//! 8.0.14 and newer) and, for an expired account, its password lifetime.

use std::collections::HashMap;
use std::fmt::Write as _;

use refloat_wire::{Connection, ResultSet, Vendor};

use super::text;
use crate::error::DumpError;

/// First version that retains passwords.
const RETAINS_SINCE: (u16, u16, u16) = (8, 0, 14);
/// Expression for the hash of the retained password, or NULL.
const RETAINED: &str = "JSON_UNQUOTE(JSON_EXTRACT(User_attributes, '$.additional_password'))";

/// Omitted properties of one account.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Unshown {
    plugin: String,
    /// Hash of the current password, in hexadecimal.
    current: String,
    /// Hash of the previous password, which still works too.
    retained: Option<String>,
    expired: bool,
    /// Password lifetime of an expired account in days. 0 means that it never expires, `None` that
    /// the server's default applies.
    lifetime: Option<u64>,
}

/// Accounts with omitted properties, by user and host.
#[derive(Debug, Default)]
pub struct UnshownParts(HashMap<(String, String), Unshown>);

impl UnshownParts {
    /// Reads them. MariaDB has none.
    ///
    /// # Errors
    /// Server errors, and names that are not text.
    pub fn read(conn: &mut Connection) -> Result<Self, DumpError> {
        if conn.server().vendor != Vendor::MySql {
            return Ok(Self::default());
        }
        let retained = if conn.server().version >= RETAINS_SINCE {
            RETAINED
        } else {
            "NULL"
        };
        let listed = conn
            .query(format!(
                "SELECT User, Host, plugin, HEX(authentication_string), HEX({retained}), password_expired = 'Y', password_lifetime \
                 FROM mysql.user WHERE {retained} IS NOT NULL OR password_expired = 'Y' AND password_lifetime IS NOT NULL"
            ))
            .map_err(|error| DumpError::server("reading passwords of accounts", error))?;
        let all = (0..listed.len()).map(|row| of_row(&listed, row));
        Ok(Self(all.collect::<Result<_, _>>()?))
    }

    /// Statements that restore the properties of an account, written as `name` in SQL. Usually
    /// empty.
    pub fn statements(&self, (user, host): (&str, &str), name: &str) -> String {
        let of = self.0.get(&(user.to_owned(), host.to_owned()));
        of.map_or_else(String::new, |of| of.statements(name))
    }
}

impl Unshown {
    /// The current password keeps working between these statements.
    fn statements(&self, name: &str) -> String {
        let mut sql = String::new();
        let plugin = &self.plugin;
        // Setting a password clears its expiry.
        let expired = if self.expired { " PASSWORD EXPIRE" } else { "" };
        if let Some(retained) = &self.retained {
            for (hash, expired) in [(retained, ""), (&self.current, expired)] {
                let _ = writeln!(
                    sql,
                    "ALTER USER {name} IDENTIFIED WITH '{plugin}' AS 0x{hash} RETAIN CURRENT PASSWORD{expired};"
                );
            }
        }
        let _ = match self.lifetime.filter(|_| self.expired) {
            Some(0) => writeln!(sql, "ALTER USER {name} PASSWORD EXPIRE NEVER;"),
            Some(days) => writeln!(
                sql,
                "ALTER USER {name} PASSWORD EXPIRE INTERVAL {days} DAY;"
            ),
            None => Ok(()),
        };
        sql
    }
}

fn of_row(listed: &ResultSet, row: usize) -> Result<((String, String), Unshown), DumpError> {
    let cell = |column: usize, what: &str| text(listed, (row, column), what).map(str::to_owned);
    let name = (
        cell(0, "the name of an account")?,
        cell(1, "the host of an account")?,
    );
    let what = format!("the passwords of {}", name.0);
    let unshown = Unshown {
        plugin: cell(2, &what)?,
        current: cell(3, &what)?,
        retained: listed.str(row, 4).map(str::to_owned),
        expired: listed.u64(row, 5) == Some(1),
        lifetime: listed.u64(row, 6),
    };
    Ok((name, unshown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_comes_behind() {
        let two = Unshown {
            plugin: "p".to_owned(),
            current: "AB".to_owned(),
            retained: Some("CD".to_owned()),
            ..Unshown::default()
        };
        assert_eq!(
            two.statements("`a`@`b`"),
            "ALTER USER `a`@`b` IDENTIFIED WITH 'p' AS 0xCD RETAIN CURRENT PASSWORD;\n\
             ALTER USER `a`@`b` IDENTIFIED WITH 'p' AS 0xAB RETAIN CURRENT PASSWORD;\n"
        );
        let expired = |lifetime| Unshown {
            expired: true,
            lifetime,
            ..Unshown::default()
        };
        for (lifetime, statement) in [
            (Some(0), "ALTER USER x PASSWORD EXPIRE NEVER;\n"),
            (Some(9), "ALTER USER x PASSWORD EXPIRE INTERVAL 9 DAY;\n"),
            (None, ""),
        ] {
            assert_eq!(expired(lifetime).statements("x"), statement);
        }
    }
}
