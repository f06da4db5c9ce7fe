//! Full names of tables, views and programs.

use refloat_sqltext::quote_ident;

/// Database and name.
pub type TableKey = (String, String);

/// Quotes a table, view or routine: `` `database`.`name` ``.
pub fn quoted_name(key: &TableKey) -> String {
    format!("{}.{}", quote_ident(&key.0), quote_ident(&key.1))
}
