//! The rules of the catalog, one setting after another.

use refloat_wire::Vendor;

use super::{Planner, SessionChange, Wish};
use crate::settings::Durability::{self, Disposable, Relaxed};
use crate::settings::facts::REDO_LOG;
use crate::settings::redo::{CHECKPOINT_NOW, LOG_FILE_SIZE};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Share of the free memory that the buffer pool may grow by. The rest is for connections, sorts of
/// index builds, the page cache, and this process.
const POOL_SHARE: f64 = 0.5;
/// Rows take about this much more room in InnoDB pages than as dump text, indexes included.
const POOL_PER_DUMP: f64 = 1.5;
/// Growth of the buffer pool for a dump of unknown size (a pipe): enough for most dumps, without
/// taking half of a large machine for nothing.
const POOL_UNKNOWN: u64 = 4 * GIB;
/// Growing the pool by less than this factor is not worth the resize.
const POOL_MIN_GROWTH: f64 = 1.25;
/// Largest redo log for a load: no gain was measured beyond it.
const REDO_MAX: u64 = 2 * GIB;
/// A redo log smaller than this is too small for any load.
const REDO_MIN: u64 = 512 * MIB;
/// MariaDB's redo log as a part of the dump: one third. When the log is full, MariaDB waits (10 ms
/// each time) for pages to be written; when the log is made small again, it writes all changed
/// pages. With a third of the dump, pages are flushed all the time, without those waits. Of 96,
/// 192, 288, 400 MiB and 1 GiB for a dump of 600 MB, 192 MiB left the CPUs idle for the shortest
/// time (10.11.19 and 11.8.6).
const REDO_PART_MARIADB: u64 = 3;
/// Smallest redo log that is worth the change on MariaDB.
const REDO_MIN_MARIADB: u64 = 192 * MIB;
/// Where MariaDB has no checkpoint on demand, resizing takes seconds. Only the load of a dump of
/// this size wins them back.
const REDO_WORTH_SLOW: u64 = 4 * GIB;
/// Pages flushed per second that an SSD can take; the servers' defaults (200, and 10000 on MySQL
/// 8.4) are meant for spinning disks.
const IO_CAPACITY: u64 = 10_000;

impl Planner<'_> {
    pub(super) fn run(&mut self) {
        // Settings are put back in reverse order. Shrinking the redo log and the buffer pool makes
        // the server write out every changed page; with the capacity of a spinning disk already
        // back, that took 12 s instead of 1 s after 600 MB of dump.
        self.io_capacity();
        self.flushing();
        self.buffer_pool();
        self.page_cache();
        self.redo_size();
        self.sync_binlog();
        self.doublewrite();
        self.adaptive_hash();
        self.local_infile();
        self.redo_off();
        self.session_binlog();
        self.startup_advice();
    }

    fn buffer_pool(&mut self) {
        const NAME: &str = "innodb_buffer_pool_size";
        let Some(now) = self.facts.number(NAME) else {
            return;
        };
        let useful = self.useful_pool();
        if useful.is_some_and(|u| (u as f64) < now as f64 * POOL_MIN_GROWTH) {
            return;
        }
        let Some(free) = self.hints.server_memory_available else {
            self.skip(
                NAME,
                "the free memory of the server's machine cannot be seen from here",
            );
            return;
        };
        let mut new = now + (free as f64 * POOL_SHARE) as u64;
        new = new.min(useful.unwrap_or(now + POOL_UNKNOWN));
        // MariaDB 11.8 sets this limit to the pool's size at startup, unless it is configured.
        let max = self
            .facts
            .number("innodb_buffer_pool_size_max")
            .filter(|m| *m > 0 && *m < new);
        if let Some(max) = max {
            self.advise_restart(
                "innodb_buffer_pool_size_max",
                &max.to_string(),
                &new.to_string(),
                "the buffer pool cannot grow beyond it while the server runs",
                "index builds about 2 times as fast with a larger buffer pool",
            );
            new = max;
        }
        // Both vendors take whole chunks per instance. Newer MariaDB has no chunks and takes any
        // size.
        let chunk = self
            .facts
            .number("innodb_buffer_pool_chunk_size")
            .filter(|c| *c > 0)
            .unwrap_or(8 * MIB);
        let unit = chunk
            * self
                .facts
                .number("innodb_buffer_pool_instances")
                .unwrap_or(1)
                .max(1);
        new -= new % unit;
        if (new as f64) < now as f64 * POOL_MIN_GROWTH {
            self.skip(
                NAME,
                match max {
                    Some(_) => "innodb_buffer_pool_size_max does not let it grow",
                    None => "there is not enough free memory for a larger one",
                },
            );
            return;
        }
        self.wish(Wish {
            name: NAME,
            new: new.to_string(),
            level: Relaxed,
            reason: "pages stay in memory until index builds have read them",
            gain: "index builds about 2 times as fast",
        });
    }

    /// The buffer pool that would hold everything the dump becomes; `None` for a dump of unknown
    /// size.
    fn useful_pool(&self) -> Option<u64> {
        self.hints
            .dump_bytes
            .map(|b| (b as f64 * POOL_PER_DUMP) as u64)
    }

    /// Where the buffer pool cannot hold the rows until index builds have read them, the system's
    /// page cache can: MariaDB can leave `O_DIRECT` at run time from 11.0 on. Files are synced as
    /// before, so no durability is lost.
    fn page_cache(&mut self) {
        let planned = |plan: &super::SettingsPlan| {
            let change = plan
                .changes
                .iter()
                .find(|change| change.name == "innodb_buffer_pool_size")?;
            change.new.parse::<u64>().ok()
        };
        let Some(pool) =
            planned(&self.plan).or_else(|| self.facts.number("innodb_buffer_pool_size"))
        else {
            return;
        };
        let useful = self.useful_pool().unwrap_or(POOL_UNKNOWN);
        if useful as f64 >= pool as f64 * POOL_MIN_GROWTH {
            self.wish(Wish {
                name: "innodb_data_file_buffering",
                new: "ON".into(),
                level: Relaxed,
                reason: "rows that do not fit into the buffer pool stay in the system's page cache until index builds have read them",
                gain: "index builds about 2 times as fast where the buffer pool cannot grow",
            });
        }
    }

    fn redo_size(&mut self) {
        // MySQL 8.0.30 replaced the two old variables with one that is dynamic. The old ones are
        // still shown, but have no effect.
        let capacity = self.facts.number("innodb_redo_log_capacity");
        let (name, now, files) = match capacity {
            Some(now) => ("innodb_redo_log_capacity", now, 1),
            None => match self.facts.number(LOG_FILE_SIZE) {
                Some(now) => {
                    let files = self
                        .facts
                        .number("innodb_log_files_in_group")
                        .unwrap_or(1)
                        .max(1);
                    (LOG_FILE_SIZE, now, files)
                }
                None => return,
            },
        };
        let (wanted, too_small) = match self.facts.vendor {
            // Everything fits: changing the log and putting it back would gain nothing.
            Vendor::MySql if self.hints.dump_bytes.is_some_and(|bytes| bytes * 2 <= now) => return,
            Vendor::MySql => (
                self.hints
                    .dump_bytes
                    .unwrap_or(REDO_MAX)
                    .clamp(REDO_MIN, REDO_MAX),
                None,
            ),
            Vendor::MariaDb => self.redo_of_mariadb(now * files),
        };
        let wanted = wanted / MIB * MIB;
        if now * files >= wanted {
            return;
        }
        let fixed = self.facts.startup_only.contains(name)
            || (self.facts.vendor == Vendor::MySql && capacity.is_none());
        if let Some(reason) = too_small.filter(|_| !fixed) {
            self.skip(name, reason);
            return;
        }
        if !fixed
            && self
                .hints
                .server_disk_available
                .is_some_and(|free| free < wanted * 4)
        {
            self.skip(
                name,
                "the data directory has not enough free space for a larger one",
            );
            return;
        }
        let wish = Wish {
            name,
            new: (wanted / files).to_string(),
            level: Relaxed,
            reason: "a small redo log makes the server write pages out again and again while loading",
            gain: "loading and index builds together about 1.2 times as fast",
        };
        if fixed {
            let now = now.to_string();
            self.advise(&wish, &now, true);
        } else {
            self.wish(wish);
        }
    }

    /// The redo log size that a load into MariaDB wants, and the reason if it cannot have it.
    fn redo_of_mariadb(&self, now: u64) -> (u64, Option<&'static str>) {
        let wanted = match self.hints.dump_bytes {
            // Everything fits.
            Some(bytes) if bytes <= now => return (now, None),
            Some(bytes) => (bytes / REDO_PART_MARIADB).clamp(REDO_MIN_MARIADB, REDO_MAX),
            None => REDO_MIN,
        };
        // A size below the log buffer is accepted at startup only, so it could not be put back.
        if self.facts.number("innodb_log_buffer_size") > Some(now) {
            return (
                wanted,
                Some("it is smaller than innodb_log_buffer_size, so it could not be put back"),
            );
        }
        let worth = if self.facts.get(CHECKPOINT_NOW).is_some() {
            now
        } else {
            REDO_WORTH_SLOW
        };
        let too_small = match self.hints.dump_bytes {
            Some(bytes) if bytes > worth => None,
            None if worth == now => None,
            Some(_) => Some("the dump is too small to win back the time that resizing takes"),
            None => Some(
                "a dump of unknown size may be too small to win back the time that resizing takes",
            ),
        };
        (wanted, too_small)
    }

    fn flushing(&mut self) {
        let new = if self.durability == Disposable {
            "0"
        } else {
            "2"
        };
        let relaxed_already = self
            .facts
            .number("innodb_flush_log_at_trx_commit")
            .is_some_and(|n| n == 0 || (n == 2 && new == "2"));
        if !relaxed_already {
            self.wish(Wish {
                name: "innodb_flush_log_at_trx_commit",
                new: new.to_owned(),
                level: Relaxed,
                reason: "a commit need not wait for the disk; the log is written and synced at the end",
                gain: "little with large chunks, much on disks with slow syncs",
            });
        }
    }

    fn io_capacity(&mut self) {
        // The maximum first: it must not be below the capacity. In reverse order, that holds too.
        for (name, new) in [
            ("innodb_io_capacity_max", IO_CAPACITY * 2),
            ("innodb_io_capacity", IO_CAPACITY),
        ] {
            if self.facts.number(name).is_some_and(|now| now < new) {
                self.wish(Wish {
                    name,
                    new: new.to_string(),
                    level: Relaxed,
                    reason: "the background writer may use what a solid-state disk can do",
                    gain: "fewer stalls when the redo log fills; not measured alone",
                });
            }
        }
    }

    fn sync_binlog(&mut self) {
        if self.facts.is_on("log_bin") && self.facts.number("sync_binlog").is_some_and(|n| n != 0) {
            self.wish(Wish {
                name: "sync_binlog",
                new: "0".into(),
                level: Relaxed,
                reason: "the binary log is on, and every commit would wait for its sync",
                gain: "one sync less per chunk; not measured alone",
            });
        }
    }

    fn doublewrite(&mut self) {
        const NAME: &str = "innodb_doublewrite";
        let Some(now) = self.facts.get(NAME) else {
            return;
        };
        if ["OFF", "0", "DETECT_ONLY", "FALSE"]
            .iter()
            .any(|off| off.eq_ignore_ascii_case(now))
        {
            return;
        }
        // MySQL 8.0.30 made it dynamic among the variants of "on"; with DETECT_ONLY, no page is
        // written twice. OFF needs a restart. MariaDB itself reports whether it is dynamic.
        let mysql = self.facts.vendor == Vendor::MySql;
        let new = if mysql && self.facts.mysql_since((8, 0, 30)) {
            "DETECT_ONLY"
        } else {
            "OFF"
        };
        let wish = Wish {
            name: NAME,
            new: new.into(),
            level: Disposable,
            reason: "pages are written once, not twice; a crash of the machine may tear pages",
            gain: "up to half of the page writes; not measured alone",
        };
        if mysql && !self.facts.mysql_since((8, 0, 30)) {
            let now = now.to_owned();
            self.advise(&wish, &now, true);
        } else {
            self.wish(wish);
        }
    }

    fn adaptive_hash(&mut self) {
        if self.facts.is_on("innodb_adaptive_hash_index") {
            self.wish(Wish {
                name: "innodb_adaptive_hash_index",
                new: "OFF".into(),
                level: Relaxed,
                reason: "its upkeep costs inserts and nobody looks rows up while loading",
                gain: "a few per cent of server CPU; not measured alone",
            });
        }
    }

    fn local_infile(&mut self) {
        const NAME: &str = "local_infile";
        if self
            .facts
            .get(NAME)
            .is_none_or(|v| crate::settings::value::same(v, "ON"))
        {
            return;
        }
        let wish = Wish {
            name: NAME,
            new: "ON".into(),
            level: Relaxed,
            reason: "LOAD DATA LOCAL is the fastest way into MySQL",
            gain: "about 3 times as fast as INSERT on MySQL",
        };
        if self.hints.allow_local_infile {
            self.wish(wish);
        } else if self.facts.vendor == Vendor::MySql {
            // On MariaDB the array-bound insert is faster and needs no permission.
            self.advise(&wish, "OFF", false);
        }
    }

    fn redo_off(&mut self) {
        if self.facts.redo_enabled != Some(true) || self.facts.vendor != Vendor::MySql {
            return;
        }
        match self.durability {
            Durability::Keep => {}
            Relaxed => self.skip(REDO_LOG, "needs --durability disposable"),
            Disposable => match self.missing_privilege(REDO_LOG) {
                Some(missing) => {
                    self.skip_for_lack(REDO_LOG, missing, format!("the account lacks {missing}"));
                }
                None => self.plan.changes.push(super::PlannedChange {
                    name: REDO_LOG.into(),
                    old: "ON".into(),
                    new: "OFF".into(),
                    reason: "nothing is logged while loading; a crash of the server makes the whole instance unusable"
                        .into(),
                    gain: "loading about 1.5 times as fast".into(),
                }),
            },
        }
    }

    fn session_binlog(&mut self) {
        const NAME: &str = "sql_log_bin";
        if !self.facts.is_on("log_bin")
            || !(self.durability == Disposable || self.hints.skip_binlog)
        {
            return;
        }
        match self.facts.replicas {
            None => self.skip_for_lack(
                NAME,
                "PROCESS",
                "whether replicas are connected cannot be seen without PROCESS",
            ),
            Some(n) if n > 0 => self.skip(
                NAME,
                format!(
                    "{n} {} the binary log",
                    if n == 1 {
                        "replica reads"
                    } else {
                        "replicas read"
                    }
                ),
            ),
            Some(_) => {
                if let Some(missing) = self.missing_privilege(NAME) {
                    self.skip_for_lack(
                        NAME,
                        missing,
                        format!("the account may not switch its sessions' binary log off: it lacks {missing}"),
                    );
                } else {
                    self.plan.session.push(SessionChange {
                        name: NAME.into(),
                        value: "0".into(),
                        reason: "rows need not be written once more into the binary log".into(),
                    });
                }
            }
        }
    }

    /// Advises on settings that only a restart changes and that no rule above covers.
    fn startup_advice(&mut self) {
        let mode = self.facts.number("innodb_autoinc_lock_mode");
        if let Some(mode) = mode.filter(|m| *m != 2) {
            self.advise_restart(
                "innodb_autoinc_lock_mode",
                &mode.to_string(),
                "2",
                "LOAD DATA and INSERT … SELECT lock a table with AUTO_INCREMENT for others",
                "two writers into one such table; none where ids stand in the dump",
            );
        }
        if self.facts.is_on("log_bin")
            && self.facts.replicas == Some(0)
            && self.plan.session.is_empty()
        {
            self.advise_restart(
                "log_bin",
                "ON",
                "OFF",
                "every row is written into the binary log once more",
                "not measured alone; --binlog off has the same effect for the load's sessions",
            );
        }
        let method = self.facts.get("innodb_flush_method").map(str::to_owned);
        if let Some(method) = method.filter(|m| m.eq_ignore_ascii_case("fsync")) {
            self.advise_restart(
                "innodb_flush_method",
                &method,
                "O_DIRECT",
                "pages lie in the page cache a second time",
                "memory for a larger buffer pool",
            );
        }
    }

    fn advise_restart(&mut self, name: &str, now: &str, new: &str, reason: &str, gain: &str) {
        let wish = Wish {
            name,
            new: new.to_owned(),
            level: Relaxed,
            reason,
            gain,
        };
        self.advise(&wish, now, true);
    }
}

#[cfg(test)]
mod tests;
