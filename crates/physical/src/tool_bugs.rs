//! Released versions of the backup tools that lose data while they report success.
//!
//! Bugs that end with an error are not listed: they are reported when they happen. The sources are
//! the vendors' release notes and the discussions of the fixes.

use refloat_run::Refusal;

use crate::server::Volume;
use crate::tool::{Tool, ToolKind, Version, text};

/// In place of a patch number: no release of the series fixes it.
const NEVER: u16 = u16::MAX;

/// What a bug damages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Every copy.
    Copy,
    /// A copy of a server with users' Aria tables.
    CopyOfAria,
    /// A copy of a server with tables of Mroonga.
    CopyOfMroonga,
    /// Files that the tool prepares.
    Prepare,
}

/// A bug of released tools.
struct Bug {
    tool: ToolKind,
    /// As the vendor's tracker calls it.
    number: &'static str,
    breaks: &'static str,
    work: Work,
    /// In each series, the first version with the bug, and the first without it.
    versions: &'static [(Version, Version)],
}

/// The bugs. Series before 10.6 and 8.0 were not examined.
const BUGS: [Bug; 6] = [
    // Its pull request is 2898 of MariaDB/server, for the oldest series then; BACKUP STAGE, which
    // the later ones take (see the warnings of a tool), fixes more of the kind.
    Bug {
        tool: ToolKind::MariadbBackup,
        number: "MDEV-32939",
        breaks: "a copy cannot be restored if tables were created, renamed and dropped meanwhile",
        work: Work::Copy,
        versions: &[
            ((10, 6, 0), (10, 6, 17)),
            ((10, 7, 0), (10, 7, NEVER)),
            ((10, 8, 0), (10, 8, NEVER)),
            ((10, 9, 0), (10, 9, NEVER)),
            ((10, 10, 0), (10, 10, NEVER)),
            ((10, 11, 0), (10, 11, 7)),
            ((11, 0, 0), (11, 0, 5)),
            ((11, 1, 0), (11, 1, 4)),
            ((11, 2, 0), (11, 2, 3)),
            ((11, 3, 0), (11, 3, 2)),
            ((11, 4, 0), (11, 4, 1)),
        ],
    },
    // Pull request 4267. It came with BACKUP STAGE, so 10.6 does not have it.
    Bug {
        tool: ToolKind::MariadbBackup,
        number: "MDEV-37520",
        breaks: "damaged pages of Aria tables are copied silently",
        work: Work::CopyOfAria,
        versions: &[
            ((10, 11, 8), (10, 11, 15)),
            ((11, 0, 6), (11, 0, NEVER)),
            ((11, 1, 5), (11, 1, NEVER)),
            ((11, 2, 4), (11, 2, NEVER)),
            ((11, 4, 2), (11, 4, 9)),
            ((11, 5, 0), (11, 5, NEVER)),
            ((11, 6, 0), (11, 6, NEVER)),
            ((11, 7, 0), (11, 7, NEVER)),
            ((11, 8, 0), (11, 8, 4)),
        ],
    },
    // Pull request 4072; in the changelog of 10.11.14, and merged into the releases of that time.
    Bug {
        tool: ToolKind::MariadbBackup,
        number: "MDEV-34425",
        breaks: "the files of Mroonga tables are left out",
        work: Work::CopyOfMroonga,
        versions: &[
            ((10, 6, 0), (10, 6, NEVER)),
            ((10, 7, 0), (10, 7, NEVER)),
            ((10, 8, 0), (10, 8, NEVER)),
            ((10, 9, 0), (10, 9, NEVER)),
            ((10, 10, 0), (10, 10, NEVER)),
            ((10, 11, 0), (10, 11, 14)),
            ((11, 0, 0), (11, 0, NEVER)),
            ((11, 1, 0), (11, 1, NEVER)),
            ((11, 2, 0), (11, 2, NEVER)),
            ((11, 3, 0), (11, 3, NEVER)),
            ((11, 4, 0), (11, 4, 8)),
            ((11, 5, 0), (11, 5, NEVER)),
            ((11, 6, 0), (11, 6, NEVER)),
            ((11, 7, 0), (11, 7, NEVER)),
            ((11, 8, 0), (11, 8, 3)),
        ],
    },
    // The release notes of 10.6.9 name it as a regression; it is InnoDB's recovery, which prepares.
    Bug {
        tool: ToolKind::MariadbBackup,
        number: "MDEV-29374",
        breaks: "the redo log of merged pages is applied wrongly, which damages tables",
        work: Work::Prepare,
        versions: &[((10, 6, 9), (10, 6, 10))],
    },
    // Pull request 954 of percona/percona-xtrabackup: --lock-ddl is on from there.
    Bug {
        tool: ToolKind::Xtrabackup,
        number: "PXB-1979",
        breaks: "a copy cannot be restored if definitions of tables were changed meanwhile",
        work: Work::Copy,
        versions: &[((8, 0, 0), (8, 0, 23))],
    },
    // Pull request 1480.
    Bug {
        tool: ToolKind::Xtrabackup,
        number: "PXB-3079",
        breaks: "transactions in encrypted tables are not rolled back if their key is not found",
        work: Work::Prepare,
        versions: &[((8, 0, 0), (8, 0, 34))],
    },
];

/// Why this version must not copy a server with such files.
pub fn for_copy(tool: &Tool, volume: &Volume) -> Vec<Refusal> {
    refusals(tool, |work| match work {
        Work::Copy => true,
        Work::CopyOfAria => volume.aria > 0,
        Work::CopyOfMroonga => volume.mroonga > 0,
        Work::Prepare => false,
    })
}

/// Why this version must not prepare a copy.
pub fn for_prepare(tool: &Tool) -> Vec<Refusal> {
    refusals(tool, |work| work == Work::Prepare)
}

fn refusals(tool: &Tool, does: impl Fn(Work) -> bool) -> Vec<Refusal> {
    let has = |bug: &&Bug| {
        let in_it =
            |(first, mended): &(Version, Version)| (*first..*mended).contains(&tool.version);
        bug.tool == tool.kind && does(bug.work) && bug.versions.iter().any(in_it)
    };
    BUGS.iter()
        .filter(has)
        .map(|bug| bug.refusal(tool))
        .collect()
}

impl Bug {
    fn refusal(&self, tool: &Tool) -> Refusal {
        let (name, affected) = (tool.kind.program(), tool.version);
        let mended = self.versions.iter().map(|(_, mended)| *mended);
        let mut mended = mended.filter(|version| version.2 != NEVER);
        let same = mended
            .clone()
            .find(|version| version.0 == affected.0 && version.1 == affected.1);
        let hint = match (same, mended.next_back()) {
            (Some(version), _) => format!(
                "Install {name} {} or later of its series; the server need not be updated.",
                text(version)
            ),
            (None, last) => format!(
                "No release of its series fixes it: update server and tool to {} or later, or make a dump.",
                last.map(text).unwrap_or_default()
            ),
        };
        Refusal::new(format!(
            "{name} {} must not be used here, because of {}: {}",
            text(affected),
            self.number,
            self.breaks
        ))
        .hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(kind: ToolKind, version: Version) -> Tool {
        Tool {
            kind,
            program: kind.program().into(),
            version,
        }
    }

    fn numbers(against: &[Refusal]) -> Vec<&'static str> {
        let is_named = |bug: &&Bug| against.iter().any(|one| one.reason.contains(bug.number));
        BUGS.iter().filter(is_named).map(|bug| bug.number).collect()
    }

    #[test]
    fn versions_that_lose_data_are_named_where_they_do() {
        let plain = Volume::default();
        let aria = Volume { aria: 1, ..plain };
        let mroonga = Volume {
            mroonga: 1,
            ..plain
        };
        for (version, volume, expected) in [
            ((10, 6, 16), plain, &["MDEV-32939"][..]),
            ((10, 6, 17), plain, &[]),
            ((10, 6, 17), aria, &[]),
            ((10, 6, 28), mroonga, &["MDEV-34425"]),
            ((10, 8, 8), plain, &["MDEV-32939"]),
            ((10, 11, 6), aria, &["MDEV-32939"]),
            ((10, 11, 14), plain, &[]),
            ((10, 11, 14), aria, &["MDEV-37520"]),
            ((10, 11, 13), mroonga, &["MDEV-34425"]),
            ((10, 11, 15), aria, &[]),
            ((11, 4, 8), aria, &["MDEV-37520"]),
            ((11, 7, 2), aria, &["MDEV-37520"]),
            ((11, 8, 4), aria, &[]),
            ((12, 0, 1), aria, &[]),
        ] {
            let against = for_copy(&tool(ToolKind::MariadbBackup, version), &volume);
            assert_eq!(numbers(&against), expected, "{version:?} {volume:?}");
        }
        for (kind, version, expected) in [
            (ToolKind::MariadbBackup, (10, 6, 8), &[][..]),
            (ToolKind::MariadbBackup, (10, 6, 9), &["MDEV-29374"]),
            (ToolKind::MariadbBackup, (10, 6, 10), &[]),
            (ToolKind::Xtrabackup, (8, 0, 33), &["PXB-3079"]),
            (ToolKind::Xtrabackup, (8, 0, 34), &[]),
            (ToolKind::Clone, (8, 0, 30), &[]),
        ] {
            let against = for_prepare(&tool(kind, version));
            assert_eq!(numbers(&against), expected, "{version:?}");
        }
        let old = for_copy(&tool(ToolKind::Xtrabackup, (8, 0, 22)), &plain);
        assert_eq!(numbers(&old), ["PXB-1979"]);
    }

    #[test]
    fn each_says_what_mends_it() {
        let of = |version| {
            let volume = Volume {
                aria: 1,
                ..Volume::default()
            };
            let against = for_copy(&tool(ToolKind::MariadbBackup, version), &volume);
            Refusal::hints(&against).join(" ")
        };
        assert!(of((10, 11, 14)).contains("mariadb-backup 10.11.15 or later of its series"));
        assert!(of((11, 7, 2)).contains("update server and tool to 11.8.4"));
        for bug in &BUGS {
            for (first, mended) in bug.versions {
                assert!(first < mended, "{}", bug.number);
                assert_eq!((first.0, first.1), (mended.0, mended.1), "{}", bug.number);
            }
        }
    }
}
