//! Sends the files of a server to another machine while they are copied.
//!
//! Blocks go through several TCP connections at the same time, each with a thread at both ends: it
//! compresses, encrypts and sends here, and decrypts, decompresses, checks and writes there. Every
//! frame is acknowledged when it is written. A lost connection is replaced, and continues after the
//! last frame that the other end has.
//!
//! Both ends know a secret for this one transfer, which they received by another way (ssh, or the
//! cluster itself). Nobody else can read or change what is sent, or send anything. Blocks that the
//! receiver has in older files at the same place are not sent.
//!
//! The dialogue on each connection, by its [`frame::Frame`]s:
//!
//! 1. sender: `Hello`, with the number of this connection. Only the first one asks what is known.
//! 2. receiver: `Has`; the sender repeats what the receiver has not handled. If it was asked, any
//!    number of `Known` follow, and `AllKnown`.
//! 3. sender: any number of `Block` and `Same`, then `End`.
//! 4. sender, on connection 0 once all have ended: `List` in pieces, then `Finish`, which is
//!    handled when everything is on the receiver's disk.
//!
//! The receiver says `Has` whenever it has handled a frame. Either end may say `Alive` at any time,
//! and `Failed` instead of its next frame; nothing follows that.

mod channel;
pub(crate) mod frame;
mod known;
mod level;
mod receive;
mod send;

pub use channel::{ChannelError, Secret};
pub use receive::{Received, Receiver};
pub use send::{Sender, Sent};

use std::time::Duration;

/// How long to retry a lost connection, and how long an end may be silent.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often an end with nothing to send sends a heartbeat.
pub const PULSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
