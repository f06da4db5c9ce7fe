//! Writes to a bucket: small objects at once, others in parts, some of them at the same time.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, MultipartUpload, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};
use tokio::task::JoinSet;

use super::super::{Existing, StorageError, StorageErrorKind, Upload};
use super::Inner;
use super::failed::find;
use super::service::Refusal;

const MIB: u64 = 1 << 20;
/// Size of the first parts of an object, and of what is written without parts. Five MiB is the
/// least that S3 takes.
const PART: u64 = 8 * MIB;
/// S3 takes 10,000 parts of an object, so they double in size after each thousand. Objects of up
/// to 8 GiB have parts of one size, as some services demand.
const SAME_SIZE: u64 = 1000;
/// Bytes on their way at the same time. A part that is larger goes alone.
const FLYING: u64 = 4 * PART;
/// An unfinished object is removed within this time, or left to [`super::super::Storage::sweep`].
const ABORT: Duration = Duration::from_secs(30);
/// Where an object says which writer it is of.
const WRITER: &str = "writer";

/// Bytes of the part of this number, counted from 0.
fn part_size(number: u64) -> u64 {
    PART << (number / SAME_SIZE).min(16)
}

/// A word that no other writer has. By it a writer whose connection was lost knows its own object
/// again.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!(
        "{:x}-{:x}-{:x}",
        std::process::id(),
        now.map_or(0, |now| now.as_nanos()),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// An object on its way to a bucket.
pub struct BucketUpload {
    bucket: Arc<Inner>,
    name: String,
    path: Path,
    existing: Existing,
    mark: String,
    /// The part that is being filled.
    part: Vec<u8>,
    parts: Option<Parts>,
}

/// The parts of an object that is too large to be written at once.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    /// How many were sent or are on their way.
    count: u64,
    flying: JoinSet<Result<u64, object_store::Error>>,
    flying_bytes: u64,
    /// Whether one was not written. There will be no object then.
    lost: bool,
}

impl BucketUpload {
    pub fn new(bucket: Arc<Inner>, name: &str, path: Path, existing: Existing) -> Self {
        Self {
            bucket,
            name: name.to_owned(),
            path,
            existing,
            mark: mark(),
            part: Vec::new(),
            parts: None,
        }
    }

    fn failed(&self, doing: &'static str, error: &object_store::Error) -> StorageError {
        self.bucket.names.failed(&self.name, doing, error)
    }

    fn attributes(&self) -> Attributes {
        Attributes::from_iter([(Attribute::Metadata(WRITER.into()), self.mark.clone())])
    }

    fn part_size(&self) -> u64 {
        part_size(self.parts.as_ref().map_or(0, |parts| parts.count))
    }

    /// Refuses to go on if an object must be kept and is there.
    fn refuse_existing(&self, doing: &'static str) -> Result<(), StorageError> {
        let exists = StorageErrorKind::Exists;
        match self.bucket.head(&self.path) {
            Ok(_) => Err(StorageError::new(
                &self.bucket.names.url,
                &self.name,
                doing,
                exists,
            )),
            Err(error) => {
                let error = self.bucket.explained(&self.name, doing, &error);
                match error.kind() {
                    StorageErrorKind::NotFound if self.bucket.service.has_granted() => Ok(()),
                    _ => Err(error),
                }
            }
        }
    }

    /// Sends the part that is full, and waits while too much is on its way.
    fn send(&mut self) -> Result<(), StorageError> {
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => self.begin()?,
        };
        let result = self.send_part(&mut parts);
        self.parts = Some(parts);
        result.map_err(|error| self.failed("writing", &error))
    }

    fn begin(&self) -> Result<Parts, StorageError> {
        if self.existing == Existing::Keep {
            self.refuse_existing("creating")?;
        }
        let options = PutMultipartOptions {
            attributes: self.attributes(),
            ..PutMultipartOptions::default()
        };
        let store = self.bucket.store_for(self.existing);
        let begun = store.put_multipart_opts(&self.path, options);
        let upload = self.bucket.runtime().block_on(begun);
        Ok(Parts {
            upload: upload.map_err(|error| self.failed("creating", &error))?,
            count: 0,
            flying: JoinSet::new(),
            flying_bytes: 0,
            lost: false,
        })
    }

    fn send_part(&mut self, parts: &mut Parts) -> Result<(), object_store::Error> {
        let runtime = self.bucket.runtime();
        let size = self.part.len() as u64;
        while parts.flying_bytes > 0 && parts.flying_bytes + size > FLYING {
            runtime.block_on(parts.land())?;
        }
        let payload = PutPayload::from(Bytes::from(std::mem::take(&mut self.part)));
        let sent = parts.upload.put_part(payload);
        let flight = async move { sent.await.map(|()| size) };
        parts.flying.spawn_on(flight, runtime.handle());
        parts.flying_bytes += size;
        parts.count += 1;
        Ok(())
    }

    /// Makes an object of the parts.
    fn complete(&mut self, mut parts: Parts) -> Result<(), StorageError> {
        let bucket = Arc::clone(&self.bucket);
        let runtime = bucket.runtime();
        if parts.lost {
            let lost = StorageErrorKind::Lost;
            self.parts = Some(parts);
            let url = &bucket.names.url;
            return Err(StorageError::new(url, &self.name, "completing", lost));
        }
        let send_rest = |upload: &mut Self, parts: &mut Parts| {
            if !upload.part.is_empty() {
                upload.send_part(parts)?;
            }
            while parts.flying_bytes > 0 {
                runtime.block_on(parts.land())?;
            }
            Ok(())
        };
        let sent = send_rest(self, &mut parts).map_err(|error| self.failed("writing", &error));
        // Where completing itself does not look, this does, a moment before.
        let kept = match self.existing {
            Existing::Keep => sent.and_then(|()| self.refuse_existing("completing")),
            Existing::Replace => sent,
        };
        if let Err(error) = kept {
            self.parts = Some(parts);
            return Err(error);
        }
        match runtime.block_on(parts.upload.complete()) {
            Ok(_) => Ok(()),
            Err(error) => {
                let settled = self.settle("completing", &error);
                if settled.is_err() {
                    self.parts = Some(parts);
                }
                settled
            }
        }
    }

    fn put(&self, content: &Bytes, mode: PutMode) -> Result<(), object_store::Error> {
        let options = PutOptions {
            mode,
            attributes: self.attributes(),
            ..PutOptions::default()
        };
        let payload = PutPayload::from(content.clone());
        let put = self.bucket.store.put_opts(&self.path, payload, options);
        self.bucket.runtime().block_on(put).map(drop)
    }

    /// Writes a small object.
    fn put_whole(&mut self) -> Result<(), StorageError> {
        let content = Bytes::from(std::mem::take(&mut self.part));
        let settled = |written: Result<(), object_store::Error>| {
            written.or_else(|error| self.settle("writing", &error))
        };
        if self.existing == Existing::Replace {
            return settled(self.put(&content, PutMode::Overwrite));
        }
        let condition = &self.bucket.condition;
        if condition.is_kept() != Some(true) {
            self.refuse_existing("writing")?;
        }
        if condition.is_kept() == Some(false) {
            return settled(self.put(&content, PutMode::Overwrite));
        }
        let written = self.put(&content, PutMode::Create);
        let refusal = written.as_ref().err().and_then(|e| find::<Refusal>(e));
        if refusal.is_some_and(Refusal::is_of_request) {
            condition.learn(false);
            return settled(self.put(&content, PutMode::Overwrite));
        }
        settled(written)?;
        if condition.is_kept().is_none() {
            // A service that does not know the condition ignores it. The same bytes once more tell.
            match self.put(&content, PutMode::Create) {
                Ok(()) => condition.learn(false),
                Err(error) => {
                    if self.failed("writing", &error).kind() == StorageErrorKind::Exists {
                        condition.learn(true);
                    }
                }
            }
        }
        Ok(())
    }

    /// Decides what an error of the last request means. One that seems to have failed may have
    /// reached the service, and its repetition then finds the object, or the upload gone.
    fn settle(&self, doing: &'static str, error: &object_store::Error) -> Result<(), StorageError> {
        let error = self.failed(doing, error);
        if matches!(
            error.kind(),
            StorageErrorKind::Denied | StorageErrorKind::Full
        ) {
            return Err(error);
        }
        match self.is_mine(doing) {
            Ok(true) => Ok(()),
            // It is there, and nobody knows whose it is: perhaps this one's.
            Err(unknown) if error.kind() == StorageErrorKind::Exists => Err(unknown),
            _ => Err(error),
        }
    }

    /// Whether the object that is there is this one.
    fn is_mine(&self, doing: &'static str) -> Result<bool, StorageError> {
        match self.bucket.head(&self.path) {
            Ok(found) => {
                let writer = found.attributes.get(&Attribute::Metadata(WRITER.into()));
                Ok(writer.is_some_and(|writer| writer.as_ref() == self.mark))
            }
            Err(error) => {
                let error = self.bucket.explained(&self.name, doing, &error);
                match error.kind() {
                    StorageErrorKind::NotFound => Ok(false),
                    _ => Err(error),
                }
            }
        }
    }
}

impl Parts {
    /// Waits for one part.
    async fn land(&mut self) -> Result<(), object_store::Error> {
        let Some(landed) = self.flying.join_next().await else {
            self.flying_bytes = 0;
            return Ok(());
        };
        let size = landed.map_err(object_store::Error::from).flatten();
        self.lost |= size.is_err();
        self.flying_bytes -= size?;
        Ok(())
    }
}

impl Write for BucketUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.part_size() as usize;
        if self.part.len() >= size {
            self.send().map_err(StorageError::into_io)?;
        }
        let size = self.part_size() as usize;
        let count = bytes.len().min(size - self.part.len());
        let needed = self.part.len() + count;
        if needed > self.part.capacity() {
            // The vector itself would take more than a part.
            let room = size.min(needed.max(2 * self.part.capacity()));
            self.part.reserve_exact(room - self.part.len());
        }
        self.part.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for BucketUpload {
    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        match self.parts.take() {
            Some(parts) => self.complete(parts),
            None => self.put_whole(),
        }
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else {
            return;
        };
        self.bucket.runtime().block_on(async {
            // A part that arrives later would be kept.
            parts.flying.shutdown().await;
            let _ = tokio::time::timeout(ABORT, parts.upload.abort()).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{FLYING, MIB, PART, part_size};

    #[test]
    fn parts_grow_with_their_object() {
        let (mut total, mut before) = (0, 0);
        for number in 0..10_000 {
            let size = part_size(number);
            assert!(size >= 5 * MIB && size >= before && size <= 5 << 30);
            before = size;
            total += size;
        }
        // 5 TiB is the most that an object may have.
        assert!(total > 5 << 40, "{total}");
        // A gibibyte, which is the largest pack, goes in parts of one size, four at a time.
        assert_eq!((0..128).map(part_size).sum::<u64>(), 1 << 30);
        assert_eq!(part_size(127), PART);
        assert_eq!(FLYING, 4 * PART);
    }
}
