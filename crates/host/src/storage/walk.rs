//! Lists all files below a folder, reading several folders in parallel.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use refloat_store::storage::{UNFINISHED, check_name, check_readable};

use super::packet::{Answer, Attributes, code, kind};
use super::session::Session;
use super::url::Root;

/// Folders to read in parallel.
const AT_ONCE: usize = 16;
/// Maximum number of entries in a listing. A server that sends more may never stop.
const ENTRIES_MOST: usize = 2_000_000;

/// A file, complete or not.
pub struct Found {
    /// Its path below the root.
    pub name: String,
    pub size: u64,
    /// Seconds since 1970, by the server's clock.
    pub modified: u32,
    pub is_complete: bool,
}

/// The contents of a folder and its subfolders.
#[derive(Default)]
pub struct Walked {
    pub files: Vec<Found>,
    /// Paths of links, devices and the like, and of entries whose names no storage can have,
    /// without hidden ones.
    pub others: Vec<String>,
}

/// A folder that is being read.
struct Asked {
    id: u32,
    /// Its path below the root; empty for the root.
    folder: String,
    /// `None` while it is being opened.
    handle: Option<Vec<u8>>,
}

/// Lists the files in a folder below the root and in its subfolders. A missing folder has none.
pub fn walk<S: Read + Write>(
    session: &mut Session<S>,
    root: &Root,
    start: &str,
) -> io::Result<Walked> {
    let walked = all(session, root, start);
    if walked.is_err() {
        // Some folders are still open, and nothing will close them.
        session.give_up();
    }
    walked
}

fn all<S: Read + Write>(session: &mut Session<S>, root: &Root, start: &str) -> io::Result<Walked> {
    let mut found = Walked::default();
    let mut folders = vec![start.to_owned()];
    let mut asked: VecDeque<Asked> = VecDeque::new();
    let mut count = 0;
    loop {
        while asked.len() < AT_ONCE
            && let Some(folder) = folders.pop()
        {
            let id = session.send(kind::OPENDIR, |request| request.bytes(root.path(&folder)))?;
            asked.push_back(Asked {
                id,
                folder,
                handle: None,
            });
        }
        let Some(Asked { id, folder, handle }) = asked.pop_front() else {
            return Ok(found);
        };
        let answer = session.receive(id)?;
        let handle = match (handle, answer) {
            (None, Answer::Handle(handle)) => handle,
            // Another process may have removed it in between.
            (
                None,
                Answer::Status {
                    code: code::NO_SUCH_FILE,
                    ..
                },
            ) => continue,
            (
                Some(handle),
                Answer::Status {
                    code: code::EOF, ..
                },
            ) => {
                session.close(&handle)?;
                continue;
            }
            (Some(handle), Answer::Names(names)) => {
                // An answer without names counts as an entry too, or a server could send such
                // answers forever.
                count += names.len().max(1);
                if count > ENTRIES_MOST {
                    return Err(io::Error::other(format!(
                        "it lists more than {ENTRIES_MOST} entries"
                    )));
                }
                for (name, attributes) in names {
                    let Some((name, is_complete)) = ours(&folder, &name) else {
                        if !name.starts_with(b".") {
                            let name = String::from_utf8_lossy(&name);
                            found.others.push(format!("{folder}/{name}"));
                        }
                        continue;
                    };
                    let attributes = known(session, root, &name, attributes)?;
                    if attributes.is_folder() == Some(true) {
                        folders.push(name);
                    } else if attributes.is_file() == Some(true) {
                        found.files.push(Found {
                            name,
                            size: attributes.size.unwrap_or_default(),
                            modified: attributes.modified.unwrap_or(u32::MAX),
                            is_complete,
                        });
                    } else {
                        found.others.push(name);
                    }
                }
                handle
            }
            (_, other) => return Err(session.refused(other)),
        };
        let id = session.send(kind::READDIR, |request| request.bytes(&handle))?;
        asked.push_back(Asked {
            id,
            folder,
            handle: Some(handle),
        });
    }
}

/// The path of an entry below the root, and whether it is a complete object or a folder of such.
/// `None`: it does not belong to a storage. So no name leads out of the root.
fn ours(folder: &str, name: &[u8]) -> Option<(String, bool)> {
    let name = std::str::from_utf8(name).ok()?;
    let path = if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    };
    if name.contains('/') {
        return None;
    }
    match name.strip_prefix(UNFINISHED) {
        Some(rest) => check_name("", rest).ok().map(|()| (path, false)),
        None => check_readable("", &path).ok().map(|()| (path, true)),
    }
}

/// Requests the needed attributes if they are missing. A server need not send them with a name.
fn known<S: Read + Write>(
    session: &mut Session<S>,
    root: &Root,
    name: &str,
    attributes: Attributes,
) -> io::Result<Attributes> {
    let Attributes {
        size: Some(_),
        mode: Some(_),
        modified: Some(_),
    } = attributes
    else {
        return match session.look(kind::LSTAT, &root.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attributes::default()),
            looked => looked,
        };
    };
    Ok(attributes)
}
