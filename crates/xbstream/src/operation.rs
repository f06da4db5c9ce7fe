//! What a stream says, one thing at a time.

use std::fmt;
use std::path::Path;

/// Which family of tools wrote the stream. No stream says so: whoever knows the producer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// mariadb-backup and mbstream. Up to 10.11.7, 11.0.5, 11.1.4, 11.2.3 and 11.4.1 they only send
    /// pieces and ends; what came later are files that are renamed, removed, changed in the middle
    /// (all of it only when definitions change, or logs rotate, during the backup), and flag 0x02:
    /// the file replaces an older copy.
    MariaDb,
    /// xtrabackup and xbstream. Files have holes; flag 0x02 only asks stores for one object per
    /// file. The description of the format for 9.7 allows pieces in any order; its tools send them
    /// in that of the file, and another one is an error here.
    Percona,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "mariadb-backup",
            Self::Percona => "xtrabackup",
        })
    }
}

/// A pair of a map of holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Bytes that are skipped: a hole.
    pub skip: u32,
    /// Bytes of the piece that follow the hole.
    pub length: u32,
}

/// One thing that a stream says about a file.
///
/// Each file begins with [`Operation::Open`] or [`Operation::Rewrite`] and ends with
/// [`Operation::End`]. Operations on different files are mixed. Those that rename and remove are
/// about files that have ended, and their order among all operations matters.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A new file begins, whose path no other file of the stream has at this moment.
    Open {
        /// Where, below the folder of the backup.
        path: &'a Path,
    },
    /// A file begins that replaces an older copy of it, if there is one.
    Rewrite {
        /// Where, below the folder of the backup.
        path: &'a Path,
    },
    /// The next piece of the file.
    Data {
        /// Path of an open file.
        path: &'a Path,
        /// Where in the file, in bytes.
        offset: u64,
        /// The piece; its checksum was right.
        bytes: &'a [u8],
    },
    /// The next pieces of the file, with holes between them. Percona's dialect only.
    Sparse {
        /// Path of an open file.
        path: &'a Path,
        /// Where in the file the first pair begins, in bytes.
        offset: u64,
        /// Holes, and how many of the bytes follow each. The last hole may end the file.
        map: &'a [Run],
        /// The pieces, one after the other; their checksum was right.
        bytes: &'a [u8],
    },
    /// The next piece goes elsewhere in the file, as a rule over what was there.
    Seek {
        /// Path of an open file.
        path: &'a Path,
        /// Where the next piece goes, in bytes from the beginning of the file.
        offset: u64,
    },
    /// The file is complete.
    End {
        /// The path that it was opened with.
        path: &'a Path,
    },
    /// A file gets another name. What had that name goes.
    Rename {
        /// The path that it has so far.
        from: &'a Path,
        /// The path that it gets.
        to: &'a Path,
    },
    /// A file goes. One for each file where the stream names a folder or the partitions of a table.
    Remove {
        /// Path of a file that has ended.
        path: &'a Path,
    },
    /// A folder goes, into which files were sent. All in it has gone before.
    RemoveFolder {
        /// Path of the folder, below that of the backup.
        path: &'a Path,
    },
    /// There is nothing to be done, but somebody may want to know.
    Ignored {
        /// The path in the chunk.
        path: &'a Path,
        /// The reason.
        why: Ignored,
    },
}

/// Why there is nothing to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// The chunk's type is unknown, and it has the flag that allows to ignore it.
    UnknownType {
        /// The type's byte.
        kind: u8,
        /// Length of its contents, in bytes.
        length: u64,
    },
    /// No file of this name was sent: it was renamed before it was copied.
    NothingToRename,
    /// No file of this name was sent: it was dropped before it was copied.
    NothingToRemove,
}
