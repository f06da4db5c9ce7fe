//! Tests against a hostile server. It does not imitate a database: it speaks just enough of the
//! protocol to ask for what it must not get.

// Hazard of servers: S-02, S-18 passwords in clear text or as old hashes, TLS taken out of the
//   greeting, words before TLS

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use refloat_wire::{ConnectOptions, Connection, Error, SslMode};

/// `CLIENT_PROTOCOL_41`, `CLIENT_SECURE_CONNECTION`, `CLIENT_PLUGIN_AUTH`, `CLIENT_LOCAL_FILES`.
const CAPABILITIES: u32 = 0x0000_0200 | 0x0000_8000 | 0x0008_0000 | 0x0000_0080;
const CLIENT_SSL: u32 = 0x0000_0800;
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

struct Peer(TcpStream);

impl Peer {
    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let n = (payload.len() as u32).to_le_bytes();
        let mut packet = vec![n[0], n[1], n[2], sequence];
        packet.extend_from_slice(payload);
        let _ = self.0.write_all(&packet);
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    fn greet(&mut self, capabilities: u32, plugin: &str) {
        let mut p = vec![10];
        p.extend_from_slice(b"8.0.99-rogue\0");
        p.extend_from_slice(&7_u32.to_le_bytes());
        p.extend_from_slice(b"abcdefgh\0");
        p.extend_from_slice(&(capabilities as u16).to_le_bytes());
        p.extend_from_slice(&[45, 2, 0]);
        p.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
        p.push(21);
        p.extend_from_slice(&[0; 10]);
        p.extend_from_slice(b"ijklmnopqrst\0");
        p.extend_from_slice(plugin.as_bytes());
        p.push(0);
        self.send(0, &p);
    }

    /// Everything that the client still sends until it closes.
    fn rest(mut self) -> Vec<u8> {
        self.0
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

fn serve<T: Send + 'static>(
    act: impl FnOnce(Peer) -> T + Send + 'static,
) -> (ConnectOptions, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || act(Peer(listener.accept().unwrap().0)));
    let options = ConnectOptions {
        password: Some("hunter2".into()),
        connect_timeout: Duration::from_secs(3),
        ..ConnectOptions::tcp("127.0.0.1", port, "victim")
    };
    (options, thread)
}

// Hazard of servers: S-03 a server that asks for a file on a statement or in a load: nothing but
//   the rows that were announced is sent | , `load.rs`
#[test]
fn a_file_that_nobody_offered_is_not_sent() {
    let (options, thread) = serve(|mut peer| {
        peer.greet(CAPABILITIES, "mysql_native_password");
        peer.read().unwrap();
        peer.send(2, OK);
        // The first statement of every session.
        assert_eq!(peer.read().unwrap()[0], 3);
        peer.send(1, b"\xfb/etc/passwd");
        peer.rest()
    });
    let error = Connection::connect(&options).unwrap_err();
    assert!(
        matches!(&error, Error::LocalInfileRefused { asked } if asked == "/etc/passwd"),
        "{error}"
    );
    assert_eq!(thread.join().unwrap(), b"", "not one byte more");
}

#[test]
fn passwords_in_clear_and_old_hashes_are_not_sent() {
    for (plugin, greeted) in [
        ("mysql_clear_password", false),
        ("mysql_clear_password", true),
        ("mysql_old_password", false),
        ("dialog", false),
    ] {
        let (options, thread) = serve(move |mut peer| {
            peer.greet(
                CAPABILITIES,
                if greeted {
                    plugin
                } else {
                    "mysql_native_password"
                },
            );
            let mut seen = peer.read().unwrap();
            let mut request = vec![0xfe];
            request.extend_from_slice(plugin.as_bytes());
            request.push(0);
            request.extend_from_slice(b"abcdefghijklmnopqrst\0");
            peer.send(2, &request);
            seen.extend(peer.rest());
            seen
        });
        let error = Connection::connect(&options).unwrap_err();
        assert!(
            matches!(&error, Error::Auth { plugin: p, .. } if p == plugin),
            "{error}"
        );
        let seen = thread.join().unwrap();
        assert!(
            !seen.windows(7).any(|w| w == b"hunter2"),
            "{plugin}: the password went out"
        );
    }
}

#[test]
fn a_stripped_tls_offer_sends_nothing() {
    let (mut options, thread) = serve(|mut peer| {
        peer.greet(CAPABILITIES, "caching_sha2_password");
        peer.rest()
    });
    options.ssl_mode = SslMode::Required;
    assert!(matches!(
        Connection::connect(&options),
        Err(Error::Tls { .. })
    ));
    assert_eq!(thread.join().unwrap(), b"", "neither user nor scramble");
}

#[test]
fn words_sneaked_in_before_tls_are_noticed() {
    let (mut options, thread) = serve(|mut peer| {
        peer.greet(CAPABILITIES | CLIENT_SSL, "caching_sha2_password");
        peer.send(2, OK);
        peer.rest()
    });
    options.ssl_mode = SslMode::Required;
    let error = Connection::connect(&options).unwrap_err();
    assert!(
        matches!(error, Error::Protocol { .. } | Error::Tls { .. }),
        "{error}"
    );
    let seen = thread.join().unwrap();
    assert!(!seen.windows(6).any(|w| w == b"victim"));
}

#[test]
fn nonsense_is_an_error_and_no_wait() {
    for junk in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\x05\0\0\0\x0a1234",
        b"\0\0\0\0",
        b"\xff\xff\xff\0",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ] {
        let (options, thread) = serve(move |mut peer| {
            let _ = peer.0.write_all(junk);
        });
        let error = Connection::connect(&options).unwrap_err();
        assert!(
            matches!(error, Error::Protocol { .. } | Error::Io { .. }),
            "{junk:?}: {error}"
        );
        thread.join().unwrap();
    }
}

#[test]
fn a_server_that_says_nothing_times_out() {
    let (mut options, thread) = serve(Peer::rest);
    options.connect_timeout = Duration::from_millis(200);
    assert!(matches!(
        Connection::connect(&options),
        Err(Error::Timeout { .. })
    ));
    thread.join().unwrap();
}

// Hazard of servers: S-13 lengths and counts that cannot be | , property tests of `frame`
#[test]
fn impossible_results_are_errors() {
    let answers: [&[&[u8]]; 5] = [
        &[b"\0"],
        &[b"\xff"],
        &[b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"],
        &[b"\x01", b"\x03def"],
        &[b"\xff\x15\x04#28000"],
    ];
    for packets in answers {
        let (options, thread) = serve(move |mut peer| {
            peer.greet(CAPABILITIES, "mysql_native_password");
            peer.read().unwrap();
            peer.send(2, OK);
            peer.read();
            for (i, packet) in packets.iter().enumerate() {
                peer.send(1 + i as u8, packet);
            }
        });
        let error = Connection::connect(&options).unwrap_err();
        assert!(
            matches!(error, Error::Protocol { .. } | Error::Server { .. }),
            "{error}"
        );
        thread.join().unwrap();
    }
}
