//! What a load may hold in memory and how many writers it may have, out of the ceiling and the threads that it was given.

use refloat_run::machine::Machine;
use refloat_source::stream::{BLOCK_BYTES as STREAM_BLOCK, STREAM_BYTES};
use refloat_wire::Vendor;

use super::galera::WriteSet;
use super::opened::Opened;
use super::options::{LoadOptions, OnError};
use super::queue::Limits;
use super::writer::PACKET_TARGET;

/// Memory that is neither rows in flight nor packets: connections, decompressor, the program itself.
const MEMORY_FIXED: usize = 56 << 20;
/// Least memory for rows in flight, whatever the ceiling says.
const MEMORY_ROWS_MIN: usize = 8 << 20;
/// Largest chunk that the search for a good size may reach.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Memory of a table that is open for reading: its block, the rest of the one before it, and its decompressor.
const MEMORY_PER_TABLE: usize = 24 << 20;
/// Processors that a further writer into the same table of MariaDB is worth.
const CORES_PER_LANE_WORKER: usize = 4;

/// The shares of one load.
pub struct Budget {
    /// Bytes that a chunk may grow to.
    pub chunk_max: usize,
    /// Tables whose rows may be read at the same time.
    pub open_max: usize,
    /// Limits of the queue.
    pub limits: Limits,
}

impl Budget {
    /// Shares the ceiling out.
    pub fn of(
        options: &LoadOptions,
        source: &Opened,
        vendor: Vendor,
        write_set: Option<WriteSet>,
    ) -> Self {
        let rows_memory = options
            .max_memory
            .saturating_sub(MEMORY_FIXED + options.threads * 2 * PACKET_TARGET)
            .max(MEMORY_ROWS_MIN);
        let chunk_max = (rows_memory / (options.threads + 1)).min(CHUNK_BYTES_MAX);
        let chunk_max = write_set.map_or(chunk_max, |limit| chunk_max.min(limit.bytes));
        let open_max = options
            .threads
            .min(options.max_memory / MEMORY_PER_TABLE)
            .max(1);
        let rows_memory = match source {
            Opened::Stream(_) => rows_memory,
            // What is read from the server waits in the stream, and a block with each reader.
            Opened::Layout(layout) if layout.stream().is_some() => rows_memory
                .saturating_sub(STREAM_BYTES + options.threads * 2 * STREAM_BLOCK)
                .max(MEMORY_ROWS_MIN),
            // Every open table holds a part of it.
            Opened::Layout(_) => rows_memory
                .saturating_sub(open_max * MEMORY_PER_TABLE / 2)
                .max(MEMORY_ROWS_MIN),
        };
        let limits = Limits {
            memory: rows_memory,
            lane_workers: options
                .table_threads
                .unwrap_or_else(|| lane_workers(vendor, options.threads))
                .max(1),
            narrow_lane_workers: options.table_threads.unwrap_or(options.threads).max(1),
            workers: options.threads,
            chunk_rows: options.chunk_rows,
            bytes_most: write_set.map(|limit| limit.bytes),
            one_by_one: options.on_error == OnError::Continue,
            rows_most: write_set.and_then(|limit| limit.rows),
        };
        Self {
            chunk_max,
            open_max,
            limits,
        }
    }
}

/// How many workers write into one table at the same time.
///
/// On MySQL a second writer into the same table is worth as much as one into another. On MariaDB two of them that write wide rows
/// spend as much again on waiting for each other (10.11.19: 1.5 million rows of 200 bytes in 5.0 s by one writer with 5.0 s of
/// server CPU, in 5.6 s by two with 9.5 s), so a second one is only let in where there are processors to spare for that. With
/// narrow rows it is worth its while: 4.5 million of 40 bytes took 15.1 s by one (11.2 s of CPU) and 8.1 s by two (14.2 s).
fn lane_workers(vendor: Vendor, threads: usize) -> usize {
    match vendor {
        Vendor::MySql => threads,
        Vendor::MariaDb => {
            (Machine::here().map_or(1, |machine| machine.cores) / CORES_PER_LANE_WORKER).max(1)
        }
    }
}
