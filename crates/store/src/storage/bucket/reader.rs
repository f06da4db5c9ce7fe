//! Reads from a bucket.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::StorageError;

/// Pieces that are read ahead. A piece is what one read of the connection brings: some 16 KiB, and
/// rarely more than 400 KiB.
const AHEAD: usize = 32;

type Piece = Result<Bytes, object_store::Error>;

/// The pieces of an answer as bytes, some of them read ahead.
pub struct BucketReader<F> {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
    task: JoinHandle<()>,
    failed: F,
}

impl<F: Fn(object_store::Error) -> StorageError> BucketReader<F> {
    pub fn new(runtime: &Handle, answer: BoxStream<'static, Piece>, failed: F) -> Self {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let mut answer = answer;
        let task = runtime.spawn(async move {
            while let Some(piece) = answer.next().await {
                if sender.send(piece).await.is_err() {
                    break;
                }
            }
        });
        Self {
            pieces,
            current: Bytes::new(),
            task,
            failed,
        }
    }
}

impl<F: Fn(object_store::Error) -> StorageError> Read for BucketReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                Some(Ok(piece)) => self.current = piece,
                Some(Err(error)) => return Err((self.failed)(error).into_io()),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl<F> Drop for BucketReader<F> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
