//! Collations that a server's own text leaves to whoever reads it.
//!
//! Servers leave out the default collation of a character set, and for some sets that is not the same everywhere: for `utf8mb4` it is
//! `utf8mb4_general_ci` up to MySQL 5.7 and MariaDB 11.5, `utf8mb4_0900_ai_ci` from MySQL 8.0 on, `utf8mb4_uca1400_ai_ci` from
//! MariaDB 11.6 on, and MariaDB's `character_set_collations` makes it what anybody likes. A text without it would sort, compare and be unique in
//! another way where it is restored. MySQL before 8.0 and MariaDB before 10.3.37 write such texts.

use refloat_sqltext::ddl::Column;
use refloat_sqltext::{LexMode, Token, parse_create_table, tokens};

/// Character sets whose default collation is not the same on all servers.
const MOVING: &[&str] = &["utf8mb4", "utf8mb3", "utf8", "ucs2", "utf16", "utf32"];

/// A `CREATE TABLE` that names the collation wherever it named only such a character set; as it is when it cannot be split.
///
/// `collation` is that of the table, `of_column` that of a column, by its name.
pub fn table<'a>(
    create: &[u8],
    collation: Option<&str>,
    of_column: impl Fn(&[u8]) -> Option<&'a str>,
) -> Vec<u8> {
    let Ok(parsed) = parse_create_table(create, LexMode::default()) else {
        return create.to_owned();
    };
    // Where a collation is missing, and which.
    let mut missing: Vec<(usize, &str)> = Vec::new();
    for column in parsed.columns() {
        if let (Some(at), Some(collation)) = (charset_end(create, column), of_column(&column.name))
        {
            missing.push((at, collation));
        }
    }
    if parsed.option("COLLATE").is_none()
        && let Some(collation) = collation
    {
        let mut options = parsed.options.iter();
        let charset = options.find(|option| option.name == "CHARSET" && is_moving(&option.value));
        missing.extend(charset.map(|option| (option.range.end, collation)));
    }
    let mut text = create.to_owned();
    for (at, collation) in missing.into_iter().rev() {
        insert(&mut text, at, collation);
    }
    text
}

/// The same for a `CREATE DATABASE`.
pub fn database(create: &[u8], collation: &str) -> Vec<u8> {
    const NAMING: &[u8] = b"DEFAULT CHARACTER SET ";
    let mut text = create.to_owned();
    // What stands last is no part of a name: the name comes first.
    let Some(at) = memchr::memmem::rfind(create, NAMING) else {
        return text;
    };
    let begin = at + NAMING.len();
    let length = create[begin..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let end = begin + length;
    if is_moving(&create[begin..end]) && !create[end..].starts_with(b" COLLATE") {
        insert(&mut text, end, collation);
    }
    text
}

fn insert(text: &mut Vec<u8>, at: usize, collation: &str) {
    text.splice(at..at, format!(" COLLATE {collation}").into_bytes());
}

fn is_moving(charset: &[u8]) -> bool {
    MOVING
        .iter()
        .any(|name| charset.eq_ignore_ascii_case(name.as_bytes()))
}

/// Where the name of the column's character set ends, if it is such a one and no collation is named.
fn charset_end(create: &[u8], column: &Column) -> Option<usize> {
    if column.collation.is_some() || !is_moving(column.charset.as_deref()?) {
        return None;
    }
    let from = column.type_range.end;
    let text = &create[from..column.range.end];
    let words: Vec<Token> = tokens(text, LexMode::default()).code().collect();
    let naming = words
        .windows(3)
        .find(|words| words[0].is(text, "CHARACTER") && words[1].is(text, "SET"))?;
    Some(from + naming[2].range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explicit(create: &str, collation: &str) -> String {
        let of_column = |name: &[u8]| (name == b"c").then_some("utf8mb4_unicode_ci");
        String::from_utf8(table(create.as_bytes(), Some(collation), of_column)).unwrap()
    }

    #[test]
    fn what_was_left_to_the_server_is_named() {
        assert_eq!(
            explicit(
                "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT 'CHARACTER SET utf8mb4',\n  `c` text CHARACTER SET utf8mb4 COMMENT 'x',\n  \
                 `l` text CHARACTER SET latin1\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='y'",
                "utf8mb4_general_ci"
            ),
            "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT 'CHARACTER SET utf8mb4',\n  \
             `c` text CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci COMMENT 'x',\n  \
             `l` text CHARACTER SET latin1\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE utf8mb4_general_ci COMMENT='y'"
        );
    }

    #[test]
    fn what_is_named_or_the_same_everywhere_stays() {
        for create in [
            "CREATE TABLE `t` (\n  `c` text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
            "CREATE TABLE `t` (\n  `c` text\n) ENGINE=InnoDB DEFAULT CHARSET=latin1",
        ] {
            assert_eq!(explicit(create, "utf8mb4_general_ci"), create);
        }
    }

    #[test]
    fn databases() {
        let explicit =
            |text: &str| String::from_utf8(database(text.as_bytes(), "utf8_general_ci")).unwrap();
        assert_eq!(
            explicit(
                "CREATE DATABASE `a DEFAULT CHARACTER SET b` /*!40100 DEFAULT CHARACTER SET utf8 */"
            ),
            "CREATE DATABASE `a DEFAULT CHARACTER SET b` /*!40100 DEFAULT CHARACTER SET utf8 COLLATE utf8_general_ci */"
        );
        for text in [
            "CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin */",
            "CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET latin1 */",
        ] {
            assert_eq!(explicit(text), text);
        }
    }
}
