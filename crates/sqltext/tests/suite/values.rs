//! Tests of the value visitor.

use proptest::prelude::*;
use refloat_sqltext::{CharsetFamily, LexMode, RowVisitor, StrLit, VisitError, visit_rows};

/// Records each value as text: `n:1`, `s:…`.
struct Keep {
    rows: Vec<Vec<String>>,
    spans: Vec<(usize, usize)>,
    strings: Vec<Vec<u8>>,
    refuse: Option<&'static str>,
}

impl Keep {
    fn push(&mut self, kind: &str, text: &[u8]) -> Result<(), String> {
        if self.refuse == Some(kind) {
            return Err(format!("no {kind}"));
        }
        let row = self.rows.last_mut().expect("a row has begun");
        row.push(format!("{kind}:{}", text.escape_ascii()));
        Ok(())
    }
}

impl Keep {
    fn new() -> Self {
        Self {
            rows: Vec::new(),
            spans: Vec::new(),
            strings: Vec::new(),
            refuse: None,
        }
    }
}

impl RowVisitor for Keep {
    type Error = String;

    fn begin_row(&mut self, at: usize) -> Result<(), String> {
        self.rows.push(Vec::new());
        self.spans.push((at, 0));
        Ok(())
    }

    fn null(&mut self) -> Result<(), String> {
        self.push("null", b"")
    }

    fn default(&mut self) -> Result<(), String> {
        self.push("default", b"")
    }

    fn number(&mut self, text: &[u8]) -> Result<(), String> {
        self.push("n", text)
    }

    fn string(&mut self, literal: StrLit<'_>) -> Result<(), String> {
        let mut value = Vec::new();
        literal.unescape_into(&mut value);
        assert!(!literal.is_plain() || value == literal.raw);
        self.strings.push(value.clone());
        let introducer =
            String::from_utf8_lossy(literal.introducer.unwrap_or_default()).into_owned();
        self.push(&format!("s{introducer}"), &value)
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), String> {
        self.push("x", digits)
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), String> {
        self.push("b", digits)
    }

    fn expression(&mut self, text: &[u8]) -> Result<(), String> {
        self.push("e", text)
    }

    fn end_row(&mut self, end: usize) -> Result<(), String> {
        self.spans.last_mut().expect("a row has begun").1 = end;
        Ok(())
    }
}

fn values_in(rows: &[u8], mode: LexMode) -> Vec<String> {
    let mut keep = Keep::new();
    let count = visit_rows(rows, mode, &mut keep).expect("good rows");
    assert_eq!(count, keep.rows.len() as u64);
    for &(begin, end) in &keep.spans {
        assert_eq!((rows[begin], rows[end - 1]), (b'(', b')'));
    }
    keep.rows.concat()
}

fn values(rows: &str) -> Vec<String> {
    values_in(rows.as_bytes(), LexMode::default())
}

#[test]
fn literals() {
    assert_eq!(
        values("(1,-2,+3,4.5,.5,5.,-1.5e10,1E-3)"),
        [
            "n:1",
            "n:-2",
            "n:+3",
            "n:4.5",
            "n:.5",
            "n:5.",
            "n:-1.5e10",
            "n:1E-3",
        ]
    );
    assert_eq!(
        values("(NULL, null ,\\N,DEFAULT,default)"),
        ["null:", "null:", "null:", "default:", "default:"]
    );
    assert_eq!(
        values("('a','', \"b\"\"c\" ,'it''s','\\'\\\\')"),
        ["s:a", "s:", "s:b\\\"c", "s:it\\'s", "s:\\'\\\\"]
    );
    assert_eq!(
        values("(0x4D,x'4d',X'',b'01',B'',0b1,0xABC)"),
        ["x:4D", "x:4d", "x:", "b:01", "b:", "b:1", "x:ABC"]
    );
    assert_eq!(
        values("(_binary 'a\\0',_utf8mb4'b',N'c',n'd',_binary x'4D',_binary 0x4D,_latin1 \"e\")"),
        [
            "s_binary:a\\x00",
            "s_utf8mb4:b",
            "sN:c",
            "sn:d",
            "x:4D",
            "x:4D",
            "s_latin1:e",
        ]
    );
    assert_eq!(values("( 1 , 'a' )\n,\r\n(),(2)"), ["n:1", "s:a", "n:2"]);
    assert_eq!(values("(1/* ) */,-- ,\n2# )\n),(3)"), ["n:1", "n:2", "n:3"]);
}

#[test]
fn what_is_not_surely_one_literal_is_an_expression() {
    for text in [
        "NOW()",
        "1+1",
        "1-2",
        "'a' 'b'",
        "'a' COLLATE utf8mb4_bin",
        "TRUE",
        "@x",
        "_latin1 0xE9",
        "x'4'",
        "x'zz'",
        "0x",
        "0xg",
        "0b2",
        "- 1",
        "--1",
        "1e",
        "1abc",
        "0X4D",
        "DEFAULT(a)",
        "NULLIF(1,',')",
        "NULLs",
        "'a' || ')'",
        "`a`",
        "(1)",
        "(SELECT 1, (2))",
        ".",
        "-",
        "1.2.3",
        "CURRENT_TIMESTAMP",
        "_utf8 x'41'",
        "_binary NULL",
        "N 'a'",
        "/*!50000 1 */",
        "b'2'",
        "1 /* , */ + 2",
        "-'1'",
    ] {
        let expected = format!("e:{}", text.as_bytes().escape_ascii());
        assert_eq!(
            values(&format!("({text})")),
            std::slice::from_ref(&expected),
            "{text}"
        );
        assert_eq!(
            values(&format!("(1, {text} ,2)")),
            ["n:1", &expected, "n:2"],
            "{text}"
        );
    }
}

#[test]
fn escapes() {
    let mut keep = Keep::new();
    let text = br"('\0\b\n\r\t\Z\\\'\x\%\_\N'),('a\\b')";
    visit_rows(text, LexMode::default(), &mut keep).expect("good rows");
    assert_eq!(keep.strings, [&b"\0\x08\n\r\t\x1A\\'x\\%\\_N"[..], b"a\\b"]);

    let no_escapes = LexMode {
        no_backslash_escapes: true,
        ..LexMode::default()
    };
    assert_eq!(
        values_in(br"('a\','b\n''')", no_escapes),
        [r"s:a\\", r"s:b\\n\'"]
    );
    let ansi = LexMode {
        ansi_quotes: true,
        ..LexMode::default()
    };
    assert_eq!(values_in(b"(\"a\",'b')", ansi), ["e:\\\"a\\\"", "s:b"]);
}

#[test]
fn tails_that_look_like_backslashes() {
    let gbk = LexMode {
        charset_family: CharsetFamily::Gbk,
        ..LexMode::default()
    };
    let mut keep = Keep::new();
    visit_rows(b"('\xBF\x5C','\xBF\x5C\\n\x81''',1)", gbk, &mut keep).expect("good rows");
    assert_eq!(keep.strings, [&b"\xBF\x5C"[..], b"\xBF\x5C\n\x81'"]);
}

#[test]
fn errors_say_where() {
    let error = |rows: &str, refuse| {
        let mut keep = Keep {
            refuse,
            ..Keep::new()
        };
        visit_rows(rows.as_bytes(), LexMode::default(), &mut keep).expect_err(rows)
    };
    assert_eq!(
        error("(1),('a',now())", Some("e")),
        VisitError::Visitor {
            at: 9,
            error: "no e".to_owned()
        }
    );
    let syntax = |rows: &str| match error(rows, None) {
        VisitError::Syntax { at, .. } => at,
        VisitError::Visitor { error, .. } => panic!("{rows}: {error}"),
    };
    assert_eq!(syntax(""), 0);
    assert_eq!(syntax("(1),"), 4);
    assert_eq!(syntax("(1)(2)"), 3);
    assert_eq!(syntax("(1,,2)"), 3);
    assert_eq!(syntax("(1,)"), 3);
    assert_eq!(syntax("(1,'a"), 3);
    assert_eq!(syntax("(1"), 1);
    assert_eq!(syntax("(1,2,(3)"), 5);
    assert_eq!(syntax("1"), 0);
}

/// Escapes like mysqldump (`mysql_real_escape_string`).
fn escape(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &b in value {
        match b {
            0 => out.extend(b"\\0"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            0x1A => out.extend(b"\\Z"),
            b'\\' | b'\'' | b'"' => out.extend([b'\\', b]),
            _ => out.push(b),
        }
    }
    out
}

proptest! {
    #[test]
    fn escaped_values_come_back(values in prop::collection::vec(bytes(), 1..8), doubled in any::<bool>()) {
        let mode = LexMode { no_backslash_escapes: doubled, ..LexMode::default() };
        let literals: Vec<Vec<u8>> = values.iter().map(|v| {
            let body = if doubled {
                v.iter().flat_map(|&b| if b == b'\'' { vec![b, b] } else { vec![b] }).collect()
            } else {
                escape(v)
            };
            [b"'", body.as_slice(), b"'"].concat()
        }).collect();
        let rows = [b"(", literals.join(&b',').as_slice(), b"),(1)"].concat();
        let mut keep = Keep::new();
        prop_assert_eq!(visit_rows(&rows, mode, &mut keep), Ok(2));
        prop_assert_eq!(&keep.strings, &values);
        prop_assert_eq!(&keep.rows[1], &["n:1".to_owned()]);
    }

    #[test]
    fn hostile_rows_do_not_panic(rows in bytes(), ansi_quotes in any::<bool>(), gbk in any::<bool>()) {
        let charset_family = if gbk { CharsetFamily::Gbk } else { CharsetFamily::Plain };
        let mode = LexMode { ansi_quotes, charset_family, ..LexMode::default() };
        let rows = [b"(", rows.as_slice(), b")"].concat();
        let _ = visit_rows(&rows, mode, &mut Keep::new());
    }
}

/// Random bytes with many special ones.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(&b"\0\n\r\x1A\\'\"%_,();-/*#`0x1NULL \xBF\x81"[..]);
    prop::collection::vec(prop_oneof![2 => special, 1 => any::<u8>()], 0..40)
}
