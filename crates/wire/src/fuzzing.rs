//! Bodies of the fuzz targets, so that plain tests can replay their corpora. Not public API.

use std::io::Cursor;
use std::path::Path;

use crate::frame::Framed;
use crate::options::read_groups;
use crate::result::{Column, OkInfo, split_binary_row, split_row};
use crate::{ConnectOptions, handshake, server, tls};

/// Longest frame accepted from a fuzzed server.
const LONGEST: usize = 1 << 20;

/// Bytes that a server may send. The first byte chooses the parser, the second the number of
/// columns of a row.
pub fn packets(data: &[u8]) {
    let [kind, columns, bytes @ ..] = data else {
        return;
    };
    match kind % 6 {
        0 => drop(handshake::parse_greeting(bytes)),
        1 => {
            if let Ok(ok) = OkInfo::parse(bytes) {
                ok.info_count("Records");
            }
        }
        2 => drop(Column::parse(bytes)),
        3 => {
            let mut cells = Vec::new();
            let columns: Vec<Column> = (0..*columns).map(Column::of_type).collect();
            for split in [split_row, split_binary_row] {
                if split(bytes, &columns, &mut cells).is_ok() {
                    assert_eq!(cells.len(), columns.len());
                }
            }
        }
        4 => {
            let mut frames = Framed::new(Cursor::new(bytes), LONGEST);
            while let Ok(place) = frames.read() {
                assert!(frames.payload(&place).len() <= bytes.len());
            }
        }
        _ => {
            tls::certificate_is_read(bytes);
            server::parse_version(&String::from_utf8_lossy(bytes));
        }
    }
}

/// Input that a user may give: a URL, and an option file, which is written to `file`.
///
/// # Panics
/// If the file cannot be written.
pub fn options(data: &[u8], file: &Path) {
    let text = String::from_utf8_lossy(data);
    if let Ok(options) = ConnectOptions::from_url(text.lines().next().unwrap_or_default()) {
        options.describe();
    }
    // A fuzzer must not read other files of the machine.
    if memmem(data, b"!include") {
        return;
    }
    std::fs::write(file, data).expect("the file can be written");
    let groups = ["client".to_owned(), "mysqldump".to_owned()];
    if let Ok(found) = read_groups(&[(file, true)], &groups) {
        // Whether the options are usable does not matter here.
        drop(found.apply(&mut ConnectOptions::unix("/nowhere", "nobody")));
    }
}

fn memmem(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_and_what_is_like_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        corpus::replay("packets", 3, packets);
        corpus::replay("options", 3, |data| options(data, file.path()));
    }
}
