//! A thread that reads and decompresses ahead of the reader.
//!
//! The thread is detached on purpose: it may block in an uninterruptible read of standard input,
//! and dropping the reader must not wait for it. It ends at its next send, when the receiver is
//! gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::decode::{DecodeFailure, Decoder};

/// Size of one block sent to the reader.
const BLOCK: usize = 1 << 20;
/// Blocks in flight. With the one being filled and the one being read, at most 8 MiB.
const BLOCKS: usize = 4;
/// How often a waiting reader checks the cancel flag.
const TICK: Duration = Duration::from_millis(50);

/// A block, and how far the raw source had been read when it was full.
pub struct Block {
    pub bytes: Vec<u8>,
    pub raw_end: u64,
}

/// The last message of a thread.
pub struct Stopped {
    pub failure: DecodeFailure,
    pub at: u64,
}

/// Outcome of waiting for the next block.
pub enum Next {
    Block(Block),
    /// The end of the source, proven.
    End,
    Failed(Stopped),
    Cancelled,
}

/// The reader's side of the thread.
pub struct Pump {
    full: Receiver<Result<Block, Stopped>>,
    empty: SyncSender<Vec<u8>>,
}

impl Pump {
    pub fn start(decoder: Decoder) -> std::io::Result<Self> {
        let (full_in, full) = sync_channel(BLOCKS);
        let (empty, empty_out) = sync_channel(BLOCKS + 2);
        std::thread::Builder::new()
            .name("decompress".into())
            .spawn(move || run(decoder, &full_in, &empty_out))?;
        Ok(Self { full, empty })
    }

    /// Returns a used block to the thread.
    pub fn recycle(&self, block: Vec<u8>) {
        // A full queue means that there are enough spare blocks.
        drop(self.empty.try_send(block));
    }

    /// Waits for the next block. Returns within one tick of `cancel` being set.
    pub fn next(&self, cancel: Option<&Arc<AtomicBool>>) -> Next {
        loop {
            if cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Next::Cancelled;
            }
            match self.full.recv_timeout(TICK) {
                Ok(Ok(block)) if block.bytes.is_empty() => return Next::End,
                Ok(Ok(block)) => return Next::Block(block),
                Ok(Err(stopped)) => return Next::Failed(stopped),
                Err(RecvTimeoutError::Timeout) => {}
                // The thread always reports how it ended; a disconnect means that it died.
                Err(RecvTimeoutError::Disconnected) => {
                    return Next::Failed(Stopped {
                        failure: DecodeFailure::Corrupt("the decompressing thread died".into()),
                        at: 0,
                    });
                }
            }
        }
    }
}

fn run(mut decoder: Decoder, full: &SyncSender<Result<Block, Stopped>>, empty: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = empty.try_recv().unwrap_or_default();
        bytes.resize(BLOCK, 0);
        let mut filled = 0;
        let mut failure = None;
        while filled < BLOCK {
            match decoder.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        bytes.truncate(filled);
        let at = decoder.consumed();
        let ended = filled < BLOCK;
        // Good data before the fault is still sent: the reader stops at the fault, not before it.
        if filled > 0 && full.send(Ok(Block { bytes, raw_end: at })).is_err() {
            return;
        }
        if let Some(failure) = failure {
            drop(full.send(Err(Stopped { failure, at })));
            return;
        }
        if ended {
            drop(full.send(Ok(Block {
                bytes: Vec::new(),
                raw_end: at,
            })));
            return;
        }
    }
}
