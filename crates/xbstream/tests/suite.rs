//! Tests streams against the tools that write and extract them, and against damage.

#[path = "suite/backup.rs"]
mod backup;
#[path = "suite/common.rs"]
mod common;
#[path = "suite/mbstream.rs"]
mod mbstream;
#[path = "suite/refused.rs"]
mod refused;
#[path = "suite/roundtrip.rs"]
mod roundtrip;
