use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use refloat_wire::{ConnectOptions, Connection, Error, RetryStatus, SslMode};

use crate::common::{ALL, tcp, unix};

#[test]
fn a_running_query_is_killed_at_once() {
    for kind in ALL {
        for options in [unix(kind), tcp(kind)] {
            let mut c = Connection::connect(&options).unwrap();
            let killer = c.killer();
            let started = Instant::now();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                killer.kill_query()
            });
            // MySQL ends SLEEP with the result 1, MariaDB with an error.
            let result = c.query_value("SELECT SLEEP(60)");
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{kind}: {:?}",
                started.elapsed()
            );
            assert!(thread.join().unwrap().unwrap(), "the session was found");
            match result {
                Ok(value) => assert_eq!(value.as_deref(), Some("1"), "{kind}"),
                Err(error) => assert!(error.is_interrupted(), "{kind}: {error}"),
            }
            assert_eq!(
                c.query_value("SELECT 1").unwrap().as_deref(),
                Some("1"),
                "the connection is still usable"
            );
            assert!(c.killer().kill_connection().unwrap());
            let gone = c.exec("SELECT 1").unwrap_err();
            assert!(
                gone.is_lost_connection() && gone.retry() == RetryStatus::Reconnect,
                "{kind}: {gone}"
            );
            let cause = std::error::Error::source(&gone).map(ToString::to_string);
            assert!(
                !cause.iter().any(|cause| cause.contains("close_notify")),
                "{kind}: the words of a library for TLS: {cause:?}"
            );
            assert!(c.is_closed() || c.exec("SELECT 1").is_err());
            // The server takes a moment to remove the session.
            let started = Instant::now();
            while c.killer().kill_query().unwrap() {
                let waited = started.elapsed();
                assert!(waited < Duration::from_secs(20), "it is there still");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_read_that_takes_too_long_times_out() {
    for kind in ALL {
        for ssl_mode in [SslMode::Disabled, SslMode::Required] {
            let options = ConnectOptions {
                read_timeout: Some(Duration::from_millis(300)),
                ssl_mode,
                ..tcp(kind)
            };
            let mut c = Connection::connect(&options).unwrap();
            let started = Instant::now();
            let error = c.exec("SELECT SLEEP(20)").unwrap_err();
            assert!(
                matches!(&error, Error::Timeout { after: Some(d), .. } if d.as_millis() == 300),
                "{error}"
            );
            assert!(started.elapsed() < Duration::from_secs(5));
            assert!(
                matches!(c.exec("SELECT 1"), Err(Error::Closed { .. })),
                "the answer could come any time"
            );
        }
    }
}

#[test]
fn another_thread_can_close_the_socket() {
    for kind in ALL {
        for options in [
            unix(kind),
            ConnectOptions {
                ssl_mode: SslMode::Required,
                ..tcp(kind)
            },
        ] {
            let mut c = Connection::connect(&options).unwrap();
            let handle = c.shutdown_handle();
            let started = Instant::now();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(150));
                handle.shutdown();
            });
            assert!(matches!(c.exec("SELECT SLEEP(20)"), Err(Error::Cancelled)));
            assert!(started.elapsed() < Duration::from_secs(5));
            assert!(matches!(c.exec("SELECT 1"), Err(Error::Cancelled)));
        }
    }
}

/// A server that waits for its client to read probes for room less and less often. It must not have
/// to wait for a probe to notice the end.
// Hazard of faults: A server that waits for a client which ends lets go at once, and does not hold
//   its locks until it asks again whether there is room | , `copied`
#[test]
fn a_server_that_waits_for_its_client_learns_of_the_end_at_once() {
    std::thread::scope(|scope| {
        for kind in ALL {
            scope.spawn(move || {
                let mut c = Connection::connect(&tcp(kind)).unwrap();
                let id = c.server().connection_id;
                let handle = c.shutdown_handle();
                let mut waited = false;
                // More than all buffers between the two can hold.
                let large = "SELECT REPEAT('x', 1000000) FROM information_schema.COLUMNS LIMIT 200";
                let error = c.query_each(large, &mut |_| {
                    if !std::mem::replace(&mut waited, true) {
                        std::thread::sleep(Duration::from_secs(14));
                        handle.shutdown();
                    }
                    // Accepts the rows that have already arrived.
                    ControlFlow::Continue(())
                });
                assert!(matches!(error, Err(Error::Cancelled)), "{error:?}");
                drop((c, handle));
                let ended = Instant::now();
                let mut other = Connection::connect(&tcp(kind)).unwrap();
                let there = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {id}");
                while !other.query(&there).unwrap().is_empty() {
                    let waited = ended.elapsed();
                    assert!(waited < Duration::from_secs(5), "{kind}: it goes on");
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
    });
}
