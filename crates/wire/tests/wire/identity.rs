use std::time::Duration;

use refloat_sandbox::{ServerKind, StartOptions};
use refloat_wire::{ConnectOptions, Connection, Error, Phase};

use crate::common::{ALL, MARIADB, sandbox, tcp, unix};

#[test]
fn servers_are_told_apart() {
    let connections: Vec<Connection> = ALL
        .into_iter()
        .map(|kind| Connection::connect(&tcp(kind)).unwrap())
        .collect();
    for (i, a) in connections.iter().enumerate() {
        for (j, b) in connections.iter().enumerate() {
            assert_eq!(a.expect_identity(b.identity()).is_ok(), i == j);
        }
        let over_socket = Connection::connect(&unix(ALL[i])).unwrap();
        assert_eq!(
            over_socket.identity(),
            a.identity(),
            "the way to it does not matter"
        );
        assert!(a.reconnect().is_ok());
    }
    let other = connections[0]
        .expect_identity(connections[1].identity())
        .unwrap_err();
    assert!(matches!(other, Error::WrongServer { .. }));
    // Two servers of the same version, side by side.
    let twin = sandbox()
        .start_ephemeral(&StartOptions::new(MARIADB[0]))
        .unwrap();
    let twin = Connection::connect(&ConnectOptions::from_url(&twin.url()).unwrap()).unwrap();
    assert!(twin.expect_identity(connections[0].identity()).is_err());
}

#[test]
fn a_restarted_server_is_not_taken_for_the_old_one() {
    let mut server = sandbox()
        .start_ephemeral(&StartOptions::new(ServerKind::MariaDb1011))
        .unwrap();
    let c = Connection::connect(&ConnectOptions::from_url(&server.url()).unwrap()).unwrap();
    let killer = c.killer();
    // Longer than the slack for uptimes in whole seconds.
    std::thread::sleep(Duration::from_secs(4));
    assert!(killer.kill_query().unwrap());
    server.restart().unwrap();
    let error = killer.kill_query().unwrap_err();
    assert!(
        matches!(&error, Error::WrongServer { found, .. } if found.contains("restart")),
        "{error}"
    );
}

#[test]
fn nobody_there() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let error = Connection::connect(&ConnectOptions::tcp("127.0.0.1", free, "u")).unwrap_err();
    assert!(
        matches!(&error, Error::Io { phase: Phase::Connect, peer, .. } if peer.contains(&free.to_string())),
        "{error}"
    );
    let error =
        Connection::connect(&ConnectOptions::unix("/nowhere/at/all.sock", "u")).unwrap_err();
    assert!(matches!(
        error,
        Error::Io {
            phase: Phase::Connect,
            ..
        }
    ));
    assert!(Connection::connect(&ConnectOptions::tcp("no-such-host.invalid", 3306, "u")).is_err());
}
