//! Starts, uses, stops, restarts, kills and removes every kind of server.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{Error, Instance, ServerKind, StartOptions, Status, Tls};

use crate::common::{QUICK, assert_nothing_left, folder, processes_of, sandbox_in, stat_field};

fn life_of(kind: ServerKind) {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let options = StartOptions::new(kind)
        .name("one")
        .option("max_connections", "33");
    let mut server = sandbox.start(&options).unwrap();

    assert_eq!(
        server.query("SELECT @@port, @@max_connections").unwrap(),
        format!("{}\t33", server.port())
    );
    assert_eq!(server.query("SELECT @@version").unwrap(), server.version());
    assert_eq!(server.version().contains("MariaDB"), kind.is_mariadb());
    assert_eq!(query_over_tcp(&server, &[], "SELECT 1"), "1");
    let pid = server.pid().unwrap();
    assert_eq!(processes_of(&server.datadir()), [pid]);
    assert_eq!(
        stat_field(pid, 6),
        pid.to_string(),
        "the server leads a session of its own"
    );
    server.query("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)").unwrap();

    let dump = server
        .dump_command()
        .unwrap()
        .args(["--databases", "d"])
        .output()
        .unwrap();
    assert!(
        dump.status.success(),
        "{}",
        String::from_utf8_lossy(&dump.stderr)
    );
    assert!(String::from_utf8_lossy(&dump.stdout).contains("CREATE TABLE `t`"));
    let ping = server
        .admin_command()
        .unwrap()
        .arg("ping")
        .output()
        .unwrap();
    assert!(ping.status.success());

    let listed = sandbox.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].name.as_str(), listed[0].status),
        ("one", Status::Running)
    );

    server.stop().unwrap();
    assert_eq!((server.status(), server.pid()), (Status::Stopped, None));
    assert!(processes_of(&server.datadir()).is_empty());
    server.stop().unwrap();
    let log = std::fs::read_to_string(server.error_log()).unwrap();
    assert!(
        log.contains("hutdown complete"),
        "not a clean shutdown:\n{log}"
    );

    let port = server.port();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(
        server
            .query("SELECT COUNT(*), @@max_connections FROM d.t")
            .unwrap(),
        "2\t33"
    );

    let killed = server.pid().unwrap();
    server.kill().unwrap();
    assert_eq!(sandbox.list().unwrap()[0].status, Status::Stopped);
    assert!(!std::path::Path::new(&format!("/proc/{killed}")).exists());
    if !kind.is_mariadb() {
        // When a killed server is restarted, another process may have its PID by then: here, this
        // process.
        let lock = format!("{}.lock", server.socket().display());
        assert_eq!(
            std::fs::read_to_string(&lock).unwrap(),
            format!("{killed}\n")
        );
        std::fs::write(&lock, format!("{}\n", std::process::id())).unwrap();
    }
    server.restart().unwrap();
    assert_eq!(server.query("SELECT COUNT(*) FROM d.t").unwrap(), "2");

    let datadir = server.datadir();
    server.remove().unwrap();
    assert!(processes_of(&datadir).is_empty());
    // The kernel releases a killed process's port shortly after the process ends.
    let removed = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(
            removed.elapsed() < Duration::from_secs(10),
            "somebody listens at {port} still"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_nothing_left(&sandbox);
    assert!(matches!(
        sandbox.get("one"),
        Err(Error::NoSuchInstance { .. })
    ));
}

fn query_over_tcp(server: &Instance, arguments: &[String], sql: &str) -> String {
    let mut client: Command = server.installation().unwrap().client();
    client.args([
        "--no-defaults",
        "--protocol=tcp",
        "--host=127.0.0.1",
        "--user=root",
    ]);
    client
        .arg(format!("--port={}", server.port()))
        .args(arguments);
    let output = client
        .args(["--skip-column-names", "--batch", "-e", sql])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

#[test]
fn life_of_mariadb_10_11() {
    life_of(ServerKind::MariaDb1011);
}

#[test]
fn life_of_mariadb_11_8() {
    life_of(ServerKind::MariaDb118);
}

#[test]
fn life_of_mysql_9_7() {
    life_of(ServerKind::MySql97);
}

/// The stock client trusts only the instance's CA here, and checks the host name.
#[test]
fn certificates_of_the_sandbox_are_believed_with_its_ca() {
    for kind in ServerKind::ALL {
        let folder = folder();
        let sandbox = sandbox_in(folder.path());
        let server = sandbox
            .start_ephemeral(&StartOptions::new(kind).tls(Tls::Generated))
            .unwrap();
        let verify = if kind.is_mariadb() {
            "--ssl-verify-server-cert"
        } else {
            "--ssl-mode=VERIFY_IDENTITY"
        };
        let ca = format!("--ssl-ca={}", server.ca_file().unwrap().display());
        let cipher = query_over_tcp(
            &server,
            &[ca, verify.to_owned()],
            "SHOW STATUS LIKE 'Ssl_cipher'",
        );
        assert!(cipher.len() > "Ssl_cipher\t".len(), "{kind}: {cipher:?}");
        server.remove().unwrap();
    }
}

#[test]
fn usual_certificates_are_what_each_server_does_by_itself() {
    for kind in ServerKind::ALL {
        let folder = folder();
        let sandbox = sandbox_in(folder.path());
        let server = sandbox.start_ephemeral(&StartOptions::new(kind)).unwrap();
        assert_eq!(
            server.ca_file().is_some(),
            kind != ServerKind::MariaDb118,
            "{kind}"
        );
        let require = if kind.is_mariadb() {
            vec![
                "--ssl".to_owned(),
                "--skip-ssl-verify-server-cert".to_owned(),
            ]
        } else {
            vec!["--ssl-mode=REQUIRED".to_owned()]
        };
        let cipher = query_over_tcp(&server, &require, "SHOW STATUS LIKE 'Ssl_cipher'");
        assert!(cipher.len() > "Ssl_cipher\t".len(), "{kind}: {cipher:?}");
    }
}

#[test]
fn a_server_without_tls_offers_none() {
    for kind in ServerKind::ALL {
        let folder = folder();
        let sandbox = sandbox_in(folder.path());
        let server = sandbox
            .start_ephemeral(&StartOptions::new(kind).tls(Tls::Off))
            .unwrap();
        assert_eq!(server.ca_file(), None);
        let plain = if kind.is_mariadb() {
            "--skip-ssl"
        } else {
            "--ssl-mode=PREFERRED"
        };
        let cipher = query_over_tcp(
            &server,
            &[plain.to_owned()],
            "SHOW STATUS LIKE 'Ssl_cipher'",
        );
        assert_eq!(cipher, "Ssl_cipher", "{kind}");
        if kind.is_mariadb() {
            assert_ne!(server.query("SELECT @@have_ssl").unwrap(), "YES", "{kind}");
        }
    }
}

#[test]
fn servers_started_at_the_same_time_get_names_and_ports_of_their_own() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let started: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| sandbox.start_ephemeral(&StartOptions::new(QUICK)).unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut names: Vec<_> = started
        .iter()
        .map(|server| server.name().to_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["mariadb-10.11", "mariadb-10.11-2", "mariadb-10.11-3"]
    );
    for server in &started {
        let answer = query_over_tcp(server, &[], "SELECT @@port, @@socket");
        assert_eq!(
            answer,
            format!("{}\t{}", server.port(), server.socket().display())
        );
    }
    drop(started);
    assert_nothing_left(&sandbox);
}

#[test]
fn copies_of_one_data_directory_are_different_servers() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let options = StartOptions::new(ServerKind::MySql97);
    let one = sandbox.start_ephemeral(&options).unwrap();
    let two = sandbox.start_ephemeral(&options).unwrap();
    assert_ne!(
        one.query("SELECT @@server_uuid").unwrap(),
        two.query("SELECT @@server_uuid").unwrap()
    );
}

#[test]
fn options_of_the_data_directory_hold_on_every_kind() {
    for kind in ServerKind::ALL {
        let folder = folder();
        let sandbox = sandbox_in(folder.path());
        let options = StartOptions::new(kind).option("lower_case_table_names", "1");
        let server = sandbox.start_ephemeral(&options).unwrap();
        assert_eq!(
            server.query("SELECT @@lower_case_table_names").unwrap(),
            "1",
            "{kind}"
        );
    }
}
