//! The services: where each has its buckets, and how it is asked.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector as _};
use object_store::list::PaginatedListStore;
use object_store::{
    BackoffConfig, Certificate, ClientConfigKey, ClientOptions, HeaderValue, ObjectStore,
    RetryConfig,
};

use super::options::BucketOptions;
use super::service::{Acquaintance, Connector};

/// What this asks of a service.
pub trait Store: ObjectStore + PaginatedListStore {}

impl<S: ObjectStore + PaginatedListStore> Store for S {}

/// A bucket with all that is needed to use it.
pub struct Connected {
    pub service: Arc<Acquaintance>,
    pub store: Arc<dyn Store>,
    /// The same, but an object of several parts appears only if there is none of that name.
    /// Services that cannot promise it have the same here.
    pub keeping: Arc<dyn Store>,
    pub s3: Option<S3>,
}

/// What only buckets of the S3 kind have.
pub struct S3 {
    pub store: AmazonS3,
    pub client: HttpClient,
    /// URL of the bucket itself, without a slash at its end.
    pub endpoint: String,
    pub region: String,
    pub requester_pays: bool,
}

/// Longest time in which a connection must be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Eight more attempts, within half a minute: 0.2, 0.4, 0.8 s and so on, with some chance.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(15),
            base: 2.0,
        },
        max_retries: 8,
        retry_timeout: Duration::from_secs(180),
    }
}

fn client(http: bool) -> ClientOptions {
    let agent = HeaderValue::from_static(concat!("refloat/", env!("CARGO_PKG_VERSION")));
    ClientOptions::new()
        .with_user_agent(agent)
        // The limit of the crate counts the whole of an answer: see `service`.
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT)
        .with_allow_http(http)
}

/// Host and port of a URL.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn deepest_message(error: &object_store::Error) -> String {
    super::service::deepest(error).to_string()
}

/// Options of S3 buckets that are not keys of the crate.
const OURS: [&str; 3] = ["aws_ca_bundle", "aws_profile", "aws_ec2_metadata_disabled"];

/// A bucket of the S3 kind.
///
/// # Errors
/// A sentence: an option is wrong or missing.
pub fn s3(bucket: &str, options: &BucketOptions) -> Result<Connected, String> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_retry(retries());
    let mut endpoint = (None, None);
    let mut region = (None, None);
    let (mut has_credentials, mut requester_pays, mut hosted) = (false, false, None);
    let mut of_client = Vec::new();
    for (key, value) in options.of::<AmazonS3ConfigKey>("aws_", &OURS)? {
        use AmazonS3ConfigKey as Key;
        match key {
            Key::S3Endpoint => endpoint.0 = Some(value),
            Key::Endpoint => endpoint.1 = Some(value),
            Key::Region => region.0 = Some(value),
            Key::DefaultRegion => region.1 = Some(value),
            Key::VirtualHostedStyleRequest => hosted = Some(value.eq_ignore_ascii_case("true")),
            Key::Client(key) => of_client.push((key, value)),
            Key::S3Express if value.eq_ignore_ascii_case("true") => {
                return Err("directory buckets (S3 Express) are not supported".to_owned());
            }
            Key::Bucket | Key::S3Express => {}
            key => {
                has_credentials |= matches!(
                    key,
                    Key::AccessKeyId
                        | Key::SecretAccessKey
                        | Key::WebIdentityTokenFile
                        | Key::ContainerCredentialsRelativeUri
                        | Key::ContainerCredentialsFullUri
                        | Key::SkipSignature
                );
                requester_pays |= key == Key::RequestPayer;
                builder = builder.with_config(key, value);
            }
        }
    }
    if !has_credentials {
        no_credentials(options)?;
    }
    let region = region.0.or(region.1).unwrap_or("us-east-1").to_owned();
    let endpoint = bucket_url(bucket, endpoint.0.or(endpoint.1), &region, hosted)?;
    let mut client = client(endpoint.starts_with("http://"));
    for (key, value) in of_client {
        // Whether plain HTTP is allowed is seen from the endpoint.
        if key != ClientConfigKey::AllowHttp {
            client = client.with_config(key, value);
        }
    }
    client = with_authorities(client, options)?;
    let service = Arc::new(Acquaintance::new(authority(&endpoint).to_owned()));
    let connector = |keep| Connector {
        service: Arc::clone(&service),
        keep,
    };
    let builder = builder
        .with_region(&region)
        .with_client_options(client.clone())
        .with_endpoint(&endpoint)
        // The endpoint names the bucket already.
        .with_virtual_hosted_style_request(true)
        // One object is deleted at a time, and not every service knows the other request.
        .with_disable_bulk_delete(true);
    let plain = builder.clone().with_http_connector(connector(false));
    let plain = plain.build().map_err(|error| deepest_message(&error))?;
    let keeping = builder
        .with_credentials(Arc::clone(plain.credentials()))
        .with_http_connector(connector(true));
    let s3 = S3 {
        store: plain.clone(),
        client: connector(false)
            .connect(&client)
            .map_err(|error| deepest_message(&error))?,
        endpoint,
        region,
        requester_pays,
    };
    Ok(Connected {
        service,
        store: Arc::new(plain),
        keeping: Arc::new(keeping.build().map_err(|error| deepest_message(&error))?),
        s3: Some(s3),
    })
}

/// Nothing says who this is. A machine at Amazon may have a role; elsewhere nobody answers.
fn no_credentials(options: &BucketOptions) -> Result<(), String> {
    if options.get("aws_profile").is_some() {
        return Err(
            "no access key is given; profiles are not read, but \"aws configure \
            export-credentials --format env\" turns one into variables"
                .to_owned(),
        );
    }
    if options.is_true("aws_ec2_metadata_disabled") {
        return Err("no access key is given".to_owned());
    }
    Ok(())
}

/// The bucket's URL. Amazon names it in the host, as its own tools do; others in the path unless
/// told otherwise.
fn bucket_url(
    bucket: &str,
    endpoint: Option<&str>,
    region: &str,
    hosted: Option<bool>,
) -> Result<String, String> {
    let Some(endpoint) = endpoint else {
        let domain = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        // Certificates cover no further dot.
        return Ok(if hosted.unwrap_or(true) && !bucket.contains('.') {
            format!("https://{bucket}.s3.{region}.{domain}")
        } else {
            format!("https://s3.{region}.{domain}/{bucket}")
        });
    };
    let endpoint = endpoint.trim_end_matches('/');
    let Some((scheme @ ("http" | "https"), rest)) = endpoint.split_once("://") else {
        return Err("the endpoint is not a URL that begins with http:// or https://".to_owned());
    };
    if rest.is_empty() || rest.contains(['@', '?', '#']) {
        return Err("the endpoint is a URL with a host, and without a password".to_owned());
    }
    Ok(if hosted.unwrap_or(false) {
        format!("{scheme}://{bucket}.{rest}")
    } else {
        format!("{scheme}://{rest}/{bucket}")
    })
}

/// Those who may sign the service's certificate, beside the system's.
fn with_authorities(
    mut client: ClientOptions,
    options: &BucketOptions,
) -> Result<ClientOptions, String> {
    let Some(file) = options.get("aws_ca_bundle") else {
        return Ok(client);
    };
    let failed = |error: &dyn std::error::Error| format!("aws_ca_bundle: {file}: {error}");
    let pem = std::fs::read(file).map_err(|error| failed(&error))?;
    for certificate in Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))? {
        client = client.with_root_certificate(certificate);
    }
    Ok(client)
}

/// A container of Azure.
///
/// # Errors
/// A sentence: an option is wrong or missing.
#[cfg(feature = "azure")]
pub fn azure(container: &str, options: &BucketOptions) -> Result<Connected, String> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::new().with_retry(retries());
    let mut account = None;
    let mut endpoint = None;
    for (key, value) in options.of::<AzureConfigKey>("azure_", &[])? {
        match key {
            AzureConfigKey::AccountName => account = Some(value),
            AzureConfigKey::Endpoint => endpoint = Some(value.trim_end_matches('/')),
            AzureConfigKey::ContainerName | AzureConfigKey::Client(_) => continue,
            _ => {}
        }
        builder = builder.with_config(key, value);
    }
    let account = account.ok_or("no storage account is given (azure_storage_account_name)")?;
    let endpoint = endpoint.map_or_else(
        || format!("https://{account}.blob.core.windows.net"),
        ToOwned::to_owned,
    );
    let service = Arc::new(Acquaintance::new(authority(&endpoint).to_owned()));
    let store = builder
        .with_container_name(container)
        .with_client_options(client(endpoint.starts_with("http://")))
        .with_http_connector(Connector {
            service: Arc::clone(&service),
            keep: false,
        });
    Ok(alike(
        service,
        Arc::new(store.build().map_err(|error| deepest_message(&error))?),
    ))
}

/// A bucket of Google.
///
/// # Errors
/// A sentence: an option is wrong or missing.
#[cfg(feature = "gcs")]
pub fn gcs(bucket: &str, options: &BucketOptions) -> Result<Connected, String> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let mut builder = GoogleCloudStorageBuilder::new().with_retry(retries());
    let mut endpoint = "https://storage.googleapis.com";
    for (key, value) in options.of::<GoogleConfigKey>("google_", &[])? {
        match key {
            GoogleConfigKey::BaseUrl => endpoint = value.trim_end_matches('/'),
            GoogleConfigKey::Bucket | GoogleConfigKey::Client(_) => continue,
            _ => {}
        }
        builder = builder.with_config(key, value);
    }
    let service = Arc::new(Acquaintance::new(authority(endpoint).to_owned()));
    let store = builder
        .with_bucket_name(bucket)
        .with_client_options(client(endpoint.starts_with("http://")))
        .with_http_connector(Connector {
            service: Arc::clone(&service),
            keep: false,
        });
    Ok(alike(
        service,
        Arc::new(store.build().map_err(|error| deepest_message(&error))?),
    ))
}

#[cfg(any(feature = "azure", feature = "gcs"))]
fn alike(service: Arc<Acquaintance>, store: Arc<dyn Store>) -> Connected {
    Connected {
        service,
        keeping: Arc::clone(&store),
        store,
        s3: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{authority, bucket_url};

    #[test]
    fn a_bucket_has_a_url() {
        for (endpoint, hosted, url) in [
            (None, None, "https://b.s3.eu-west-1.amazonaws.com"),
            (None, Some(false), "https://s3.eu-west-1.amazonaws.com/b"),
            (Some("http://127.0.0.1:9/"), None, "http://127.0.0.1:9/b"),
            (Some("https://x.example"), Some(true), "https://b.x.example"),
        ] {
            let found = bucket_url("b", endpoint, "eu-west-1", hosted).unwrap();
            assert_eq!(found, url);
        }
        let dotted = bucket_url("b.c", None, "cn-north-1", None).unwrap();
        assert_eq!(dotted, "https://s3.cn-north-1.amazonaws.com.cn/b.c");
        for wrong in [
            "x.example",
            "ftp://x",
            "https://",
            "https://me:hush@x.example",
        ] {
            let words = bucket_url("b", Some(wrong), "r", None).unwrap_err();
            assert!(!words.contains("hush"));
        }
        assert_eq!(authority("http://127.0.0.1:9/b/c"), "127.0.0.1:9");
    }
}
