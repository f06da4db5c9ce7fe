//! The steps in which a buffer pool returns to its old size.

use refloat_wire::Connection;

use super::SettingsError;
use super::variable::read;

/// The smallest share of the pool that a step keeps.
///
/// While a pool shrinks, InnoDB compares the pages that are free or in use for tables with the page
/// count of the *old* size, and considers itself full below a quarter of it
/// (`buf_pool_t::running_out`). Anyone who changes a row then gets error 1206. An application can
/// retry. A Galera node that applies the writes of others cannot: it considers itself inconsistent
/// and leaves the cluster. A pool that keeps more than half of its pages stays clear of the
/// quarter, unless locks and hash indexes fill more than a third of it.
const STEP: (u64, u64) = (5, 8);

/// Used where a server reports no unit: MariaDB from 10.11.12 on has extents of 8 MiB and takes any
/// size in MiB.
const UNIT: u64 = 1 << 20;

/// The sizes, in bytes, through which a pool of `from` bytes becomes one of `to` bytes. The last is
/// `to`, the others are multiples of `unit`.
pub(super) fn steps(from: u64, to: u64, unit: u64) -> Vec<u64> {
    let mut steps = Vec::new();
    let mut size = from;
    loop {
        let next = (size - size / STEP.1 * (STEP.1 - STEP.0)).next_multiple_of(unit.max(1));
        if from <= to || next <= to || next >= size {
            steps.push(to);
            return steps;
        }
        size = next;
        steps.push(size);
    }
}

/// The unit in which a server's pool grows and shrinks, in bytes: one chunk of each instance.
pub(super) fn unit(conn: &mut Connection) -> Result<u64, SettingsError> {
    let mut number = |name: &str| {
        let value = read(conn, name)?.and_then(|value| value.parse().ok());
        Ok::<u64, SettingsError>(value.unwrap_or(0))
    };
    let chunk = number("innodb_buffer_pool_chunk_size")?;
    let instances = number("innodb_buffer_pool_instances")?;
    Ok(chunk.saturating_mul(instances.max(1)).max(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_takes_more_than_half() {
        const MIB: u64 = 1 << 20;
        let in_mib = |from: u64, to: u64, unit: u64| -> Vec<u64> {
            let steps = steps(from * MIB, to * MIB, unit * MIB);
            steps.iter().map(|size| size / MIB).collect()
        };
        assert_eq!(in_mib(128, 128, 1), [128]);
        assert_eq!(in_mib(128, 512, 1), [512]);
        assert_eq!(in_mib(160, 128, 1), [128]);
        assert_eq!(in_mib(1024, 128, 1), [640, 400, 250, 157, 128]);
        // MySQL with one instance and with eight: sizes are rounded up.
        assert_eq!(in_mib(1024, 128, 128), [640, 512, 384, 256, 128]);
        assert_eq!(in_mib(4096, 1024, 1024), [3072, 2048, 1024]);
        for (from, to) in [(64 << 30, 128 * MIB), (7 << 20, 5)] {
            let mut before: u64 = from;
            for size in steps(from, to, 1) {
                assert!(
                    size < before && (size >= before / 2 || before <= 8),
                    "{before} to {size}"
                );
                before = size;
            }
            assert_eq!(before, to);
        }
    }
}
