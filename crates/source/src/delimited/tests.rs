use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// Rows of values; `None` is `NULL`.
type Rows = Vec<Vec<Option<Vec<u8>>>>;

#[derive(Default)]
struct Collect {
    rows: Rows,
    bounds: Vec<(usize, usize)>,
}

impl RowVisitor for Collect {
    type Error = Infallible;

    fn begin_row(&mut self, at: usize) -> Result<(), Infallible> {
        self.rows.push(Vec::new());
        self.bounds.push((at, at));
        Ok(())
    }
    fn null(&mut self) -> Result<(), Infallible> {
        self.rows.last_mut().unwrap().push(None);
        Ok(())
    }
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.rows.last_mut().unwrap().push(Some(bytes.to_vec()));
        Ok(())
    }
    fn end_row(&mut self, end: usize) -> Result<(), Infallible> {
        self.bounds.last_mut().unwrap().1 = end;
        Ok(())
    }
}

fn read(format: &Delimited, text: &[u8]) -> Rows {
    let mut collect = Collect {
        rows: Vec::new(),
        bounds: Vec::new(),
    };
    let count = format.visit(text, &[], &mut collect).unwrap();
    assert_eq!(count, collect.rows.len() as u64);
    collect.rows
}

#[expect(clippy::unnecessary_wraps, reason = "a value that is not NULL")]
fn value(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn csv() -> Delimited {
    Delimited {
        field_end: b",".to_vec(),
        enclosed: Some(b'"'),
        null_word: Some(b"NULL".to_vec()),
        ..Delimited::default()
    }
}

#[test]
fn escapes_and_nulls_as_the_server_reads_them() {
    let rows = read(
        &Delimited::default(),
        b"1\t\\N\ta\\tb\\\tc\\\nd\n\\\\N\tNULL\tx\\N\\0\\Z\\q\n\t\t\n",
    );
    assert_eq!(
        rows,
        [
            vec![value("1"), None, value("a\tb\tc\nd")],
            vec![value("\\N"), value("NULL"), value("xN\0\x1Aq")],
            vec![value(""), value(""), value("")],
        ]
    );
}

#[test]
fn enclosed_fields_hold_terminators_and_doubled_quotes() {
    let rows = read(
        &csv(),
        b"\"a,b\",\"c\nd\",\"e\"\"f\"\nNULL,\"NULL\",\\N\n\"x\"y\",z\"\",\"\"\n",
    );
    assert_eq!(
        rows,
        [
            vec![value("a,b"), value("c\nd"), value("e\"f")],
            vec![None, value("NULL"), None],
            vec![value("x\"y"), value("z\"\""), value("")],
        ]
    );
}

#[test]
fn a_quote_that_is_its_own_escape_only_doubles() {
    let format = Delimited {
        escaped: Some(b'"'),
        ..csv()
    };
    assert_eq!(
        read(&format, b"\"a\"\"b\",\"c\\\"\n"),
        [vec![value("a\"b"), value("c\\")]]
    );
}

#[test]
fn lines_may_begin_and_end_with_more_than_a_byte() {
    let format = Delimited {
        field_end: b"||".to_vec(),
        line_start: b">>".to_vec(),
        line_end: b"\r\n".to_vec(),
        ..Delimited::default()
    };
    let text = b"junk>>a|b||c\rd\r\n>>e||\r\n";
    assert_eq!(
        read(&format, text),
        [
            vec![value("a|b"), value("c\rd")],
            vec![value("e"), value("")]
        ]
    );
    assert_eq!(format.cut(text, 1, false), Some(Run { len: 16, rows: 1 }));
}

#[test]
fn digits_are_decoded() {
    let mut collect = Collect {
        rows: Vec::new(),
        bounds: Vec::new(),
    };
    let decode = [Decode::Hex, Decode::Base64, Decode::Skip, Decode::Plain];
    Delimited::default()
        .visit(b"00ff\tAP8=\tx\ty\n\\N\t\tx\t\n", &decode, &mut collect)
        .unwrap();
    assert_eq!(
        collect.rows,
        [
            vec![Some(vec![0, 255]), Some(vec![0, 255]), value("y")],
            vec![None, value(""), value("")],
        ]
    );
    for (text, decode) in [
        (b"0g\n".as_slice(), Decode::Hex),
        (b"abc\n", Decode::Hex),
        (b"A\n", Decode::Base64),
        (b"A=B=\n", Decode::Base64),
        (b"A*==\n", Decode::Base64),
    ] {
        let result = Delimited::default().visit(text, &[decode], &mut collect);
        assert!(matches!(result, Err(VisitError::Syntax { .. })), "{text:?}");
    }
}

#[test]
fn an_enclosed_field_without_its_end_is_found() {
    let mut collect = Collect {
        rows: Vec::new(),
        bounds: Vec::new(),
    };
    let result = csv().visit(b"1,\"abc\n", &[], &mut collect);
    assert!(matches!(result, Err(VisitError::Syntax { at: 3, .. })));
    assert_eq!(csv().cut(b"1,\"abc\n", 100, false), None);
    assert!(Delimited::default().is_open(b"a"));
    assert!(Delimited::default().is_open(b"a\\\n"));
    assert!(!Delimited::default().is_open(b"a\\\\\n"));
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    assert_eq!(Delimited::default().fault(), None);
    assert_eq!(csv().fault(), None);
    let broken = [
        Delimited {
            field_end: Vec::new(),
            ..csv()
        },
        Delimited {
            field_end: b"\n".to_vec(),
            ..csv()
        },
        Delimited {
            enclosed: Some(b','),
            ..csv()
        },
        Delimited {
            escaped: Some(b'\n'),
            ..csv()
        },
    ];
    for format in broken {
        assert!(format.fault().is_some(), "{format:?}");
    }
}

#[test]
fn the_seeds_of_the_fuzz_target_are_walked() {
    refloat_testkit::corpus::replay("delimited", 4, fuzz);
}

/// Writes rows like `SELECT … INTO OUTFILE`.
fn write(format: &Delimited, rows: &Rows) -> Vec<u8> {
    let mut text = Vec::new();
    let escape = format.escape();
    for row in rows {
        text.extend_from_slice(&format.line_start);
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(&format.field_end);
            }
            let Some(value) = value else {
                match escape {
                    Some(escape) => text.extend_from_slice(&[escape, b'N']),
                    None => text.extend_from_slice(b"NULL"),
                }
                continue;
            };
            text.extend(format.enclosed);
            for &byte in value {
                let first = [format.field_end[0], format.line_end[0]];
                let special = first.contains(&byte) && format.enclosed.is_none()
                    || Some(byte) == escape
                    || Some(byte) == format.enclosed
                    || byte == 0;
                match escape {
                    Some(escape) if special => {
                        text.push(escape);
                        text.push(if byte == 0 { b'0' } else { byte });
                    }
                    None if Some(byte) == format.enclosed => text.extend_from_slice(&[byte, byte]),
                    _ => text.push(byte),
                }
            }
            text.extend(format.enclosed);
        }
        text.extend_from_slice(&format.line_end);
    }
    text
}

fn formats() -> impl Strategy<Value = Delimited> {
    prop_oneof![
        Just(Delimited::default()),
        Just(csv()),
        Just(Delimited {
            line_end: b"\r\n".to_vec(),
            ..csv()
        }),
        Just(Delimited {
            escaped: None,
            ..csv()
        }),
        Just(Delimited {
            escaped: Some(b'"'),
            ..csv()
        }),
        Just(Delimited {
            field_end: b"\x01|".to_vec(),
            line_end: b"\x02\n".to_vec(),
            line_start: b"<<".to_vec(),
            ..Delimited::default()
        }),
    ]
}

fn values() -> impl Strategy<Value = Rows> {
    let byte = prop_oneof![
        prop::sample::select(b"\t\n\r\\\",N0|<\x01\x02\0".to_vec()),
        any::<u8>()
    ];
    let value = prop::option::weighted(0.8, prop::collection::vec(byte, 0..8));
    (1_usize..4).prop_flat_map(move |columns| {
        prop::collection::vec(prop::collection::vec(value.clone(), columns), 0..12)
    })
}

proptest! {
    /// Written rows read back the same, and cutting to any size yields the same rows.
    #[test]
    fn rows_survive(format in formats(), rows in values(), target in 1_usize..60) {
        let text = write(&format, &rows);
        prop_assert_eq!(&read(&format, &text), &rows);
        let (mut at, mut found) = (0, Vec::new());
        while let Some(run) = format.cut(&text[at..], target, true) {
            let part = read(&format, &text[at..at + run.len]);
            prop_assert_eq!(part.len() as u64, run.rows);
            found.extend(part);
            at += run.len;
        }
        prop_assert_eq!(at, text.len());
        prop_assert_eq!(found, rows);
    }

    /// Incomplete text is cut where the whole text is, or not at all.
    #[test]
    fn a_part_is_cut_like_the_whole(format in formats(), rows in values(), part in any::<prop::sample::Index>()) {
        let text = write(&format, &rows);
        let part = &text[..part.index(text.len() + 1)];
        if let Some(run) = format.cut(part, 1, false) {
            prop_assert_eq!(format.cut(&text, 1, true), Some(run));
        }
    }

    /// On arbitrary bytes, cutting and visiting agree and do not panic.
    #[test]
    fn any_bytes_are_walked(format in formats(), text in prop::collection::vec(any::<u8>(), 0..200), target in 1_usize..60) {
        super::check_walks(&format, &text, target);
    }
}
