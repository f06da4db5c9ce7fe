//! Generates combinations: a session, a table, and statements that fill it.

use refloat_testkit::random::Rng;

use crate::sessions::{Session, Setting, settings};

/// One combination, as the text of a dump for a database of its own.
#[derive(Debug, Clone)]
pub struct Combination {
    /// Its number, which is also its seed.
    pub number: u64,
    /// Statements with their delimiters, each on its own lines.
    pub text: String,
    /// Statements that restore the original session.
    pub reset: String,
}

/// The settings of a combination: first each one alone, then every pair once, then up to three at
/// random.
fn chosen(all: &[Setting], number: u64, rng: &mut Rng) -> Vec<Setting> {
    /// A prime that does not divide the number of pairs. It keeps the first pairs from all sharing
    /// a setting.
    const STEP: usize = 7919;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if let Some(setting) = all.get(number) {
        return vec![*setting];
    }
    let pairs = all.len() * (all.len() - 1) / 2;
    let at = number - all.len();
    if at >= pairs {
        return (0..rng.within(1, 3)).map(|_| *rng.pick(all)).collect();
    }
    // Pairs that end in the second setting, then those that end in the third, and so on.
    let mut at = at * STEP % pairs;
    let mut second = 1;
    while at >= second {
        at -= second;
        second += 1;
    }
    vec![all[at], all[second]]
}

#[test]
fn every_pair_of_settings_comes_once() {
    for mariadb in [true, false] {
        let all = settings(mariadb);
        let (alone, pairs) = (all.len(), all.len() * (all.len() - 1) / 2);
        let mut rng = Rng::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for number in alone..alone + pairs {
            let two = chosen(&all, number as u64, &mut rng);
            seen.insert(format!("{two:?}"));
        }
        let twice = all.iter().map(|one| format!("{one:?}"));
        let twice: std::collections::BTreeSet<String> = twice.collect();
        // Settings that are listed twice make some pairs equal.
        assert!(seen.len() >= twice.len() * (twice.len() - 1) / 2);
    }
}

/// Generates the combination with this number.
pub fn combination(number: u64, mariadb: bool) -> Combination {
    let mut rng = Rng::new(number.wrapping_mul(0x5DEE_CE66));
    let all = settings(mariadb);
    let chosen = chosen(&all, number, &mut rng);
    let by_turns = (all.len() + all.len() * (all.len() - 1) / 2) as u64;
    combined(number, (&chosen, number < by_turns), mariadb, rng)
}

/// Generates the combination with this number and these settings.
pub fn combination_of(number: u64, chosen: &[Setting], mariadb: bool) -> Combination {
    let every_type = chosen.len() == 1;
    combined(number, (chosen, every_type), mariadb, Rng::new(number))
}

fn combined(
    number: u64,
    (chosen, every_type): (&[Setting], bool),
    mariadb: bool,
    mut rng: Rng,
) -> Combination {
    let session = Session::of(chosen, &mut rng);
    let mut reset = String::new();
    for statement in &session.reset {
        reset.push_str(statement);
        reset.push_str(";\n");
    }
    let mut maker = Maker {
        rng,
        session,
        mariadb,
        table: format!("c{number}"),
        every_type,
        some: false,
        text: String::new(),
    };
    maker.make(chosen.len());
    Combination {
        number,
        text: maker.text,
        reset,
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Unsigned,
    Decimal,
    Double,
    Bit,
    Year,
    Date,
    DateTime,
    Fraction,
    Timestamp,
    Time,
    Text,
    Latin,
    Wide,
    Bytes,
    Enum,
    Set,
    Json,
    Float,
    Geometry,
    Generated,
    Uuid,
    Inet,
    Inet4,
    Vector,
}

/// Types that both vendors have.
const KINDS: &[(Kind, &str)] = &[
    (Kind::Integer, "INT"),
    (Kind::Integer, "BIGINT"),
    (Kind::Integer, "TINYINT"),
    (Kind::Unsigned, "INT UNSIGNED"),
    (Kind::Decimal, "DECIMAL(30,12)"),
    (Kind::Double, "DOUBLE"),
    (Kind::Bit, "BIT(8)"),
    (Kind::Year, "YEAR"),
    (Kind::Date, "DATE"),
    (Kind::DateTime, "DATETIME"),
    (Kind::Fraction, "DATETIME(3)"),
    (Kind::Timestamp, "TIMESTAMP NULL"),
    (Kind::Time, "TIME"),
    (Kind::Text, "VARCHAR(60) CHARACTER SET utf8mb4"),
    (Kind::Text, "TEXT CHARACTER SET utf8mb4"),
    (Kind::Text, "CHAR(30) CHARACTER SET utf8mb4"),
    (Kind::Latin, "VARCHAR(60)"),
    (Kind::Latin, "VARCHAR(60) CHARACTER SET latin1"),
    (Kind::Latin, "VARCHAR(60) CHARACTER SET utf8mb3"),
    (Kind::Wide, "VARCHAR(60) CHARACTER SET ucs2"),
    (Kind::Bytes, "VARBINARY(80)"),
    (Kind::Bytes, "BLOB"),
    (Kind::Enum, "ENUM('a','b','c d')"),
    (Kind::Set, "SET('a','b','c d')"),
    (Kind::Json, "JSON"),
    (Kind::Integer, "SMALLINT"),
    (Kind::Integer, "MEDIUMINT"),
    (Kind::Float, "FLOAT"),
    (Kind::Bytes, "BINARY(20)"),
    (Kind::Time, "TIME(3)"),
    (Kind::Timestamp, "TIMESTAMP(6) NULL"),
    (Kind::Geometry, "GEOMETRY"),
    (Kind::Generated, "INT AS (40 + 2) STORED"),
    (Kind::Text, "TINYTEXT CHARACTER SET utf8mb4"),
    (Kind::Text, "MEDIUMTEXT CHARACTER SET utf8mb4"),
    (Kind::Latin, "LONGTEXT"),
    (Kind::Bytes, "TINYBLOB"),
    (Kind::Bytes, "MEDIUMBLOB"),
    (Kind::Bytes, "LONGBLOB"),
];
const KINDS_MARIADB: &[(Kind, &str)] = &[
    (Kind::Uuid, "UUID"),
    (Kind::Inet, "INET6"),
    (Kind::Inet4, "INET4"),
];
const KINDS_MYSQL: &[(Kind, &str)] = &[(Kind::Vector, "VECTOR(3)")];

/// All types that a vendor has.
fn kinds(mariadb: bool) -> Vec<(Kind, &'static str)> {
    let of_vendor = if mariadb { KINDS_MARIADB } else { KINDS_MYSQL };
    [KINDS, of_vendor].concat()
}

/// How dumps spell the values of a type.
fn spellings(kind: Kind) -> &'static [&'static str] {
    match kind {
        // [`Maker::string`] has many more.
        Kind::Text | Kind::Latin | Kind::Wide => &["''"],
        Kind::Integer => &[
            "0", "1", "-7", "'12'", "\t42", "+5", "TRUE", "0x41", "b'101'", "007",
        ],
        Kind::Unsigned => &["0", "1", "'12'", "42", "4294967295"],
        Kind::Decimal => &[
            "0",
            "1.5",
            "-2.25",
            "'3.125'",
            "1e2",
            ".5",
            "12345678901234567.123456789012",
        ],
        Kind::Double => &[
            "0",
            "1.5",
            "-2.25e10",
            "'3.125'",
            "1e-3",
            "-0",
            "1.7976931348623157e308",
        ],
        Kind::Bit => &["b'101'", "5", "0x1F", "b'0'"],
        Kind::Year => &["2024", "'1999'", "0", "70", "'70'", "'0000'"],
        Kind::Date => &[
            "'2024-02-29'",
            "20240102",
            "'2024/01/02'",
            "DATE'2024-01-02'",
            "'24-01-02'",
            "'2024-01-02 00:00:00'",
        ],
        Kind::DateTime => &[
            "'2024-02-29 01:02:03'",
            "20240102030405",
            "TIMESTAMP'2024-01-02 03:04:05'",
            "'2024-01-02 03:04:05.678'",
            "'2024-01-02'",
        ],
        Kind::Fraction => &[
            "'2024-02-29 01:02:03.999'",
            "'2024-01-02 03:04:05.99951'",
            "20240102030405.125",
        ],
        Kind::Timestamp => &[
            "'2024-02-28 01:02:03'",
            "'2001-01-02 03:04:05'",
            "20240102030405",
        ],
        Kind::Time => &[
            "'01:02:03'",
            "'-12:00:00'",
            "10203",
            "'01:02:03.7'",
            "'1 02:03:04'",
        ],
        Kind::Bytes => &[
            "0x00FF5C0A",
            "X'414243'",
            "_binary 'abc'",
            "_binary '\u{fc}'",
            "b'1000001'",
            "''",
        ],
        Kind::Enum => &["'a'", "'b'", "'c d'", "1", "'A'"],
        Kind::Set => &["'a'", "'a,b'", "''", "'c d,a'", "3"],
        Kind::Float => &["0", "1.5", "-2.25e10", "'3.125'", "1e-3", "-0"],
        Kind::Geometry => &[
            "0x000000000101000000000000000000F03F0000000000000040",
            "X'000000000101000000000000000000F03F0000000000000040'",
            "ST_GeomFromText('POINT(1 2)')",
        ],
        Kind::Generated => &["DEFAULT"],
        Kind::Uuid => &[
            "'123e4567-e89b-12d3-a456-426655440000'",
            "'123E4567E89B12D3A456426655440001'",
            "0x123E4567E89B12D3A456426655440002",
        ],
        Kind::Inet4 => &["'192.0.2.1'", "'0.0.0.0'", "'255.255.255.255'"],
        Kind::Inet => &["'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:10.0.0.1'"],
        Kind::Vector => &["0x0000803F0000004000004040", "STRING_TO_VECTOR('[1,2,3]')"],
        Kind::Json => &["'{}'", "'[1,2]'", "'{\"a\": 1}'", "'null'", "'\"x\"'"],
    }
}

struct Column {
    name: String,
    kind: Kind,
    definition: &'static str,
    nullable: bool,
    has_default: bool,
}

struct Maker {
    rng: Rng,
    session: Session,
    mariadb: bool,
    table: String,
    /// Whether the table has a column of each type.
    every_type: bool,
    /// Whether a statement names only some of the columns.
    some: bool,
    text: String,
}

impl Maker {
    fn say(&mut self, statement: &str) {
        self.text.push_str(statement);
        self.text.push_str(";\n");
    }

    /// A table of every type gets rows with all of its columns. After a single setting they are all
    /// like that; after a pair, others follow in statements of every form, with some columns.
    fn make(&mut self, settings: usize) {
        for statement in self.session.statements.clone() {
            self.say(&statement);
        }
        let columns = self.columns();
        let key = self.create(&columns);
        let statements = self.rng.within(1, 4);
        let mut next = 1;
        for number in 0..statements {
            // No other form takes a value of each type.
            let whole = self.every_type && (settings == 1 || number == 0);
            self.some = self.every_type && !whole;
            let form = if whole || self.rng.chance(70) {
                0
            } else {
                self.rng.within(1, 9)
            };
            self.rows(form, &columns, key, &mut next);
        }
        self.some = false;
        if settings > 1 && self.rng.chance(15) {
            let table = self.table.clone();
            self.say(&format!("ALTER TABLE {table} ADD COLUMN later INT"));
            self.rows(0, &columns, key, &mut next);
        }
    }

    fn columns(&mut self) -> Vec<Column> {
        let mut kinds = kinds(self.mariadb);
        if !self.every_type {
            let some = (0..self.rng.within(2, 7)).map(|_| *self.rng.pick(&kinds));
            kinds = some.collect();
        }
        let kinds = kinds.into_iter().enumerate();
        kinds
            .map(|(number, (kind, definition))| {
                let nullable = self.rng.chance(70);
                Column {
                    name: format!("f{number}"),
                    kind,
                    definition,
                    nullable,
                    has_default: nullable && self.rng.chance(30),
                }
            })
            .collect()
    }

    /// Creates the table. Returns `None` without a key, else whether the server generates its
    /// values.
    fn create(&mut self, columns: &[Column]) -> Option<bool> {
        let key = match self.rng.below(3) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        let mut parts: Vec<String> = Vec::new();
        match key {
            None => {}
            Some(false) => parts.push("id INT NOT NULL PRIMARY KEY".to_owned()),
            Some(true) => parts.push("id INT NOT NULL AUTO_INCREMENT PRIMARY KEY".to_owned()),
        }
        for column in columns {
            let kind = column.definition;
            let null = match (column.nullable, column.has_default) {
                _ if column.kind == Kind::Generated => "",
                (true, true) => " DEFAULT NULL",
                (true, false) => "",
                (false, _) if kind.ends_with("NULL") => "",
                (false, _) => " NOT NULL",
            };
            parts.push(format!("{} {kind}{null}", column.name));
        }
        let engine = *self.rng.pick(&[
            "",
            " ENGINE=InnoDB",
            " ENGINE=InnoDB",
            " ENGINE=MyISAM",
            " ENGINE=MEMORY",
        ]);
        let engine = if engine.ends_with("MEMORY")
            && parts.iter().any(|part| {
                ["TEXT", "BLOB", "JSON", "GEOMETRY", "VECTOR"]
                    .iter()
                    .any(|one| part.contains(one))
            }) {
            " ENGINE=InnoDB"
        } else {
            engine
        };
        let statement = format!(
            "CREATE TABLE {} (\n  {}\n){engine} DEFAULT CHARSET=latin1",
            self.table,
            parts.join(",\n  ")
        );
        self.say(&statement);
        key
    }

    /// Writes a statement that adds or changes rows, in one of several forms.
    fn rows(&mut self, form: usize, columns: &[Column], key: Option<bool>, next: &mut u32) {
        let table = self.table.clone();
        let (ignore, replace) = (form == 1, form == 2);
        let rows = self.rng.within(1, 6);
        let filled: Vec<&Column> = if self.some {
            // With form 3, those without a default are left out, too.
            let needed = |one: &Column| form != 3 && !one.nullable && one.kind != Kind::Generated;
            let mut chosen = |one: &&Column| self.rng.chance(15) || needed(one);
            columns.iter().filter(|one| chosen(one)).collect()
        } else if form == 3 {
            // Columns without a default may be left out too: the session decides what happens then.
            columns.iter().filter(|_| self.rng.chance(60)).collect()
        } else {
            columns.iter().collect()
        };
        let explicit =
            self.some || form == 3 || key == Some(true) || self.rng.chance(60) || form > 4;
        // The server may use any number below the explicit ones that follow: leave it room.
        let numbered = key == Some(true) && self.rng.chance(30);
        *next += if key == Some(true) { 50 } else { 0 };
        let mut names: Vec<String> = filled.iter().map(|column| column.name.clone()).collect();
        if key.is_some() && !numbered {
            names.insert(0, "id".to_owned());
        }
        if names.is_empty() {
            return;
        }
        let mut tuples = Vec::new();
        for _ in 0..rows {
            let mut values: Vec<String> = Vec::new();
            for column in &filled {
                let value = self.value(column, form);
                values.push(value);
            }
            if key.is_some() && !numbered {
                let again = (ignore || replace) && *next > 2 && self.rng.chance(40);
                *next += u32::from(!again);
                let id = *next - u32::from(again);
                values.insert(0, id.to_string());
            }
            tuples.push(values);
        }
        let list = format!(" ({})", names.join(","));
        let list = if explicit { list.as_str() } else { "" };
        let all: Vec<String> = tuples
            .iter()
            .map(|values| format!("({})", values.join(",")))
            .collect();
        let all = all.join(",");
        // Setting a generated column causes a warning, whatever the value.
        let given = filled.iter().find(|column| column.kind != Kind::Generated);
        let given = match given {
            Some(column) => column.name.clone(),
            None => names[0].clone(),
        };
        let sets = || {
            let pairs = names.iter().zip(&tuples[0]);
            pairs
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let statement = match form {
            1 => format!("INSERT IGNORE INTO {table}{list} VALUES {all}"),
            2 => format!("REPLACE INTO {table}{list} VALUES {all}"),
            5 => format!("INSERT INTO {table} SET {}", sets()),
            6 => format!("INSERT INTO {table}{list} SELECT {}", tuples[0].join(",")),
            7 => format!(
                "INSERT INTO {table}{list} VALUES {all} ON DUPLICATE KEY UPDATE {given}={given}"
            ),
            8 => format!("REPLACE INTO {table} SET {}", sets()),
            9 => format!("UPDATE {table} SET {given}={given}"),
            _ => format!("INSERT INTO {table}{list} VALUES {all}"),
        };
        self.say(&statement);
    }

    /// A value that the column stores unchanged, spelled as dumps spell it; with form 4, sometimes
    /// an expression.
    fn value(&mut self, column: &Column, form: usize) -> String {
        if column.kind == Kind::Generated {
            return "DEFAULT".to_owned();
        }
        if column.nullable && self.rng.chance(20) {
            return "NULL".to_owned();
        }
        if form == 4 && self.rng.chance(40) {
            return self.expression(column.kind);
        }
        match column.kind {
            Kind::Text | Kind::Latin | Kind::Wide => self.string(column.kind),
            Kind::Bytes if !self.rng.chance(40) => self.string(column.kind),
            kind => (*self.rng.pick(spellings(kind))).to_owned(),
        }
    }

    fn string(&mut self, kind: Kind) -> String {
        let plain = [
            "''",
            "'plain'",
            "'it''s'",
            "'tab\there'",
            "'two\nlines'",
            "'back\\\\slash'",
            "'a\\nb'",
            "'\\N'",
            "'100\\%'",
            "'x '",
            "'semi;colon'",
            "'--x'",
            "' lead'",
            "'\\0\\Z'",
            "'NULL'",
        ];
        let odd = [
            "N'national'",
            "_utf8mb4'u8'",
            "_latin1'l1'",
            "_latin1 X'414243'",
            "X'4142'",
            "0x4142",
            "'con' 'cat'",
            "12",
            "1.50",
            "1e3",
            "TRUE",
            "_binary'bin'",
        ];
        let not_ascii = [
            "'\u{fc}ber'",
            "'\u{e9}t\u{e9}'",
            "_utf8mb4'\u{fc}'",
            "_latin1 X'FC'",
            "_utf8mb3'\u{e4}'",
        ];
        match self.rng.below(10) {
            0..=5 => (*self.rng.pick(&plain)).to_owned(),
            6 if !self.session.quotes_names() => {
                (*self.rng.pick(&["\"double\"", "\"it's\"", "\"a\"\"b\""])).to_owned()
            }
            6 | 7 => (*self.rng.pick(&odd)).to_owned(),
            _ if kind == Kind::Text && self.rng.chance(30) => "'\u{416}\u{1f600}'".to_owned(),
            _ => (*self.rng.pick(&not_ascii)).to_owned(),
        }
    }

    fn expression(&mut self, kind: Kind) -> String {
        let list: &[&str] = match kind {
            Kind::Integer | Kind::Unsigned => &[
                "1+2",
                "LENGTH('abc')",
                "3 DIV 2",
                "NOT 0",
                "CAST('7' AS UNSIGNED)",
                "@@auto_increment_increment",
                "(2)",
            ],
            Kind::Decimal | Kind::Double | Kind::Float => &[
                "1/3",
                "7/8",
                "ROUND(1.5)",
                "2*3.5",
                "10 MOD 4",
                "AVG_IS_NONE",
            ],
            Kind::Bit | Kind::Year | Kind::Enum => &["1+1"],
            Kind::Date | Kind::DateTime | Kind::Fraction | Kind::Timestamp => &[
                "FROM_UNIXTIME(1000000000)",
                "NOW() - INTERVAL 0 DAY",
                "'2024-01-31' + INTERVAL 1 MONTH",
                "CURRENT_TIMESTAMP",
            ],
            Kind::Time => &["SEC_TO_TIME(61)"],
            Kind::Set => &["1|2"],
            Kind::Geometry => &["POINT(1, 2)"],
            Kind::Uuid => &["LOWER('123E4567-E89B-12D3-A456-426655440003')"],
            Kind::Inet => &["CONCAT('::', '2')"],
            Kind::Inet4 => &["CONCAT('192.0.2.', '2')"],
            Kind::Vector => &["STRING_TO_VECTOR(CONCAT('[1,2', ',3]'))"],
            Kind::Json => &["JSON_OBJECT('a', 1)", "JSON_ARRAY(1, 'b')"],
            _ => &[
                "CONCAT('a', 'b')",
                "UPPER('x')",
                "'a' || 'b'",
                "CHAR(65)",
                "HEX('a')",
                "CONVERT('x' USING utf8mb4)",
                "DATE_FORMAT('2024-03-01', '%M')",
                "@@collation_connection",
                "CHARSET('a')",
                "COLLATION('a')",
                "RPAD('a', 3, 'b')",
            ],
        };
        let found = (*self.rng.pick(list)).to_owned();
        match found.as_str() {
            "AVG_IS_NONE" => "5 / 7 * 3".to_owned(),
            // The clock gives a different value each time, unless the dump sets it.
            "NOW() - INTERVAL 0 DAY" | "CURRENT_TIMESTAMP"
                if !self
                    .session
                    .statements
                    .iter()
                    .any(|one| one.contains("timestamp = 1")) =>
            {
                "FROM_UNIXTIME(1234567890)".to_owned()
            }
            _ => found,
        }
    }
}
