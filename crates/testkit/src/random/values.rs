//! Generates SQL values of a type: extreme, odd and ordinary ones.

use std::fmt::Write as _;

use super::Rng;

/// The kind of values that a column takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Integer,
    Decimal,
    Float,
    Bit(usize),
    Year,
    Date,
    Time,
    DateTime,
    /// Up to 2106 if true, otherwise up to 2038.
    Timestamp(bool),
    /// Maximum length in characters.
    Text(usize),
    /// Maximum length in bytes.
    Bytes(usize),
    /// Number of members.
    Enum(usize),
    Set(usize),
    Json,
    Geometry(&'static str),
    Uuid,
    Inet4,
    Inet6,
    /// Number of dimensions, and the function that parses a vector's text.
    Vector(usize, &'static str),
}

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "127",
    "-128",
    "255",
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
];
const DECIMALS: &[&str] = &[
    "0",
    "-0.0",
    "0.1",
    "-1.5",
    "99999999999999999999999999999999999.999999999999999999999999999999",
    "0.000000000000000000000000000001",
    "12.345",
    "-7",
];
const FLOATS: &[&str] = &[
    "0e0",
    "0.1e0",
    "1e300",
    "1.7976931348623157e308",
    "2.2250738585072014e-308",
    "5e-324",
    "3.4028234e38",
    "1.17549435e-38",
    "1e-45",
    "16777215e0",
    "9007199254740993e0",
    "123.456e0",
    "1e22",
];
const DATES: &[&str] = &[
    "0000-00-00",
    "2024-00-00",
    "2024-02-30",
    "2024-00-10",
    "1000-01-01",
    "9999-12-31",
    "2024-02-29",
    "0001-01-01",
    "1969-12-31",
];
const TIMES: &[&str] = &[
    "00:00:00",
    "-838:59:59",
    "838:59:59",
    "23:59:59.999999",
    "-00:00:00.5",
    "-00:00:01",
    "12:34:56.000001",
    "01:02:03.120000",
];
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "A",
    "a ",
    "ä",
    "NULL",
    "\\N",
    "N",
    "\\",
    "'",
    "''",
    "\"",
    "\t",
    "\n",
    "\r\n",
    "\u{0}",
    "\u{1a}",
    "\u{8}",
    ",",
    "),(",
    ";",
    "--",
    "/*",
    "x'",
    "0x41",
    "b'1'",
    "_binary ''",
    "é",
    "日本",
    "表",
    "ソ",
    "😀",
    "ß",
    "\u{feff}",
    "\\'",
    "\\\\",
    "\\0",
    "\\Z",
    "%",
    "_",
    "LINES",
    "\u{7f}",
    "ÿ",
];
const JSONS: &[&str] = &[
    "{}",
    "[]",
    "null",
    "1",
    "-1.5",
    "1e300",
    "\"\"",
    "\"a\\\"b\\\\c\"",
    "true",
    "{\"a\": [1, {\"b\": null}], \"é\": \"😀\\n\"}",
    "18446744073709551615",
    "[\"\\u0000\", \"'\"]",
    "\"tab\\t\"",
    "{\"\": 0}",
];
const POINTS: &[&str] = &["POINT(0 0)", "POINT(39 92)", "POINT(-1.5 1e-10)"];
const SHAPES: &[&str] = &[
    "LINESTRING(0 0,1 1,2 2)",
    "POLYGON((0 0,10 0,10 10,0 10,0 0))",
    "MULTIPOINT(1 1,2 2)",
    "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))",
    "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))",
];

/// A value as an SQL expression.
pub fn expression(rng: &mut Rng, value: &Value) -> String {
    match value {
        Value::Integer if rng.chance(50) => rng.signed(1000).to_string(),
        Value::Integer => (*rng.pick(INTEGERS)).to_owned(),
        Value::Decimal if rng.chance(50) => {
            format!("{}.{:06}", rng.signed(50_000), rng.below(1_000_000))
        }
        Value::Decimal => (*rng.pick(DECIMALS)).to_owned(),
        Value::Float if rng.chance(40) => {
            // A random integer times a random power of two.
            format!(
                "{:e}",
                rng.bits() as f64 * 2f64.powi(rng.signed(200) as i32)
            )
        }
        Value::Float => (*rng.pick(FLOATS)).to_owned(),
        Value::Bit(bits) => {
            let all = u64::MAX >> (64 - bits);
            let pattern = match rng.below(3) {
                0 => 0,
                1 => all,
                _ => rng.bits() & all,
            };
            format!("b'{pattern:b}'")
        }
        Value::Year => (*rng.pick(&["0", "1901", "2155", "2000", "1970"])).to_owned(),
        Value::Date if rng.chance(60) => format!("'{}'", date(rng)),
        Value::Date => format!("'{}'", rng.pick(DATES)),
        Value::Time => format!("'{}'", rng.pick(TIMES)),
        Value::DateTime if rng.chance(50) => format!("'{} {}'", date(rng), clock(rng)),
        Value::DateTime => format!("'{} {}'", rng.pick(DATES), clock(rng)),
        Value::Timestamp(late) => timestamp(rng, *late),
        Value::Text(length) => text(rng, *length),
        Value::Bytes(length) => bytes(rng, *length),
        Value::Enum(members) => rng.within(1, *members).to_string(),
        Value::Set(members) => (rng.bits() & ((1 << members) - 1)).to_string(),
        Value::Json => super::names::literal(rng.pick::<&str>(JSONS)),
        Value::Geometry(kind) => {
            let text = match (*kind, rng.chance(50)) {
                ("POINT", _) | (_, true) => rng.pick(POINTS),
                _ => rng.pick(SHAPES),
            };
            let srid = rng.pick(&["", ", 0", ", 4326"]);
            format!("ST_GeomFromText('{text}'{srid})")
        }
        Value::Uuid => format!(
            "'{:08x}-1234-1{:03x}-8{:03x}-5c27000a{:04x}'",
            rng.bits() as u32,
            rng.below(4096),
            rng.below(4096),
            rng.below(65536)
        ),
        Value::Inet4 => format!("'{}.92.39.{}'", rng.below(256), rng.below(256)),
        Value::Inet6 => (*rng.pick(&[
            "'::'",
            "'2001:db8::1'",
            "'::ffff:1.2.3.4'",
            "'5c27:a1a:0:900::'",
        ]))
        .to_owned(),
        Value::Vector(dimensions, function) => {
            let numbers: Vec<&str> = (0..*dimensions)
                .map(|_| {
                    *rng.pick(&[
                        "0",
                        "0.1",
                        "-1",
                        "1e-8",
                        "16777217",
                        "3.4e38",
                        "0.333333343",
                    ])
                })
                .collect();
            format!("{function}('[{}]')", numbers.join(","))
        }
    }
}

fn date(rng: &mut Rng) -> String {
    format!(
        "{:04}-{:02}-{:02}",
        rng.within(1971, 2037),
        rng.within(1, 12),
        rng.within(1, 28)
    )
}

fn clock(rng: &mut Rng) -> String {
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        rng.below(24),
        rng.below(60),
        rng.below(60),
        rng.below(1_000_000)
    )
}

fn timestamp(rng: &mut Rng, late: bool) -> String {
    match rng.below(6) {
        0 => "'1970-01-01 00:00:01'".to_owned(),
        1 => "'2038-01-19 03:14:07.999999'".to_owned(),
        2 => "'0000-00-00 00:00:00'".to_owned(),
        3 if late => "'2106-02-07 06:28:15'".to_owned(),
        _ => format!("'{} {}'", date(rng), clock(rng)),
    }
}

fn text(rng: &mut Rng, length: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(6) {
        text.push_str(rng.pick::<&str>(TEXTS));
    }
    if length > 1000 && rng.chance(15) {
        text = text.repeat(rng.within(1, 400));
    }
    let text: String = text.chars().take(length).collect();
    format!("_utf8mb4 x'{}'", hex(text.as_bytes()))
}

/// Bytes with a meaning in text formats.
const ODD: [u8; 12] = [0, 9, 10, 13, 26, 32, 34, 39, 92, 0x5C, 0xFF, 0x4E];

fn bytes(rng: &mut Rng, length: usize) -> String {
    let most = if length > 1000 && rng.chance(15) {
        5000
    } else {
        20
    };
    let count = rng.below(most.min(length) + 1);
    let bytes: Vec<u8> = (0..count)
        .map(|_| {
            if rng.chance(50) {
                *rng.pick(&ODD)
            } else {
                rng.bits() as u8
            }
        })
        .collect();
    format!("x'{}'", hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}
