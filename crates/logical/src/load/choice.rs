//! Whose a statement is, where only some tables of a dump are chosen.
//!
//! Statements of one table say which in a fixed place. In others (`INSERT … SELECT`, `UPDATE`, `DELETE`, `CALL`) a table may stand
//! anywhere: every identifier that is the name of a table of the dump counts as that table. A column of such a name makes a statement
//! unclear that is not; it is refused then, and no row is lost.

use std::collections::HashSet;

use refloat_sqltext::token::{Token, TokenKind, tokens};
use refloat_sqltext::{LexMode, ObjectName, StatementKind};

use super::pattern::matches_any;

/// Words between the verb of an `INSERT` and its table.
const MODIFIERS: &[&str] = &["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"];

/// Why a statement is refused of which nobody can tell whose it is.
pub const UNCLEAR: &str = "refused: with --tables it is not clear whether it changes only tables that are chosen (choose them all, or the whole database as db.*)";

/// Whose a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// It names tables that are chosen, and no others.
    Chosen,
    /// It names tables that are not chosen, and no others.
    Others,
    /// It names both, or nobody can tell.
    Unclear,
}

/// The tables that a load was asked for.
#[derive(Debug, Clone)]
pub struct Choice {
    patterns: Vec<String>,
    /// Tables that the dump has named so far, in lower case.
    seen: HashSet<(String, String)>,
}

impl Choice {
    /// A choice by patterns (`table` or `db.table`, with `*` and `?`); without any, everything is chosen.
    pub fn new(patterns: &[String]) -> Self {
        Self {
            patterns: patterns.to_vec(),
            seen: HashSet::new(),
        }
    }

    /// Whether there are tables that are not chosen.
    pub fn is_partial(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Notes that the dump has a table.
    pub fn note(&mut self, database: &str, table: &str) {
        if self.is_partial() {
            self.seen
                .insert((database.to_lowercase(), table.to_lowercase()));
        }
    }

    /// Whether a table or view is chosen.
    pub fn has(&self, database: &str, table: &str) -> bool {
        !self.is_partial() || matches_any(&self.patterns, database, table)
    }

    /// Whether a database is chosen whole, with its routines and events (`shop.*`, `*`).
    pub fn has_all_of(&self, database: &str) -> bool {
        !self.is_partial()
            || self.patterns.iter().any(|pattern| {
                pattern == "*"
                    || pattern
                        .strip_suffix(".*")
                        .is_some_and(|_| matches_any(std::slice::from_ref(pattern), database, ""))
            })
    }

    /// Whose a statement is that stands where `database` is the default.
    pub fn whose(
        &self,
        kind: &StatementKind,
        text: &[u8],
        mode: LexMode,
        database: Option<&str>,
    ) -> Whose {
        if !self.is_partial() {
            return Whose::Chosen;
        }
        let words: Vec<Token> = tokens(text, mode).code().collect();
        let key = |name: &ObjectName| {
            let own = name.database.as_deref().map(shown);
            let database = own
                .or_else(|| database.map(str::to_owned))
                .unwrap_or_default();
            (database, shown(&name.name))
        };
        let (named, exact): (Vec<(String, String)>, bool) = match targets(kind, text, &words) {
            Some(targets) => (targets.iter().map(key).collect(), true),
            None => (identifiers(text, &words).iter().map(key).collect(), false),
        };
        let (mut chosen, mut others) = (0, 0);
        for (database, table) in &named {
            let known = exact
                || self
                    .seen
                    .contains(&(database.to_lowercase(), table.to_lowercase()));
            match (known, self.has(database, table)) {
                (true, true) => chosen += 1,
                (true, false) => others += 1,
                (false, _) => {}
            }
        }
        let queries = matches!(
            kind,
            StatementKind::Select | StatementKind::Do | StatementKind::Maintenance
        );
        match (chosen, others) {
            (0, 0) if queries || database.is_some_and(|name| self.has_all_of(name)) => {
                Whose::Chosen
            }
            (0, 0) => Whose::Unclear,
            (_, 0) => Whose::Chosen,
            (0, _) => Whose::Others,
            _ => Whose::Unclear,
        }
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The tables of a statement that names them where everybody sees them; `None` of any other.
fn targets(kind: &StatementKind, text: &[u8], words: &[Token]) -> Option<Vec<ObjectName>> {
    let behind = |keyword: &str| {
        let at = words.iter().position(|word| word.is(text, keyword))?;
        name_at(text, words, at + 1)
    };
    match kind {
        StatementKind::Truncate { table } => Some(vec![table.clone()]),
        StatementKind::AlterTable { table } => {
            let others = ["RENAME", "EXCHANGE"];
            let other = others
                .iter()
                .any(|other| words.iter().any(|word| word.is(text, other)));
            // RENAME may be of a column or key, and then its words are no tables: all names are looked at.
            (!other).then(|| vec![table.clone()])
        }
        StatementKind::Index => behind("ON").map(|name| vec![name]),
        StatementKind::Insert => {
            let reads = ["SELECT", "TABLE", "WITH"];
            if words
                .iter()
                .any(|word| reads.iter().any(|read| word.is(text, read)))
            {
                return None;
            }
            let at = words
                .iter()
                .skip(1)
                .position(|word| !MODIFIERS.iter().any(|one| word.is(text, one)))?;
            name_at(text, words, at + 1).map(|name| vec![name])
        }
        _ => None,
    }
}

/// The name that begins at a token.
fn name_at(text: &[u8], words: &[Token], at: usize) -> Option<ObjectName> {
    let first = words.get(at)?.name(text)?;
    let qualified = words.get(at + 1).is_some_and(|word| word.is_punct(b'.'));
    let second = words.get(at + 2).and_then(|word| word.name(text));
    Some(match second.filter(|_| qualified) {
        Some(name) => ObjectName {
            database: Some(first),
            name,
        },
        None => ObjectName {
            database: None,
            name: first,
        },
    })
}

/// Everything in a statement that may name a table.
fn identifiers(text: &[u8], words: &[Token]) -> Vec<ObjectName> {
    let mut names = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if !matches!(word.kind, TokenKind::Word | TokenKind::QuotedName) {
            continue;
        }
        if at > 0 && words[at - 1].is_punct(b'.') {
            // The second part of a name; a column's table is its first part.
            continue;
        }
        names.extend(name_at(text, words, at));
        if words.get(at + 1).is_some_and(|next| next.is_punct(b'.')) {
            names.extend(word.name(text).map(|name| ObjectName {
                database: None,
                name,
            }));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::classify;

    use super::*;

    fn whose(patterns: &[&str], text: &str) -> Whose {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        let mut choice = Choice::new(&patterns);
        for table in ["item", "cat", "log"] {
            choice.note("shop", table);
        }
        choice.note("other", "thing");
        let mode = LexMode::default();
        choice.whose(
            &classify(text.as_bytes(), mode),
            text.as_bytes(),
            mode,
            Some("shop"),
        )
    }

    #[test]
    fn a_statement_of_one_table_goes_with_it() {
        for text in [
            "ALTER TABLE `item` ADD KEY `cat` (`cat`)",
            "ALTER TABLE item MODIFY id INT AUTO_INCREMENT, ADD CONSTRAINT c FOREIGN KEY (cat) REFERENCES cat (id)",
            "CREATE INDEX log ON item (a)",
            "TRUNCATE TABLE item",
            "INSERT INTO item SET a = 1",
            "REPLACE LOW_PRIORITY INTO shop.item SET log = 2",
            "INSERT INTO item VALUES (1) ON DUPLICATE KEY UPDATE log = 1",
            "INSERT INTO item SELECT 1 FROM DUAL",
            "UPDATE item SET a = 1 WHERE b = 2",
            "DELETE FROM `item` WHERE item.a = 1",
            "/*!40000 ALTER TABLE item ADD x INT */",
        ] {
            assert_eq!(whose(&["shop.item"], text), Whose::Chosen, "{text}");
            assert_eq!(whose(&["other.*"], text), Whose::Others, "{text}");
        }
    }

    #[test]
    fn what_names_others_too_is_unclear() {
        for text in [
            "INSERT INTO item SELECT a FROM cat",
            "INSERT INTO item VALUES ((SELECT MAX(a) FROM shop.log))",
            "UPDATE item, cat SET item.a = cat.a",
            "DELETE item FROM item JOIN other.thing USING (a)",
            "ALTER TABLE item RENAME TO log",
            "RENAME TABLE item TO x, cat TO item",
            "CALL fill_it()",
        ] {
            assert_eq!(whose(&["item"], text), Whose::Unclear, "{text}");
        }
        assert_eq!(
            whose(&["shop.*"], "INSERT INTO item SELECT a FROM cat"),
            Whose::Chosen
        );
        assert_eq!(
            whose(&["shop.*"], "UPDATE item, other.thing SET item.a = 1"),
            Whose::Unclear
        );
        assert_eq!(whose(&["shop.*"], "CALL fill_it()"), Whose::Chosen);
        assert_eq!(whose(&["item"], "SELECT 1"), Whose::Chosen);
    }

    #[test]
    fn a_database_is_chosen_whole_by_a_star() {
        let choice = Choice::new(&["shop.*".to_owned(), "a*.*".to_owned(), "x.y*".to_owned()]);
        assert!(choice.has_all_of("shop") && choice.has_all_of("abc"));
        assert!(!choice.has_all_of("x") && !choice.has_all_of("b"));
    }
}
