//! What must exist in the tables that foreign keys refer to before their children are created.

use refloat_sqltext::ddl::{CreateTable, ForeignKey, parse_create_table};
use refloat_sqltext::quote_ident_bytes;

use super::deferred::Deferred;
use super::dialogue::Dialogue;
use super::ledger::Ledger;
use crate::error::LoadError;

/// The keyword of every foreign key, whether on the table or on a column.
const REFERENCES: &[u8] = b"REFERENCES";

impl Deferred<'_> {
    /// Waits for deferred keys that the foreign keys of a definition refer to. No server accepts a
    /// foreign key if its parent lacks that key, whether it checks rows or not.
    pub fn wait_for_parents(
        &self,
        ledger: &Ledger,
        create: &[u8],
        dialogue: &mut Dialogue,
    ) -> Result<(), LoadError> {
        let upper = create.to_ascii_uppercase();
        let words = memchr::memmem::find_iter(&upper, REFERENCES).count();
        if words == 0 {
            return Ok(());
        }
        let mode = dialogue.session()?.lex_mode();
        let parsed = parse_create_table(create, mode).ok();
        let keys: Vec<&ForeignKey> = parsed.iter().flat_map(CreateTable::foreign_keys).collect();
        for index in 0..ledger.entries.len() {
            let table = &ledger.entries[index].table;
            let put_off = table.deferral().keys.clone();
            if put_off.is_empty() || ledger.entries[index].dropped {
                continue;
            }
            let named = |key: &&&ForeignKey| {
                let name = String::from_utf8_lossy(&key.ref_table.name);
                name.eq_ignore_ascii_case(&table.name)
            };
            // A foreign key that was not parsed may refer to any of these tables.
            let unclear = keys.len() < words;
            let mut parents = keys.iter().filter(named);
            if unclear || parents.any(|key| put_off.iter().any(|put_off| serves(put_off, key))) {
                self.queue.wait_key(index)?;
            }
        }
        Ok(())
    }
}

/// Whether the key that this clause adds starts with the columns a foreign key refers to.
fn serves(clause: &str, key: &ForeignKey) -> bool {
    let quoted: Vec<String> = key
        .ref_columns
        .iter()
        .map(|column| String::from_utf8_lossy(&quote_ident_bytes(column)).to_lowercase())
        .collect();
    let begin = format!("({}", quoted.join(","));
    let clause = clause.to_lowercase();
    clause.match_indices(&begin).any(|(at, _)| {
        let behind = clause[at + begin.len()..].chars().next();
        matches!(behind, Some(',' | ')' | ' '))
    })
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::LexMode;

    use super::*;

    fn key(reference: &str) -> ForeignKey {
        let text = format!(
            "CREATE TABLE c (a INT, b INT, CONSTRAINT f FOREIGN KEY (a, b) REFERENCES {reference})"
        );
        let parsed = parse_create_table(text.as_bytes(), LexMode::default()).unwrap();
        parsed.foreign_keys().next().unwrap().clone()
    }

    #[test]
    fn a_key_serves_when_it_begins_with_the_columns() {
        let one = key("p (Code)");
        for serving in [
            "ADD UNIQUE KEY `k` (`code`)",
            "ADD KEY `k` (`code`,`n`)",
            "ADD KEY `k` (`CODE` DESC)",
        ] {
            assert!(serves(serving, &one), "{serving}");
        }
        for other in [
            "ADD KEY `code` (`n`,`code`)",
            "ADD KEY `k` (`code2`)",
            "ADD KEY `k` (`code`(3))",
        ] {
            assert!(!serves(other, &one), "{other}");
        }
        assert!(serves("ADD KEY `k` (`x`,`y`,`z`)", &key("d.p (x, y)")));
        assert!(!serves("ADD KEY `k` (`y`,`x`)", &key("d.p (x, y)")));
    }
}
