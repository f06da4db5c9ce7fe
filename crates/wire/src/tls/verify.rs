//! Decides which server certificates are accepted.
//!
//! If anyone is trusted, a certificate is not even parsed. Every other mode also checks the
//! handshake's signature; otherwise anyone who replays a certificate could pass for its owner. The
//! check is done here, with the key from the certificate, because webpki refuses to parse version 1
//! certificates. `openssl x509 -req` makes those by default, so many servers have them.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::{Choice, Decode, DecodeValue, Header, Reader, SliceReader, Tag};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::{AlgorithmIdentifier, SubjectPublicKeyInfo, Version};

/// A certificate, parsed but not verified. `Raw` accepts certificates that RFC 5280 forbids but
/// servers have, such as those with long serial numbers.
pub(super) type Certificate = CertificateInner<Raw>;

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
        let Trust::These { roots, pinned } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let fields = parse(end_entity)?;
        if pinned.iter().any(|known| known == end_entity) {
            check_dates(&fields, now)?;
        } else if is_v1(&fields) {
            self.check_v1(end_entity, &fields, roots, now)?;
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
        if matches!(self.trust, Trust::Anyone) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let fields = parse(cert)?;
        let key = fields.tbs_certificate().subject_public_key_info();
        let of_scheme = self
            .algorithms
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == dss.scheme);
        for algorithm in of_scheme.map_or(&[][..], |(_, list)| list) {
            if verifies(*algorithm, key, message, dss.signature()) {
                return Ok(HandshakeSignatureValid::assertion());
            }
        }
        Err(CertificateError::BadSignature.into())
    }

    /// Checks a version 1 certificate, which a root itself must have issued.
    fn check_v1(
        &self,
        cert: &[u8],
        fields: &Certificate,
        roots: &RootCertStore,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        check_dates(fields, now)?;
        let signed = signed_part(cert).ok_or(CertificateError::BadEncoding)?;
        let signature = fields.signature().as_bytes().unwrap_or_default();
        let issuers = roots
            .roots
            .iter()
            .filter(|root| of(&root.subject).as_ref() == Some(fields.tbs_certificate().issuer()));
        let mut error = CertificateError::UnknownIssuer;
        for root in issuers {
            let Some(key) = of::<SubjectPublicKeyInfo>(&root.subject_public_key_info) else {
                continue;
            };
            for algorithm in self.algorithms.all {
                if of(&algorithm.signature_alg_id()).as_ref() == Some(fields.signature_algorithm())
                    && verifies(*algorithm, &key, signed, signature)
                {
                    return Ok(());
                }
            }
            error = CertificateError::BadSignature;
        }
        Err(error.into())
    }
}

fn parse(cert: &[u8]) -> Result<Certificate, TlsError> {
    Certificate::from_der(cert).map_err(|_| CertificateError::BadEncoding.into())
}

/// The part of a certificate that its signature covers, unchanged.
fn signed_part(cert: &[u8]) -> Option<&[u8]> {
    let mut reader = SliceReader::new(cert).ok()?;
    Header::decode(&mut reader).ok()?;
    reader.tlv_bytes().ok()
}

/// Parses the content of a sequence. For names, keys and algorithms, webpki keeps nothing else.
fn of<'a, T: Choice<'a> + DecodeValue<'a>>(content: &'a [u8]) -> Option<T> {
    AnyRef::new(Tag::Sequence, content).ok()?.decode_as().ok()
}

/// Whether an algorithm matches a key, and the key made the signature.
fn verifies(
    algorithm: &dyn SignatureVerificationAlgorithm,
    key: &SubjectPublicKeyInfo,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let bits = key.subject_public_key.as_bytes();
    of::<AlgorithmIdentifier>(&algorithm.public_key_alg_id()).as_ref() == Some(&key.algorithm)
        && bits.is_some_and(|bits| algorithm.verify_signature(bits, message, signature).is_ok())
}

/// Version 1 has no extensions, and webpki rejects it.
fn is_v1(fields: &Certificate) -> bool {
    fields.tbs_certificate().version() == Version::V1
}

fn check_dates(fields: &Certificate, now: UnixTime) -> Result<(), TlsError> {
    let validity = fields.tbs_certificate().validity();
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// The name must be among the alternative names. A certificate without any is compared by common
/// name (the last, if there are several), as in the stock clients.
fn check_name(
    cert: &CertificateDer<'_>,
    fields: &Certificate,
    name: &ServerName<'_>,
) -> Result<(), TlsError> {
    let mut extensions = fields.tbs_certificate().extensions().into_iter().flatten();
    if !is_v1(fields) && extensions.any(|one| one.extn_id == SubjectAltName::OID) {
        return verify_server_name(&ParsedCertificate::try_from(cert)?, name);
    }
    let subject = fields.tbs_certificate().subject();
    let common_names = subject.iter().filter(|part| part.oid == COMMON_NAME);
    let found = common_names
        .last()
        .and_then(|part| str::from_utf8(part.value.value()).ok());
    if found.is_some_and(|found| found.eq_ignore_ascii_case(&name.to_str())) {
        return Ok(());
    }
    Err(CertificateError::NotValidForNameContext {
        expected: name.to_owned(),
        presented: found.map(str::to_owned).into_iter().collect(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_who_verifies_parses_a_certificate() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let accepts = |trust: Trust| {
            let verifier = Verifier {
                trust,
                check_name: false,
                algorithms: provider.signature_verification_algorithms,
            };
            let odd = CertificateDer::from(b"odd".to_vec());
            let name = ServerName::try_from("db1").unwrap();
            let now = UnixTime::now();
            verifier
                .verify_server_cert(&odd, &[], &name, &[], now)
                .is_ok()
        };
        assert!(accepts(Trust::Anyone));
        assert!(!accepts(Trust::These {
            roots: RootCertStore::empty(),
            pinned: Vec::new(),
        }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut wrapped = vec![0x30, 0x82, (bytes.len() >> 8) as u8, bytes.len() as u8];
            wrapped.extend_from_slice(&bytes);
            for hostile in [bytes, wrapped] {
                let _ = parse(&hostile);
                let _ = signed_part(&hostile);
                let _ = of::<SubjectPublicKeyInfo>(&hostile);
            }
        }
    }
}
