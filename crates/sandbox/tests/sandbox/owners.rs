//! Process ownership: servers outlive the process that started them, or end with it, and no foreign
//! process is ever signalled.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use refloat_sandbox::{StartOptions, Status};

use crate::common::{
    QUICK, assert_nothing_left, folder, processes_of, sandbox_in, stat_field, wait_until,
};
use crate::mishaps::edit_state;

/// Tells a second process of this test program which directory to use.
const FOLDER: &str = "SANDBOX_TEST_FOLDER";

/// Runs one of the tests below in another process. Without [`FOLDER`] they do nothing: a run of all
/// tests has them, too.
pub fn in_another_process(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

pub fn given_folder() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

#[test]
#[ignore = "the part of the_server_outlives_its_starter that runs in another process"]
fn start_and_leave() {
    let Some(folder) = given_folder() else {
        return;
    };
    sandbox_in(&folder)
        .start(&StartOptions::new(QUICK).name("left"))
        .unwrap();
}

#[test]
#[ignore = "the part of an_ephemeral_server_dies_with_its_owner that runs in another process"]
fn start_and_wait() {
    let Some(folder) = given_folder() else {
        return;
    };
    let server = sandbox_in(&folder)
        .start_ephemeral(&StartOptions::new(QUICK).name("held"))
        .unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(server);
}

#[test]
fn the_server_outlives_its_starter() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut starter = in_another_process("owners::start_and_leave", folder.path());
    let starter_pid = starter.id();
    assert!(starter.wait().unwrap().success());
    let mut server = sandbox.get("left").unwrap();
    assert_eq!(server.status(), Status::Running);
    assert_eq!(server.query("SELECT 1").unwrap(), "1");
    assert_ne!(
        stat_field(server.pid().unwrap(), 4),
        starter_pid.to_string()
    );
    server.stop().unwrap();
    server.remove().unwrap();
    assert_nothing_left(&sandbox);
}

#[test]
fn an_ephemeral_server_dies_with_its_owner() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut owner = in_another_process("owners::start_and_wait", folder.path());
    wait_until("the server runs", || {
        sandbox
            .get("held")
            .is_ok_and(|server| server.status() == Status::Running)
    });
    let datadir = sandbox.get("held").unwrap().datadir();
    // The owner cannot clean up: it is killed.
    std::thread::sleep(std::time::Duration::from_secs(1));
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the server is gone", || processes_of(&datadir).is_empty());
    let instances = folder.path().join("instances");
    wait_until("its folder is gone", || {
        std::fs::read_dir(&instances).unwrap().next().is_none()
    });
    assert_nothing_left(&sandbox);
}

#[test]
fn a_process_that_got_the_number_of_a_server_is_left_alone() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut server = sandbox
        .start(&StartOptions::new(QUICK).name("gone"))
        .unwrap();
    server.kill().unwrap();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let start_time: u64 = stat_field(stranger.id(), 22).parse().unwrap();
    edit_state(server.folder(), |state| {
        state["process"] = serde_json::json!({"pid": stranger.id(), "start_time": start_time});
    });
    assert_eq!(sandbox.get("gone").unwrap().status(), Status::Stopped);
    sandbox.get("gone").unwrap().stop().unwrap();
    edit_state(server.folder(), |state| {
        state["process"] = serde_json::json!({"pid": stranger.id(), "start_time": start_time});
    });
    sandbox.get("gone").unwrap().kill().unwrap();
    sandbox.remove("gone").unwrap();
    let alive = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(
        alive,
        "the sandbox signalled a process that is not its server"
    );
}

#[test]
fn the_server_of_another_instance_is_left_alone() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut stale = sandbox
        .start(&StartOptions::new(QUICK).name("stale"))
        .unwrap();
    let other = sandbox
        .start_ephemeral(&StartOptions::new(QUICK).name("other"))
        .unwrap();
    stale.kill().unwrap();
    let pid = other.pid().unwrap();
    let start_time: u64 = stat_field(pid, 22).parse().unwrap();
    edit_state(stale.folder(), |state| {
        state["process"] = serde_json::json!({"pid": pid, "start_time": start_time});
    });
    sandbox.get("stale").unwrap().kill().unwrap();
    sandbox.remove("stale").unwrap();
    assert_eq!(other.status(), Status::Running);
    assert_eq!(other.query("SELECT 1").unwrap(), "1");
}
