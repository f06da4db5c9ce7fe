//! TLS on top of the plain socket.
use std::sync::Arc;

use crate::error::Error;
use crate::options::ConnectOptions;
use crate::transport::Socket;

pub(crate) fn client_config(_options: &ConnectOptions) -> Result<rustls::ClientConfig, Error> {
    Err(Error::Unsupported { what: "TLS, yet" })
}

pub(crate) fn handshake(
    _socket: &Socket,
    _config: Arc<rustls::ClientConfig>,
    _options: &ConnectOptions,
    _peer: &str,
) -> Result<(rustls::ClientConnection, String), Error> {
    Err(Error::Unsupported { what: "TLS, yet" })
}
