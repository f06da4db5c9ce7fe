//! mydumper's placeholder tables for views, and sequences that it dumps as tables.

use std::sync::Arc;

use super::Role;
use super::metadata::Metadata;
use crate::error::SourceError;
use crate::folder::{self, Entry};

/// Where the table options of a placeholder start.
const OPTIONS: &[u8] = b"\n) ENGINE=";
/// What follows its engine in dumps of MySQL.
const NOT_ENCRYPTED: &[u8] = b" ENCRYPTION='N'";
/// How `SHOW CREATE TABLE` marks the table of a sequence.
const SEQUENCE: &[u8] = b" SEQUENCE=1";
/// How many bytes of a definition are searched for that mark: a sequence has fixed columns, so it
/// comes early.
const SEQUENCE_HEAD: usize = 64 << 10;

/// The definition of a view's placeholder table without its table options; `None` if it is not in
/// mydumper's form.
///
/// mydumper makes it a `MEMORY` table. That engine rejects `TEXT`, which the view's first column
/// may be, and Galera does not replicate it; the options of a MySQL dump also include `ENCRYPTION`,
/// which MariaDB does not know (`write_view_definition_into_file` in `mydumper_jobs.c`). The engine
/// does not matter, because the table is dropped as soon as the view is created.
pub fn of_view(entry: &Entry) -> Result<Option<Arc<[u8]>>, SourceError> {
    Ok(without_options(&folder::read(&entry.path)?).map(Arc::from))
}

fn without_options(text: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memmem::rfind(text, OPTIONS)?;
    let engine = text[at + OPTIONS.len()..]
        .trim_ascii_end()
        .strip_suffix(b";")?;
    let engine = engine.strip_suffix(NOT_ENCRYPTED).unwrap_or(engine);
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    engine
        .iter()
        .all(word)
        .then(|| [&text[..at], b"\n);\n"].concat())
}

/// Turns tables that are really sequences into sequences. mydumper recognizes MariaDB's sequences
/// by a comment that not every server sets, and dumps the others as tables. They must exist before
/// tables whose columns take values from them.
pub fn sequences_first(
    files: &mut [(Role, String, Entry)],
    metadata: &Metadata,
) -> Result<(), SourceError> {
    if !metadata.counts {
        return Ok(());
    }
    for (role, _, entry) in files.iter_mut().filter(|file| file.0 == Role::Table) {
        let (text, _) = folder::read_up_to(&entry.path, SEQUENCE_HEAD)?;
        if memchr::memmem::find(&text, SEQUENCE).is_some() {
            *role = Role::Sequence;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_options_of_a_placeholder_are_left_out() {
        let columns = "CREATE TABLE IF NOT EXISTS `v`(\n`a` text,\n`b` int\n)";
        let without = |options: &str| {
            let text = without_options(format!("{columns}{options}").as_bytes());
            text.map(|text| String::from_utf8(text).unwrap())
        };
        for options in [
            " ENGINE=MEMORY;\n",
            " ENGINE=MEMORY ENCRYPTION='N';\n",
            " ENGINE=InnoDB;",
        ] {
            assert_eq!(without(options).unwrap(), format!("{columns};\n"));
        }
        for other in [
            ";\n",
            " ENGINE=MEMORY",
            " ENGINE=MEMORY; DROP TABLE t;\n",
            " ENGINE=MEMORY COMMENT='x';",
        ] {
            assert_eq!(without(other), None, "{other}");
        }
    }
}
