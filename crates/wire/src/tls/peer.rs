//! TLS between two machines that authenticate each other with certificates of one authority, as the
//! nodes of a Galera cluster do. Names are not compared, as in Galera: whoever has such a
//! certificate is trusted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerifier as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error as TlsError,
    ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
};

use super::verify::Verifier;
use super::{own_certificate, trust, wrong};
use crate::error::Error;

/// Server name for the API; nothing checks it.
const NO_NAME: &str = "node";

/// The certificate of this machine, and the common authority.
#[derive(Debug, Clone)]
pub struct PeerTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// A connection whose ends have authenticated each other.
pub trait PeerStream: Read + Write + Send {}

impl<T: Read + Write + Send> PeerStream for T {}

impl PeerTls {
    /// Reads the authority's certificate, this machine's and its key, all in PEM form.
    ///
    /// # Errors
    /// [`Error::Options`]: a file cannot be read, or the key is not that of the certificate.
    pub fn load(ca: &Path, cert: &Path, key: &Path) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(Verifier {
            trust: trust(Some(ca))?,
            check_name: false,
            algorithms: provider.signature_verification_algorithms,
        });
        let certificate = own_certificate(cert, key, provider.key_provider)?;
        let resolver = Arc::new(SingleCertAndKey::from(certificate));
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::clone(&resolver) as _);
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(error.to_string()))?
            .with_client_cert_verifier(Arc::new(OfClient(verifier)))
            .with_cert_resolver(resolver);
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// Authenticates both ends, as the one that opened the connection. Whether the other end
    /// accepts this certificate shows with the first bytes from there.
    ///
    /// # Errors
    /// The connection was lost, or as [`peer_refusal`] says.
    pub fn connect(&self, mut socket: TcpStream) -> io::Result<Box<dyn PeerStream>> {
        let name = ServerName::try_from(NO_NAME).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::clone(&self.client), name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Box::new(StreamOwned::new(tls, socket)))
    }

    /// Like [`Self::connect`], for the end that accepted the connection.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub fn accept(&self, mut socket: TcpStream) -> io::Result<Box<dyn PeerStream>> {
        let mut tls = ServerConnection::new(Arc::clone(&self.server))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Box::new(StreamOwned::new(tls, socket)))
    }
}

/// What an error of such a connection says about the certificates of the two ends. `None`: nothing;
/// the connection was lost.
pub fn peer_refusal(error: &io::Error) -> Option<String> {
    let tls = error.get_ref()?.downcast_ref::<TlsError>()?;
    Some(match tls {
        TlsError::AlertReceived(alert) => {
            format!("the other end does not accept the certificate of this one ({alert:?})")
        }
        TlsError::InvalidCertificate(why) => {
            format!("the certificate of the other end is not accepted here: {why}")
        }
        TlsError::NoCertificatesPresented => "the other end shows no certificate".to_owned(),
        other => other.to_string(),
    })
}

/// Checks client certificates by the same rules.
#[derive(Debug)]
struct OfClient(Arc<Verifier>);

impl ClientCertVerifier for OfClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        let name = ServerName::try_from(NO_NAME)
            .map_err(|_| TlsError::General("a name that is none".to_owned()))?;
        self.0
            .verify_server_cert(end_entity, intermediates, &name, &[], now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
