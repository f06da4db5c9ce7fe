//! Tests streams against the tools that write and extract them, and against damage.

#[path = "xbstream/backup.rs"]
mod backup;
#[path = "xbstream/common.rs"]
mod common;
#[path = "xbstream/mbstream.rs"]
mod mbstream;
#[path = "xbstream/refused.rs"]
mod refused;
#[path = "xbstream/roundtrip.rs"]
mod roundtrip;
