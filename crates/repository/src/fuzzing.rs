//! Body of the fuzz target, so that plain tests can replay its corpus. Not public API.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use refloat_store::storage::{Existing, Storage as _, Upload};

use crate::repository::{BACKUPS, DESCRIPTION, key_check, unproven};
use crate::stream::{Piece, StreamReader, StreamStorage};

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An object that is arriving: its name, its bytes, and where they are written again.
type Open = (String, Vec<u8>, Box<dyn Upload>);

/// A stream from anywhere. Returns the number of its objects if it is whole.
///
/// What can be read to its end is written again, and must be the same bytes.
pub fn stream(data: &[u8]) -> Option<usize> {
    let again = Memory::default();
    let storage = StreamStorage::begin(Box::new(again.clone())).ok()?;
    let mut open: BTreeMap<u32, Open> = BTreeMap::new();
    let mut count = 0;
    let mut reader = StreamReader::begin(data).ok()?;
    while let Some(piece) = reader.next().ok()? {
        match piece {
            Piece::Begin { number, name } => {
                // A name may come twice; an import then finds the first one there.
                let upload = storage.create(name, Existing::Keep).ok()?;
                open.insert(number, (name.to_owned(), Vec::new(), upload));
            }
            Piece::Data { number, bytes } => {
                if let Some((_, content, upload)) = open.get_mut(&number) {
                    content.extend_from_slice(bytes);
                    // Nothing is written for an empty frame.
                    upload.write_all(bytes).ok()?;
                }
            }
            Piece::End { number } => {
                let (name, content, upload) = open.remove(&number)?;
                upload.finish().ok()?;
                if name == DESCRIPTION {
                    let _ = key_check("the stream", &content);
                } else if name.starts_with(BACKUPS) {
                    let _ = unproven("the stream", &name, &content);
                }
                count += 1;
            }
        }
    }
    storage.finish().ok()?;
    let again = again.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        *again == data || has_empty_frame(data),
        "it is written otherwise"
    );
    Some(count)
}

/// Whether the stream contains an empty data frame, which no writer produces.
fn has_empty_frame(data: &[u8]) -> bool {
    data.windows(9)
        .any(|head| head[0] == 2 && head[5..] == [0; 4])
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::stream;

    #[test]
    fn seeds_are_read() {
        for (name, seed) in corpus::seeds("stream") {
            let cut = &seed[..seed.len() - 1];
            assert!(stream(&seed) > Some(2) && stream(cut).is_none(), "{name}");
        }
    }

    #[test]
    fn nothing_like_the_seeds_makes_a_panic() {
        corpus::replay("stream", 2, |data| {
            stream(data);
        });
    }
}
