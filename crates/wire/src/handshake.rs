//! The handshake: from the greeting to the first OK.
//!
//! The greeting is parsed here instead of in `mysql_common`, whose parser can panic on a hostile
//! one (in its arithmetic on the scramble length, and on version numbers). The answer, the TLS
//! request and the authentication plugins are `mysql_common`'s.

use std::collections::HashMap;
use std::sync::Arc;

use mysql_common::auth::plugins::{AuthProc, ChallengeResponsePlugin, Context, Response};
use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};
use mysql_common::packets::{AuthPlugin, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;

use crate::connection::Link;
use crate::error::{Error, Phase};
use crate::options::{ConnectOptions, SslMode};
use crate::packet::{Reader, Truncated};
use crate::server::parse_version;
use crate::{ServerInfo, tls};

/// Length of the scramble in the greeting and in a switch request, in bytes, without the closing
/// zero.
const SCRAMBLE: usize = 20;
/// `utf8mb4_general_ci`: a one-byte collation id for utf8mb4 that every server since 5.5.3 knows.
const COLLATION: u8 = 45;
/// The packet limit that we announce: the largest possible `max_allowed_packet` of a server.
pub(crate) const CLIENT_MAX_PACKET: u32 = 1 << 30;
/// Maximum rounds of an authentication plugin's exchange.
const MAX_ROUNDS: usize = 12;
/// `CLIENT_LONG_PASSWORD`. MariaDB calls this bit `CLIENT_MYSQL`: a server that clears it has
/// MariaDB's extended capabilities.
const CLIENT_MYSQL: u32 = 1;

pub(crate) struct Greeting {
    version: String,
    connection_id: u32,
    scramble: [u8; SCRAMBLE],
    capabilities: CapabilityFlags,
    mariadb: MariadbCapabilities,
    plugin: Vec<u8>,
}

/// Parses the server's first packet (protocol version 10).
pub(crate) fn parse_greeting(payload: &[u8]) -> Result<Greeting, Truncated> {
    let mut r = Reader::new(payload);
    if r.u8()? != 10 {
        return Err(Truncated);
    }
    let version = String::from_utf8_lossy(r.until_zero()?).into_owned();
    let connection_id = r.u32()?;
    let mut scramble = [0; SCRAMBLE];
    scramble[..8].copy_from_slice(r.bytes(8)?);
    r.u8()?;
    let low = r.u16()?;
    r.u8()?;
    r.u16()?;
    let high = r.u16()?;
    let bits = u32::from(low) | u32::from(high) << 16;
    let scramble_length = usize::from(r.u8()?);
    r.bytes(6)?;
    let mariadb = r.u32()?;
    let capabilities = CapabilityFlags::from_bits_truncate(bits);
    if capabilities.contains(CapabilityFlags::CLIENT_SECURE_CONNECTION) {
        let second = r.bytes(scramble_length.saturating_sub(8).max(13))?;
        scramble[8..].copy_from_slice(&second[..SCRAMBLE - 8]);
    }
    let mut plugin = Vec::new();
    if capabilities.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
        let rest = r.rest();
        plugin = rest.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    }
    let mariadb = if bits & CLIENT_MYSQL == 0 {
        MariadbCapabilities::from_bits_truncate(mariadb)
    } else {
        MariadbCapabilities::empty()
    };
    Ok(Greeting {
        version,
        connection_id,
        scramble,
        capabilities,
        mariadb,
        plugin,
    })
}

/// The facts that authentication plugins may use.
struct PluginContext<'a> {
    password: &'a [u8],
    scramble: &'a [u8],
    unix: bool,
    tls: bool,
}

impl Context for &PluginContext<'_> {
    fn pass(&self) -> &[u8] {
        self.password
    }
    fn is_ipc_transport(&self) -> bool {
        self.unix
    }
    fn is_tls_transport(&self) -> bool {
        self.tls
    }
    fn scramble(&self) -> &[u8] {
        self.scramble
    }
    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}

/// Reads the greeting, starts TLS if required, and logs in.
pub(crate) fn shake_hands(link: &mut Link, options: &ConnectOptions) -> Result<ServerInfo, Error> {
    let greeting = read_greeting(link)?;
    let (vendor, version) = parse_version(&greeting.version);
    let wanted = CapabilityFlags::CLIENT_LONG_FLAG
        | CapabilityFlags::CLIENT_LOCAL_FILES
        | CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PS_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PLUGIN_AUTH
        | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
        | CapabilityFlags::CLIENT_CONNECT_ATTRS
        | CapabilityFlags::CLIENT_CONNECT_WITH_DB;
    for need in [
        CapabilityFlags::CLIENT_PROTOCOL_41,
        CapabilityFlags::CLIENT_SECURE_CONNECTION,
        CapabilityFlags::CLIENT_PLUGIN_AUTH,
    ] {
        if !greeting.capabilities.contains(need) {
            return Err(link.protocol("the server is too old: it lacks the protocol of MySQL 5.5"));
        }
    }
    // A server hides LOCAL INFILE while `local_infile` is off, but that may change during this
    // session.
    let mut capabilities = wanted & greeting.capabilities | CapabilityFlags::CLIENT_LOCAL_FILES;
    if options.database.is_none() {
        // The TLS request and the answer to the greeting must carry the same flags.
        capabilities.remove(CapabilityFlags::CLIENT_CONNECT_WITH_DB);
    }
    let mariadb = greeting.mariadb & MariadbCapabilities::MARIADB_CLIENT_STMT_BULK_OPERATIONS;
    if mariadb.is_empty() {
        // On MySQL this bit means nothing, and every client sets it.
        capabilities |= CapabilityFlags::from_bits_retain(CLIENT_MYSQL);
    }
    let tls = start_tls(link, options, &greeting, &mut capabilities, mariadb)?;
    let password = options.password.as_ref().map_or(&[][..], |p| p.expose());
    let secure = PluginContext {
        password,
        scramble: &greeting.scramble,
        unix: link.framed.io.socket.is_unix(),
        tls: tls.is_some(),
    };

    // Start with a plugin that reveals no more than a scramble. For any other (clear text above
    // all) the server must ask by name, in a switch request.
    let named = AuthPlugin::from_bytes(&greeting.plugin);
    let plugin = match named {
        AuthPlugin::CachingSha2Password => AuthPlugin::CachingSha2Password,
        _ => AuthPlugin::MysqlNativePassword,
    };
    let mut running = start_plugin(&plugin)?;
    let first = running
        .run(&secure, &greeting.scramble)
        .map_err(|e| refuse(&plugin, &e))?;
    let attributes = HashMap::from([
        ("program_name".to_owned(), "refloat".to_owned()),
        ("_client_name".to_owned(), "refloat-wire".to_owned()),
        (
            "_client_version".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
        ("_os".to_owned(), std::env::consts::OS.to_owned()),
        ("_pid".to_owned(), std::process::id().to_string()),
    ]);
    let answer = HandshakeResponse::new(
        first.data().map(<[u8]>::to_vec),
        version,
        Some(options.user.as_bytes()),
        options.database.as_deref().map(str::as_bytes),
        Some(plugin.borrow()),
        capabilities,
        capabilities
            .contains(CapabilityFlags::CLIENT_CONNECT_ATTRS)
            .then_some(attributes),
        CLIENT_MAX_PACKET,
    )
    .with_mariadb_ext_capabilities(mariadb);
    let mut bytes = Vec::with_capacity(512);
    answer.serialize(&mut bytes);
    link.send(Phase::Handshake, &bytes, &[])?;
    let plugin = authenticate(link, options, &secure, plugin.into_owned(), running)?;
    Ok(ServerInfo {
        vendor,
        version,
        version_string: greeting.version,
        connection_id: u64::from(greeting.connection_id),
        greeted_id: u64::from(greeting.connection_id),
        has_bulk: mariadb.contains(MariadbCapabilities::MARIADB_CLIENT_STMT_BULK_OPERATIONS),
        is_unix_socket: secure.unix,
        is_tls: secure.tls,
        tls,
        peer: link.peer.clone(),
        auth_plugin: String::from_utf8_lossy(plugin.as_bytes()).into_owned(),
    })
}

fn read_greeting(link: &mut Link) -> Result<Greeting, Error> {
    let place = link.receive(Phase::Handshake)?;
    let payload = link.framed.payload(&place);
    if payload.first() == Some(&0xff) {
        // Too many connections, host blocked, …: sent before the capabilities are negotiated, so
        // the SQLSTATE may be missing.
        return Err(link.server_error(payload));
    }
    parse_greeting(payload)
        .map_err(|Truncated| link.protocol("this is no greeting of a MySQL or MariaDB server"))
}

/// Starts TLS if wanted and offered; returns its version and cipher suite.
fn start_tls(
    link: &mut Link,
    options: &ConnectOptions,
    greeting: &Greeting,
    capabilities: &mut CapabilityFlags,
    mariadb: MariadbCapabilities,
) -> Result<Option<String>, Error> {
    let offered = greeting.capabilities.contains(CapabilityFlags::CLIENT_SSL);
    let unix = link.framed.io.socket.is_unix();
    match options.ssl_mode {
        SslMode::Disabled => return Ok(None),
        // Like the stock clients: no encryption on a unix socket unless required.
        SslMode::Preferred if unix || !offered => return Ok(None),
        _ => {}
    }
    if !offered {
        let reason = format!(
            "the server does not offer TLS, and ssl-mode is {}: nothing was sent",
            options.ssl_mode
        );
        return Err(Error::Tls {
            peer: link.peer.clone(),
            reason,
        });
    }
    if link.framed.buffered() != 0 {
        return Err(link.protocol("data after the greeting"));
    }
    let config = tls::client_config(options)?;
    capabilities.insert(CapabilityFlags::CLIENT_SSL);
    let request = SslRequest::new(*capabilities, CLIENT_MAX_PACKET, COLLATION)
        .with_mariadb_capabilities(mariadb);
    let mut bytes = Vec::with_capacity(32);
    request.serialize(&mut bytes);
    link.send(Phase::Handshake, &bytes, &[])?;
    let (connection, description) = tls::handshake(
        &link.framed.io.socket,
        Arc::new(config),
        options,
        &link.peer,
    )?;
    link.framed.io.tls = Some(Box::new(connection));
    Ok(Some(description))
}

/// Answers the server until it sends OK. Returns the plugin in use at the end.
fn authenticate(
    link: &mut Link,
    options: &ConnectOptions,
    secure: &PluginContext<'_>,
    mut plugin: AuthPlugin<'static>,
    mut running: AuthProc,
) -> Result<AuthPlugin<'static>, Error> {
    let mut scramble = secure.scramble.to_vec();
    for _ in 0..MAX_ROUNDS {
        let place = link.receive(Phase::Auth)?;
        let payload = link.framed.payload(&place).to_vec();
        let (challenge, switch) = match payload.first() {
            Some(0x00) => return Ok(plugin),
            Some(0xff) => return Err(link.server_error(&payload)),
            Some(0xfe) => {
                let mut r = Reader::new(&payload[1..]);
                let name = r.until_zero().unwrap_or(b"mysql_old_password");
                plugin = AuthPlugin::from_bytes(name).into_owned();
                let mut data = r.rest();
                if data.len() == SCRAMBLE + 1 && data.last() == Some(&0) {
                    data = &data[..SCRAMBLE];
                }
                (data.to_vec(), true)
            }
            Some(0x01) => (payload[1..].to_vec(), false),
            _ => (payload, false),
        };
        if switch {
            if plugin == AuthPlugin::MysqlClearPassword {
                let verified = secure.tls
                    && matches!(
                        options.ssl_mode,
                        SslMode::VerifyCa | SslMode::VerifyIdentity
                    );
                if !verified {
                    return Err(refuse(
                        &plugin,
                        &"it sends the password itself; allowed only inside TLS with ssl-mode verify-ca or verify-identity",
                    ));
                }
                let mut text = secure.password.to_vec();
                text.push(0);
                link.send(Phase::Auth, &text, &[])?;
                continue;
            }
            running = start_plugin(&plugin)?;
            scramble.clear();
            scramble.extend_from_slice(&challenge);
            scramble.resize(scramble.len().max(SCRAMBLE), 0);
        }
        if !options.get_server_public_key && asks_for_key(&plugin, &challenge, secure) {
            return Err(refuse(
                &plugin,
                &"a full login needs TLS, a unix socket, or get-server-public-key",
            ));
        }
        let context = PluginContext {
            scramble: &scramble,
            ..*secure
        };
        let response = running
            .run(&context, &challenge)
            .map_err(|e| refuse(&plugin, &e))?;
        if let Response::Next {
            packet: Some(packet),
        }
        | Response::Last {
            packet: Some(packet),
        } = response
        {
            link.send(Phase::Auth, &packet, &[])?;
        }
    }
    Err(link.protocol("the authentication does not end"))
}

/// Whether the next step would ask an unverified server for its RSA key.
fn asks_for_key(plugin: &AuthPlugin<'_>, challenge: &[u8], secure: &PluginContext<'_>) -> bool {
    let full = match plugin {
        AuthPlugin::CachingSha2Password => challenge == [4],
        AuthPlugin::Sha256Password => true,
        _ => false,
    };
    full && !secure.tls && !secure.unix && !secure.password.is_empty()
}

fn start_plugin(plugin: &AuthPlugin<'_>) -> Result<AuthProc, Error> {
    match plugin {
        AuthPlugin::MysqlOldPassword => {
            Err(refuse(plugin, &"its hash is broken and not supported"))
        }
        AuthPlugin::Other(_) => Err(refuse(plugin, &"it is not supported")),
        AuthPlugin::MysqlClearPassword => {
            Err(refuse(plugin, &"the server must ask for it inside TLS"))
        }
        _ => AuthProc::init(plugin).map_err(|e| refuse(plugin, &e)),
    }
}

fn refuse(plugin: &AuthPlugin<'_>, reason: &dyn std::fmt::Display) -> Error {
    Error::Auth {
        plugin: String::from_utf8_lossy(plugin.as_bytes()).into_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_greeting_makes_the_parser_panic(head in prop::collection::vec(any::<u8>(), 0..120)) {
            let mut bytes = vec![10];
            bytes.extend_from_slice(&head);
            let _ = parse_greeting(&bytes);
        }
    }
}
