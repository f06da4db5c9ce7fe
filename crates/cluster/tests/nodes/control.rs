//! How nodes of the sandbox are started and stopped: by commands, as in a list of nodes. This test
//! program itself is what they run.

use refloat_host::{Control, Host};
use refloat_sandbox::{GaleraNode, NodeStart};
use refloat_testkit::servers;

/// What a command asks for, and of which node: `start c-1`.
const ASKED: &str = "REFLOAT_TEST_NODE";

/// The control of a node of the sandbox.
pub fn of(node: &GaleraNode) -> Control {
    let command = |verb: &str| {
        format!(
            "{ASKED}='{verb} {}' exec {} --ignored --nocapture --exact control::what_commands_run",
            node.name(),
            Host::word(&std::env::current_exe().unwrap().to_string_lossy())
        )
    };
    Control::Commands {
        host: Host::Local,
        start: command("start"),
        stop: command("stop"),
        bootstrap: Some(command("bootstrap")),
        standalone: None,
        running: Some(command("runs")),
        kill: Some(command("kill")),
        recover: Some(command("recover")),
    }
}

#[test]
#[ignore = "the commands that start and stop nodes run it"]
fn what_commands_run() {
    let Ok(asked) = std::env::var(ASKED) else {
        return;
    };
    let (verb, name) = asked.split_once(' ').unwrap();
    let node = servers::sandbox().node(name).unwrap();
    let donors = std::env::var("REFLOAT_SST_DONOR").unwrap_or_default();
    match verb {
        "start" if donors.is_empty() => node.begin(&NodeStart::join()).unwrap(),
        "start" => {
            let how = NodeStart::join().argument("wsrep_sst_donor", donors);
            node.begin(&how).unwrap();
        }
        "bootstrap" => node.begin(&NodeStart::bootstrap()).unwrap(),
        "stop" => node.stop().unwrap(),
        "kill" => node.crash().unwrap(),
        "runs" if node.status().unwrap().is_alive() => {}
        "runs" => std::process::exit(1),
        "recover" => println!("{}", node.recover().unwrap()),
        _ => unreachable!("{verb}"),
    }
    // Nothing comes behind the position. A test that panics ends with another code than 0, 1 and 3.
    std::process::exit(0);
}
