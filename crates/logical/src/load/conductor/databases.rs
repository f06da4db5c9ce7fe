//! Databases: creating, altering and dropping them.

use refloat_run::own::is_own_schema;
use refloat_sqltext::Item;
use refloat_wire::Connection;

use super::Conductor;
use super::registry::{TableKey, Touch};
use crate::load::error::LoadError;
use crate::load::options::ExistingPolicy;
use crate::load::programs::literal;

impl Conductor<'_> {
    /// The database that a statement creates or drops, looked at; `None` when it is left out.
    fn own_database(&mut self, database: &[u8], item: &Item) -> Result<Option<String>, LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        self.refuse_other_database(&name, item)?;
        if self.leaves_out(&name)? {
            return Ok(None);
        }
        self.touch(&name, Touch::Define)?;
        Ok(Some(name))
    }

    pub(super) fn create_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let Some(name) = self.own_database(database, item)? else {
            return Ok(());
        };
        self.note_name(&(name.clone(), String::new()))?;
        let keeps = self.place.keeps_databases || self.resumes();
        let kept = keeps && default_collation(&mut self.catalog, &name)?.is_some();
        let created = kept || self.execute(text, item, None)?.is_some();
        if created && self.place.enters {
            self.session = None;
            self.control
                .exec(format!("USE {}", refloat_sqltext::quote_ident(&name)))
                .map_err(|error| LoadError::server(format!("going into database {name}"), error))?;
        }
        Ok(())
    }

    /// `ALTER DATABASE`, which dump tools write around programs whose database had another character set; without a name it is
    /// about the current one.
    pub(super) fn alter_database(
        &mut self,
        database: Option<&[u8]>,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let name = match (database, &self.session()?.database) {
            (Some(name), _) => name.to_vec(),
            (None, Some(current)) => current.clone().into_bytes(),
            // The server says that there is none.
            (None, None) => return self.execute(text, item, None).map(drop),
        };
        let Some(name) = self.own_database(&name, item)? else {
            return Ok(());
        };
        if self.ctx.options.existing == ExistingPolicy::Append && self.held_anything(&name) {
            self.leave_out(text, item);
            return Ok(());
        }
        self.note_collation(&name)?;
        self.altered.insert(name);
        self.execute(text, item, None).map(drop)
    }

    pub(super) fn drop_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let Some(name) = self.own_database(database, item)? else {
            return Ok(());
        };
        self.refuse_same_name(&(name.clone(), String::new()))?;
        // With --append nothing goes, with --replace only what the dump brings anew. Refloat's own tables always stay.
        let keeps = match self.ctx.options.existing {
            _ if is_own_schema(&name) => true,
            ExistingPolicy::Append => true,
            ExistingPolicy::Replace => self.held_anything(&name),
            ExistingPolicy::Refuse => false,
        };
        if keeps {
            self.leave_out(text, item);
            return Ok(());
        }
        self.settle()?;
        self.databases.remove(&name);
        self.created.retain(|one| one.database != name);
        let gone: Vec<TableKey> = self
            .entries
            .iter()
            .filter(|entry| !entry.dropped && entry.table.db == name)
            .map(|entry| (entry.table.db.clone(), entry.table.name.clone()))
            .collect();
        for key in &gone {
            self.forget(key);
        }
        if self.database_begun_behind(&name, item) {
            return Ok(());
        }
        self.session = None;
        self.execute(text, item, None).map(drop)
    }

    /// The collation of a database at this place of the dump, if the dump changes it.
    pub(super) fn altered_collation(
        &mut self,
        database: Option<&str>,
    ) -> Result<Option<String>, LoadError> {
        match database.filter(|database| self.altered.contains(*database)) {
            Some(database) => default_collation(&mut self.catalog, database),
            None => Ok(None),
        }
    }
}

/// The collation that a database gives to what is created in it.
pub(super) fn default_collation(
    conn: &mut Connection,
    database: &str,
) -> Result<Option<String>, LoadError> {
    let sql = format!(
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
        literal(database)
    );
    conn.query_value(sql).map_err(|error| {
        LoadError::server(
            format!("reading the collation of database {database}"),
            error,
        )
    })
}
