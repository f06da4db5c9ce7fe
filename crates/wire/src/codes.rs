//! Numbers of server errors that several rooms tell apart, by their names in the server's
//! `errmsg` files. [`crate::Error`] groups others by what they mean.

/// `ER_BAD_DB_ERROR`: there is no such database, perhaps no longer.
pub const UNKNOWN_DATABASE: u16 = 1049;
/// `ER_DUP_ENTRY`: a value that a unique key has already; as a warning, a row that `INSERT IGNORE`
/// leaves out.
pub const DUPLICATE_ENTRY: u16 = 1062;
/// `ER_PARSE_ERROR`: also a statement that this server does not have.
pub const PARSE_ERROR: u16 = 1064;
/// `ER_NO_SUCH_TABLE`: there is no such table, perhaps no longer.
pub const NO_SUCH_TABLE: u16 = 1146;
/// `ER_UNKNOWN_SYSTEM_VARIABLE`: the server, or its version, does not have the variable.
pub const UNKNOWN_VARIABLE: u16 = 1193;
/// `ER_LOCK_WAIT_TIMEOUT`: also a read that waited too long for `wsrep_sync_wait`.
pub const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_WRONG_VALUE_FOR_VAR`: a variable does not take the value.
pub const WRONG_VALUE_FOR_VAR: u16 = 1231;
