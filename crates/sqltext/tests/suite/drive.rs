//! Drives a scanner over text in blocks, as a loader does.

use refloat_sqltext::{
    Item, ItemKind, LexMode, ScanError, ScanOptions, Scanner, StatementKind, Step,
};

/// An item together with its bytes, so that it can be compared across block sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub item: Item,
    pub bytes: Vec<u8>,
}

impl Cut {
    pub fn text(&self) -> &[u8] {
        &self.bytes[self.item.text.clone()]
    }

    pub fn rows(&self) -> &[u8] {
        match &self.item.kind {
            ItemKind::Rows(piece) => &self.bytes[piece.rows.clone()],
            other => panic!("no rows: {other:?}"),
        }
    }
}

/// Scans all of `input`, giving the scanner another `block` bytes whenever it asks.
pub fn scan(
    input: &[u8],
    block: usize,
    options: ScanOptions,
    mode: LexMode,
) -> (Vec<Cut>, Option<ScanError>) {
    let mut scanner = Scanner::new(options);
    scanner.set_mode(mode);
    let (mut start, mut end) = (0, 0);
    let mut cuts = Vec::new();
    loop {
        match scanner.next(&input[start..end], end == input.len()) {
            Ok(Step::NeedMore) => {
                assert!(end < input.len(), "asks for more at the end of the input");
                end = input.len().min(end + block);
            }
            Ok(Step::Item(item)) => {
                assert!(item.len > 0, "empty item {item:?}");
                let bytes = input[start..start + item.len].to_vec();
                assert_eq!(item.offset, (start + item.text.start) as u64);
                start += item.len;
                cuts.push(Cut { item, bytes });
                assert_eq!(scanner.offset(), start as u64);
                let lines = memchr::memchr_iter(b'\n', &input[..start]).count();
                assert_eq!(scanner.line(), 1 + lines as u64);
            }
            Ok(Step::End) => {
                assert_eq!(start, input.len(), "ends before the end");
                return (cuts, None);
            }
            Err(error) => return (cuts, Some(error)),
        }
    }
}

/// Scans with default options and mode, in one block. The text must be valid.
pub fn cuts(input: impl AsRef<[u8]>) -> Vec<Cut> {
    cuts_in(input, LexMode::default())
}

pub fn cuts_in(input: impl AsRef<[u8]>, mode: LexMode) -> Vec<Cut> {
    let input = input.as_ref();
    let (cuts, error) = scan(input, usize::MAX / 2, ScanOptions::default(), mode);
    assert_eq!(error, None);
    // Anything that holds for the whole text holds for every way to cut it into blocks.
    for block in [1, 2, 3, 5, 7, 16, 64, 65] {
        assert_eq!(
            scan(input, block, ScanOptions::default(), mode),
            (cuts.clone(), None),
            "block {block}"
        );
    }
    cuts
}

pub fn error_of(input: impl AsRef<[u8]>) -> ScanError {
    let input = input.as_ref();
    let (cuts, error) = scan(
        input,
        usize::MAX / 2,
        ScanOptions::default(),
        LexMode::default(),
    );
    for block in [1, 2, 3, 7, 64] {
        let again = scan(input, block, ScanOptions::default(), LexMode::default());
        assert_eq!(again, (cuts.clone(), error.clone()), "block {block}");
    }
    error.expect("an error")
}

/// Texts of all statements, rows included, in order.
pub fn statements(input: impl AsRef<[u8]>) -> Vec<String> {
    cuts(input)
        .iter()
        .filter(|c| matches!(c.item.kind, ItemKind::Statement(_) | ItemKind::Rows(_)))
        .map(|c| String::from_utf8_lossy(c.text()).into_owned())
        .collect()
}

/// Kind of the only statement in a text.
pub fn kind_of(input: impl AsRef<[u8]>) -> StatementKind {
    match cuts(input).as_slice() {
        [one] => match &one.item.kind {
            ItemKind::Statement(kind) => kind.clone(),
            other => panic!("no statement: {other:?}"),
        },
        more => panic!("not one item: {more:?}"),
    }
}
