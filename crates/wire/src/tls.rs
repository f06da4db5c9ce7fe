//! TLS on top of the plain socket, with the modes of the stock clients.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::KeyProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use x509_cert::SubjectPublicKeyInfo;
use x509_cert::der::Decode;

use crate::error::{Error, Phase};
use crate::options::{ConnectOptions, SslMode};
use crate::transport::Socket;

pub(crate) mod peer;
mod verify;

use verify::{Certificate, Trust, Verifier};

/// The configuration of one connection. It names its crypto provider: a process-wide one could be
/// missing or belong to someone else.
pub(crate) fn client_config(options: &ConnectOptions) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let keys = provider.key_provider;
    let trust = match options.ssl_mode {
        SslMode::VerifyCa | SslMode::VerifyIdentity => trust(options.ssl_ca.as_deref())?,
        _ => Trust::Anyone,
    };
    let check_name = options.ssl_mode == SslMode::VerifyIdentity;
    let verifier = Arc::new(Verifier {
        trust,
        check_name,
        algorithms,
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match (&options.ssl_cert, &options.ssl_key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let certificate = own_certificate(cert, key, keys)?;
            Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certificate))))
        }
        _ => Err(wrong(
            "ssl-cert and ssl-key are only of use together".to_owned(),
        )),
    }
}

/// The client's own certificate. Only the server judges it, so version 1 will do, although webpki
/// cannot parse it; `openssl` makes version 1 unless told otherwise.
fn own_certificate(cert: &Path, key: &Path, keys: &dyn KeyProvider) -> Result<CertifiedKey, Error> {
    let chain = certificates(cert)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("ssl-key", key, &e))?;
    let secret = keys
        .load_private_key(secret)
        .map_err(|e| unreadable("ssl-key", key, &e))?;
    let certified = (chain.first()).and_then(|first| Certificate::from_der(first).ok());
    let public =
        (secret.public_key()).and_then(|key| SubjectPublicKeyInfo::from_der(&key).ok()?.into());
    let belongs = certified.zip(public).is_none_or(|(certified, public)| {
        let of_certificate = certified.tbs_certificate().subject_public_key_info();
        of_certificate.subject_public_key == public.subject_public_key
    });
    if !belongs {
        return Err(wrong(format!(
            "ssl-key {} is not the key of ssl-cert {}",
            key.display(),
            cert.display()
        )));
    }
    Ok(CertifiedKey::new(chain, secret))
}

/// Performs the handshake; returns the session, its version and its cipher suite.
pub(crate) fn handshake(
    mut socket: &Socket,
    config: Arc<ClientConfig>,
    options: &ConnectOptions,
    peer: &str,
) -> Result<(ClientConnection, String), Error> {
    let refused = |reason: String| Error::Tls {
        peer: peer.to_owned(),
        reason,
    };
    let name = server_name(options).map_err(refused)?;
    let mut tls = ClientConnection::new(config, name).map_err(|e| refused(e.to_string()))?;
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut socket) {
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout {
                    phase: Phase::Tls,
                    peer: peer.to_owned(),
                    after: Some(options.connect_timeout),
                },
                io::ErrorKind::InvalidData => refused(error.to_string()),
                _ => Error::Io {
                    phase: Phase::Tls,
                    peer: peer.to_owned(),
                    source: error,
                },
            });
        }
    }
    let version = tls
        .protocol_version()
        .map_or_else(String::new, |v| format!("{v:?}"));
    let suite = tls
        .negotiated_cipher_suite()
        .map_or_else(String::new, |s| format!("{:?}", s.suite()));
    Ok((tls, format!("{version} {suite}")))
}

/// The name for SNI, which `verify-identity` must also find in the certificate.
fn server_name(options: &ConnectOptions) -> Result<ServerName<'static>, String> {
    let name = options.tls_name();
    if let Ok(address) = name.parse::<std::net::IpAddr>() {
        return Ok(ServerName::IpAddress(IpAddr::from(address)));
    }
    match ServerName::try_from(name.to_owned()) {
        Ok(name) => Ok(name),
        Err(_) if options.ssl_mode == SslMode::VerifyIdentity => {
            Err(format!("no certificate can carry the name {name:?}"))
        }
        // A name that is invalid in DNS (with an underscore) may come from /etc/hosts; it is never
        // compared with a certificate.
        Err(_) => ServerName::try_from("localhost").map_err(|e| e.to_string()),
    }
}

fn trust(ca: Option<&Path>) -> Result<Trust, Error> {
    let mut roots = RootCertStore::empty();
    let mut pinned = Vec::new();
    if let Some(path) = ca {
        for certificate in certificates(path)? {
            // A certificate that cannot be a root (the server's own) is still accepted if the
            // server presents that certificate.
            let _ = roots.add(certificate.clone());
            pinned.push(certificate);
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(wrong(
                "no ssl-ca is given and the system has no root certificates".to_owned(),
            ));
        }
    }
    Ok(Trust::These { roots, pinned })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|e| unreadable("certificate file", path, &e))?;
    if found.is_empty() {
        return Err(wrong(format!(
            "{} holds no certificate in PEM form",
            path.display()
        )));
    }
    Ok(found)
}

fn unreadable(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    wrong(format!("{what} {}: {error}", path.display()))
}

fn wrong(reason: String) -> Error {
    Error::Options { reason }
}

/// Whether these bytes parse as a certificate; for the fuzz target.
pub(crate) fn certificate_is_read(bytes: &[u8]) -> bool {
    Certificate::from_der(bytes).is_ok()
}
