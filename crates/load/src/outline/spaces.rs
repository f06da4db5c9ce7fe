//! General tablespaces (MySQL) that tables of a dump ask for.

use std::collections::{BTreeMap, BTreeSet};

use refloat_sqltext::ddl::parse_create_table;
use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

/// Prefix of the server's own tablespaces, which always exist.
const OWN: &str = "innodb_";

/// The general tablespaces that a dump names.
#[derive(Debug, Default, Clone)]
pub struct Spaces {
    /// Those that its tables and partitions are in, with the line of the first such definition.
    named: BTreeMap<String, u64>,
    /// Those that it creates itself.
    created: BTreeSet<String>,
}

impl Spaces {
    /// Reads a `CREATE TABLE`. A long one that was cut off adds nothing.
    pub fn table(&mut self, text: &[u8], mode: LexMode, line: u64) {
        let Ok(parsed) = parse_create_table(text, mode) else {
            return;
        };
        // Other engines have spaces of their own.
        let engine = parsed.option("ENGINE");
        if engine.is_some_and(|engine| !engine.eq_ignore_ascii_case(b"InnoDB")) {
            return;
        }
        let of_partitions = parsed.partition.clone().unwrap_or_default();
        let partitions = &text[of_partitions];
        let list: Vec<Token> = tokens(partitions, mode).code().collect();
        let after = |at: usize| {
            let equals = list.get(at + 1).is_some_and(|token| token.is_punct(b'='));
            name(list.get(at + 1 + usize::from(equals))?, partitions)
        };
        let word = |at: &usize| list[*at].is(partitions, "TABLESPACE");
        let of_table = parsed.option("TABLESPACE").map(<[u8]>::to_vec);
        let all = (0..list.len())
            .filter(word)
            .filter_map(after)
            .chain(of_table);
        for space in all {
            let space = String::from_utf8_lossy(&space).into_owned();
            if !space.starts_with(OWN) {
                self.named.entry(space).or_insert(line);
            }
        }
    }

    /// Reads another statement, which may be a `CREATE TABLESPACE`.
    pub fn other(&mut self, text: &[u8], mode: LexMode) {
        let list: Vec<Token> = tokens(text, mode).code().take(4).collect();
        let is = |at: usize, word: &str| list.get(at).is_some_and(|one| one.is(text, word));
        if is(0, "CREATE") && is(1, "TABLESPACE") {
            let space = list.get(2).and_then(|token| name(token, text));
            let space = space.map(|space| String::from_utf8_lossy(&space).into_owned());
            self.created.extend(space);
        }
    }

    /// Those that the dump needs and does not create, with the line of the first table in each.
    pub fn needed(&self) -> impl Iterator<Item = (&String, u64)> {
        let needed = self.named.iter();
        needed
            .filter(|(space, _)| !self.created.contains(*space))
            .map(|(space, line)| (space, *line))
    }
}

fn name(token: &Token, text: &[u8]) -> Option<Vec<u8>> {
    match token.kind {
        TokenKind::Text => {
            let raw = &text[token.range.clone()];
            raw.get(1..raw.len() - 1).map(<[u8]>::to_vec)
        }
        _ => token.name(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablespaces_of_tables_and_partitions_less_those_that_the_dump_makes() {
        let mut spaces = Spaces::default();
        let mode = LexMode::default();
        for (line, text) in (1..).zip([
            "CREATE TABLE `t` (`tablespace` int) /*!50100 TABLESPACE `ts` */ ENGINE=InnoDB",
            "CREATE TABLE u (a int) TABLESPACE = own ENGINE=InnoDB",
            "CREATE TABLE v (a int) TABLESPACE innodb_file_per_table",
            "CREATE TABLE w (a int) ENGINE=InnoDB\n/*!50100 PARTITION BY RANGE (a)\n(PARTITION p VALUES LESS THAN (9) TABLESPACE = `ps` ENGINE = InnoDB) */",
            "CREATE TABLE x (a int COMMENT 'TABLESPACE no') COMMENT='TABLESPACE no'",
            "CREATE TABLE y (a int) /*!50100 TABLESPACE `ts` */ ENGINE=InnoDB",
        ]) {
            spaces.table(text.as_bytes(), mode, line);
        }
        spaces.other(b"CREATE TABLESPACE `own` ADD DATAFILE 'own.ibd'", mode);
        let needed: Vec<_> = spaces
            .needed()
            .map(|(name, line)| (&**name, line))
            .collect();
        assert_eq!(needed, [("ps", 4), ("ts", 1)]);
    }
}
