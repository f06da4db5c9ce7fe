//! Privileges of the account, as the server itself lists them.
//!
//! Privileges of active roles count like the account's own. MariaDB lists them by default, MySQL
//! only if the roles are named in the query. Roles that are granted but not active do not count:
//! later connections do not have them active either.

use std::collections::BTreeSet;

use refloat_wire::{Connection, Error as WireError, Vendor};

/// All privileges at once, as `SHOW GRANTS` writes it.
const ALL: &str = "ALL PRIVILEGES";

/// Privileges of an account, with names in upper case.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    user: String,
    host: String,
    role: Option<String>,
    global: BTreeSet<String>,
    limited: Vec<Limited>,
    /// MySQL's partial revokes: what the global privileges do not give on one database.
    revoked: Vec<Limited>,
    /// Database names in grants are names, not patterns (MySQL with `partial_revokes`).
    literal: bool,
    /// Names that differ only in case are the same (`lower_case_table_names`).
    fold: bool,
}

/// Privileges on a database or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limited {
    privileges: BTreeSet<String>,
    database: String,
    table: Option<String>,
}

impl Limited {
    fn gives(&self, privilege: &str) -> bool {
        self.privileges.contains(privilege) || self.privileges.contains(ALL)
    }
}

impl Grants {
    /// Queries the server. Changes nothing.
    pub fn read(conn: &mut Connection) -> Result<Self, WireError> {
        let account = conn
            .query_value("SELECT CURRENT_USER()")?
            .unwrap_or_default();
        let (user, host) = account.rsplit_once('@').unwrap_or((&account, "%"));
        let role = match conn.query_value("SELECT CURRENT_ROLE()") {
            Ok(role) => role.filter(|role| role != "NONE" && !role.is_empty()),
            // The server is older than roles.
            Err(error) if error.server_code().is_some() && !error.is_lost_connection() => None,
            Err(error) => return Err(error),
        };
        let statement = match &role {
            Some(roles) if conn.server().vendor == Vendor::MySql => {
                format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}")
            }
            _ => "SHOW GRANTS".to_owned(),
        };
        let mut grants = Self {
            user: user.to_owned(),
            host: host.to_owned(),
            role,
            ..Self::default()
        };
        for line in conn.query(statement)?.texts(0) {
            grants.take(line);
        }
        Ok(grants)
    }

    /// The privileges that these lines of `SHOW GRANTS` give.
    pub(crate) fn of_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut grants = Self::default();
        lines.for_each(|line| grants.take(line));
        grants
    }

    /// An account with these global privileges, and no others.
    pub fn on_everything<'a>(privileges: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            global: privileges
                .into_iter()
                .map(str::to_ascii_uppercase)
                .collect(),
            ..Self::default()
        }
    }

    /// Sets how the server reads names in grants: `literal` means no patterns, `fold` means
    /// regardless of case.
    #[must_use]
    pub fn with_names(mut self, literal: bool, fold: bool) -> Self {
        (self.literal, self.fold) = (literal, fold);
        self
    }

    /// The account as a statement names it: `'user'@'host'`.
    pub fn account(&self) -> String {
        format!("'{}'@'{}'", self.user.replace('\'', "''"), self.host)
    }

    /// Whether this is the account itself, or its active role.
    pub fn is_own(&self, user: &str, host: &str) -> bool {
        (user == self.user && host.eq_ignore_ascii_case(&self.host))
            || (host.is_empty() && self.role.as_deref() == Some(user))
    }

    /// Whether the account has one of these privileges globally.
    pub fn may(&self, any: &[&str]) -> bool {
        self.global.contains(ALL) || any.iter().any(|one| self.global.contains(*one))
    }

    /// Whether the account has the privilege on a whole database.
    pub fn on_database(&self, privilege: &str, database: &str) -> bool {
        let taken = self
            .revoked
            .iter()
            .any(|one| one.gives(privilege) && self.same(&one.database, database));
        (!taken && self.may(&[privilege]))
            || self.limited.iter().any(|one| {
                one.table.is_none() && one.gives(privilege) && self.means(&one.database, database)
            })
    }

    /// Whether the account has the privilege on a table, granted on the table or more widely.
    pub fn on_table(&self, privilege: &str, database: &str, table: &str) -> bool {
        self.on_database(privilege, database)
            || self.limited.iter().any(|one| {
                let same = |name: &String| self.same(name, table);
                one.table.as_ref().is_some_and(same)
                    && one.gives(privilege)
                    && self.same(&one.database, database)
            })
    }

    /// Whether the account reads every table of every database.
    pub fn reads_everything(&self) -> bool {
        self.revoked.is_empty() && self.may(&["SELECT"])
    }

    /// Whether the account sees the names of all databases. A global SELECT shows them too, except
    /// those of databases on which it was revoked.
    pub fn sees_all_databases(&self) -> bool {
        self.revoked.is_empty() && self.may(&["SELECT", "SHOW DATABASES"])
    }

    fn same(&self, one: &str, other: &str) -> bool {
        one == other || (self.fold && one.to_lowercase() == other.to_lowercase())
    }

    /// Whether a grant's database matches this one.
    fn means(&self, granted: &str, database: &str) -> bool {
        if self.literal {
            let name = granted.replace("\\_", "_").replace("\\%", "%");
            return self.same(&name, database);
        }
        if self.fold {
            let (granted, database) = (granted.to_lowercase(), database.to_lowercase());
            return like(granted.as_bytes(), database.as_bytes());
        }
        like(granted.as_bytes(), database.as_bytes())
    }

    /// Adds a line of `SHOW GRANTS`.
    fn take(&mut self, line: &str) {
        let (revoked, rest) = match (line.strip_prefix("GRANT "), line.strip_prefix("REVOKE ")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return,
        };
        // A line without ON grants a role, whose privileges have lines of their own.
        let Some((list, scope)) = rest.split_once(" ON ") else {
            return;
        };
        let privileges: BTreeSet<String> = split(list)
            .map(|one| match one.trim().to_ascii_uppercase() {
                all if all == "ALL" => ALL.to_owned(),
                one => one,
            })
            .collect();
        if scope.starts_with("*.*") {
            if !revoked {
                self.global.extend(privileges);
            }
            return;
        }
        let scope = scope.strip_prefix("TABLE ").unwrap_or(scope);
        // Grants on routines and proxies start with a keyword.
        let Some((database, rest)) = quoted(scope) else {
            return;
        };
        let table = match rest.strip_prefix('.') {
            Some(rest) if rest.starts_with('*') => None,
            Some(rest) => match quoted(rest) {
                Some((table, _)) => Some(table),
                None => return,
            },
            None => return,
        };
        let one = Limited {
            privileges,
            database,
            table,
        };
        if revoked {
            self.revoked.push(one);
        } else {
            self.limited.push(one);
        }
    }
}

/// Splits a list of privileges. The columns that a privilege is limited to stay with it.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    list.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// A quoted name at the start of `text`, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '`' | '"'))?;
    let mut name = String::new();
    let mut rest = text[1..].char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if c == quote && rest.next_if(|(_, next)| *next == quote).is_none() {
            return Some((name, &text[at + 2..]));
        }
        name.push(c);
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(lines: &[&str]) -> Grants {
        let mut grants = Grants {
            user: "a".into(),
            host: "%".into(),
            ..Grants::default()
        };
        for line in lines {
            grants.take(line);
        }
        grants
    }

    #[test]
    fn grants_of_both_vendors() {
        let found = grants(&[
            "GRANT ALL PRIVILEGES ON `shop`.* TO `a`@`%`",
            "GRANT SELECT, BINLOG ADMIN, PROCESS ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*00'",
            "GRANT SYSTEM_VARIABLES_ADMIN,INNODB_REDO_LOG_ENABLE ON *.* TO `a`@`%`",
            "GRANT `role`@`%` TO `a`@`%`",
            "GRANT EXECUTE ON PROCEDURE `other`.`p` TO `a`@`%`",
            "GRANT PROXY ON ''@'%' TO 'a'@'%' WITH GRANT OPTION",
        ]);
        for one in [
            "SELECT",
            "BINLOG ADMIN",
            "PROCESS",
            "SYSTEM_VARIABLES_ADMIN",
            "INNODB_REDO_LOG_ENABLE",
        ] {
            assert!(found.may(&[one]), "{one}");
        }
        assert!(!found.may(&["INSERT"]), "all on one database is not all");
        assert!(found.on_database("INSERT", "shop") && !found.on_database("INSERT", "shop2"));
        assert!(!found.on_database("EXECUTE", "other"));
        assert!(found.is_own("a", "%") && !found.is_own("a", "localhost"));
    }

    #[test]
    fn grants_on_tables_are_no_grants_on_databases() {
        let found = grants(&[
            "GRANT SELECT, INSERT (`a`, `b`), UPDATE ON `d``b TO x`.`t.1` TO `a`@`%`",
            "GRANT CREATE ON \"ansi\".\"t\" TO \"a\"@\"%\"",
        ]);
        assert!(found.on_table("SELECT", "d`b TO x", "t.1"));
        assert!(found.on_table("UPDATE", "d`b TO x", "t.1"));
        assert!(!found.on_table("INSERT", "d`b TO x", "t.1"), "two columns");
        assert!(!found.on_table("SELECT", "d`b TO x", "t"));
        assert!(!found.on_database("SELECT", "d`b TO x"));
        assert!(found.on_table("CREATE", "ansi", "t"));
    }

    #[test]
    fn what_is_revoked_on_one_database_is_missing_there() {
        let lines = [
            "GRANT SELECT, INSERT ON *.* TO `a`@`%`",
            "GRANT SELECT ON `x_y`.* TO `a`@`%`",
            "REVOKE SELECT, INSERT ON `shop`.* FROM `a`@`%`",
        ];
        let found = grants(&lines).with_names(true, false);
        assert!(found.may(&["INSERT"]) && found.on_database("INSERT", "other"));
        assert!(!found.on_database("INSERT", "shop"));
        assert!(!found.on_table("SELECT", "shop", "t"));
        assert!(!found.sees_all_databases() && grants(&lines[..2]).sees_all_databases());
        assert!(!found.reads_everything() && grants(&lines[..2]).reads_everything());
        let only = grants(&lines[1..2]).with_names(true, false);
        assert!(only.on_database("SELECT", "x_y") && !only.on_database("SELECT", "x1y"));
        assert!(grants(&lines[1..2]).on_database("SELECT", "x1y"));
    }

    #[test]
    fn grants_match_databases_by_pattern() {
        assert!(like(b"shop", b"shop"));
        assert!(like(br"tort\_%", b"tort_1"));
        assert!(!like(br"tort\_%", b"tortx1"));
        assert!(like(b"%", b"anything"));
        assert!(like(b"a_c", b"abc"));
        assert!(!like(b"a_c", b"ac"));
        assert!(!like(br"a\_", b"a"));
        let folded = grants(&["GRANT SELECT ON `shop%`.* TO `a`@`%`"]).with_names(false, true);
        assert!(folded.on_database("SELECT", "Shop1"));
    }
}
