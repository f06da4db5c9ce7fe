//! The threads that take work from the queue: writers of rows, and builders of indexes.

use std::sync::Arc;
use std::time::Instant;

use super::context::Context;
use super::error::{LoadError, guarded};
use super::queue::{Queue, Work};
use super::worker::Worker;

/// Connects a worker and takes work until the queue ends.
pub fn run(ctx: &Arc<Context>, queue: &Queue) {
    let mut worker = match guarded(|| Worker::connect(ctx)) {
        Ok(worker) => worker,
        Err(error) => {
            ctx.note_failed();
            return queue.fail(error);
        }
    };
    loop {
        let waiting = Instant::now();
        let Some(work) = queue.next() else { break };
        ctx.note_source_wait(waiting);
        // Work that failed is finished too: the queue must not wait for it.
        match work {
            Work::Chunk(chunk, writer) => {
                ctx.keep_pace(|| queue.has_failed());
                if !queue.has_failed() {
                    report(ctx, queue, guarded(|| writer.take(&mut worker, &chunk)));
                }
                let (key, held) = (chunk.table.id, chunk.held);
                drop(chunk);
                queue.finish_chunk(key, held);
            }
            Work::Task(task) => {
                report(ctx, queue, guarded(|| (task.job)(&mut worker)));
                queue.finish_task(task.key, task.sorts, task.brings_rows);
            }
        }
    }
}

fn report(ctx: &Context, queue: &Queue, result: Result<(), LoadError>) {
    if let Err(error) = result {
        ctx.note_failed();
        queue.fail(if ctx.cancel.is_cancelled() {
            ctx.interrupted()
        } else {
            error
        });
    }
}
