//! Blocks of input that readers and writers share, and a pool of buffers for them.

use std::sync::{Arc, Mutex, PoisonError};

/// Buffers kept for reuse; more would only hold memory.
const POOL_MAX: usize = 16;
/// Larger buffers are not kept: they come from rare, very large rows.
const POOL_BLOCK_MAX: usize = 16 << 20;

/// Buffers for reuse, so that the kernel need not zero fresh pages for every few MiB of input.
#[derive(Debug, Default)]
pub struct BlockPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockPool {
    /// An empty buffer, which keeps its earlier capacity.
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

/// A block of decompressed input, read-only.
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

    /// The bytes from `at` on, in a buffer to be filled further. If nothing was consumed, this is
    /// the block's own buffer, so that a row longer than a block is not held twice.
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
