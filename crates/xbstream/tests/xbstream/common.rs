//! Chunks made by hand, and an extractor that does what operations say.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use refloat_xbstream::{Dialect, Error, Operation, Reader};

/// Magic, flags, type, path.
pub fn head(flags: u8, kind: u8, path: &str) -> Vec<u8> {
    let mut chunk = b"XBSTCK01".to_vec();
    chunk.extend([flags, kind]);
    chunk.extend((path.len() as u32).to_le_bytes());
    chunk.extend(path.as_bytes());
    chunk
}

/// A chunk of `kind` with a piece of a file.
pub fn piece_of(flags: u8, kind: u8, path: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut chunk = head(flags, kind, path);
    chunk.extend((bytes.len() as u64).to_le_bytes());
    chunk.extend(offset.to_le_bytes());
    chunk.extend(crc32fast::hash(bytes).to_le_bytes());
    chunk.extend(bytes);
    chunk
}

pub fn piece(path: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    piece_of(0, b'P', path, offset, bytes)
}

/// A piece that replaces an older copy.
pub fn rewrite(path: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    piece_of(2, b'P', path, offset, bytes)
}

pub fn end(path: &str) -> Vec<u8> {
    head(0, b'E', path)
}

/// A whole file.
pub fn file(path: &str, bytes: &[u8]) -> Vec<u8> {
    [piece(path, 0, bytes), end(path)].concat()
}

pub fn seek(path: &str, offset: u64) -> Vec<u8> {
    [head(0, b'S', path), offset.to_le_bytes().to_vec()].concat()
}

pub fn rename(from: &str, to: &str) -> Vec<u8> {
    let length = (to.len() as u32).to_le_bytes();
    [head(0, b'R', from), length.to_vec(), to.as_bytes().to_vec()].concat()
}

pub fn remove(path: &str) -> Vec<u8> {
    head(0, b'D', path)
}

/// A piece with holes: pairs of skip and length.
pub fn sparse(path: &str, offset: u64, map: &[(u32, u32)], bytes: &[u8]) -> Vec<u8> {
    let pairs: Vec<u8> = map
        .iter()
        .flat_map(|(skip, length)| [skip.to_le_bytes(), length.to_le_bytes()])
        .flatten()
        .collect();
    let mut chunk = head(0, b'S', path);
    chunk.extend((map.len() as u32).to_le_bytes());
    chunk.extend((bytes.len() as u64).to_le_bytes());
    chunk.extend(offset.to_le_bytes());
    chunk.extend(crc32fast::hash(&[&pairs, bytes].concat()).to_le_bytes());
    chunk.extend(pairs);
    chunk.extend(bytes);
    chunk
}

/// Reads to the end. Each operation as its `Debug` text, with paths shown.
pub fn operations(stream: &[u8], dialect: Dialect) -> Result<Vec<String>, Error> {
    let mut reader = Reader::new(stream, dialect);
    let mut seen = Vec::new();
    while let Some(operation) = reader.read()? {
        seen.push(format!("{operation:?}"));
    }
    Ok(seen)
}

/// Does what the stream says in a folder, and checks what the catalogue says of it in the end.
/// Calls `each` before every operation. Returns what was ignored.
pub fn extract(
    input: impl Read,
    dialect: Dialect,
    folder: &Path,
    mut each: impl FnMut(&Operation<'_>),
) -> Result<Vec<PathBuf>, Error> {
    let mut reader = Reader::new(input, dialect);
    let mut open: BTreeMap<PathBuf, (fs::File, u64)> = BTreeMap::new();
    let mut ignored = Vec::new();
    while let Some(operation) = reader.read()? {
        each(&operation);
        match operation {
            Operation::Open { path } => {
                let file = create(folder, path, fs::OpenOptions::new().create_new(true));
                open.insert(path.to_owned(), (file, 0));
            }
            Operation::Rewrite { path } => {
                let options = &mut fs::OpenOptions::new();
                let file = create(folder, path, options.create(true).truncate(true));
                open.insert(path.to_owned(), (file, 0));
            }
            Operation::Data {
                path,
                offset,
                bytes,
            } => {
                let (file, length) = open.get_mut(path).expect("it is open");
                file.write_all_at(bytes, offset).unwrap();
                *length = (*length).max(offset + bytes.len() as u64);
            }
            Operation::Sparse {
                path,
                mut offset,
                map,
                mut bytes,
            } => {
                let (file, length) = open.get_mut(path).expect("it is open");
                for run in map {
                    offset += u64::from(run.skip);
                    let (piece, rest) = bytes.split_at(run.length as usize);
                    file.write_all_at(piece, offset).unwrap();
                    offset += u64::from(run.length);
                    bytes = rest;
                }
                *length = (*length).max(offset);
            }
            Operation::Seek { path, .. } => assert!(open.contains_key(path)),
            Operation::End { path } => {
                let (file, length) = open.remove(path).expect("it is open");
                file.set_len(length).unwrap();
            }
            Operation::Rename { from, to } => {
                make_folder(folder, to);
                fs::rename(folder.join(from), folder.join(to)).unwrap();
            }
            Operation::Remove { path } => fs::remove_file(folder.join(path)).unwrap(),
            Operation::RemoveFolder { path } => fs::remove_dir(folder.join(path)).unwrap(),
            Operation::Ignored { path, .. } => ignored.push(path.to_owned()),
        }
    }
    assert!(open.is_empty(), "the reader lets files stay open: {open:?}");
    let listed: BTreeMap<PathBuf, u64> = reader
        .catalogue()
        .files()
        .map(|(path, length)| (path.to_owned(), length))
        .collect();
    let found: BTreeMap<PathBuf, u64> = files(folder)
        .into_iter()
        .map(|(path, bytes)| (path, bytes.len() as u64))
        .collect();
    assert_eq!(listed, found, "the catalogue and what was extracted");
    Ok(ignored)
}

fn create(folder: &Path, path: &Path, options: &mut fs::OpenOptions) -> fs::File {
    make_folder(folder, path);
    options
        .write(true)
        .open(folder.join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn make_folder(folder: &Path, path: &Path) {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(folder.join(parent)).unwrap();
    }
}

/// The files below a folder with what they hold.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}
