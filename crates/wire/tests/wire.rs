//! Tests the connection against real servers of every kind, and against a hostile one.

#[path = "wire/auth.rs"]
mod auth;
#[path = "wire/bulk.rs"]
mod bulk;
#[path = "wire/common.rs"]
mod common;
#[path = "wire/identity.rs"]
mod identity;
#[path = "wire/load.rs"]
mod load;
#[path = "wire/query.rs"]
mod query;
#[path = "wire/rogue.rs"]
mod rogue;
#[path = "wire/stop.rs"]
mod stop;
#[path = "wire/tls.rs"]
mod tls;
