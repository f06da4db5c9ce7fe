//! Values of all types: those that are taken are stored as the server stores them.

use refloat_sandbox::ServerKind;
use refloat_tablespace::description::StoredColumn;
use refloat_tablespace::value::{Declared, Literal, Stored};
use refloat_testkit::random::Rng;
use refloat_testkit::servers;

use crate::common::{Value, assert_same, assert_sound, create, export};

/// A column, and how texts for it are made.
pub struct Column {
    pub definition: &'static str,
    pub charset: Option<&'static str>,
    pub members: &'static [&'static str],
    pub text: fn(&mut Rng) -> Vec<u8>,
}

impl Column {
    /// A value of it, stored as the server describes it; `None` if it is not taken.
    pub fn value(&self, described: &StoredColumn, random: &mut Rng) -> Option<Value> {
        let members: Vec<String> = self.members.iter().map(|one| (*one).to_owned()).collect();
        let declared = Declared {
            type_text: self.definition,
            members: &members,
            charset: self.charset,
            text_charset: self.charset.unwrap_or("utf8mb4"),
        };
        let stored = Stored::of(described, declared)
            .unwrap_or_else(|| panic!("{}: {described:?}", self.definition));
        let text = (self.text)(random);
        let mut out = Vec::new();
        stored.put(Literal::Text(&text), &mut out).then(|| Value {
            sql: self.literal(&text),
            stored: Some(out),
        })
    }

    fn literal(&self, text: &[u8]) -> String {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        let digits = text
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        let hex: String = digits.collect();
        let is_bytes = ["bit", "bin", "var", "blob", "tinyblob", "longblob"];
        match self.charset {
            _ if text.is_empty() => "''".to_owned(),
            Some(charset) => format!("_{charset} X'{hex}'"),
            None if is_bytes
                .iter()
                .any(|word| self.definition.starts_with(word)) =>
            {
                format!("X'{hex}'")
            }
            None => format!("'{}'", String::from_utf8_lossy(text)),
        }
    }

    /// Its definition, with its character set.
    pub fn sql(&self, name: &str) -> String {
        let charset = self.charset.map(|name| format!(" CHARACTER SET {name}"));
        format!("{name} {}{}", self.definition, charset.unwrap_or_default())
    }
}

/// Digits, often many zeros or nines.
fn digits(random: &mut Rng, most: usize) -> String {
    let len = random.within(1, most);
    let kind = random.below(4);
    (0..len)
        .map(|_| match kind {
            0 => '0',
            1 => '9',
            _ => char::from(b'0' + random.below(10) as u8),
        })
        .collect()
}

/// Up to so many of these characters.
pub fn characters(random: &mut Rng, all: &[char], most: usize) -> Vec<u8> {
    let len = random.within(0, most);
    let text: String = (0..len).map(|_| *random.pick(all)).collect();
    text.into_bytes()
}

fn integer(random: &mut Rng) -> Vec<u8> {
    let edge = *random.pick(&[
        "0",
        "-0",
        "127",
        "-128",
        "128",
        "255",
        "256",
        "32767",
        "-32768",
        "65535",
        "8388607",
        "-8388608",
        "16777215",
        "2147483647",
        "-2147483648",
        "4294967295",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "+7",
        "007",
        "1.5",
    ]);
    match random.below(3) {
        0 => edge.as_bytes().to_vec(),
        1 => format!("-{}", digits(random, 6)).into_bytes(),
        _ => digits(random, 20).into_bytes(),
    }
}

pub fn decimal(random: &mut Rng) -> Vec<u8> {
    let sign = *random.pick(&["", "-", "+"]);
    match random.below(3) {
        0 => format!("{sign}{}", digits(random, 12)).into_bytes(),
        1 => format!("{sign}{}.{}", digits(random, 12), digits(random, 8)).into_bytes(),
        _ => format!("{sign}.{}", digits(random, 8)).into_bytes(),
    }
}

pub fn approximate(random: &mut Rng) -> Vec<u8> {
    if random.below(2) == 0 {
        return decimal(random);
    }
    let sign = *random.pick(&["", "-"]);
    let exponent = i32::try_from(random.below(90)).unwrap() - 45;
    format!(
        "{sign}{}.{}e{exponent}",
        digits(random, 2),
        digits(random, 16)
    )
    .into_bytes()
}

fn date(random: &mut Rng) -> Vec<u8> {
    let edge = *random.pick(&[
        "0000-00-00",
        "1000-01-01",
        "9999-12-31",
        "2024-02-29",
        "2023-02-29",
        "0001-01-01",
        "2024-00-00",
        "1900-02-29",
        "2000-02-29",
        "24-01-01",
    ]);
    if random.below(3) == 0 {
        return edge.as_bytes().to_vec();
    }
    let (year, month, day) = (random.below(9999), random.below(13), random.below(32));
    format!("{year:04}-{month:02}-{day:02}").into_bytes()
}

fn second(random: &mut Rng) -> String {
    match random.below(3) {
        0 => String::new(),
        1 => format!(".{}", digits(random, 6)),
        _ => format!(".{}", digits(random, 3)),
    }
}

fn clock(random: &mut Rng, hours: usize) -> String {
    let (hour, minute, last) = (random.below(hours), random.below(61), random.below(61));
    format!("{hour:02}:{minute:02}:{last:02}{}", second(random))
}

fn date_time(random: &mut Rng) -> Vec<u8> {
    let date = String::from_utf8(date(random)).unwrap();
    match random.below(5) {
        0 => date.into_bytes(),
        _ => format!("{date} {}", clock(random, 25)).into_bytes(),
    }
}

fn timestamp(random: &mut Rng) -> Vec<u8> {
    let edge = *random.pick(&[
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:01",
        "2038-01-19 03:14:07",
        "2038-01-19 03:14:08",
    ]);
    if random.below(8) == 0 {
        return edge.as_bytes().to_vec();
    }
    let (year, month, day) = (1969 + random.below(70), random.below(13), random.below(32));
    format!("{year}-{month:02}-{day:02} {}", clock(random, 24)).into_bytes()
}

fn time(random: &mut Rng) -> Vec<u8> {
    let sign = *random.pick(&["", "-"]);
    let edge = *random.pick(&[
        "838:59:59",
        "838:59:58.9",
        "839:00:00",
        "00:00:00",
        "1:2:3",
        "10",
    ]);
    if random.below(4) == 0 {
        return format!("{sign}{edge}").into_bytes();
    }
    format!("{sign}{}", clock(random, 840)).into_bytes()
}

fn year(random: &mut Rng) -> Vec<u8> {
    format!("{:04}", 1895 + random.below(270)).into_bytes()
}

pub fn bits(random: &mut Rng) -> Vec<u8> {
    let len = random.below(4);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn ascii(random: &mut Rng) -> Vec<u8> {
    characters(random, &['a', 'Z', ' ', '0', '\'', '\\', '\0', '\n'], 12)
}

fn utf8(random: &mut Rng) -> Vec<u8> {
    if random.below(9) == 0 {
        return vec![b'a', 0xc3];
    }
    characters(random, &['a', ' ', 'ä', '€', '😀', '\u{301}', '中'], 12)
}

pub fn bytes(random: &mut Rng) -> Vec<u8> {
    let len = random.below(14);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn long(random: &mut Rng) -> Vec<u8> {
    let len = *random.pick(&[0, 127, 128, 129, 200, 255, 256, 257, 300]);
    vec![b'a' + random.below(26) as u8; len]
}

pub fn member(random: &mut Rng) -> Vec<u8> {
    random
        .pick(&["a", "B", "b", "it's", "", "none"])
        .as_bytes()
        .to_vec()
}

pub fn members(random: &mut Rng) -> Vec<u8> {
    let count = random.below(4);
    let all: Vec<&str> = (0..count)
        .map(|_| *random.pick(&["a", "B", "it's", "b", "none"]))
        .collect();
    all.join(",").into_bytes()
}

const fn column(definition: &'static str, text: fn(&mut Rng) -> Vec<u8>) -> Column {
    Column {
        definition,
        charset: None,
        members: &[],
        text,
    }
}

const fn of_charset(
    definition: &'static str,
    charset: &'static str,
    text: fn(&mut Rng) -> Vec<u8>,
) -> Column {
    Column {
        definition,
        charset: Some(charset),
        members: &["a", "B", "it's"],
        text,
    }
}

const COLUMNS: &[Column] = &[
    column("tinyint", integer),
    column("tinyint unsigned", integer),
    column("smallint", integer),
    column("smallint unsigned", integer),
    column("mediumint", integer),
    column("mediumint unsigned", integer),
    column("int", integer),
    column("int unsigned zerofill", integer),
    column("bigint", integer),
    column("bigint unsigned", integer),
    column("decimal(10,0)", decimal),
    column("decimal(10,4)", decimal),
    column("decimal(20,9) unsigned", decimal),
    column("decimal(65,30)", decimal),
    column("decimal(5,5)", decimal),
    column("float", approximate),
    column("double", approximate),
    column("double unsigned", approximate),
    column("year", year),
    column("date", date),
    column("datetime", date_time),
    column("datetime(1)", date_time),
    column("datetime(3)", date_time),
    column("datetime(6)", date_time),
    column("timestamp", timestamp),
    column("timestamp(2)", timestamp),
    column("timestamp(5)", timestamp),
    column("time", time),
    column("time(1)", time),
    column("time(3)", time),
    column("time(6)", time),
    column("bit(1)", bits),
    column("bit(10)", bits),
    column("bit(64)", bits),
    of_charset("char(8)", "latin1", bytes),
    of_charset("char(8)", "ascii", ascii),
    of_charset("char(8)", "utf8mb3", utf8),
    of_charset("char(8)", "utf8mb4", utf8),
    of_charset("char(8)", "binary", bytes),
    of_charset("varchar(8)", "latin1", bytes),
    of_charset("varchar(8)", "utf8mb4", utf8),
    of_charset("varchar(64)", "utf8mb4", long),
    of_charset("varchar(256)", "latin1", long),
    of_charset("varchar(255)", "latin1", long),
    of_charset("tinytext", "utf8mb4", long),
    of_charset("text", "utf8mb3", utf8),
    column("binary(6)", bytes),
    column("varbinary(6)", bytes),
    column("varbinary(300)", long),
    column("tinyblob", long),
    column("longblob", bytes),
    of_charset("enum('a','B','it''s')", "utf8mb4", member),
    of_charset("set('a','B','it''s')", "latin1", members),
];

fn stores(kind: ServerKind) {
    let server = servers::server(kind);
    let definitions: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, column)| column.sql(&format!("c{at}")) + " NULL")
        .collect();
    let definition = format!("({})", definitions.join(", "));
    let mut conn = create(server, "types", &definition);
    conn.exec("SET sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00'")
        .unwrap();
    let exported = export(&mut conn, "built");
    let mut random = Rng::new(7);
    let mut taken = vec![0; COLUMNS.len()];
    let mut rows = Vec::new();
    for _ in 0..400 {
        let mut row = Vec::new();
        for (at, column) in COLUMNS.iter().enumerate() {
            let described = &exported.description.columns[at];
            assert_eq!(described.name, format!("c{at}"));
            let value = column.value(described, &mut random);
            taken[at] += usize::from(value.is_some());
            row.push(value.unwrap_or_else(Value::null));
        }
        rows.push(row);
    }
    for row in &rows {
        let values: Vec<&str> = row.iter().map(|value| value.sql.as_str()).collect();
        let sql = format!("INSERT INTO loaded VALUES ({})", values.join(", "));
        let done = conn
            .exec(&sql)
            .unwrap_or_else(|error| panic!("{kind}: {error}: {sql}"));
        if done.warnings > 0 {
            // MySQL warns of the introducer `_utf8mb3`.
            let warnings = conn.warnings().unwrap();
            let other = warnings.iter().find(|warning| warning.code != 1287);
            assert_eq!(other, None, "{kind}: {sql}");
        }
    }
    // Most texts of each type are taken.
    for (column, taken) in COLUMNS.iter().zip(&taken) {
        assert!(*taken > 40, "{kind}: {}: {taken} of 400", column.definition);
    }
    exported.build(&rows);
    conn.exec("ALTER TABLE built IMPORT TABLESPACE").unwrap();
    assert_sound(&mut conn, "built");
    for at in 0..COLUMNS.len() {
        let mut all = |table: &str| {
            let sql = format!("SELECT c{at}, HEX(c{at}) FROM {table}");
            conn.query(sql).unwrap().rows
        };
        let (built, loaded) = (all("built"), all("loaded"));
        for (row, (built, loaded)) in built.iter().zip(&loaded).enumerate() {
            let text = &rows[row][at].sql;
            assert_eq!(built, loaded, "{kind}: {}: {text}", COLUMNS[at].definition);
        }
    }
    assert_same(&mut conn);
}

#[test]
fn values_are_stored_as_mariadb_10_11_stores_them() {
    stores(ServerKind::MariaDb1011);
}

#[test]
fn values_are_stored_as_mariadb_11_8_stores_them() {
    stores(ServerKind::MariaDb118);
}

#[test]
fn values_are_stored_as_mysql_9_7_stores_them() {
    stores(ServerKind::MySql97);
}
