//! Decides whether a statement concerns the chosen tables when only some tables of a dump are
//! loaded.
//!
//! A statement about a single table names it in a fixed place. In the others (`INSERT … SELECT`,
//! joins, subqueries) every name in a table position is a table, whether or not the dump has
//! mentioned it, and any other identifier that matches a table that is not chosen counts as that
//! table. A column with such a name makes a clear statement look unclear; the statement is then
//! refused, and no row is lost.
//!
//! Rows of a view, or of a table with triggers, may end up in other tables. Where such a view or
//! table is not chosen, and its definition or a trigger names a chosen table, its rows are unclear.

use std::collections::{HashMap, HashSet};

use refloat_run::own_tables::is_own_table;
use refloat_sqltext::token::{Token, TokenKind, tokens};
use refloat_sqltext::{LexMode, ObjectName, StatementKind, shown};

use refloat_schema::pattern::matches_any;

use super::error::LoadError;

/// Words that may come between the verb of an `INSERT`, `UPDATE` or `DELETE` and its table.
const MODIFIERS: &[&str] = &[
    "LOW_PRIORITY",
    "DELAYED",
    "HIGH_PRIORITY",
    "QUICK",
    "IGNORE",
    "INTO",
    "FROM",
];

/// Which tables a statement concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Chosen tables only.
    Chosen,
    /// Only tables that are not chosen.
    Others,
    /// Both, or it cannot be determined.
    Unclear,
}

/// What the definition of a view or a trigger names.
#[derive(Debug, Clone, Default)]
struct Named {
    /// Whether a chosen table is among it.
    chosen: bool,
    /// Everything else, in lower case: most of it are columns and words.
    others: HashSet<(String, String)>,
}

/// The tables that are chosen for the load.
#[derive(Debug, Clone)]
pub struct Choice {
    patterns: Vec<String>,
    /// Tables that the dump has mentioned so far, in lower case.
    seen: HashSet<(String, String)>,
    /// What the definitions of views and the triggers of tables name. Keys in lower case.
    writes_to: HashMap<(String, String), Named>,
    /// Whether each pattern has matched something.
    matched: Vec<bool>,
}

impl Choice {
    /// Chooses by pattern (`table` or `db.table`, with `*` and `?`); no patterns choose everything.
    pub fn new(patterns: &[String]) -> Self {
        Self {
            patterns: patterns.to_vec(),
            seen: HashSet::new(),
            writes_to: HashMap::new(),
            matched: vec![false; patterns.len()],
        }
    }

    /// Whether only some tables are chosen.
    pub fn is_partial(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Records that the dump contains a table or view. Returns whether it is chosen.
    pub fn meet(&mut self, database: &str, table: &str) -> bool {
        if !self.is_partial() {
            return true;
        }
        self.seen.insert(lower(database, table));
        let mut chosen = false;
        for (pattern, matched) in self.patterns.iter().zip(&mut self.matched) {
            let matches = matches_any(std::slice::from_ref(pattern), database, table);
            *matched |= matches;
            chosen |= matches;
        }
        chosen
    }

    /// Records that a table was created, which has no triggers yet.
    pub fn meet_new(&mut self, database: &str, table: &str) {
        self.writes_to.remove(&lower(database, table));
    }

    /// Records that rows of a view or table may end up in what `text` names: the definition of the
    /// view, or of a trigger of the table, in database `at`.
    pub fn meet_writer(
        &mut self,
        (database, table): (&str, &str),
        text: &[u8],
        mode: LexMode,
        at: &str,
    ) {
        if !self.is_partial() || self.has(database, table) {
            return;
        }
        let words: Vec<Token> = tokens(text, mode).code().collect();
        let is_row = |name: &ObjectName| {
            let table = name.database.as_deref();
            table.is_some_and(|table| {
                [&b"NEW"[..], b"OLD"]
                    .iter()
                    .any(|row| table.eq_ignore_ascii_case(row))
            })
        };
        let names = identifiers(text, &words);
        let names = names.iter().filter(|name| !is_row(name)).map(|name| {
            let qualifier = name.database.as_deref().map(shown);
            (
                qualifier.unwrap_or_else(|| at.to_owned()),
                shown(&name.name),
            )
        });
        let mut names: HashSet<_> = names.collect();
        let is_writer = names
            .iter()
            .any(|(database, table)| self.has(database, table));
        if is_writer {
            names.clear();
        }
        let known = self.writes_to.entry(lower(database, table)).or_default();
        known.chosen |= is_writer;
        known
            .others
            .extend(names.iter().map(|(database, table)| lower(database, table)));
    }

    /// Which tables the rows of a table or view end up in. `rows_only`: they come from a file that
    /// holds only rows, which is loaded before triggers exist.
    pub fn whose_rows(&self, database: &str, table: &str, rows_only: bool) -> Whose {
        if is_own_table(database, table) {
            Whose::Others
        } else if self.has(database, table) {
            Whose::Chosen
        } else if !rows_only && self.writes_to_chosen(database, table) {
            Whose::Unclear
        } else {
            Whose::Others
        }
    }

    /// Whether rows of something that is not chosen may end up in a chosen table.
    fn writes_to_chosen(&self, database: &str, table: &str) -> bool {
        let first = lower(database, table);
        let (mut open, mut looked) = (vec![&first], HashSet::new());
        while let Some(known) = open.pop().map(|key| self.writes_to.get(key)) {
            let Some(known) = known else { continue };
            if known.chosen {
                return true;
            }
            open.extend(known.others.iter().filter(|other| looked.insert(*other)));
        }
        false
    }

    /// Number of tables that the dump has and that are not chosen.
    pub fn left_out(&self) -> usize {
        let chosen =
            |(database, table): &(String, String)| matches_any(&self.patterns, database, table);
        self.seen.iter().filter(|table| !chosen(table)).count()
    }

    /// The patterns that have matched nothing. Each must: one that does not is a typing error.
    pub fn unmatched(&self) -> impl Iterator<Item = &String> {
        let all = self.patterns.iter().zip(&self.matched);
        all.filter(|(_, matched)| !**matched)
            .map(|(pattern, _)| pattern)
    }

    /// Refuses patterns that have matched nothing.
    pub fn check_patterns(&self) -> Result<(), LoadError> {
        let patterns: Vec<String> = self.unmatched().cloned().collect();
        if patterns.is_empty() {
            return Ok(());
        }
        Err(LoadError::NoSuchTable { patterns })
    }

    fn has_seen(&self, (database, table): &(String, String)) -> bool {
        self.seen.contains(&lower(database, table))
    }

    /// Whether a table or view is chosen.
    pub fn has(&self, database: &str, table: &str) -> bool {
        !self.is_partial() || matches_any(&self.patterns, database, table)
    }

    /// Whether a table or view is to be loaded: it is chosen, and none of Refloat's own.
    pub fn wants(&self, database: &str, table: &str) -> bool {
        self.has(database, table) && !is_own_table(database, table)
    }

    /// Whether a whole database is chosen, routines and events included (`shop.*`, `*`).
    pub fn has_all_of(&self, database: &str) -> bool {
        !self.is_partial()
            || self.patterns.iter().any(|pattern| {
                pattern == "*"
                    || pattern
                        .strip_suffix(".*")
                        .is_some_and(|_| matches_any(std::slice::from_ref(pattern), database, ""))
            })
    }

    /// Which tables a statement concerns; `database` is its default database.
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
            let qualifier = name.database.as_deref().map(shown);
            let database = qualifier
                .or_else(|| database.map(str::to_owned))
                .unwrap_or_default();
            (database, shown(&name.name))
        };
        if *kind == StatementKind::Call {
            // What the routine changes is unknown, and its name is not a table's.
            let all = database.is_some_and(|name| self.has_all_of(name));
            return if all { Whose::Chosen } else { Whose::Unclear };
        }
        let changes = matches!(
            kind,
            StatementKind::Insert | StatementKind::Update | StatementKind::Delete
        );
        let (mut chosen, mut others) = (0, 0);
        let mut count = |(database, table): &(String, String)| {
            let is_chosen = self.has(database, table);
            others += u32::from(!is_chosen);
            chosen += u32::from(is_chosen || changes && self.writes_to_chosen(database, table));
        };
        let named = |names: Vec<ObjectName>| names.iter().map(key).collect::<Vec<_>>();
        if let Some(targets) = targets(kind, text, &words) {
            named(targets).iter().for_each(&mut count);
        } else {
            let places = if changes {
                named(places(text, &words))
            } else {
                Vec::new()
            };
            places.iter().for_each(&mut count);
            named(identifiers(text, &words))
                .iter()
                .filter(|name| self.has_seen(name))
                .filter(|(database, table)| !changes || !self.has(database, table))
                .for_each(&mut count);
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

fn lower(database: &str, table: &str) -> (String, String) {
    (database.to_lowercase(), table.to_lowercase())
}

/// The table of a `CREATE INDEX` or `DROP INDEX`.
pub fn table_of_index(text: &[u8], mode: LexMode) -> Option<ObjectName> {
    let words: Vec<Token> = tokens(text, mode).collect();
    targets(&StatementKind::Index, text, &words)?.pop()
}

/// The tables of a statement that names them in a fixed place; `None` for any other statement.
fn targets(kind: &StatementKind, text: &[u8], words: &[Token]) -> Option<Vec<ObjectName>> {
    let behind = |keyword: &str| {
        let at = words.iter().position(|word| word.is(text, keyword))?;
        name_at(text, words, at + 1)
    };
    match kind {
        StatementKind::Truncate { table } => Some(vec![table.clone()]),
        StatementKind::AlterTable { table, .. } => {
            let others = ["RENAME", "EXCHANGE"];
            let other = others
                .iter()
                .any(|other| words.iter().any(|word| word.is(text, other)));
            // RENAME may concern a column or a key, whose names are not tables: look at all names
            // instead.
            (!other).then(|| vec![table.clone()])
        }
        StatementKind::Index => behind("ON").map(|name| vec![name]),
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
            let has = |words: &[Token], some: &[&str]| {
                let mut each = words.iter();
                each.any(|word| some.iter().any(|one| word.is(text, one)))
            };
            let list_ends = |word: &Token| word.is(text, "SET") || word.is(text, "WHERE");
            let list = words.iter().position(list_ends).unwrap_or(words.len());
            let several = *kind != StatementKind::Insert
                && (has(words, &["JOIN", "STRAIGHT_JOIN", "USING"])
                    || words[..list].iter().any(|word| word.is_punct(b',')));
            if several || has(words, &["SELECT", "TABLE", "WITH"]) {
                return None;
            }
            let at = first_place(text, words)?;
            // `DELETE a FROM …` starts with an alias.
            let plain = *kind != StatementKind::Delete || words[at - 1].is(text, "FROM");
            name_at(text, words, at)
                .filter(|_| plain)
                .map(|name| vec![name])
        }
        _ => None,
    }
}

/// Index of the token where the first table of an `INSERT`, `UPDATE` or `DELETE` is named.
fn first_place(text: &[u8], words: &[Token]) -> Option<usize> {
    let mut behind = words.iter().skip(1);
    let at = behind.position(|word| !MODIFIERS.iter().any(|one| word.is(text, one)))?;
    Some(at + 1)
}

/// The names in table positions of an `INSERT`, `UPDATE` or `DELETE`.
fn places(text: &[u8], words: &[Token]) -> Vec<ObjectName> {
    const OPEN: &[&str] = &["FROM", "JOIN", "STRAIGHT_JOIN", "USING", "TABLE"];
    const CLOSE: &[&str] = &[
        "SET", "WHERE", "ON", "SELECT", "VALUES", "VALUE", "GROUP", "ORDER", "HAVING", "LIMIT",
        "UNION", "WITH",
    ];
    let is_one = |word: &Token, some: &[&str]| some.iter().any(|one| word.is(text, one));
    // In a `DELETE` the first name follows FROM, or is an alias.
    let deletes = words.first().is_some_and(|word| word.is(text, "DELETE"));
    let first = first_place(text, words).filter(|_| !deletes);
    let mut names = Vec::new();
    // Whether we are in a list of tables, and whether the next word is one.
    let (mut listed, mut expected) = (false, false);
    for (at, word) in words.iter().enumerate() {
        // `USING (…)` lists columns.
        let columns =
            word.is(text, "USING") && words.get(at + 1).is_some_and(|next| next.is_punct(b'('));
        if is_one(word, OPEN) && !columns {
            (listed, expected) = (true, true);
        } else if is_one(word, CLOSE) || columns {
            (listed, expected) = (false, false);
        } else if word.is_punct(b',') {
            expected = listed;
        } else if word.is_punct(b'(') {
            listed &= expected;
        } else if first == Some(at) || expected {
            listed = true;
            expected = false;
            names.extend(name_at(text, words, at));
        }
    }
    // A common table expression is not a table.
    let declared = |name: &ObjectName| {
        let mut each = words.windows(3);
        name.database.is_none()
            && each.any(|three| {
                three[0].name(text).as_ref() == Some(&name.name)
                    && three[1].is(text, "AS")
                    && three[2].is_punct(b'(')
            })
    };
    let dual =
        |name: &ObjectName| name.database.is_none() && name.name.eq_ignore_ascii_case(b"dual");
    names.retain(|name| !declared(name) && !dual(name));
    names
}

/// The name that starts at a token.
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

/// Every identifier in a statement that may name a table.
fn identifiers(text: &[u8], words: &[Token]) -> Vec<ObjectName> {
    let mut names = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if !matches!(word.kind, TokenKind::Word | TokenKind::QuotedName) {
            continue;
        }
        if at > 0 && words[at - 1].is_punct(b'.') {
            // The second part of a name; for a column, the table is the first part.
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
            choice.meet("shop", table);
        }
        choice.meet("other", "thing");
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
    fn rows_of_views_and_of_tables_with_triggers_may_be_rows_of_chosen_tables() {
        let mut choice = Choice::new(&["shop.item".to_owned()]);
        let mut meet = |name: &str, text: &str| {
            choice.meet_writer(("shop", name), text.as_bytes(), LexMode::default(), "shop");
        };
        meet("low", "CREATE VIEW low AS SELECT * FROM `shop`.item");
        meet("lower", "CREATE VIEW lower AS SELECT low.a FROM low, lower");
        meet("apart", "CREATE VIEW apart AS SELECT * FROM cat");
        meet(
            "log",
            "CREATE TRIGGER tr AFTER INSERT ON log FOR EACH ROW UPDATE item SET a = 1",
        );
        let whose = |name| choice.whose_rows("shop", name, false);
        assert_eq!(choice.whose_rows("shop", "log", true), Whose::Others);
        assert_eq!(whose("item"), Whose::Chosen);
        for name in ["low", "Lower", "log"] {
            assert_eq!(whose(name), Whose::Unclear, "{name}");
        }
        assert_eq!([whose("apart"), whose("cat")], [Whose::Others; 2]);
        let whose = |text: &str| {
            let (text, mode) = (text.as_bytes(), LexMode::default());
            choice.whose(&classify(text, mode), text, mode, Some("shop"))
        };
        assert_eq!(whose("UPDATE low SET a = 1"), Whose::Unclear);
        assert_eq!(whose("INSERT INTO log SELECT a FROM cat"), Whose::Unclear);
        assert_eq!(whose("DELETE FROM apart"), Whose::Others);
        assert_eq!(whose("ALTER TABLE log ADD a int"), Whose::Others);
        choice.meet_new("shop", "log");
        assert_eq!(choice.whose_rows("shop", "log", false), Whose::Others);
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
            "CALL item()",
            "INSERT INTO audit SELECT a FROM item",
            "INSERT INTO item SELECT a FROM nobody.knows",
            "INSERT INTO item SELECT a FROM x, item",
            "UPDATE item JOIN unseen USING (a) SET item.a = 1",
            "DELETE i FROM item AS i JOIN unseen ON i.a = unseen.a",
            "DELETE FROM item USING item, unseen",
            "UPDATE item SET a = (SELECT MAX(a) FROM unseen)",
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
        for text in [
            "UPDATE archive.log SET item = 1",
            "DELETE FROM archive.log WHERE item = 1",
            "INSERT INTO archive.log SET item = 1",
        ] {
            assert_eq!(whose(&["item"], text), Whose::Others, "{text}");
            assert_eq!(whose(&["shop.*"], text), Whose::Others, "{text}");
        }
        for text in [
            "INSERT INTO item WITH c AS (SELECT a FROM item) SELECT a FROM c",
            "UPDATE item i JOIN item AS j ON (i.a = j.b) SET i.a = j.a, i.b = 1",
            "DELETE i FROM item AS i WHERE i.a IN (SELECT b FROM item)",
            "UPDATE item SET log = 1",
        ] {
            assert_eq!(whose(&["item"], text), Whose::Chosen, "{text}");
        }
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
