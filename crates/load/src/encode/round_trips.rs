//! Tests that what the sinks write means the values of the dump, using independent decoders: one
//! after the manual's page on `LOAD DATA`, one after MariaDB's page on `COM_STMT_BULK_EXECUTE`.

use proptest::prelude::*;
use refloat_schema::columns::{Column, ColumnClass};
use refloat_sqltext::{LexMode, visit_rows};
use refloat_wire::{BulkPacket, BulkType, Statement};

use super::bulk::{BulkSend, BulkSink, bulk_type};
use super::tsv::{TsvSend, TsvSink};
use super::{Encoder, FlushError, ValueSink};

/// Most bytes in one packet; a few of the test's rows.
const LIMIT: usize = 2000;
/// The columns, in the order of [`Row`].
const CLASSES: [ColumnClass; 7] = [
    ColumnClass::Integer { unsigned: false },
    ColumnClass::Integer { unsigned: true },
    ColumnClass::Text,
    ColumnClass::Bytes,
    ColumnClass::Bit,
    ColumnClass::DateTime,
    ColumnClass::Decimal,
];

/// A value as a server stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Null,
    Default,
    Signed(i64),
    Unsigned(u64),
    Bytes(Vec<u8>),
    Time(Moment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    year: u16,
    /// Month, day, hour, minute, second.
    parts: [u8; 5],
    micros: u32,
}

/// A value, and its text in the dump.
type Spelled = (Value, Vec<u8>);
type Row = Vec<Spelled>;

/// Writes a quoted string in one of the many possible ways: each byte as is, where possible, or
/// escaped.
fn spell(value: &[u8], how: &[u8], quote: u8, backslashes: bool) -> Vec<u8> {
    let mut out = vec![quote];
    for (at, &byte) in value.iter().enumerate() {
        let choice = how[at % how.len()];
        let next = value.get(at + 1);
        let name = match byte {
            0 => Some(b'0'),
            8 => Some(b'b'),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            26 => Some(b'Z'),
            _ => None,
        };
        match (byte, name) {
            // Before these, a single backslash stays.
            (b'\\', _) if backslashes => {
                let stays = choice.is_multiple_of(2) && matches!(next, Some(b'%' | b'_'));
                out.extend_from_slice(if stays { b"\\" } else { b"\\\\" });
            }
            (byte, _) if byte == quote && (!backslashes || choice.is_multiple_of(2)) => {
                out.extend([quote, quote]);
            }
            (byte, _) if byte == quote => out.extend([b'\\', quote]),
            (_, Some(name)) if backslashes && choice.is_multiple_of(2) => out.extend([b'\\', name]),
            // Any other byte may have a backslash in front, which changes nothing.
            (byte, None)
                if backslashes && choice.is_multiple_of(7) && !b"0bnrtZ%_\\".contains(&byte) =>
            {
                out.extend([b'\\', byte]);
            }
            (byte, _) => out.push(byte),
        }
    }
    out.push(quote);
    out
}

/// Bytes, mostly those that are special to one side or the other.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(&b"\0\x08\t\n\r\x1A\\'\"%_N0nbt,();\xBF\\"[..]);
    let byte = prop_oneof![3 => special, 1 => any::<u8>()];
    // From 250 bytes on, a packet encodes the length differently.
    let long = prop::collection::vec(byte.clone(), 245..300);
    prop_oneof![9 => prop::collection::vec(byte, 0..30), 1 => long]
}

fn null() -> Spelled {
    (Value::Null, b"NULL".to_vec())
}

fn digits(bytes: &[u8], of: fn(&u8) -> String) -> String {
    bytes.iter().map(of).collect::<Vec<_>>().concat()
}

fn number(text: String, quoted: bool) -> Vec<u8> {
    if quoted { format!("'{text}'") } else { text }.into_bytes()
}

fn row(mode: LexMode) -> impl Strategy<Value = Row> {
    let backslashes = !mode.no_backslash_escapes;
    let limits = prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -9..9i64];
    let signed = (limits, any::<bool>(), 0..3usize).prop_map(|(value, quoted, zeros)| {
        let sign = if value < 0 { "-" } else { "" };
        let text = format!("{sign}{}{}", "0".repeat(zeros), value.unsigned_abs());
        (Value::Signed(value), number(text, quoted))
    });
    let limits = prop_oneof![any::<u64>(), Just(u64::MAX), 0..9u64];
    let unsigned = (limits, any::<bool>())
        .prop_map(|(value, quoted)| (Value::Unsigned(value), number(value.to_string(), quoted)));
    let how = || prop::collection::vec(any::<u8>(), 1..8);
    let quote = if mode.ansi_quotes { b'\'' } else { b'"' };
    let text = (bytes(), how(), prop::sample::select(vec![b'\'', quote])).prop_map(
        move |(value, how, quote)| {
            let text = spell(&value, &how, quote, backslashes);
            (Value::Bytes(value), text)
        },
    );
    let hex = (bytes(), how(), 0..4u8).prop_map(move |(value, how, form)| {
        let digits = digits(&value, |byte| format!("{byte:02X}"));
        let text = match form {
            0 if !value.is_empty() => format!("0x{digits}").into_bytes(),
            1 => format!("x'{}'", digits.to_lowercase()).into_bytes(),
            2 => format!("X'{digits}'").into_bytes(),
            _ => [&b"_binary "[..], &spell(&value, &how, b'\'', backslashes)].concat(),
        };
        (Value::Bytes(value), text)
    });
    let bits = prop::collection::vec(any::<u8>(), 1..9).prop_map(|value| {
        let digits = digits(&value, |byte| format!("{byte:08b}"));
        let text = format!("b'{digits}'").into_bytes();
        (Value::Bytes(value), text)
    });
    let moment = (
        1..9999u16,
        1..13u8,
        1..29u8,
        0..24u8,
        0..60u8,
        0..60u8,
        prop_oneof![Just(0), 0..1_000_000u32],
    )
        .prop_map(|(year, month, day, hour, minute, second, micros)| {
            let parts = [month, day, hour, minute, second];
            let moment = Moment {
                year,
                parts,
                micros,
            };
            (
                Value::Time(moment),
                format!("'{}'", moment.text()).into_bytes(),
            )
        });
    let decimal = "-?[0-9]{1,40}(\\.[0-9]{1,20})?".prop_flat_map(|text| {
        any::<bool>().prop_map(move |quoted| {
            (
                Value::Bytes(text.clone().into_bytes()),
                number(text.clone(), quoted),
            )
        })
    });
    let all: Vec<BoxedStrategy<Spelled>> = vec![
        signed.boxed(),
        unsigned.boxed(),
        text.boxed(),
        hex.boxed(),
        bits.boxed(),
        moment.boxed(),
        decimal.boxed(),
    ];
    all.into_iter()
        .map(|one| prop_oneof![8 => one, 1 => Just(null())].boxed())
        .collect::<Vec<_>>()
}

impl Moment {
    /// As dumps write it.
    fn text(self) -> String {
        let [month, day, hour, minute, second] = self.parts;
        let text = format!(
            "{:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}",
            self.year
        );
        if self.micros == 0 {
            text
        } else {
            format!("{text}.{:06}", self.micros)
        }
    }
}

fn mode() -> impl Strategy<Value = LexMode> {
    (any::<bool>(), any::<bool>()).prop_map(|(no_backslash_escapes, ansi_quotes)| LexMode {
        no_backslash_escapes,
        ansi_quotes,
        ..LexMode::default()
    })
}

fn rows() -> impl Strategy<Value = (LexMode, Vec<Row>)> {
    mode().prop_flat_map(|mode| (Just(mode), prop::collection::vec(row(mode), 1..6)))
}

fn columns() -> Vec<Column> {
    let of = |(at, class): (usize, ColumnClass)| Column {
        charset: (class == ColumnClass::Text).then(|| "utf8mb4".to_owned()),
        class,
        ..Column::new(&format!("c{at}"), "", None)
    };
    CLASSES.into_iter().enumerate().map(of).collect()
}

/// Encodes rows as the dump writes them.
fn encode<S: ValueSink>(rows: &[Row], mode: LexMode, sink: &mut S) {
    let text = tuples(rows);
    let columns = columns();
    let targets: Vec<usize> = (0..columns.len()).collect();
    let mut encoder = Encoder::new(&columns, &targets, "utf8mb4", sink);
    let result = visit_rows(&text, mode, &mut encoder);
    assert!(
        result.is_ok(),
        "{result:?} of {}",
        String::from_utf8_lossy(&text)
    );
    assert_eq!(encoder.rows, rows.len() as u64);
}

fn tuples(rows: &[Row]) -> Vec<u8> {
    let tuple = |row: &Row| {
        let values: Vec<&[u8]> = row.iter().map(|(_, text)| text.as_slice()).collect();
        [b"(", values.join(&b','.to_owned()).as_slice(), b")"].concat()
    };
    rows.iter().map(tuple).collect::<Vec<_>>().join(&b',')
}

/// Keeps what is sent.
struct Sent<'a>(&'a mut Vec<u8>);

impl TsvSend for Sent<'_> {
    fn send(&mut self, text: &mut Vec<u8>) -> Result<(), FlushError> {
        self.0.append(text);
        Ok(())
    }
}

/// Parses fields as `LOAD DATA` does; `None` is NULL.
fn read_tsv(text: &[u8]) -> Vec<Vec<Option<Vec<u8>>>> {
    let (mut rows, mut fields, mut field, mut escaped) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    let mut lone = false;
    for &byte in text {
        if std::mem::take(&mut escaped) {
            lone = byte == b'N' && field.is_empty();
            field.push(match byte {
                b'0' => 0,
                b'b' => 8,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'Z' => 26,
                other => other,
            });
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == b'\t' || byte == b'\n' {
            let value = std::mem::take(&mut field);
            fields.push((!(std::mem::take(&mut lone) && value == b"N")).then_some(value));
            if byte == b'\n' {
                rows.push(std::mem::take(&mut fields));
            }
        } else {
            field.push(byte);
        }
    }
    assert!(
        !escaped && field.is_empty() && fields.is_empty(),
        "the last row has no end"
    );
    rows
}

impl Value {
    /// The text that `LOAD DATA` gives to a column.
    fn text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Null | Self::Default => None,
            Self::Signed(value) => Some(value.to_string().into_bytes()),
            Self::Unsigned(value) => Some(value.to_string().into_bytes()),
            Self::Bytes(bytes) => Some(bytes.clone()),
            Self::Time(moment) => Some(moment.text().into_bytes()),
        }
    }
}

/// Keeps the rows of packets that are sent, without the packet headers.
struct Packets<'a>(&'a mut Vec<Vec<u8>>, usize);

impl BulkSend for Packets<'_> {
    fn send(&mut self, packet: &mut BulkPacket) -> Result<usize, FlushError> {
        assert!(packet.len() <= LIMIT && packet.rows() > 0);
        self.0.push(packet.buf().clone());
        packet.clear();
        Ok(self.1)
    }
}

/// The bytes of a packet that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn number(&mut self, length: usize) -> u64 {
        let bytes = self.take(length).iter().rev();
        bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    /// Length-prefixed bytes.
    fn counted(&mut self) -> &'a [u8] {
        let length = match self.byte() {
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            length => u64::from(length),
        };
        self.take(usize::try_from(length).unwrap())
    }

    fn value(&mut self, kind: BulkType) -> Value {
        match self.byte() {
            1 => return Value::Null,
            2 => return Value::Default,
            other => assert_eq!(other, 0, "an indicator"),
        }
        match kind {
            BulkType::LongLong => Value::Signed(self.number(8).cast_signed()),
            BulkType::LongLongUnsigned => Value::Unsigned(self.number(8)),
            BulkType::DateTime => {
                let length = self.byte();
                let year = u16::try_from(self.number(2)).unwrap();
                let parts = self.take(5).try_into().unwrap();
                let micros = if length == 11 { self.number(4) } else { 0 };
                assert!(length == 7 || length == 11);
                let micros = u32::try_from(micros).unwrap();
                Value::Time(Moment {
                    year,
                    parts,
                    micros,
                })
            }
            _ => Value::Bytes(self.counted().to_vec()),
        }
    }
}

/// Encodes rows as packets of about `target` bytes, and decodes them.
fn through_packets(rows: &[Row], mode: LexMode, target: usize, dates: bool) -> Vec<Vec<Value>> {
    let columns = columns();
    let kinds: Vec<BulkType> = columns
        .iter()
        .map(|column| bulk_type(column, "utf8mb4", false, dates))
        .collect();
    let statement = Statement {
        id: 0x0403_0201,
        params: kinds.len(),
        columns: Vec::new(),
    };
    let mut packets = Vec::new();
    let mut packet = BulkPacket::new(&statement, &kinds);
    let head = packet.len();
    let mut sink = BulkSink::new(
        &mut packet,
        target,
        LIMIT,
        dates,
        Packets(&mut packets, target),
    );
    encode(rows, mode, &mut sink);
    if !packet.is_empty() {
        packets.push(packet.buf().clone());
    }
    let mut found = Vec::new();
    for packet in &packets {
        assert_eq!(packet[..5], [0xfa, 1, 2, 3, 4]);
        let mut reader = Reader(&packet[head..]);
        while !reader.0.is_empty() {
            found.push(kinds.iter().map(|kind| reader.value(*kind)).collect());
        }
    }
    found
}

proptest! {
    #[test]
    fn load_data_reads_what_the_dump_says((mode, rows) in rows(), target in 1..400usize) {
        let (mut sent, mut text) = (Vec::new(), Vec::new());
        let piece = tuples(&rows);
        let mut sink = TsvSink::new(&mut text, target, &piece, mode, Sent(&mut sent));
        encode(&rows, mode, &mut sink);
        sent.append(&mut text);
        let wanted: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|(value, _)| value.text()).collect()).collect();
        let mut found = read_tsv(&sent);
        // Numbers may keep leading zeros.
        for row in &mut found {
            if let Some(text) = &mut row[0] {
                let number: i64 = String::from_utf8_lossy(text).parse().unwrap();
                *text = number.to_string().into_bytes();
            }
        }
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn packets_hold_what_the_dump_says((mode, rows) in rows(), target in 1..LIMIT, dates in any::<bool>()) {
        let wanted: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|(value, _)| match value {
            Value::Time(moment) if !dates => Value::Bytes(moment.text().into_bytes()),
            value => value.clone(),
        }).collect()).collect();
        prop_assert_eq!(through_packets(&rows, mode, target, dates), wanted);
    }

    #[test]
    fn defaults_are_in_packets_and_never_in_text(at in 0..CLASSES.len(), (mode, mut rows) in rows()) {
        rows[0][at] = (Value::Default, b"DEFAULT".to_vec());
        let wanted: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|(value, _)| value.clone()).collect()).collect();
        prop_assert_eq!(through_packets(&rows, mode, LIMIT, true), wanted);
        let (mut sent, mut text) = (Vec::new(), Vec::new());
        let piece = tuples(&rows);
        let mut sink = TsvSink::new(&mut text, LIMIT, &piece, mode, Sent(&mut sent));
        let columns = columns();
        let targets: Vec<usize> = (0..columns.len()).collect();
        let mut encoder = Encoder::new(&columns, &targets, "utf8mb4", &mut sink);
        prop_assert!(visit_rows(&piece, mode, &mut encoder).is_err());
        prop_assert_eq!(encoder.rows, 0);
    }
}
