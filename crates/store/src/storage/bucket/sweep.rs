//! Objects that were begun in a bucket and never finished. They cost money, and no list of objects
//! shows them.

use std::error::Error;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use serde::Deserialize;

use super::super::{StorageError, check_name};
use super::Inner;
use super::connect::S3;
use super::failed::find;
use super::service::Refusal;

/// Unfinished objects older than this belong to no running process.
const OLD: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: String,
    #[serde(default)]
    next_upload_id_marker: String,
    #[serde(default, rename = "Upload")]
    uploads: Vec<Begun>,
}

/// An object that was begun.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    key: String,
    upload_id: String,
    initiated: String,
}

impl Begun {
    fn is_old(&self) -> bool {
        let Ok(begun) = self.initiated.parse::<jiff::Timestamp>() else {
            return false;
        };
        let age = SystemTime::now().duration_since(begun.into());
        age.is_ok_and(|age| age > OLD)
    }
}

impl Inner {
    /// Removes unfinished objects that are a day old. Counts them.
    pub(super) fn sweep(&self, s3: &S3) -> Result<u64, StorageError> {
        let mut removed = 0;
        let mut after = (String::new(), String::new());
        loop {
            let asked = self.runtime().block_on(self.unfinished(s3, &after));
            let page = match asked {
                Ok(page) => page,
                Err(error) if refusal(&*error).is_some_and(lists_nothing) => return Ok(removed),
                Err(error) => return Err(self.names.failed("", "listing unfinished", &*error)),
            };
            for begun in &page.uploads {
                let name = begun.key.strip_prefix(&self.root).unwrap_or_default();
                if begun.is_old() && check_name(&self.names.url, name).is_ok() {
                    removed += u64::from(self.remove(s3, name, begun)?);
                }
            }
            let next = (page.next_key_marker, page.next_upload_id_marker);
            if !page.is_truncated || next == after {
                return Ok(removed);
            }
            after = next;
        }
    }

    /// Asks for a page of the unfinished objects. The crate has no such request.
    async fn unfinished(
        &self,
        s3: &S3,
        after: &(String, String),
    ) -> Result<Page, Box<dyn Error + Send + Sync>> {
        let mut url = format!("{}?uploads=&prefix={}", s3.endpoint, encoded(&self.root));
        for (name, value) in [("key-marker", &after.0), ("upload-id-marker", &after.1)] {
            if !value.is_empty() {
                let _ = write!(url, "&{name}={}", encoded(value));
            }
        }
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.parse()?;
        let credential = s3.store.credentials().get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &s3.region)
            .with_request_payer(s3.requester_pays)
            .try_authorize(&mut request, None)?;
        let answer = s3.client.execute(request).await?;
        let body = answer.into_body().bytes().await?;
        Ok(quick_xml::de::from_reader(&*body)?)
    }

    fn remove(&self, s3: &S3, name: &str, begun: &Begun) -> Result<bool, StorageError> {
        let path = Path::from(begun.key.as_str());
        let abort = s3.store.abort_multipart(&path, &begun.upload_id);
        match self.runtime().block_on(abort) {
            Ok(()) => Ok(true),
            // It was finished meanwhile, or somebody else removed it.
            Err(error) if refusal(&error).is_some_and(|refusal| refusal.status == 404) => Ok(false),
            Err(error) => Err(self.names.failed(name, "removing", &error)),
        }
    }
}

fn refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refusal> {
    find::<Refusal>(error)
}

/// Whether the service has no such list, or nothing for it, which rclone calls an error. Where it
/// has none, the bucket's own rules are what is left: see docs/design/repository.md.
fn lists_nothing(refusal: &Refusal) -> bool {
    refusal.is_of_request() || refusal.code == "NoSuchUpload"
}

/// A value of a query, for a signature: all but what no rule encodes.
fn encoded(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Page, encoded};

    #[test]
    fn a_page_of_unfinished_objects_is_read() {
        let body = "<ListMultipartUploadsResult><Bucket>b</Bucket><KeyMarker></KeyMarker>\
            <NextKeyMarker>p/x</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker>\
            <MaxUploads>1000</MaxUploads><IsTruncated>true</IsTruncated>\
            <Upload><Key>p/w</Key><UploadId>1</UploadId><Initiator><ID>i</ID></Initiator>\
            <Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload>\
            <Upload><Key>p/x</Key><UploadId>2</UploadId>\
            <Initiated>2999-11-10T20:48:33.000Z</Initiated></Upload>\
            </ListMultipartUploadsResult>";
        let page: Page = quick_xml::de::from_reader(body.as_bytes()).unwrap();
        assert!(page.is_truncated && page.next_key_marker == "p/x");
        assert_eq!(page.next_upload_id_marker, "2");
        let old: Vec<bool> = page.uploads.iter().map(super::Begun::is_old).collect();
        assert_eq!(old, [true, false]);
        let none: Page = quick_xml::de::from_reader(&b"<X></X>"[..]).unwrap();
        assert!(none.uploads.is_empty() && !none.is_truncated);
        assert_eq!(encoded("a/b c~"), "a%2Fb%20c~");
    }
}
