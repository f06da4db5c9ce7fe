//! Sends the files of a server to another machine while they are copied.
//!
//! Blocks go through several TCP connections at the same time, each with a thread at both ends: it
//! compresses, encrypts and sends here, and decrypts, decompresses, checks and writes there. Every
//! frame is acknowledged when it is written. A connection that is lost is made again and goes on
//! behind the last frame that the other end has.
//!
//! Both ends know a secret for this one transfer, which they got by another way (ssh, or the
//! cluster itself): nothing else can read or change what is sent, or send anything. Blocks that the
//! receiver has in older files at the same place are not sent.

mod channel;
mod frame;
mod known;
mod receive;
mod send;

pub use channel::{ChannelError, Secret};
pub use receive::{Received, Receiver};
pub use send::{Sender, Sent};

use std::time::Duration;

/// How long a lost connection is tried again, and how long an end may be silent.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often an end that has nothing to send says that it lives.
pub const PULSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
