//! Ctrl-C before the first row: while the server is examined, and while its settings are changed.

// Hazard of faults: L-160 Ctrl-C while another run holds the settings, while a backup keeps the
//   journal from being written, while nothing answers

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use refloat_sandbox::Instance;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{
    BOTH, Desk, Running, ask, assert_same_settings, dump, finish, settings, shared, table,
};

/// Number of sessions running a statement that begins like this.
fn running(server: &Instance, head: &str) -> u64 {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '{head}%' AND id <> CONNECTION_ID()"
    );
    ask(server, &sql).parse().expect("a count is a number")
}

/// Settings are as before, and no journal says otherwise.
#[track_caller]
fn nothing_left(desk: &Desk, server: &Instance, before: &BTreeMap<String, String>) {
    assert_same_settings(before, server);
    finish(desk.refloat(["settings", "list", "--to", &server.url()]))
        .exits(0)
        .says("no setting is left");
}

fn start(desk: &Desk, file: &Path, server: &Instance) -> Running {
    Running::start(desk.load_command(file, &server.url(), &["--durability", "relaxed"]))
}

#[test]
fn ctrl_c_while_another_run_changes_settings() {
    for kind in BOTH {
        // Its own server: other tests would also meet at the lock.
        let quick = servers::quick(kind);
        let server = servers::start(&quick.option("innodb_flush_log_at_trx_commit", "1"));
        let before = settings(&server);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", 100)));
        for signal in ["INT", "TERM"] {
            let mut other = servers::connect(&server);
            let locked = other
                .query_value("SELECT GET_LOCK('refloat.settings', 0)")
                .unwrap();
            assert_eq!(locked.as_deref(), Some("1"));
            let run = start(&desk, &file, &server);
            wait_until("the run waits for the other one", || {
                running(&server, "SELECT GET_LOCK") == 1
            });
            run.signal(signal);
            run.stops().exits(5).says("stopping");
            assert_eq!(desk.tables(&server), 0, "{kind}: it went on");
            drop(other);
            nothing_left(&desk, &server, &before);
            desk.next();
        }
        // The journal cannot be written while another session blocks DDL.
        let mut other = servers::connect(&server);
        other
            .exec(if kind.is_mariadb() {
                "FLUSH TABLES WITH READ LOCK"
            } else {
                "LOCK INSTANCE FOR BACKUP"
            })
            .unwrap();
        let run = start(&desk, &file, &server);
        wait_until("the run waits for its journal on the server", || {
            running(&server, "CREATE ") == 1
        });
        run.signal("INT");
        run.stops().exits(5).says("stopping");
        drop(other);
        nothing_left(&desk, &server, &before);
        // Earlier runs leave nothing that gets in the way of the next one.
        desk.next();
        desk.load(&file, &server, &["--durability", "relaxed"])
            .exits(0)
            .says("all put back");
        nothing_left(&desk, &server, &before);
    }
}

#[test]
fn ctrl_c_while_a_server_does_not_answer() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let desk = Desk::new();
    let file = desk.file("dump.sql", dump(&table("items", 5)));
    // A connection that is not established cannot be killed on the server; its own timeout ends it.
    let url = format!("mysql://root@127.0.0.1:{port}/?connect-timeout=2");
    let run = Running::start(desk.load_command(&file, &url, &[]));
    // The client is connected, and never receives anything.
    let (_silent, _) = listener.accept().unwrap();
    run.signal("INT");
    run.stops().exits(5).says("stopping");
}

/// Forwards connections to a server. On the first one, it holds back what the client sends from the
/// packet containing `word` on, and reports that.
fn holding_forwarder(server: u16, word: &'static str) -> (u16, Receiver<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (held, holding) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { continue };
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)) else {
                continue;
            };
            let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let held = held.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(n @ 1..) = client.read(&mut buffer) {
                    if String::from_utf8_lossy(&buffer[..n]).contains(word) {
                        let _ = held.send(());
                        return;
                    }
                    if server.write_all(&buffer[..n]).is_err() {
                        return;
                    }
                }
                let _ = server.shutdown(Shutdown::Write);
            });
        }
    });
    (port, holding)
}

#[test]
fn ctrl_c_while_a_question_of_preflight_is_not_answered() {
    for kind in BOTH {
        let server = shared(kind);
        for word in ["SHOW GRANTS", "SHOW DATABASES"] {
            let desk = Desk::new();
            let file = desk.file("dump.sql", dump(&table("items", 5)));
            let (port, holding) = holding_forwarder(server.port(), word);
            let url = format!("mysql://root@127.0.0.1:{port}/?ssl-mode=disabled");
            let run = Running::start(desk.load_command(&file, &url, &[]));
            holding
                .recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("{word} is not asked any more"));
            run.signal("INT");
            run.stops().exits(5).says("stopping");
            assert_eq!(desk.tables(server), 0, "{kind}: it went on");
        }
    }
}
