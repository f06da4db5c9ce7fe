//! Finds references to the original database in a dump that is loaded into another one.
//!
//! Dump tools omit the database name where it is the dump's own, but not in bodies of programs,
//! calls of functions and defaults that use a sequence: there it stays as it was written. On the
//! server that the dump comes from, the new program would read and change the old database.

use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

use super::options::LoadOptions;

/// Words after which a name with a dot names a table, routine or sequence, and never a column.
const BEFORE_OBJECTS: &[&str] = &[
    "FROM",
    "JOIN",
    "STRAIGHT_JOIN",
    "INTO",
    "UPDATE",
    "CALL",
    "TABLE",
    "INSERT",
    "REPLACE",
    "IGNORE",
    "REFERENCES",
    "FOR",
    "USING",
];

/// The database that was dumped, if the dump goes into another one.
pub fn other_origin<'a>(options: &LoadOptions, origin: Option<&'a str>) -> Option<&'a str> {
    let wanted = options
        .database
        .as_ref()
        .or(options.target.database.as_ref())?;
    origin.filter(|origin| *origin != wanted)
}

/// Whether a definition names something in this database.
///
/// `name.x` may be a column of a table or alias called `name`. If the name also stands alone, only
/// places where it cannot be a table count.
pub fn names(text: &[u8], mode: LexMode, database: &str) -> bool {
    let database = database.to_lowercase();
    let list: Vec<Token> = tokens(text, mode).code().collect();
    let punct = |at: usize, byte: u8| list.get(at).is_some_and(|token| token.is_punct(byte));
    let before = |at: usize, byte: u8| at > 0 && punct(at - 1, byte);
    let is = |at: usize| {
        let name = list.get(at).and_then(|token| token.name(text));
        name.is_some_and(|name| String::from_utf8_lossy(&name).to_lowercase() == database)
    };
    let qualifies = |at: usize| {
        let follows = list.get(at + 2);
        let named = follows.is_some_and(|token| {
            matches!(
                token.kind,
                TokenKind::Word | TokenKind::QuotedName | TokenKind::Number
            )
        });
        is(at) && punct(at + 1, b'.') && named && !before(at, b'.')
    };
    let found: Vec<usize> = (0..list.len()).filter(|at| qualifies(*at)).collect();
    let alone = (0..list.len()).any(|at| {
        let account = punct(at + 1, b'@') || before(at, b'@');
        is(at) && !account && !punct(at + 1, b'.')
    });
    found.into_iter().any(|at| {
        let object = punct(at + 3, b'.') || punct(at + 3, b'(');
        let placed = at > 0
            && BEFORE_OBJECTS
                .iter()
                .any(|word| list[at - 1].is(text, word));
        !alone || object || placed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> bool {
        names(text.as_bytes(), LexMode::default(), "shop")
    }

    #[test]
    fn the_database_is_found_wherever_it_is_named() {
        for text in [
            "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO shop.log VALUES (1)",
            "CREATE VIEW v AS select `shop`.`f`() AS `f` from `t`",
            "CREATE VIEW v AS select `a`.`x`,`SHOP`.`t`.`y` from `a`",
            "CREATE PROCEDURE p() DELETE a FROM t a, `shop`.u b WHERE a.x = b.x",
            "CREATE PROCEDURE p() BEGIN /* fine */ UPDATE LOW_PRIORITY shop . t SET a = 1; END",
            "CREATE TABLE t (id int DEFAULT nextval(`shop`.`s`))",
            "/*!50106 CREATE*/ /*!50117 DEFINER=`shop`@`%`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO DELETE FROM shop.t */",
            "CREATE PROCEDURE p() BEGIN SELECT shop.id FROM products shop; DELETE FROM shop.t; END",
            "CREATE FUNCTION f() RETURNS int RETURN (SELECT shop.id FROM t shop) + shop.g(1)",
        ] {
            assert!(found(text), "{text}");
        }
    }

    #[test]
    fn columns_texts_and_other_names_are_not_taken_for_it() {
        for text in [
            "CREATE VIEW v AS select `shop`.`id` AS `id` from `shop`",
            "CREATE VIEW v AS select `shop`.`id` AS `id` from `products` `shop` join `u` on `shop`.`id` = `u`.`id`",
            "CREATE PROCEDURE p() SELECT 'shop.t', \"shop.t\" -- shop.t\n",
            "CREATE PROCEDURE p() SELECT a FROM other.shop WHERE other.shop.a = 1",
            "CREATE DEFINER=`shop`@`localhost` PROCEDURE p() SELECT a FROM workshop.t",
            "CREATE TABLE t (a int COMMENT 'shop.t')",
        ] {
            assert!(!found(text), "{text}");
        }
    }
}
