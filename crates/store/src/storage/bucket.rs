//! A bucket as a storage: of the S3 kind, of Azure, of Google.
//!
//! Requests run on two threads of the bucket's own; whoever calls waits. They are tried again after
//! growing waits when the service or the line fails, and end at once when nobody ever answered.

mod connect;
mod failed;
mod options;
mod reader;
mod service;
mod sweep;
mod upload;

use std::cmp::Reverse;
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::StreamExt as _;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectStoreExt as _};
use tokio::runtime::Runtime;

use super::{
    Existing, Object, Stamp, Storage, StorageError, StorageErrorKind, Upload, check_name,
    check_readable,
};
use connect::{Connected, S3, Store};
use failed::{Names, find};
pub use options::BucketOptions;
use reader::BucketReader;
use service::{Acquaintance, Refusal};
use upload::BucketUpload;

/// Threads that do the requests of a bucket. One encrypts while another one waits.
const THREADS: usize = 2;
/// Transfers that make good use of it. An object that is written takes 40 MiB of memory.
const TRANSFERS: usize = 4;

/// What services have buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketKind {
    /// Amazon S3, or another service that speaks as it does.
    S3,
    /// Azure Blob Storage; its buckets are called containers.
    #[cfg(feature = "azure")]
    Azure,
    /// Google Cloud Storage.
    #[cfg(feature = "gcs")]
    Gcs,
}

/// Objects of a bucket whose keys begin with a prefix.
///
/// Of several writers of one name with [`Existing::Keep`], one succeeds where the service keeps
/// the condition: S3 does, and most that speak as it does. Otherwise this looks beforehand, so
/// that of two writers *in the same moment* the second replaces what the first has written. That
/// is so for objects of more than 8 MiB in Azure and Google.
pub struct Bucket {
    inner: Arc<Inner>,
}

impl Bucket {
    /// A bucket by its name, with the prefix of its keys. Sends nothing yet. `url` names it in
    /// messages.
    ///
    /// # Errors
    /// An option that is missing or wrong.
    pub fn new(
        kind: BucketKind,
        url: &str,
        bucket: &str,
        prefix: &str,
        options: &BucketOptions,
    ) -> Result<Self, StorageError> {
        let wrong = |reason: String| {
            StorageError::saying(url, "", "opening", StorageErrorKind::Other, reason)
        };
        let prefix = prefix.trim_end_matches('/');
        // Keys are what they seem: nothing is encoded, and no part is empty or leads upwards.
        if Path::parse(prefix).map_or(true, |path| path.as_ref() != prefix) {
            return Err(wrong(format!("no object can have the prefix {prefix:?}")));
        }
        let connected = match kind {
            BucketKind::S3 => connect::s3(bucket, options),
            #[cfg(feature = "azure")]
            BucketKind::Azure => connect::azure(bucket, options),
            #[cfg(feature = "gcs")]
            BucketKind::Gcs => connect::gcs(bucket, options),
        };
        let Connected {
            service,
            store,
            keeping,
            s3,
        } = connected.map_err(wrong)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|error| StorageError::from_io(url, "", "opening", error))?;
        let names = Names {
            url: url.to_owned(),
            bucket: bucket.to_owned(),
            authority: service.authority.clone(),
        };
        let root = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}/")
        };
        let inner = Inner {
            runtime: Some(runtime),
            service,
            store,
            keeping,
            s3,
            names,
            root,
            condition: Condition::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

impl Bucket {
    /// Whether a key that is listed is that of an object. Consoles show folders by empty objects
    /// whose keys end with a slash, which the crate takes away: of such a name there is no object.
    fn is_object(&self, name: &str) -> Result<bool, StorageError> {
        match self.stamp(name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// An entity tag, which some services quote in answers and not in lists.
fn plain_tag(tag: &str) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket")
            .field(&self.inner.names.url)
            .finish()
    }
}

struct Inner {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    service: Arc<Acquaintance>,
    store: Arc<dyn Store>,
    keeping: Arc<dyn Store>,
    s3: Option<S3>,
    names: Names,
    /// What all keys begin with: empty, or with a slash at its end.
    root: String,
    condition: Condition,
}

/// Whether the service writes a small object only if there is none, when it is asked to.
#[derive(Default)]
struct Condition(AtomicU8);

impl Condition {
    /// `None` if it is not known yet.
    fn is_kept(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            known => Some(known == 1),
        }
    }

    fn learn(&self, kept: bool) {
        self.0.store(if kept { 1 } else { 2 }, Ordering::Relaxed);
    }
}

impl Inner {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the end")
    }

    fn path(&self, name: &str) -> Result<Path, StorageError> {
        check_name(&self.names.url, name)?;
        Ok(Path::from(format!("{}{name}", self.root)))
    }

    /// The key of an object that others may have put there: as it is, with nothing encoded.
    fn readable(&self, name: &str) -> Result<Path, StorageError> {
        let url = &self.names.url;
        check_readable(url, name)?;
        Path::parse(format!("{}{name}", self.root))
            .map_err(|_| StorageError::new(url, name, "reading an object", StorageErrorKind::Name))
    }

    fn store_for(&self, existing: Existing) -> &Arc<dyn Store> {
        match existing {
            Existing::Keep => &self.keeping,
            Existing::Replace => &self.store,
        }
    }

    /// Asks for an object without its content.
    fn head(&self, path: &Path) -> Result<GetResult, object_store::Error> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        self.runtime().block_on(self.store.get_opts(path, options))
    }

    /// A page of the list of keys that begin with this.
    fn page(
        &self,
        prefix: &str,
        options: PaginatedListOptions,
    ) -> Result<object_store::list::PaginatedListResult, object_store::Error> {
        let page = self.store.list_paginated(Some(prefix), options);
        self.runtime().block_on(page)
    }

    /// The error of a request whose answer has no words, as answers to `HEAD` have none: whether
    /// it is the object that is missing or the bucket, and which part of the credentials is wrong.
    fn explained(
        &self,
        name: &str,
        doing: &'static str,
        error: &object_store::Error,
    ) -> StorageError {
        let mute = find::<Refusal>(error).is_some_and(|refusal| {
            refusal.code.is_empty()
                && match refusal.status {
                    404 => !self.service.has_granted(),
                    status => status < 500,
                }
        });
        if mute {
            let options = PaginatedListOptions {
                max_keys: Some(1),
                ..PaginatedListOptions::default()
            };
            if let Err(list_error) = self.page(&self.root, options)
                && find::<Refusal>(&list_error).is_some_and(|refusal| !refusal.code.is_empty())
            {
                return self.names.failed(name, doing, &list_error);
            }
        }
        self.names.failed(name, doing, error)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Nobody waits for what is still running.
            runtime.shutdown_background();
        }
    }
}

impl Storage for Bucket {
    fn url(&self) -> &str {
        &self.inner.names.url
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        let bucket = &self.inner;
        let whole = format!("{}{prefix}", bucket.root);
        let mut objects = Vec::new();
        let mut token = None;
        loop {
            let options = PaginatedListOptions {
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let page = bucket
                .page(&whole, options)
                .map_err(|error| bucket.names.failed(prefix, "listing", &error))?;
            for found in page.result.objects {
                if let Some(name) = found.location.as_ref().strip_prefix(&bucket.root)
                    && check_readable(&bucket.names.url, name).is_ok()
                {
                    objects.push(Object {
                        name: name.to_owned(),
                        size: found.size,
                        mark: found.e_tag.as_deref().map(plain_tag).unwrap_or_default(),
                    });
                }
            }
            token = page.page_token;
            if token.is_none() {
                break;
            }
        }
        objects.sort_by(|a, b| (&a.name, Reverse(a.size)).cmp(&(&b.name, Reverse(b.size))));
        objects.dedup_by(|later, first| later.name == first.name);
        let mut failed = None;
        objects.retain(|object| {
            object.size > 0
                || failed.is_some()
                || self.is_object(&object.name).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    true
                })
        });
        failed.map_or(Ok(objects), Err)
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        let path = self.inner.readable(name)?;
        match self.inner.head(&path) {
            Ok(found) => {
                let meta = found.meta;
                let mark = meta
                    .e_tag
                    .as_deref()
                    .map_or_else(|| meta.last_modified.to_string(), plain_tag);
                let size = meta.size;
                Ok(Stamp { size, mark })
            }
            Err(error) => Err(self.inner.explained(name, "looking at", &error)),
        }
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        let path = self.inner.readable(name)?;
        if range.is_empty() {
            // No request asks for nothing.
            self.size(name)?;
            return Ok(Box::new(io::empty()));
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let answer = self.inner.store.get_opts(&path, options);
        let bucket = Arc::clone(&self.inner);
        let whole_name = name.to_owned();
        let failed =
            move |error: object_store::Error| bucket.names.failed(&whole_name, "reading", &error);
        match self.inner.runtime().block_on(answer) {
            Ok(found) => {
                let pieces = found.into_stream().boxed();
                let runtime = self.inner.runtime().handle();
                Ok(Box::new(BucketReader::new(runtime, pieces, failed)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        let path = self.inner.path(name)?;
        let bucket = Arc::clone(&self.inner);
        Ok(Box::new(BucketUpload::new(bucket, name, path, existing)))
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        let path = self.inner.path(name)?;
        let deleted = self
            .inner
            .runtime()
            .block_on(self.inner.store.delete(&path));
        let Err(error) = deleted else {
            return Ok(());
        };
        let error = self.inner.explained(name, "deleting", &error);
        // Some services mind what is not there, each in its own way.
        let is_gone = |found: StorageError| found.kind() == StorageErrorKind::NotFound;
        let may_be = matches!(
            error.kind(),
            StorageErrorKind::NotFound | StorageErrorKind::Other
        );
        if may_be && self.size(name).is_err_and(is_gone) && self.inner.service.has_granted() {
            return Ok(());
        }
        Err(error)
    }

    /// Where the service does not list what was begun, its own rules remove it: Azure after a
    /// week, others as the bucket's owner says.
    fn sweep(&self) -> Result<u64, StorageError> {
        match &self.inner.s3 {
            Some(s3) => self.inner.sweep(s3),
            None => Ok(0),
        }
    }

    fn transfers(&self) -> usize {
        TRANSFERS
    }
}
