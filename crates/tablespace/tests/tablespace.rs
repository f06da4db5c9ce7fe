//! Tests tablespaces that are built here on the servers that import them.

#[path = "tablespace/common.rs"]
mod common;
#[path = "tablespace/import.rs"]
mod import;
#[path = "tablespace/keys.rs"]
mod keys;
#[path = "tablespace/reader.rs"]
mod reader;
#[path = "tablespace/refused.rs"]
mod refused;
#[path = "tablespace/values.rs"]
mod values;
