//! Generates columns: types and their attributes.

use std::fmt::Write as _;

use super::names::{literal, name, text};
use super::values::{Value, expression};
use super::{Rng, Server};
use crate::oracle::quote;

/// How a column can be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InKey {
    Whole,
    Prefix,
    Spatial,
    Not,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// Type and attributes, as they follow the name.
    pub definition: String,
    pub value: Value,
    pub key: InKey,
    pub nullable: bool,
    pub generated: bool,
    /// Whether the type is an integer, as some keys, partitions and `AUTO_INCREMENT` require.
    pub integer: bool,
}

impl Column {
    pub fn quoted(&self) -> String {
        quote(&self.name)
    }
}

/// A type: its SQL, its values, and how it can be part of a key.
struct Type(String, Value, InKey);

/// A column of a random type.
pub fn column(rng: &mut Rng, server: &Server, number: usize, before: &[Column]) -> Column {
    let Type(sql, value, key) = kind(rng, server);
    let integer = value == Value::Integer && !sql.starts_with("BOOL");
    let mut column = Column {
        // The server drops leading spaces of a view's column names when it reads the view's
        // definition again.
        name: name(rng, number).trim_start().to_owned(),
        definition: sql,
        value,
        key,
        nullable: rng.chance(65),
        generated: false,
        integer,
    };
    let sources: Vec<&Column> = before.iter().filter(|column| !column.generated).collect();
    if !sources.is_empty() && rng.chance(12) {
        generated(rng, &mut column, &sources);
        return column;
    }
    let spatial = matches!(column.value, Value::Geometry(_));
    column.definition.push_str(if column.nullable {
        " NULL"
    } else {
        " NOT NULL"
    });
    if rng.chance(30) {
        let default = default(rng, &column, server.mariadb);
        column.definition.push_str(&default);
    }
    if matches!(column.value, Value::Timestamp(_))
        && column.definition.contains("TIMESTAMP(6)")
        && rng.chance(40)
    {
        column
            .definition
            .push_str(" ON UPDATE CURRENT_TIMESTAMP(6)");
    }
    if rng.chance(8) && (column.nullable || column.definition.contains("DEFAULT")) && !spatial {
        column.definition.push_str(" INVISIBLE");
    }
    comment(rng, &mut column);
    if rng.chance(8) && !spatial {
        let odd = literal(&text(rng, 3));
        let check = format!(
            " CHECK (LENGTH({}) >= 0 OR {odd} IS NOT NULL)",
            column.quoted()
        );
        column.definition.push_str(&check);
    }
    column
}

fn comment(rng: &mut Rng, column: &mut Column) {
    if rng.chance(20) {
        let comment = literal(&text(rng, 6));
        let _ = write!(column.definition, " COMMENT {comment}");
    }
}

/// Makes a column generated from another one.
fn generated(rng: &mut Rng, column: &mut Column, sources: &[&Column]) {
    let source = *rng.pick(sources);
    let of = source.quoted();
    let odd = literal(&text(rng, 3));
    let (sql, key, integer) = match rng.below(4) {
        0 => (format!("INT AS (LENGTH({of}))"), InKey::Whole, true),
        1 => (
            format!("VARCHAR(200) CHARACTER SET utf8mb4 AS (CONCAT({odd}, LENGTH({of})))"),
            InKey::Prefix,
            false,
        ),
        2 => (
            format!("VARCHAR(10) CHARACTER SET latin1 AS (LEFT(HEX(CONCAT({of})), 10))"),
            InKey::Whole,
            false,
        ),
        _ => (format!("INT AS ({of} IS NULL)"), InKey::Whole, true),
    };
    let kept = if rng.chance(50) {
        " STORED"
    } else {
        " VIRTUAL"
    };
    column.definition = format!("{sql}{kept}");
    (column.key, column.integer) = (key, integer);
    (column.generated, column.nullable) = (true, true);
    comment(rng, column);
}

fn default(rng: &mut Rng, column: &Column, mariadb: bool) -> String {
    match &column.value {
        Value::Text(_) | Value::Json | Value::Bytes(_)
            if column.key == InKey::Prefix && rng.chance(50) && mariadb =>
        {
            format!(" DEFAULT {}", literal(&text(rng, 2)))
        }
        Value::Text(_) if column.key == InKey::Whole => {
            let text: String = text(rng, 2).chars().take(2).collect();
            format!(" DEFAULT {}", literal(&text))
        }
        Value::Text(_) => format!(" DEFAULT (CONCAT({}, 1))", literal(&text(rng, 2))),
        Value::Json => " DEFAULT ('{\"a\": \"\\\\\\\\\"}')".to_owned(),
        Value::Integer if rng.chance(30) => " DEFAULT (1 + 2)".to_owned(),
        Value::Integer | Value::Decimal | Value::Float => format!(" DEFAULT {}", rng.below(100)),
        Value::Timestamp(_) if column.definition.contains("TIMESTAMP(6)") => {
            " DEFAULT CURRENT_TIMESTAMP(6)".to_owned()
        }
        Value::Date if rng.chance(50) => " DEFAULT (CURDATE())".to_owned(),
        // An invalid date as a default needs an SQL mode that the stock tools' dumps do not set.
        Value::Date | Value::DateTime => " DEFAULT '2001-02-03'".to_owned(),
        Value::Year | Value::Bit(_) => {
            format!(" DEFAULT {}", expression(rng, &column.value))
        }
        _ if column.nullable => " DEFAULT NULL".to_owned(),
        _ => String::new(),
    }
}

fn kind(rng: &mut Rng, server: &Server) -> Type {
    let whole = InKey::Whole;
    match rng.below(100) {
        0..18 => Type(integer(rng), Value::Integer, whole),
        18..23 => {
            let digits = rng.within(1, 65);
            let scale = rng.below(digits.min(30) + 1);
            let sign = if rng.chance(20) { " UNSIGNED" } else { "" };
            Type(
                format!("DECIMAL({digits},{scale}){sign}"),
                Value::Decimal,
                whole,
            )
        }
        23..29 => {
            let sql = *rng.pick(&[
                "FLOAT",
                "DOUBLE",
                "FLOAT UNSIGNED",
                "DOUBLE",
                "FLOAT(7,3)",
                "DOUBLE(20,0)",
            ]);
            Type(sql.to_owned(), Value::Float, whole)
        }
        29..33 => {
            let bits = rng.within(1, 64);
            Type(format!("BIT({bits})"), Value::Bit(bits), whole)
        }
        33..35 => Type("YEAR".to_owned(), Value::Year, whole),
        35..39 => Type("DATE".to_owned(), Value::Date, whole),
        39..42 => Type(format!("TIME({})", rng.below(7)), Value::Time, whole),
        42..46 => Type(
            format!("DATETIME({})", rng.below(7)),
            Value::DateTime,
            whole,
        ),
        46..50 => {
            let late = server.mariadb && server.version >= (11, 5);
            let digits = rng.pick(&[0, 3, 6, 6]);
            Type(
                format!("TIMESTAMP({digits})"),
                Value::Timestamp(late),
                whole,
            )
        }
        50..66 => string(rng, server),
        66..76 => bytes(rng),
        76..81 => {
            let count = rng.within(1, 20);
            let members: Vec<String> = (0..count)
                .map(|number| literal(&member(rng, number)))
                .collect();
            let (word, value) = if rng.chance(60) {
                ("ENUM", Value::Enum(count))
            } else {
                ("SET", Value::Set(count))
            };
            Type(
                format!("{word}({}){}", members.join(","), server.collate(rng)),
                value,
                whole,
            )
        }
        81..86 => Type("JSON".to_owned(), Value::Json, InKey::Not),
        86..91 => {
            let kind = *rng.pick(&["GEOMETRY", "POINT"]);
            Type(kind.to_owned(), Value::Geometry(kind), InKey::Spatial)
        }
        _ => of_one_vendor(rng, server),
    }
}

fn integer(rng: &mut Rng) -> String {
    let word = *rng.pick(&[
        "TINYINT",
        "SMALLINT",
        "MEDIUMINT",
        "INT",
        "BIGINT",
        "BOOL",
        "INT(8)",
        "BIGINT",
    ]);
    if word == "BOOL" {
        return word.to_owned();
    }
    let sign = *rng.pick(&["", "", " UNSIGNED", " UNSIGNED ZEROFILL"]);
    format!("{word}{sign}")
}

fn string(rng: &mut Rng, server: &Server) -> Type {
    let collate = if rng.chance(70) {
        server.collate(rng)
    } else {
        String::new()
    };
    let length = rng.within(1, 60);
    let (sql, length, key) = match rng.below(8) {
        0 | 1 => (format!("CHAR({length})"), length, InKey::Whole),
        2..5 => (format!("VARCHAR({length})"), length, InKey::Whole),
        5 => ("TINYTEXT".to_owned(), 60, InKey::Prefix),
        6 => ("TEXT".to_owned(), 15_000, InKey::Prefix),
        _ => ("LONGTEXT".to_owned(), 20_000, InKey::Prefix),
    };
    let packed = if server.mariadb && key == InKey::Prefix && rng.chance(10) {
        " COMPRESSED"
    } else {
        ""
    };
    let key = if packed.is_empty() { key } else { InKey::Not };
    Type(format!("{sql}{packed}{collate}"), Value::Text(length), key)
}

fn bytes(rng: &mut Rng) -> Type {
    let length = rng.within(1, 60);
    let (sql, length, key) = match rng.below(5) {
        0 => (format!("BINARY({length})"), length, InKey::Whole),
        1 | 2 => (format!("VARBINARY({length})"), length, InKey::Whole),
        3 => ("BLOB".to_owned(), 60_000, InKey::Prefix),
        _ => ("LONGBLOB".to_owned(), 60_000, InKey::Prefix),
    };
    Type(sql, Value::Bytes(length), key)
}

/// A member of an `ENUM` or `SET`: unique per number, without a comma.
fn member(rng: &mut Rng, number: usize) -> String {
    if number == 0 && rng.chance(20) {
        return String::new();
    }
    let text: String = text(rng, 2)
        .chars()
        .filter(|c| *c != ',')
        .take(20)
        .collect();
    format!("{text}{number}")
}

/// Types that only one of the vendors has.
fn of_one_vendor(rng: &mut Rng, server: &Server) -> Type {
    let dimensions = rng.within(1, 5);
    let vector = |function| {
        Type(
            format!("VECTOR({dimensions})"),
            Value::Vector(dimensions, function),
            InKey::Not,
        )
    };
    if !server.mariadb {
        return vector("STRING_TO_VECTOR");
    }
    match rng.below(4) {
        0 => Type("UUID".to_owned(), Value::Uuid, InKey::Whole),
        1 => Type("INET4".to_owned(), Value::Inet4, InKey::Whole),
        2 => Type("INET6".to_owned(), Value::Inet6, InKey::Whole),
        _ if server.version >= (11, 7) => vector("VEC_FromText"),
        _ => Type("UUID".to_owned(), Value::Uuid, InKey::Whole),
    }
}
