//! Decides which server certificates are accepted.
//!
//! Every mode checks the handshake's signature; otherwise anyone who replays a certificate could
//! pass for its owner. The check is done here, with the key from the certificate, because webpki
//! refuses to parse version 1 certificates. `openssl x509 -req` makes those by default, so many
//! servers have them.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

use super::der::{Certificate, PublicKey};

/// Which certificates are trusted.
#[derive(Debug)]
pub(super) enum Trust {
    /// Any: `preferred` and `required` only encrypt.
    Anyone,
    /// Those that chain to a root, and those given in `ssl-ca` themselves.
    These {
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
    },
}

/// The verifier of one connection.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) trust: Trust,
    pub(super) check_name: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let fields = parse(end_entity)?;
        if let Trust::These { roots, pinned } = &self.trust {
            if pinned.iter().any(|known| known == end_entity) {
                check_dates(&fields, now)?;
            } else if fields.is_v1 {
                self.check_v1(&fields, roots, now)?;
            } else {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                verify_server_cert_signed_by_trust_anchor(
                    &parsed,
                    roots,
                    intermediates,
                    now,
                    self.algorithms.all,
                )?;
            }
        }
        if self.check_name {
            check_name(end_entity, &fields, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.check_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        // RFC 8446, 4.2.3: these schemes are for certificates only, not for the handshake.
        if matches!(
            dss.scheme,
            SignatureScheme::RSA_PKCS1_SHA256
                | SignatureScheme::RSA_PKCS1_SHA384
                | SignatureScheme::RSA_PKCS1_SHA512
        ) {
            return Err(CertificateError::BadSignature.into());
        }
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Verifier {
    fn check_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let key = parse(cert)?.key;
        let of_scheme = self
            .algorithms
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == dss.scheme);
        for algorithm in of_scheme.map_or(&[][..], |(_, list)| list) {
            if algorithm.public_key_alg_id().as_ref() == key.algorithm
                && algorithm
                    .verify_signature(key.bits, message, dss.signature())
                    .is_ok()
            {
                return Ok(HandshakeSignatureValid::assertion());
            }
        }
        Err(CertificateError::BadSignature.into())
    }

    /// Checks a version 1 certificate, which a root itself must have issued.
    fn check_v1(
        &self,
        fields: &Certificate<'_>,
        roots: &RootCertStore,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        check_dates(fields, now)?;
        let issuers = roots
            .roots
            .iter()
            .filter(|root| root.subject.as_ref() == fields.issuer);
        let mut error = CertificateError::UnknownIssuer;
        for root in issuers {
            let Some(key) = PublicKey::parse(root.subject_public_key_info.as_ref()) else {
                continue;
            };
            for algorithm in self.algorithms.all {
                if algorithm.signature_alg_id().as_ref() == fields.signature_algorithm
                    && algorithm.public_key_alg_id().as_ref() == key.algorithm
                    && algorithm
                        .verify_signature(key.bits, fields.signed, fields.signature)
                        .is_ok()
                {
                    return Ok(());
                }
            }
            error = CertificateError::BadSignature;
        }
        Err(error.into())
    }
}

fn parse<'a>(cert: &'a CertificateDer<'_>) -> Result<Certificate<'a>, TlsError> {
    Certificate::parse(cert.as_ref()).ok_or_else(|| CertificateError::BadEncoding.into())
}

fn check_dates(fields: &Certificate<'_>, now: UnixTime) -> Result<(), TlsError> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < fields.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > fields.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// The name must be among the alternative names. A certificate without any is compared by common
/// name, as in the stock clients.
fn check_name(
    cert: &CertificateDer<'_>,
    fields: &Certificate<'_>,
    name: &ServerName<'_>,
) -> Result<(), TlsError> {
    if fields.has_alt_names && !fields.is_v1 {
        return verify_server_name(&ParsedCertificate::try_from(cert)?, name);
    }
    if fields
        .common_name
        .is_some_and(|found| found.eq_ignore_ascii_case(&name.to_str()))
    {
        return Ok(());
    }
    Err(CertificateError::NotValidForNameContext {
        expected: name.to_owned(),
        presented: fields.common_name.map(str::to_owned).into_iter().collect(),
    }
    .into())
}
