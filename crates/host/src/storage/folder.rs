//! A folder on a machine that `ssh` reaches, as a storage.

use std::io::{self, Cursor, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use refloat_store::storage::{
    Existing, Object, Stamp, Storage, StorageError, StorageErrorKind, UNFINISHED_FOR, Upload,
    check_name, check_readable,
};

use super::packet::kind;
use super::pool::{Lease, Pool};
use super::publish::{Begun, begin, clock, delete};
use super::session::flags;
use super::transfer::Fetch;
use super::url::{Root, SshUrl, above};
use super::walk::{Found, walk};

/// One connection uses one cipher on one core and, on long links, one window of 2 MiB.
const TRANSFERS: usize = 4;

/// Objects as files in a folder on another machine, through the SFTP server of an account there.
///
/// Nothing is installed there, and an account that is limited to SFTP is enough. The folder is
/// created with the first object. Only its owner has access to it and its files.
pub struct SshFolder {
    url: String,
    root: Root,
    pool: Arc<Pool>,
}

impl SshFolder {
    /// The storage in this folder, which need not exist yet. Connects at the first use.
    pub fn new(url: &SshUrl) -> Self {
        Self::by(url, Path::new("ssh"))
    }

    /// Like [`SshFolder::new`], with this program instead of `ssh`.
    pub fn by(url: &SshUrl, program: &Path) -> Self {
        Self {
            url: url.as_str().to_owned(),
            root: url.root().clone(),
            pool: Arc::new(Pool::new(url.clone(), program.into(), TRANSFERS)),
        }
    }

    fn failed(&self, name: &str, doing: &'static str) -> impl FnOnce(io::Error) -> StorageError {
        move |source| StorageError::from_io(&self.url, name, doing, source)
    }
}

/// The complete objects among these files, sorted.
fn objects(files: Vec<Found>) -> Vec<Object> {
    let mut objects: Vec<Object> = files
        .into_iter()
        .filter(|found| found.is_complete)
        .map(|found| Object {
            name: found.name,
            size: found.size,
            mark: found.modified.to_string(),
        })
        .collect();
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    objects
}

impl Storage for SshFolder {
    fn url(&self) -> &str {
        &self.url
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        let start = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !start.is_empty() && check_readable(&self.url, start).is_err() {
            return Ok(Vec::new());
        }
        let listed = self.pool.with(|session| walk(session, &self.root, start));
        let mut files = listed.map_err(self.failed(prefix, "listing"))?.files;
        files.retain(|found| found.name.starts_with(prefix));
        Ok(objects(files))
    }

    fn list_whole(&self) -> Result<Vec<Object>, StorageError> {
        let walked = self.pool.with(|session| walk(session, &self.root, ""));
        let walked = walked.map_err(self.failed("", "listing"))?;
        match walked.others.first() {
            Some(other) => Err(StorageError::new(
                &self.url,
                other,
                "reading a link, or another thing that is not a file,",
                StorageErrorKind::Name,
            )),
            None => Ok(objects(walked.files)),
        }
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        check_readable(&self.url, name)?;
        let path = self.root.path(name);
        let looked = self.pool.with(|session| session.look(kind::STAT, &path));
        let found = looked.map_err(self.failed(name, "looking at"))?;
        let size = found.size.filter(|_| found.is_file() != Some(false));
        let size = size.ok_or_else(|| {
            StorageError::new(&self.url, name, "looking at", StorageErrorKind::NotFound)
        })?;
        let mark = found.modified.unwrap_or_default().to_string();
        Ok(Stamp { size, mark })
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        check_readable(&self.url, name)?;
        let path = self.root.path(name);
        let answer = self.pool.take(|session| session.open(&path, flags::READ));
        let (handle, lease) = answer.map_err(self.failed(name, "reading"))?;
        Ok(Box::new(SshReader {
            transfer: Some((Fetch::new(handle, range), lease)),
            piece: Cursor::default(),
            url: self.url.clone(),
            name: name.to_owned(),
        }))
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        check_name(&self.url, name)?;
        let begun = self
            .pool
            .take(|session| begin(session, &self.root, name, existing));
        let transfer = begun.map_err(self.failed(name, "creating"))?;
        Ok(Box::new(SshUpload {
            transfer: Some(transfer),
            existing,
            url: self.url.clone(),
            name: name.to_owned(),
        }))
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        check_name(&self.url, name)?;
        let deleted = self.pool.with(|session| delete(session, &self.root, name));
        deleted.map_err(self.failed(name, "deleting"))
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        let walked = self.pool.with(|session| walk(session, &self.root, ""));
        let mut found = walked.map_err(self.failed("", "listing"))?.files;
        found.retain(|found| !found.is_complete);
        if found.is_empty() {
            return Ok(0);
        }
        let now = self.pool.with(|session| clock(session, &self.root));
        let now = now.map_err(self.failed("", "sweeping"))?;
        let mut removed = 0;
        for found in found {
            let age = u64::from(now.saturating_sub(found.modified));
            if age > UNFINISHED_FOR.as_secs() {
                let path = self.root.path(&found.name);
                let done = self.pool.with(|session| session.act(kind::REMOVE, &path));
                done.map_err(self.failed(&found.name, "removing"))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn room(&self) -> Option<u64> {
        let root = self.root.path("");
        let free = self.pool.with(|session| {
            // The folder is made with the first object.
            let mut folders = std::iter::successors(Some(root.as_str()), |path| above(path));
            Ok(folders.find_map(|folder| session.free(folder)))
        });
        free.ok().flatten()
    }

    fn transfers(&self) -> usize {
        TRANSFERS
    }
}

/// A reader of a part of an object.
struct SshReader {
    /// `None` at the end, so that others can use the connection.
    transfer: Option<(Fetch, Lease)>,
    /// Received but not read yet.
    piece: Cursor<Vec<u8>>,
    url: String,
    name: String,
}

impl SshReader {
    fn end(&mut self) {
        if let Some((fetch, mut lease)) = self.transfer.take() {
            fetch.close(&mut lease.session);
            lease.give_back();
        }
    }
}

impl Read for SshReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some((fetch, lease)) = &mut self.transfer else {
                return Ok(0);
            };
            let next = fetch.next(&mut lease.session);
            if fetch.is_done() || next.is_err() {
                self.end();
            }
            let next = next.map_err(|source| {
                StorageError::from_io(&self.url, &self.name, "reading", source).into_io()
            })?;
            self.piece = next.unwrap_or_default();
        }
    }
}

impl Drop for SshReader {
    fn drop(&mut self) {
        self.end();
    }
}

/// A writer of an object.
struct SshUpload {
    /// `None` once the object is complete, or part of it could not be written.
    transfer: Option<(Begun, Lease)>,
    existing: Existing,
    url: String,
    name: String,
}

impl SshUpload {
    fn failed(&self, doing: &'static str, source: io::Error) -> StorageError {
        StorageError::from_io(&self.url, &self.name, doing, source)
    }

    fn has_failed(&self, doing: &'static str) -> StorageError {
        self.failed(doing, io::Error::other("an earlier write has failed"))
    }

    fn abandon(&mut self) {
        if let Some((mut begun, mut lease)) = self.transfer.take() {
            begun.abandon(&mut lease.session);
            lease.give_back();
        }
    }
}

impl Write for SshUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((begun, lease)) = &mut self.transfer else {
            return Err(self.has_failed("writing").into_io());
        };
        begun.write(&mut lease.session, bytes).map_err(|source| {
            self.abandon();
            self.failed("writing", source).into_io()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for SshUpload {
    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let Some((begun, lease)) = &mut self.transfer else {
            return Err(self.has_failed("completing"));
        };
        let published = begun.publish(&mut lease.session, self.existing);
        published.map_err(|source| self.failed("completing", source))?;
        if let Some((_, lease)) = self.transfer.take() {
            lease.give_back();
        }
        Ok(())
    }
}

impl Drop for SshUpload {
    fn drop(&mut self) {
        self.abandon();
    }
}
