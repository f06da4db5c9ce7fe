//! Stretches of input that readers and writers share, and the buffers that they are read into.

use std::sync::{Arc, Mutex, PoisonError};

/// Blocks kept for reuse; more would only hold memory.
const POOL_MAX: usize = 16;
/// Blocks larger than this are not kept: they come from rare, very large rows.
const POOL_BLOCK_MAX: usize = 16 << 20;

/// Buffers for reuse, so that the kernel does not have to clear fresh pages for every few MiB of input.
#[derive(Debug, Default)]
pub struct BlockPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockPool {
    /// An empty buffer, with whatever capacity it had before.
    pub fn take(&self) -> Vec<u8> {
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < POOL_MAX && buffer.capacity() > 0 && buffer.capacity() <= POOL_BLOCK_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

/// A stretch of decompressed input, read-only from now on.
#[derive(Debug)]
pub struct Block {
    data: Vec<u8>,
    pool: Arc<BlockPool>,
}

impl Block {
    /// Freezes a filled buffer.
    pub fn new(data: Vec<u8>, pool: Arc<BlockPool>) -> Self {
        Self { data, pool }
    }

    /// The bytes from `at` on, to be read on from: the buffer itself where nothing was taken of it, so that a row that is longer than
    /// a block is not there twice.
    pub fn rest(mut block: Arc<Self>, at: usize, pool: &BlockPool) -> Vec<u8> {
        if at == 0
            && let Some(whole) = Arc::get_mut(&mut block)
        {
            return std::mem::take(&mut whole.data);
        }
        let mut rest = pool.take();
        rest.extend_from_slice(&block[at..]);
        rest
    }
}

impl std::ops::Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.data));
    }
}
