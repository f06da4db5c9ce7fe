//! Reads columns from the text of `SHOW CREATE TABLE`, which is at hand anyway. `SHOW FULL COLUMNS`
//! takes longer than the rows of a small table, above all on MySQL, which turns it into a query of
//! `information_schema`.

use refloat_sqltext::ddl::Column as Defined;
use refloat_sqltext::token::tokens;
use refloat_sqltext::{Element, LexMode, parse_create_table};

use super::{Column, ColumnClass};
use crate::members::has_empty_member;

/// Types without a character set.
const PLAIN: &[&str] = &[
    "TINYINT",
    "SMALLINT",
    "MEDIUMINT",
    "INT",
    "BIGINT",
    "DECIMAL",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME",
    "DATETIME",
    "TIMESTAMP",
    "YEAR",
    "BINARY",
    "VARBINARY",
    "TINYBLOB",
    "BLOB",
    "MEDIUMBLOB",
    "LONGBLOB",
];
/// Types with a character set.
pub const TEXTS: &[&str] = &[
    "CHAR",
    "VARCHAR",
    "TINYTEXT",
    "TEXT",
    "MEDIUMTEXT",
    "LONGTEXT",
    "ENUM",
    "SET",
];

/// The columns of a table, from the server's own definition. `None` if it contains anything but
/// plain columns: generated or invisible columns, sequences, conditional comments, other types.
pub fn columns(create: &str) -> Option<Vec<Column>> {
    let text = create.as_bytes();
    let mode = LexMode::default();
    let table = parse_create_table(text, mode).ok()?;
    let option = |name: &str| {
        let mut options = table.options.iter();
        let option = options.find(|option| option.name == name)?;
        Some(String::from_utf8_lossy(&option.value).into_owned())
    };
    let charset = option("CHARSET").or_else(|| option("COLLATE").as_deref().map(charset_of));
    let mut columns = Vec::new();
    for element in &table.elements {
        match element {
            Element::Column(defined) => {
                columns.push(column(create, mode, defined, charset.as_deref())?);
            }
            Element::Other(_) => return None,
            _ => {}
        }
    }
    (!columns.is_empty()).then_some(columns)
}

fn column(create: &str, mode: LexMode, defined: &Defined, charset: Option<&str>) -> Option<Column> {
    let text = create.get(defined.range.clone())?;
    let kind = std::str::from_utf8(&defined.type_name).ok()?;
    let is_text = TEXTS.contains(&kind);
    let plain = defined.generated.is_none()
        && !defined.invisible
        && !defined.references
        && defined.inline_key.is_none()
        && (is_text || PLAIN.contains(&kind))
        && !text.contains("/*")
        // `nextval(…)`, `NEXT VALUE FOR …`
        && !text.to_ascii_lowercase().contains("next");
    if !plain {
        return None;
    }
    let own = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    let charset = if is_text {
        let own = defined.charset.as_ref().map(own).or_else(|| {
            let collation = defined.collation.as_ref()?;
            Some(charset_of(&String::from_utf8_lossy(collation)))
        });
        let charset = own.or_else(|| charset.map(str::to_owned))?;
        // Text in `binary` is bytes, and collations named without their character set are MariaDB's
        // new ones.
        if charset == "binary" || charset == "uca1400" {
            return None;
        }
        Some(charset)
    } else {
        None
    };
    let type_text = create.get(defined.type_range.clone())?;
    let unsigned = if defined.unsigned { " unsigned" } else { "" };
    let mut words = tokens(text.as_bytes(), mode).code();
    let has_default = words.any(|word| word.is(text.as_bytes(), "DEFAULT"));
    Some(Column {
        name: String::from_utf8_lossy(&defined.name).into_owned(),
        class: ColumnClass::of(&format!("{type_text}{unsigned}"), charset.as_deref()),
        is_enum: kind == "ENUM" && !has_empty_member(type_text),
        charset,
        generated: false,
        invisible: false,
        auto_increment: defined.auto_increment,
        from_sequence: false,
        needs_value: defined.not_null && !has_default && !defined.auto_increment,
    })
}

/// The character set that a collation belongs to.
pub fn charset_of(collation: &str) -> String {
    collation.split('_').next().unwrap_or(collation).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<Vec<Column>> {
        columns(&format!(
            "CREATE TABLE `t` (\n{body}\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='x'"
        ))
    }

    #[test]
    fn what_a_server_says_of_plain_columns() {
        let columns = read(
            "  `id` int unsigned NOT NULL AUTO_INCREMENT,\n  `a,b` varchar(20) NOT NULL COMMENT 'no DEFAULT /here',\n  `c` enum('','x') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'x',\n  \
             `d` decimal(9,2) DEFAULT NULL,\n  `e` enum('y') COLLATE utf8mb3_bin NOT NULL,\n  `at` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n  \
             `f` blob,\n  PRIMARY KEY (`id`),\n  KEY `a` (`a,b`),\n  CONSTRAINT `k` FOREIGN KEY (`id`) REFERENCES `u` (`id`)",
        )
        .unwrap();
        let of = |at: usize| {
            let column: &Column = &columns[at];
            (
                column.name.as_str(),
                column.charset.as_deref(),
                column.needs_value,
                column.is_enum,
            )
        };
        assert_eq!(of(0), ("id", None, false, false));
        assert_eq!(columns[0].class, ColumnClass::Integer { unsigned: true });
        assert!(columns[0].auto_increment && !columns[1].auto_increment);
        assert_eq!(of(1), ("a,b", Some("utf8mb4"), true, false));
        assert_eq!(of(2), ("c", Some("latin1"), false, false));
        assert_eq!(of(3), ("d", None, false, false));
        assert_eq!(of(4), ("e", Some("utf8mb3"), true, true));
        assert_eq!(of(5), ("at", None, false, false));
        assert_eq!(columns[5].class, ColumnClass::DateTime);
        assert_eq!(columns[6].class, ColumnClass::Bytes);
    }

    #[test]
    fn what_is_not_plain_is_asked_for() {
        for body in [
            "  `a` int GENERATED ALWAYS AS (`b` + 1) VIRTUAL",
            "  `a` int /*!80023 INVISIBLE */",
            "  `a` int INVISIBLE",
            "  `a` text /*M!100301 COMPRESSED*/",
            "  `a` int DEFAULT nextval(`d`.`s`)",
            "  `a` json DEFAULT NULL",
            "  `a` char(3) CHARACTER SET binary",
            "  `a` text COLLATE uca1400_ai_ci",
            "  `a` uuid",
            "  `a` int,\n  PERIOD FOR `p` (`x`, `y`)",
        ] {
            assert!(read(body).is_none(), "{body}");
        }
    }
}
