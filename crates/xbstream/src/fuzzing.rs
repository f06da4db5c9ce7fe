//! Body of the fuzz target, so that plain tests can replay its corpus. Not public API.

use crate::{Dialect, Operation, Reader, Writer};

/// A stream from anywhere. The first byte chooses the dialect.
///
/// What can be read to its end is written again, and must read the same.
pub fn stream(data: &[u8]) {
    let [first, bytes @ ..] = data else {
        return;
    };
    let dialect = if first % 2 == 0 {
        Dialect::MariaDb
    } else {
        Dialect::Percona
    };
    let mut writer = Writer::new(Vec::new(), dialect);
    let mut reader = Reader::new(bytes, dialect);
    loop {
        match reader.read() {
            Ok(Some(operation)) => copy(&operation, &mut writer),
            Ok(None) => break,
            Err(error) => {
                assert!(error.at <= bytes.len() as u64, "{error}");
                assert!(reader.read().is_err());
                return;
            }
        }
    }
    let files: Vec<_> = reader.catalogue().files().collect();
    let again: Vec<_> = writer.catalogue().files().collect();
    assert_eq!(files, again);
}

/// Writes what was read.
fn copy(operation: &Operation<'_>, writer: &mut Writer<Vec<u8>>) {
    let done = match *operation {
        Operation::Open { path } => writer.create(path),
        Operation::Rewrite { path } => writer.rewrite(path),
        Operation::Data { path, bytes, .. } => writer.write(path, bytes),
        Operation::Sparse {
            path, map, bytes, ..
        } => writer.sparse(path, map, bytes),
        Operation::Seek { path, offset } => writer.seek(path, offset),
        Operation::End { path } => writer.end(path),
        Operation::Rename { from, to } => writer.rename(from, to),
        Operation::Remove { path } | Operation::RemoveFolder { path } => writer.remove(path),
        Operation::Ignored { .. } => Ok(()),
    };
    done.unwrap_or_else(|error| panic!("{operation:?}: {error}"));
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_are_read() {
        for (name, seed) in corpus::seeds("xbstream") {
            let dialect = if seed[0] % 2 == 0 {
                Dialect::MariaDb
            } else {
                Dialect::Percona
            };
            let mut reader = Reader::new(&seed[1..], dialect);
            while reader.read().expect(&name).is_some() {}
        }
    }

    #[test]
    fn nothing_like_the_seeds_makes_a_panic() {
        corpus::replay("xbstream", 5, stream);
    }
}
