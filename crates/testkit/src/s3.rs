//! Runs an S3 server on this machine for one test: s3s-fs over HTTP, with the features that it
//! lacks compared with Amazon's.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use refloat_store::storage::BucketOptions;
use s3s::auth::SimpleAuth;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput,
    DeleteObjectInput, DeleteObjectOutput, GetObjectInput, GetObjectOutput, HeadObjectInput,
    HeadObjectOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectsV2Input,
    ListObjectsV2Output, MultipartUpload, PutObjectInput, PutObjectOutput, UploadPartInput,
    UploadPartOutput,
};
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tempfile::TempDir;

/// The only valid access key.
pub const KEY: &str = "the-key";
/// The secret of [`KEY`].
pub const SECRET: &str = "hush-hush";
/// Its only bucket.
pub const BUCKET: &str = "bucket";

/// Differences between services.
#[derive(Clone, Copy, Default)]
pub struct Kind {
    /// Ignores conditions on writes without an error.
    pub ignores_conditions: bool,
    /// Does not list unfinished uploads.
    pub lists_nothing_begun: bool,
    /// Reports that every upload began a day and an hour ago.
    pub began_long_ago: bool,
}

/// Switches of a running server.
#[derive(Default)]
pub struct Switches {
    /// Refuse HEAD requests for objects.
    pub deny_heads: AtomicBool,
    /// List each folder as an empty object whose key ends with a slash, as web consoles create
    /// them.
    pub show_folders: AtomicBool,
    /// List an object more, with this key: one that no file can have.
    pub show_key: Mutex<Option<String>>,
    /// So many requests get the answer `503 Slow Down`.
    pub busy: AtomicUsize,
}

/// Ends when it is dropped.
pub struct Server {
    /// Where it listens.
    pub port: u16,
    /// What it has received.
    pub seen: Arc<Seen>,
    /// What a test can change while it runs.
    pub switches: Arc<Switches>,
    folder: TempDir,
    /// `None` during the drop.
    runtime: Option<tokio::runtime::Runtime>,
}

/// What the server has received.
#[derive(Default)]
pub struct Seen {
    /// Unfinished uploads: key by upload id.
    pub begun: Mutex<HashMap<String, String>>,
    /// Parts that are arriving.
    pub arriving: AtomicUsize,
    /// The maximum of `arriving`.
    pub most: AtomicUsize,
    /// Sizes of the parts received.
    pub sizes: Mutex<Vec<i64>>,
    /// The encryption requested for the last object.
    pub encryption: Mutex<Option<String>>,
    /// The session token of the last object.
    pub session: Mutex<Option<String>>,
    /// Keys of the objects that were read.
    pub read: Mutex<BTreeSet<String>>,
}

impl Server {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let seen = Arc::new(Seen::default());
        let switches = Arc::new(Switches::default());
        let files = Files {
            inner: FileSystem::new(folder.path()).unwrap(),
            root: folder.path().to_owned(),
            kind,
            seen: Arc::clone(&seen),
            switches: Arc::clone(&switches),
        };
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let address = ("127.0.0.1", 0);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(address))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let http = Builder::new(TokioExecutor::new());
                    let _ = http
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                });
            }
        });
        Self {
            port,
            seen,
            switches,
            folder,
            runtime: Some(runtime),
        }
    }

    /// Options for a bucket of the server at this port, its own or that of a proxy.
    pub fn options(port: u16) -> BucketOptions {
        BucketOptions::default()
            .with("aws_endpoint_url", &format!("http://127.0.0.1:{port}"))
            .with("aws_access_key_id", KEY)
            .with("aws_secret_access_key", SECRET)
    }

    /// The folder of the bucket's objects.
    pub fn files(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// Number of parts of unfinished objects.
    ///
    /// # Panics
    /// If they cannot be listed.
    pub fn parts(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| {
                let name = name.to_string_lossy();
                name.starts_with(".upload_id-") && name.ends_with(".part")
            })
            .count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

struct Files {
    inner: FileSystem,
    root: PathBuf,
    kind: Kind,
    seen: Arc<Seen>,
    switches: Arc<Switches>,
}

type Answer<T> = S3Result<S3Response<T>>;

impl Files {
    /// Turns requests away, if that is asked for.
    fn is_free(&self) -> S3Result<()> {
        let one_less = |busy: usize| busy.checked_sub(1);
        let busy = &self.switches.busy;
        match busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => Err(s3_error!(SlowDown)),
            Err(_) => Ok(()),
        }
    }

    fn is_bucket(&self, bucket: &str) -> S3Result<()> {
        self.is_free()?;
        if !self.root.join(bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        Ok(())
    }

    /// Fails for a folder, which is not an object.
    fn is_object(&self, bucket: &str, key: &str) -> S3Result<()> {
        self.is_bucket(bucket)?;
        if self.root.join(bucket).join(key).is_dir() {
            return Err(s3_error!(NoSuchKey));
        }
        Ok(())
    }

    /// The folders of a bucket, as keys with this prefix.
    fn folders(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let root = self.root.join(bucket);
        let (mut found, mut left) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = left.pop() {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir())
            {
                let key = path.strip_prefix(&root).unwrap_or(&path);
                found.push(format!("{}/", key.display()));
                left.push(path);
            }
        }
        found.retain(|key| key.starts_with(prefix));
        found
    }

    fn was_begun(&self, id: &str) -> S3Result<()> {
        self.is_free()?;
        if self.seen.begun.lock().unwrap().contains_key(id) {
            return Ok(());
        }
        Err(s3_error!(NoSuchUpload))
    }
}

#[async_trait::async_trait]
impl S3 for Files {
    async fn put_object(&self, mut req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        if self.kind.ignores_conditions {
            req.input.if_none_match = None;
        }
        let encryption = req.input.server_side_encryption.take();
        *self.seen.encryption.lock().unwrap() = encryption.map(|word| word.as_str().to_owned());
        let session = req.headers.get("x-amz-security-token");
        let session = session.map(|token| token.to_str().unwrap().to_owned());
        *self.seen.session.lock().unwrap() = session;
        self.is_bucket(&req.input.bucket)?;
        self.inner.put_object(req).await
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        self.is_object(&req.input.bucket, &req.input.key)?;
        let key = req.input.key.clone();
        self.seen.read.lock().unwrap().insert(key);
        self.inner.get_object(req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        if self.switches.deny_heads.load(Ordering::SeqCst) {
            return Err(s3_error!(AccessDenied));
        }
        self.is_object(&req.input.bucket, &req.input.key)?;
        self.inner.head_object(req).await
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
        self.is_bucket(&req.input.bucket)?;
        self.inner.delete_object(req).await
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> Answer<ListObjectsV2Output> {
        self.is_free()?;
        let (bucket, prefix) = (req.input.bucket.clone(), req.input.prefix.clone());
        let (method, uri, headers) = (req.method.clone(), req.uri.clone(), req.headers.clone());
        let extensions = req.extensions.clone();
        let mut answer = self.inner.list_objects_v2(req).await?;
        let mut contents = answer.output.contents.take().unwrap_or_default();
        for object in &mut contents {
            let input = HeadObjectInput {
                bucket: bucket.clone(),
                key: object.key.clone().unwrap_or_default(),
                ..HeadObjectInput::default()
            };
            let request = S3Request {
                input,
                method: method.clone(),
                uri: uri.clone(),
                headers: headers.clone(),
                extensions: extensions.clone(),
                credentials: None,
                region: None,
                service: None,
                trailing_headers: None,
            };
            let head = self.inner.head_object(request).await?;
            object.e_tag = head.output.e_tag;
        }
        let prefix = prefix.unwrap_or_default();
        let key = self.switches.show_key.lock().unwrap().clone();
        let mut more = Vec::from_iter(key.filter(|key| key.starts_with(&prefix)));
        if self.switches.show_folders.load(Ordering::SeqCst) {
            more.extend(self.folders(&bucket, &prefix));
        }
        if !more.is_empty() {
            contents.extend(more.into_iter().map(|key| s3s::dto::Object {
                key: Some(key),
                size: Some(0),
                last_modified: Some(SystemTime::now().into()),
                ..s3s::dto::Object::default()
            }));
            contents.sort_by(|a, b| a.key.cmp(&b.key));
        }
        answer.output.contents = Some(contents);
        Ok(answer)
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        self.is_bucket(&req.input.bucket)?;
        let key = req.input.key.clone();
        let answer = self.inner.create_multipart_upload(req).await?;
        let id = answer.output.upload_id.clone().unwrap();
        self.seen.begun.lock().unwrap().insert(id, key);
        Ok(answer)
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        self.was_begun(&req.input.upload_id)?;
        let now = self.seen.arriving.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.most.fetch_max(now, Ordering::SeqCst);
        let size = req.input.content_length.unwrap_or_default();
        let answer = self.inner.upload_part(req).await;
        self.seen.arriving.fetch_sub(1, Ordering::SeqCst);
        self.seen.sizes.lock().unwrap().push(size);
        answer
    }

    async fn complete_multipart_upload(
        &self,
        mut req: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        let id = req.input.upload_id.clone();
        self.was_begun(&id)?;
        if self.kind.ignores_conditions {
            req.input.if_none_match = None;
        }
        let answer = self.inner.complete_multipart_upload(req).await?;
        self.seen.begun.lock().unwrap().remove(&id);
        Ok(answer)
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        let id = req.input.upload_id.clone();
        self.was_begun(&id)?;
        let answer = self.inner.abort_multipart_upload(req).await?;
        self.seen.begun.lock().unwrap().remove(&id);
        Ok(answer)
    }

    /// One per page, as if there were thousands.
    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        if self.kind.lists_nothing_begun {
            return Err(s3_error!(NotImplemented));
        }
        let age = if self.kind.began_long_ago {
            25 * 3600
        } else {
            0
        };
        let initiated = SystemTime::now() - Duration::from_secs(age);
        let prefix = req.input.prefix.unwrap_or_default();
        let after = (
            req.input.key_marker.unwrap_or_default(),
            req.input.upload_id_marker.unwrap_or_default(),
        );
        let mut begun: Vec<(String, String)> = {
            let begun = self.seen.begun.lock().unwrap();
            let swapped = begun.iter().map(|(id, key)| (key.clone(), id.clone()));
            swapped
                .filter(|upload| upload.0.starts_with(&prefix) && *upload > after)
                .collect()
        };
        begun.sort();
        let next = begun.first().cloned();
        let upload = next.clone().map(|(key, id)| MultipartUpload {
            key: Some(key),
            upload_id: Some(id),
            initiated: Some(initiated.into()),
            ..MultipartUpload::default()
        });
        Ok(S3Response::new(ListMultipartUploadsOutput {
            is_truncated: Some(begun.len() > 1),
            next_key_marker: next.clone().map(|next| next.0),
            next_upload_id_marker: next.map(|next| next.1),
            uploads: Some(upload.into_iter().collect()),
            ..ListMultipartUploadsOutput::default()
        }))
    }
}
