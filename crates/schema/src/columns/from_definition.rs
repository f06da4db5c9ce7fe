//! Reads columns from the text of `SHOW CREATE TABLE`, which is at hand anyway. `SHOW FULL COLUMNS`
//! takes longer than the rows of a small table, above all on MySQL, which turns it into a query of
//! `information_schema`.

use refloat_sqltext::ddl::Column as Defined;
use refloat_sqltext::token::tokens;
use refloat_sqltext::{Element, LexMode, parse_create_table};

use super::{Column, TEXTS, charset_of};

/// Types without a character set.
const PLAIN: &[&str] = &[
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "bigint",
    "decimal",
    "float",
    "double",
    "date",
    "time",
    "datetime",
    "timestamp",
    "year",
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
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

fn column(
    create: &str,
    mode: LexMode,
    definition: &Defined,
    charset: Option<&str>,
) -> Option<Column> {
    let text = create.get(definition.range.clone())?;
    let column = defined(create.as_bytes(), definition);
    let is_text = TEXTS.contains(&column.data_type.as_str());
    let plain = !column.generated
        && !column.invisible
        && !definition.references
        && definition.inline_key.is_none()
        && (is_text || PLAIN.contains(&column.data_type.as_str()))
        && !text.contains("/*")
        // `nextval(…)`, `NEXT VALUE FOR …`
        && !text.to_ascii_lowercase().contains("next");
    if !plain {
        return None;
    }
    let charset = if is_text {
        Some(column.charset.or_else(|| charset.map(str::to_owned))?)
    } else {
        None
    };
    // Text in `binary` is bytes, and collations named without their character set are MariaDB's new
    // ones.
    if matches!(charset.as_deref(), Some("binary" | "uca1400")) {
        return None;
    }
    let mut words = tokens(text.as_bytes(), mode).code();
    let has_default = words.any(|word| word.is(text.as_bytes(), "DEFAULT"));
    Some(Column {
        needs_value: definition.not_null && !has_default && !definition.auto_increment,
        charset,
        ..column
    })
}

/// What a definition says about one of its columns. The table's character set is not applied, and
/// defaults are not read.
pub fn defined(create: &[u8], definition: &Defined) -> Column {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lower = |bytes: &Vec<u8>| text(bytes).to_ascii_lowercase();
    let collation = definition.collation.as_ref().map(lower);
    let charset = definition.charset.as_ref().map(lower);
    let charset = charset.or_else(|| collation.as_deref().map(charset_of));
    let mut type_text = text(
        create
            .get(definition.type_range.clone())
            .unwrap_or_default(),
    );
    if definition.unsigned {
        type_text += " unsigned";
    }
    Column {
        collation,
        generated: definition.generated.is_some(),
        invisible: definition.invisible,
        auto_increment: definition.auto_increment,
        ..Column::new(&text(&definition.name), &type_text, charset)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ColumnClass;
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
                column.is_enum(),
            )
        };
        assert_eq!(of(0), ("id", None, false, false));
        assert_eq!(columns[0].class, ColumnClass::Integer { unsigned: true });
        assert!(columns[0].auto_increment && !columns[1].auto_increment);
        assert_eq!(of(1), ("a,b", Some("utf8mb4"), true, false));
        assert_eq!(of(2), ("c", Some("latin1"), false, true));
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
