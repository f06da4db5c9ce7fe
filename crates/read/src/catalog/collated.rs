//! Adds the collations that a server leaves out of its own definitions.
//!
//! Servers omit the default collation of a character set, but the default differs: for `utf8mb4` it
//! is `utf8mb4_general_ci` on MySQL 5.7 and MariaDB up to 11.4, `utf8mb4_0900_ai_ci` from MySQL 8.0
//! on, and `utf8mb4_uca1400_ai_ci` on MariaDB 11.8, where `character_set_collations` can change it
//! for any character set. A definition without the collation would sort, compare and enforce
//! uniqueness differently where it is restored. MySQL writes such definitions (9.7 for `utf8mb3`,
//! older versions for every character set), and so does MariaDB before the releases of November
//! 2022 (10.6.11, 10.3.37).

use refloat_sqltext::ddl::Column;
use refloat_sqltext::{LexMode, Token, parse_create_table, tokens};

/// A `CREATE TABLE` with a collation added wherever it names only a character set. Text that cannot
/// be parsed stays as it is.
///
/// `collation` is the table's; `of_column` returns a column's, by column name.
pub fn table<'a>(
    create: &[u8],
    collation: Option<&str>,
    of_column: impl Fn(&[u8]) -> Option<&'a str>,
) -> Vec<u8> {
    let Ok(parsed) = parse_create_table(create, LexMode::default()) else {
        return create.to_owned();
    };
    // Offsets where a collation is missing, and the collation.
    let mut missing: Vec<(usize, &str)> = Vec::new();
    for column in parsed.columns() {
        if let (Some((at, charset)), Some(collation)) =
            (charset_alone(create, column), of_column(&column.name))
            && belongs(collation, charset)
        {
            missing.push((at, collation));
        }
    }
    if parsed.option("COLLATE").is_none()
        && let Some(collation) = collation
    {
        let mut options = parsed.options.iter();
        let charset =
            options.find(|option| option.name == "CHARSET" && belongs(collation, &option.value));
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
    let mut text = create.to_owned();
    let words: Vec<Token> = tokens(create, LexMode::default()).code().collect();
    if words.iter().any(|word| word.is(create, "COLLATE")) {
        return text;
    }
    if let Some(charset) = named_charset(create, &words)
        && belongs(collation, &create[charset.range.clone()])
    {
        insert(&mut text, charset.range.end, collation);
    }
    text
}

fn insert(text: &mut Vec<u8>, at: usize, collation: &str) {
    text.splice(at..at, format!(" COLLATE {collation}").into_bytes());
}

/// Whether a collation belongs to the character set. If it does not, the definition changed between
/// the two queries. The only collation of `binary` has the same name and need not be written.
fn belongs(collation: &str, charset: &[u8]) -> bool {
    let modern = |name: &str| match name {
        "utf8" => "utf8mb3".to_owned(),
        name => name.to_owned(),
    };
    let charset = String::from_utf8_lossy(charset).to_ascii_lowercase();
    collation
        .split_once('_')
        .is_some_and(|(of, _)| modern(of) == modern(&charset))
}

/// The name after the first `CHARACTER SET`.
fn named_charset<'a>(text: &[u8], words: &'a [Token]) -> Option<&'a Token> {
    words
        .windows(3)
        .find(|words| words[0].is(text, "CHARACTER") && words[1].is(text, "SET"))
        .map(|words| &words[2])
}

/// The column's character set and the offset where its name ends, if it is named without a
/// collation.
fn charset_alone<'a>(create: &[u8], column: &'a Column) -> Option<(usize, &'a [u8])> {
    let charset = column.charset.as_deref()?;
    if column.collation.is_some() {
        return None;
    }
    let from = column.type_range.end;
    let text = &create[from..column.range.end];
    let words: Vec<Token> = tokens(text, LexMode::default()).code().collect();
    let named = named_charset(text, &words)?;
    Some((from + named.range.end, charset))
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
    fn what_is_named_stays_and_what_does_not_belong_together_too() {
        for create in [
            "CREATE TABLE `t` (\n  `c` text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
            "CREATE TABLE `t` (\n  `c` text\n) ENGINE=InnoDB DEFAULT CHARSET=latin1",
            "CREATE TABLE `t` (\n  `c` text CHARACTER SET utf8mb3\n) ENGINE=InnoDB DEFAULT CHARSET=binary",
        ] {
            assert_eq!(explicit(create, "utf8mb4_general_ci"), create);
            assert_eq!(explicit(create, "binary"), create);
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
            "CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET utf8 COLLATE utf8_bin */ COMMENT 'was CHARACTER SET utf8 once'",
        ] {
            assert_eq!(explicit(text), text);
        }
    }
}
