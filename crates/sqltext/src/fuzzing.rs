//! Bodies of the fuzz targets, so that plain tests can replay their corpora. Not public API.

use std::convert::Infallible;

use crate::{
    CharsetFamily, Element, Item, ItemKind, LexMode, RowVisitor, ScanError, ScanOptions, Scanner,
    Step, StrLit, classify, parse_create_table, parse_set, replace_collations, tokens, visit_rows,
};

/// Decodes mode and sizes from the first two bytes; the rest is the text.
fn split(data: &[u8]) -> Option<(LexMode, ScanOptions, usize, &[u8])> {
    let [flags, sizes, text @ ..] = data else {
        return None;
    };
    let families = [
        CharsetFamily::Plain,
        CharsetFamily::Gbk,
        CharsetFamily::Sjis,
        CharsetFamily::Big5,
        CharsetFamily::Gb18030,
        CharsetFamily::Euckr,
        CharsetFamily::Cp932,
        CharsetFamily::Plain,
    ];
    let mode = LexMode {
        no_backslash_escapes: flags & 1 != 0,
        ansi_quotes: flags & 2 != 0,
        mariadb: false,
        charset_family: families[usize::from(flags >> 2 & 7)],
    };
    let options = ScanOptions {
        piece_target: [1, 100, 300, 1 << 20][usize::from(flags >> 5 & 3)],
        max_item: if flags & 0x80 != 0 { 500 } else { 1 << 30 },
    };
    Some((mode, options, usize::from(*sizes) + 1, text))
}

/// Items cover the input without gaps, the same for every block size, and `row_count` is right.
pub fn scanner(data: &[u8]) {
    let Some((mode, options, block, text)) = split(data) else {
        return;
    };
    let whole = scan(text, text.len() + 1, options, mode);
    assert_eq!(whole, scan(text, block, options, mode), "blocks of {block}");
    let mut at = 0;
    for item in &whole.0 {
        let bytes = &text[at..at + item.len];
        at += item.len;
        assert!(item.len > 0 && item.text.end <= item.len);
        if let ItemKind::Rows(piece) = &item.kind {
            let rows = &bytes[piece.rows.clone()];
            assert!(rows.ends_with(b")"));
            if let Ok(count) = visit_rows(rows, mode, &mut Ignore) {
                assert_eq!(count, piece.row_count);
            }
        }
    }
    assert!(whole.1.is_some() || at == text.len());
}

fn scan(
    text: &[u8],
    block: usize,
    options: ScanOptions,
    mode: LexMode,
) -> (Vec<Item>, Option<ScanError>) {
    let mut scanner = Scanner::new(options);
    scanner.set_mode(mode);
    let (mut start, mut end) = (0, 0);
    let mut items = Vec::new();
    loop {
        match scanner.next(&text[start..end], end == text.len()) {
            Ok(Step::NeedMore) => {
                assert!(end < text.len());
                end = text.len().min(end + block);
            }
            Ok(Step::Item(item)) => {
                start += item.len;
                items.push(item);
            }
            Ok(Step::End) => return (items, None),
            Err(error) => return (items, Some(error)),
        }
    }
}

/// Visiting arbitrary bytes as rows never panics, and unescaping never grows a value.
pub fn values(data: &[u8]) {
    let Some((mode, _, _, text)) = split(data) else {
        return;
    };
    let _ = visit_rows(text, mode, &mut Ignore);
    let wrapped = [b"(", text, b")"].concat();
    let _ = visit_rows(&wrapped, mode, &mut Ignore);
    let quote = if mode.ansi_quotes { b'\'' } else { b'"' };
    let mut out = Vec::new();
    StrLit::new(text, quote, mode).unescape_into(&mut out);
    assert!(out.len() <= text.len());
}

/// Parsing arbitrary bytes as DDL never panics, and reassembled DDL parses to the same parts.
pub fn ddl(data: &[u8]) {
    let Some((mode, _, _, text)) = split(data) else {
        return;
    };
    let mut end = 0;
    for token in tokens(text, mode) {
        assert!(token.range.start >= end && token.range.end > token.range.start);
        end = token.range.end;
    }
    let _ = classify(text, mode);
    let _ = parse_set(text, mode);
    let _ = replace_collations(text, mode, |name| Some([name, b"x"].concat()));
    let Ok(create) = parse_create_table(text, mode) else {
        return;
    };
    let mut end = create.body.start;
    for element in &create.elements {
        let range = element.range();
        assert!(range.start >= end && range.end >= range.start && range.end <= create.body.end);
        end = range.end;
    }
    for option in &create.options {
        assert!(option.range.end <= text.len() && option.range.start < option.range.end);
    }
    assert_eq!(create.without(text, |_| false), text);
    let is_key = |e: &Element| matches!(e, Element::Key(_) | Element::ForeignKey(_));
    if create.elements.iter().all(is_key) {
        return;
    }
    let lean = create.without(text, is_key);
    let again = parse_create_table(&lean, mode).expect("without keys it is a table still");
    let kept = create.elements.iter().filter(|e| !is_key(e)).count();
    assert_eq!(again.elements.len(), kept);
    assert_eq!(again.options.len(), create.options.len());
}

struct Ignore;

impl RowVisitor for Ignore {
    type Error = Infallible;

    fn number(&mut self, text: &[u8]) -> Result<(), Infallible> {
        let number = std::str::from_utf8(text).expect("a number is ASCII");
        assert!(number.parse::<f64>().is_ok(), "{number}");
        Ok(())
    }

    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Infallible> {
        let mut out = Vec::new();
        literal.unescape_into(&mut out);
        assert!(out.len() <= literal.raw.len());
        Ok(())
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), Infallible> {
        assert!(digits.iter().all(u8::is_ascii_hexdigit));
        Ok(())
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), Infallible> {
        assert!(digits.iter().all(|b| matches!(b, b'0' | b'1')));
        Ok(())
    }

    fn expression(&mut self, text: &[u8]) -> Result<(), Infallible> {
        assert!(!text.is_empty());
        Ok(())
    }
}
