//! Requests to a service, and what it says when it refuses one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, HeaderValue};

/// An answer that is read may pause for this long.
pub const STALL: Duration = Duration::from_secs(60);
/// The answer to a request that changes something may take this long, and longer with the size of
/// what is sent. Completing a large object takes some services minutes.
const ANSWER: Duration = Duration::from_secs(300);
/// Slowest line on which an upload is not given up, in bytes per second.
const SLOWEST: u64 = 32 * 1024;
/// A service that has never answered is tried so often: its address may be wrong.
const FIRST_ATTEMPTS: u32 = 3;

/// A refusal in the service's own terms.
#[derive(Debug, thiserror::Error)]
#[error("{status} {code}")]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Such as `NoSuchBucket`; empty if the answer had none, as answers to `HEAD` have.
    pub code: String,
    /// The first line of what it says for people. May be empty.
    pub message: String,
    /// Where the bucket is, if it is elsewhere.
    pub region: Option<String>,
}

impl Refusal {
    /// Whether the service has no such request.
    pub fn is_of_request(&self) -> bool {
        matches!(self.status, 405 | 501) || self.code == "NotImplemented"
    }
}

/// Who gives credentials gave none.
#[derive(Debug, thiserror::Error)]
#[error("{place} gives none: {reason}")]
pub struct NoCredentials {
    place: String,
    reason: String,
}

/// What is known of a service.
#[derive(Debug)]
pub struct Acquaintance {
    /// Host and port of the bucket. Requests to others ask for credentials.
    pub authority: String,
    met: AtomicBool,
    misses: AtomicU32,
    granted: AtomicBool,
}

impl Acquaintance {
    pub fn new(authority: String) -> Self {
        Self {
            authority,
            met: AtomicBool::new(false),
            misses: AtomicU32::new(0),
            granted: AtomicBool::new(false),
        }
    }

    /// Whether the bucket has answered a request as it should. Then it is there.
    pub fn has_granted(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }
}

/// Makes the connections of a bucket.
#[derive(Debug)]
pub struct Connector {
    pub service: Arc<Acquaintance>,
    /// Complete an object of several parts only if there is none of that name. The crate signs
    /// such a request as it signs the plain one, and has no way to ask for it.
    pub keep: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let connector = ReqwestConnector::default();
        let reads = options.clone().with_read_timeout(STALL);
        Ok(HttpClient::new(Service {
            reads: connector.connect(&reads)?,
            writes: connector.connect(options)?,
            known: Arc::clone(&self.service),
            keep: self.keep,
        }))
    }
}

#[derive(Debug)]
struct Service {
    reads: HttpClient,
    /// Its limits depend on the request: the crate's cover what is sent as well.
    writes: HttpClient,
    known: Arc<Acquaintance>,
    keep: bool,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        if self.keep && request.method().as_str() == "POST" && query.contains("uploadId=") {
            let any = HeaderValue::from_static("*");
            request.headers_mut().insert("if-none-match", any);
        }
        let place = request.uri().authority().map(ToString::to_string);
        let place = place.unwrap_or_default();
        let answer = if matches!(request.method().as_str(), "GET" | "HEAD") {
            self.reads.execute(request).await
        } else {
            let sent = request.body().content_length() as u64;
            let limit = ANSWER + Duration::from_secs(sent / SLOWEST);
            let late = |_| Err(HttpError::new(HttpErrorKind::Timeout, TooLate(limit)));
            tokio::time::timeout(limit, self.writes.execute(request))
                .await
                .unwrap_or_else(late)
        };
        if place != self.known.authority {
            return self.credentials(place, answer).await;
        }
        match answer {
            Ok(answer) => {
                self.known.met.store(true, Ordering::Relaxed);
                if answer.status().is_success() {
                    self.known.granted.store(true, Ordering::Relaxed);
                    Ok(partial(answer))
                } else {
                    Err(refused(answer).await)
                }
            }
            Err(error) => Err(self.missed(error)),
        }
    }
}

impl Service {
    /// Ends the attempts to reach a service that was never reached.
    fn missed(&self, error: HttpError) -> HttpError {
        if error.kind() != HttpErrorKind::Connect || self.known.met.load(Ordering::Relaxed) {
            return error;
        }
        if self.known.misses.fetch_add(1, Ordering::Relaxed) + 1 < FIRST_ATTEMPTS {
            return error;
        }
        HttpError::new(HttpErrorKind::Unknown, error)
    }

    async fn credentials(
        &self,
        place: String,
        answer: Result<HttpResponse, HttpError>,
    ) -> Result<HttpResponse, HttpError> {
        let error = match answer {
            Ok(answer) if answer.status().is_success() => return Ok(answer),
            Ok(answer) => refused(answer).await,
            Err(error) => self.missed(error),
        };
        let kind = error.kind();
        let reason = deepest(&error).to_string();
        Err(HttpError::new(kind, NoCredentials { place, reason }))
    }
}

/// An answer that names the range that it has is one with a range, whatever its status: rclone
/// says 200. The crate compares the range with the one that was asked for.
fn partial(mut answer: HttpResponse) -> HttpResponse {
    if answer.headers().contains_key("content-range")
        && let Ok(status) = 206.try_into()
    {
        *answer.status_mut() = status;
    }
    answer
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct TooLate(Duration);

/// The cause behind all others.
pub fn deepest<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Reads a refusal, and says whether another attempt may succeed.
async fn refused(answer: HttpResponse) -> HttpError {
    let status = answer.status().as_u16();
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        value.to_str().ok().map(ToOwned::to_owned)
    };
    let region = header("x-amz-bucket-region");
    let azure_code = header("x-ms-error-code");
    let body = answer.into_body().bytes().await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    let code = element(&body, "Code").or(azure_code).unwrap_or_default();
    let message = element(&body, "Message").unwrap_or_default();
    let first = message.lines().next().unwrap_or_default();
    let kind = match (status, code.as_str()) {
        // What it cannot do now it cannot do later.
        (501, _) => HttpErrorKind::Unknown,
        (408 | 429 | 500.., _)
        // Another writer of the same object is at it.
        | (409, "ConditionalRequestConflict" | "OperationAborted")
        | (400, "RequestTimeout") => HttpErrorKind::Request,
        _ => HttpErrorKind::Unknown,
    };
    let refusal = Refusal {
        status,
        message: first.chars().take(200).collect(),
        region: element(&body, "Region").or(region),
        code,
    };
    HttpError::new(kind, refusal)
}

/// Text of an element of a short answer. Errors have no elements of one name within another.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = quick_xml::escape::unescape(text).ok()?;
    Some(plain.into_owned())
}

#[cfg(test)]
mod tests {
    use super::element;

    #[test]
    fn an_error_is_read() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code>\
            <Message>not &quot;there&quot;</Message></Error>";
        assert_eq!(element(body, "Code").unwrap(), "NoSuchKey");
        assert_eq!(element(body, "Message").unwrap(), "not \"there\"");
        assert_eq!(element(body, "Region"), None);
        assert_eq!(element("<Code>half", "Code"), None);
    }
}
