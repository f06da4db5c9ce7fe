//! Splits a row into fields as `docs/format.md` describes them: separated by tabs, `\N` for NULL,
//! and a backslash before a byte that would otherwise mean something else.

/// The fields of one row. Buffers are reused from row to row, so reading does not allocate per row.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where each field lies in `bytes`; `None` is NULL.
    places: Vec<Option<(usize, usize)>>,
}

impl Fields {
    /// Parses a row without its newline.
    pub fn split(&mut self, row: &[u8]) {
        self.bytes.clear();
        self.places.clear();
        let mut start = 0;
        // Set when the current field is a lone `\N`.
        let mut null = false;
        let mut at = 0;
        while let Some(found) = memchr::memchr2(b'\t', b'\\', &row[at..]) {
            self.bytes.extend_from_slice(&row[at..at + found]);
            at += found;
            if row[at] == b'\t' {
                self.end(&mut start, &mut null);
                at += 1;
                continue;
            }
            match row.get(at + 1) {
                Some(b'N') => {
                    // `\N` means NULL only if it is the whole field; the writer never escapes an N
                    // elsewhere.
                    let alone = self.bytes.len() == start
                        && row.get(at + 2).is_none_or(|byte| *byte == b'\t');
                    if alone {
                        null = true;
                    } else {
                        self.bytes.push(b'N');
                    }
                }
                Some(b't') => self.bytes.push(b'\t'),
                Some(b'n') => self.bytes.push(b'\n'),
                Some(b'r') => self.bytes.push(b'\r'),
                Some(b'0') => self.bytes.push(0),
                Some(b'b') => self.bytes.push(8),
                Some(b'Z') => self.bytes.push(26),
                Some(other) => self.bytes.push(*other),
                None => self.bytes.push(b'\\'),
            }
            at = (at + 2).min(row.len());
        }
        self.bytes.extend_from_slice(&row[at..]);
        self.end(&mut start, &mut null);
    }

    fn end(&mut self, start: &mut usize, null: &mut bool) {
        let end = self.bytes.len();
        self.places
            .push((!std::mem::take(null)).then_some((*start, end)));
        *start = end;
    }

    /// Number of fields in the row.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Content of a field; `None` is NULL. `index` must be below [`Fields::len`].
    pub fn cell(&self, index: usize) -> Option<&[u8]> {
        self.places[index].map(|(start, end)| &self.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(row: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut fields = Fields::default();
        // Remains of an earlier row must not show.
        fields.split(b"earlier\t\\N\tx");
        fields.split(row);
        (0..fields.len())
            .map(|index| fields.cell(index).map(<[u8]>::to_vec))
            .collect()
    }

    #[test]
    fn rows_as_the_page_has_them() {
        let some = |text: &[u8]| Some(text.to_vec());
        assert_eq!(split(b"1\t\\N\t"), [some(b"1"), None, some(b"")]);
        assert_eq!(split(b"\\\\N"), [some(b"\\N")], "not NULL");
        assert_eq!(split(b"a\\tb\\nc\\\\d"), [some(b"a\tb\nc\\d")]);
        assert_eq!(split(b""), [some(b"")]);
        assert_eq!(split(b"\\N"), [None]);
        assert_eq!(split(b"\\N\t\\N"), [None, None]);
        assert_eq!(split(b"\\Nx\tx\\N"), [some(b"Nx"), some(b"xN")]);
    }

    // Hazard of comparisons: V-10 the reader of a dump is not its writer's code
    proptest! {
        #[test]
        fn what_the_writer_wrote_is_read(cells in prop::collection::vec(prop::option::of(prop::collection::vec(prop::sample::select(b"\t\n\\N0tn\0ab".to_vec()), 0..9)), 1..8)) {
            let mut row = Vec::new();
            refloat_source::tsv::write_row(cells.iter().map(Option::as_deref), &mut row);
            row.pop();
            prop_assert_eq!(split(&row), cells);
        }

        #[test]
        fn no_bytes_make_it_panic(row in prop::collection::vec(any::<u8>(), 0..60)) {
            split(&row);
        }
    }
}
