//! What holds the place of something else in a folder of mydumper, or stands where it does not belong.

use std::sync::Arc;

use super::Role;
use super::metadata::Metadata;
use crate::error::SourceError;
use crate::folder::{self, Entry};

/// How the table options begin of a table that holds the place of a view.
const OPTIONS: &[u8] = b"\n) ENGINE=";
/// What stands behind its engine, of MySQL.
const NOT_ENCRYPTED: &[u8] = b" ENCRYPTION='N'";
/// How `SHOW CREATE TABLE` says that a table is the one of a sequence.
const SEQUENCE: &[u8] = b" SEQUENCE=1";
/// Bytes at the beginning of a definition in which that stands, if it does: its columns have fixed names.
const SEQUENCE_HEAD: usize = 64 << 10;

/// The definition of a table that holds the place of a view, without its options; `None` where it is not as mydumper writes it.
///
/// mydumper makes it `MEMORY`, which takes no `TEXT` that the view's first column may be, is not replicated by Galera, and has MySQL's
/// `ENCRYPTION`, which MariaDB does not know (`write_view_definition_into_file` of `mydumper_jobs.c`). It is dropped as soon as the view is
/// created, so that its engine is of no consequence.
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

/// Makes sequences of the tables that are the tables of sequences: mydumper finds MariaDB's sequences by a comment that not every server
/// has on them, and dumps the others as tables. They have to be there before tables whose columns take their values from them.
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
