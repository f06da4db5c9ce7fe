//! Failing starts, and that they leave nothing behind.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use refloat_sandbox::{Error, ServerKind, StartOptions, Status};

use crate::common::{QUICK, assert_nothing_left, folder, processes_of, sandbox_in};

#[test]
fn of_two_starts_with_one_name_one_fails_and_says_why() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let options = StartOptions::new(QUICK).name("same");
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| sandbox.start_ephemeral(&options));
        let two = scope.spawn(|| sandbox.start_ephemeral(&options));
        (one.join().unwrap(), two.join().unwrap())
    });
    let (server, refused) = match (one, two) {
        (Ok(server), Err(refused)) | (Err(refused), Ok(server)) => (server, refused),
        other => panic!("one of the two should have failed: {other:?}"),
    };
    assert!(
        matches!(&refused, Error::NameTaken { name } if name == "same"),
        "{refused}"
    );
    assert_eq!(server.query("SELECT 1").unwrap(), "1");
    server.remove().unwrap();
    assert_nothing_left(&sandbox);
}

#[test]
fn a_missing_server_names_the_command_that_installs_it() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path()).with_servers_dir(folder.path().join("no-servers"));
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        let error = sandbox.start(&StartOptions::new(kind)).unwrap_err();
        assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains(&format!("scripts/install-servers {kind}")),
            "{error}"
        );
    }
    assert!(sandbox.list().unwrap().is_empty());
}

#[test]
fn an_option_that_the_server_does_not_know_fails_with_its_words() {
    for kind in ServerKind::ALL {
        let folder = folder();
        let sandbox = sandbox_in(folder.path());
        let error = sandbox
            .start(&StartOptions::new(kind).option("no_such_option", "1"))
            .unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Start { .. }), "{kind}: {text}");
        assert!(
            text.contains("no_such_option") || text.contains("no-such-option"),
            "{kind}: {text}"
        );
        assert_nothing_left(&sandbox);
    }
}

#[test]
fn options_that_keep_instances_apart_are_refused_before_anything_is_made() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let error = sandbox
        .start(&StartOptions::new(QUICK).option("datadir", "/var/lib/mysql"))
        .unwrap_err();
    assert!(matches!(error, Error::ReservedOption { .. }), "{error}");
    assert!(!folder.path().join("instances").exists());
}

#[test]
fn a_socket_path_that_the_kernel_would_cut_is_refused() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let error = sandbox
        .start(&StartOptions::new(QUICK).name("x".repeat(64)))
        .unwrap_err();
    assert!(
        matches!(error, Error::SocketPathTooLong { limit: 107, .. }),
        "{error}"
    );
    assert_nothing_left(&sandbox);
}

#[test]
fn a_port_that_somebody_else_took_meanwhile_is_named() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut server = sandbox.start_ephemeral(&StartOptions::new(QUICK)).unwrap();
    server.stop().unwrap();
    let squatter = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    let error = server.restart().unwrap_err();
    assert!(
        matches!(error, Error::PortTaken { port, .. } if port == server.port()),
        "{error}"
    );
    drop(squatter);
    server.restart().unwrap();
    assert_eq!(server.query("SELECT 1").unwrap(), "1");
}

#[test]
fn what_a_cut_off_start_left_is_listed_and_removed() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    // Interrupted before anything was recorded.
    fs::create_dir_all(folder.path().join("instances/early")).unwrap();
    // Interrupted while the server already ran, but before its process was recorded.
    let late = sandbox
        .start(&StartOptions::new(QUICK).name("late"))
        .unwrap();
    edit_state(late.folder(), |state| {
        state["process"] = serde_json::Value::Null;
        state["ready_once"] = false.into();
    });
    let listed: Vec<_> = sandbox
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| (entry.name, entry.status))
        .collect();
    assert_eq!(
        listed,
        [
            ("early".to_owned(), Status::Broken),
            ("late".to_owned(), Status::Broken)
        ]
    );
    assert!(matches!(
        sandbox.get("early"),
        Err(Error::HalfStarted { .. })
    ));
    assert_eq!(processes_of(&late.datadir()).len(), 1);
    let datadir = late.datadir();
    sandbox.remove("early").unwrap();
    sandbox.remove("late").unwrap();
    assert!(processes_of(&datadir).is_empty());
    assert_nothing_left(&sandbox);
}

/// Changes the state file of an instance behind the sandbox's back.
pub fn edit_state(folder: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = folder.join("instance.json");
    let mut state = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut state);
    fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
}
