//! Tests the sandbox with real servers. Every test works in its own directory and leaves nothing
//! behind.

#[path = "sandbox/common.rs"]
mod common;

#[path = "sandbox/galera.rs"]
mod galera;
#[path = "sandbox/lifecycle.rs"]
mod lifecycle;
#[path = "sandbox/mishaps.rs"]
mod mishaps;
#[path = "sandbox/owners.rs"]
mod owners;
