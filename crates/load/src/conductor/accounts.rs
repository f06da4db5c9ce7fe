//! Accounts that exist already: `CREATE USER IF NOT EXISTS` leaves them unchanged, which users of a
//! dump would not expect.

use refloat_schema::accounts::{Creation, altered, created_if_not_there, split_default_role};
use refloat_sqltext::{ItemKind, StatementKind};
use refloat_wire::Vendor;

use super::catalog::Catalog;
use super::dialogue::Dialogue;
use super::findings::Findings;
use super::here::Here;
use crate::error::LoadError;
use crate::outcome::LoadWarning;

/// The note about an existing account, in MySQL and in MariaDB.
const ACCOUNT_EXISTS: [u16; 2] = [3163, 1973];
/// The first MySQL version that can show hashes the way `refloat dump` writes them.
const HEX_SINCE: (u16, u16, u16) = (8, 0, 17);

/// What a statement that creates an account would find on the server.
pub struct Met {
    creation: Creation,
    /// The server's definition of the existing account. `None` if there is no such account or the
    /// server does not show it.
    there: Option<String>,
}

impl Findings {
    /// Whether a statement changes an account that existed and was left unchanged: the second half
    /// of a definition that takes two statements.
    pub fn alters_left_account(
        &self,
        text: &[u8],
        dialogue: &mut Dialogue,
    ) -> Result<bool, LoadError> {
        if self.accounts_left.is_empty() {
            return Ok(false);
        }
        let mode = dialogue.session()?.lex_mode();
        Ok(altered(text, mode).is_some_and(|name| self.accounts_left.contains(&name)))
    }

    /// Warns about an existing account that may differ from the dump's. The statement is not shown,
    /// because it contains the password.
    pub fn warn_of_existing_account(
        &mut self,
        catalog: &Catalog,
        met: &Met,
        codes: &[u16],
        line: u64,
    ) {
        let note = codes.iter().find(|code| ACCOUNT_EXISTS.contains(code));
        let wanted = &met.creation.definition;
        let same = met.there.as_deref().is_some_and(|there| {
            split_default_role(there).0 == split_default_role(wanted).0
                || plain(there) == plain(wanted)
        });
        if same || (note.is_none() && met.there.is_none()) {
            return;
        }
        let code = note.copied();
        self.leave_account(catalog, met.creation.name.clone(), code, line);
    }

    /// Leaves an account unchanged, along with every statement that would change it, and warns
    /// about it. `code` is the server's note, if it gave one.
    pub fn leave_account(
        &mut self,
        catalog: &Catalog,
        account: String,
        code: Option<u16>,
        line: u64,
    ) {
        let of_vendor = match catalog.server().vendor {
            Vendor::MySql => ACCOUNT_EXISTS[0],
            Vendor::MariaDb => ACCOUNT_EXISTS[1],
        };
        catalog.ctx.warn(LoadWarning {
            about: format!("line {line}: account {account}"),
            code: code.unwrap_or(of_vendor),
            message:
                "already existed and was left as it is: its password, plugin, locks or limits \
                may differ from those in the dump"
                    .to_owned(),
        });
        if !self.accounts_left.contains(&account) {
            self.accounts_left.push(account);
        }
    }
}

impl Catalog {
    /// Looks up the account of a statement that creates it only if missing. The server's notes are
    /// not enough, because dumps switch them off.
    pub fn meets_account(
        &mut self,
        here: Here<'_>,
        dialogue: &mut Dialogue,
    ) -> Result<Option<Met>, LoadError> {
        if !matches!(here.item.kind, ItemKind::Statement(StatementKind::Account)) {
            return Ok(None);
        }
        let mode = dialogue.session()?.lex_mode();
        let Some(creation) = created_if_not_there(here.text, mode) else {
            return Ok(None);
        };
        let failed = |error| LoadError::server("looking for an account", error);
        if self.server().is_mysql_since(HEX_SINCE) {
            self.conn
                .exec("SET SESSION print_identified_with_as_hex = ON")
                .map_err(failed)?;
        }
        let there = match self
            .conn
            .query_value(format!("SHOW CREATE USER {}", creation.name))
        {
            Ok(there) => there,
            // Usually there is no such account. If ours may not see it, only the note can tell.
            Err(error) if error.server_code().is_some() && !error.is_lost_connection() => None,
            Err(error) => return Err(failed(error)),
        };
        Ok(Some(Met { creation, there }))
    }
}

/// A definition without the backslashes in its literals: MySQL shows certificate names without
/// them, dumps write them.
fn plain(definition: &str) -> String {
    definition.replace("\\\\", "\\").replace("\\'", "'")
}
