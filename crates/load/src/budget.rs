//! Divides a load's memory ceiling and threads into chunk size, open tables and writers per table.

use std::path::Path;

use refloat_run::machine::Machine;
use refloat_source::stream::{BLOCK_BYTES as STREAM_BLOCK, STREAM_BYTES};
use refloat_store::files;
use refloat_wire::Vendor;

use super::galera::WriteSet;
use super::open_source::OpenSource;
use super::options::{LoadOptions, OnError};
use super::queue::Limits;
use super::writer::PACKET_TARGET;

/// Memory for everything but rows in flight and packets: connections, decompressor, the program
/// itself.
const MEMORY_FIXED: usize = 56 << 20;
/// Rows in flight always get this much memory, even if that exceeds the ceiling.
const MEMORY_ROWS_MIN: usize = 8 << 20;
/// The search for a good chunk size stops here.
const CHUNK_BYTES_MAX: usize = 64 << 20;
/// Memory of a table that is open for reading: its block, the remainder of the previous block, and
/// its decompressor.
const MEMORY_PER_TABLE: usize = 24 << 20;
/// Additional memory for such a table if its source is mounted, for bytes that are fetched ahead: 8
/// MiB of a backup in a repository, and the blocks in flight.
const MEMORY_MOUNTED: usize = 12 << 20;
/// On MariaDB, one more writer per table for every this many cores.
const CORES_PER_LANE_WORKER: usize = 4;

/// How one load's resources are divided.
pub struct Budget {
    /// Largest chunk, in bytes of dump text.
    pub chunk_max: usize,
    /// How many tables may be read at the same time.
    pub open_max: usize,
    /// Limits of the work queue.
    pub limits: Limits,
}

impl Budget {
    /// Divides up the ceiling.
    pub fn of(
        options: &LoadOptions,
        source: &OpenSource,
        vendor: Vendor,
        write_set: Option<WriteSet>,
    ) -> Self {
        let rows_memory = options
            .max_memory
            .saturating_sub(MEMORY_FIXED + options.threads * 2 * PACKET_TARGET)
            .max(MEMORY_ROWS_MIN);
        let chunk_max = (rows_memory / (options.threads + 1)).min(CHUNK_BYTES_MAX);
        let chunk_max = write_set.map_or(chunk_max, |limit| chunk_max.min(limit.bytes));
        let mounted = mounted(&options.source);
        let open_max = options
            .threads
            .min(options.max_memory / (MEMORY_PER_TABLE + mounted))
            .max(1);
        let rows_memory = match source {
            OpenSource::Stream(_) => rows_memory.saturating_sub(mounted).max(MEMORY_ROWS_MIN),
            // The stream buffers what is read from the server, and each reader holds a block of its
            // own.
            OpenSource::Layout(layout) if layout.stream().is_some() => rows_memory
                .saturating_sub(STREAM_BYTES + mounted + options.threads * 2 * STREAM_BLOCK)
                .max(MEMORY_ROWS_MIN),
            // Every open table holds part of the memory.
            OpenSource::Layout(_) => rows_memory
                .saturating_sub(open_max * (MEMORY_PER_TABLE / 2 + mounted))
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

/// Additional memory for each open file if the source is mounted.
fn mounted(source: &Path) -> usize {
    if files::is_mounted(source) {
        MEMORY_MOUNTED
    } else {
        0
    }
}

/// How many workers write into one table at the same time.
///
/// On MySQL a second writer into the same table gains as much as one into another table. On MariaDB
/// two writers of wide rows spend as much CPU again on waiting for each other (10.11.19: 1.5
/// million rows of 200 bytes took one writer 5.0 s and 5.0 s of server CPU, two writers 5.6 s and
/// 9.5 s), so a second one is used only when there are cores to spare. Narrow rows gain from it:
/// 4.5 million rows of 40 bytes took one writer 15.1 s (11.2 s of CPU) and two 8.1 s (14.2 s).
fn lane_workers(vendor: Vendor, threads: usize) -> usize {
    match vendor {
        Vendor::MySql => threads,
        Vendor::MariaDb => {
            (Machine::here().map_or(1, |machine| machine.cores) / CORES_PER_LANE_WORKER).max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use refloat_run::Cancel;
    use refloat_store::storage::{LocalFolder, Storage, mount_all};
    use refloat_wire::ConnectOptions;

    use super::*;

    #[test]
    fn what_lies_elsewhere_takes_more_memory() {
        let folder = tempfile::tempdir().unwrap();
        let dump = folder.path().join("dump.sql");
        std::fs::write(&dump, "SELECT 1;\n").unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(folder.path()));
        let root = Path::new("test://budget/dump");
        mount_all(&storage, root).unwrap();
        let of = |source: &Path| {
            let server = ConnectOptions::unix(Path::new("/nowhere"), "root");
            let mut options = LoadOptions::new(source, server);
            (options.threads, options.max_memory) = (8, 224 << 20);
            let open_source = OpenSource::open(&options, &Cancel::new(), |_| {}).unwrap();
            Budget::of(&options, &open_source, Vendor::MariaDb, None)
        };
        let (here, there) = (of(&dump), of(&root.join("dump.sql")));
        let less = here.limits.memory - there.limits.memory;
        assert_eq!(less, MEMORY_MOUNTED);
        assert!(there.open_max < here.open_max);
    }
}
