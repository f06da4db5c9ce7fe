//! `refloat cluster`: what is refused, and how a real cluster is shown. The cluster is the one of the sandbox's own test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Run, command, refloat};

#[test]
fn lists_that_cannot_be_used_are_refused_with_what_is_wrong() {
    let none = refloat(&["cluster", "status"]).exits(2);
    assert!(none.stderr.contains("--cluster"), "{}", none.stderr);
    refloat(&["cluster", "status", "--cluster", "no-such.toml"])
        .exits(2)
        .says("cannot read no-such.toml: No such file or directory")
        .says("the URL of a node");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(
        &file,
        "name = \"c\"\n[[node]]\nname = \"n1\"\nurl = \"mysql://root:pw@127.0.0.1/\"\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let run = refloat(&["cluster", "status", "--cluster", path]).exits(2);
    assert!(!run.stderr.contains(":pw@"), "{}", run.stderr);
    std::fs::write(
        &file,
        "name = \"c\"\n[[node]]\nname = \"n1\"\nurl = \"mysql://root@127.0.0.1:1/\"\n",
    )
    .unwrap();
    let run = refloat(&["cluster", "status", "--cluster", path])
        .exits(1)
        .says("no node answers: connecting failed");
    assert!(run.stdout.contains("n1    no answer"), "{}", run.stdout);
    refloat(&[
        "cluster",
        "status",
        "--cluster",
        "mysql://root@127.0.0.1:1/",
    ])
    .exits(1)
    .says("Check host, port or socket");
    refloat(&["cluster", "status", "--cluster", path, "--sample", "0"])
        .exits(2)
        .says("between 0.1 and 3600");
}

/// A cluster of two that is well, as its list and as its first node show it.
pub fn is_shown(state: &Path, file: &str, first: &str) {
    let cluster = |args: &[&str]| {
        let run = command(state).arg("cluster").args(args).output();
        Run::new(run.expect("the program can be started"))
    };
    let page = cluster(&["status", "--cluster", file]).exits(0).stdout;
    assert!(
        page.starts_with("Cluster c: primary component of 2 of 2 listed nodes, 2 synced\n"),
        "{page}"
    );
    assert!(page.contains("Nothing found to be wrong."), "{page}");
    for of_node in ["  c-1   Synced", "  c-2   Synced"] {
        assert!(page.contains(of_node), "{page}");
    }
    let json = cluster(&["status", "--cluster", first, "--json"])
        .exits(0)
        .stdout;
    let seen: Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!(
        (&seen["quorum"]["synced"], &seen["quorum"]["size"]),
        (&2.into(), &2.into()),
        "{json}"
    );
    assert_eq!(
        seen["nodes"][0]["state"]["gcache"]["ring"],
        8 << 20,
        "{json}"
    );

    let watched = ended_by_ctrl_c(
        command(state).args([
            "cluster",
            "status",
            "--watch",
            "--json",
            "--sample",
            "0.1",
            "--cluster",
            file,
        ]),
        2,
    );
    assert!(
        watched.iter().all(|line| line.contains(r#""synced":2"#)),
        "{watched:?}"
    );
    let healthd = [
        "cluster",
        "healthd",
        "--listen",
        "127.0.0.1:0",
        "--node",
        first,
    ];
    let said = ended_by_ctrl_c(command(state).args(healthd), 2).join("\n");
    assert!(
        said.contains("answering at http://127.0.0.1:")
            && said.contains("synced: the node is synced"),
        "{said}"
    );
}

/// So many lines of what a command says, which then gets Ctrl-C and ends well.
fn ended_by_ctrl_c(command: &mut Command, lines: usize) -> Vec<String> {
    let to_stdout = command.get_args().any(|arg| arg == "--json");
    let (out, err) = if to_stdout {
        (Stdio::piped(), Stdio::null())
    } else {
        (Stdio::null(), Stdio::piped())
    };
    let mut child = command
        .stdout(out)
        .stderr(err)
        .spawn()
        .expect("the program can be started");
    let stdout = child
        .stdout
        .take()
        .map(|pipe| Box::new(pipe) as Box<dyn std::io::Read>);
    let stderr = child
        .stderr
        .take()
        .map(|pipe| Box::new(pipe) as Box<dyn std::io::Read>);
    let said = BufReader::new(stdout.or(stderr).expect("one of them is a pipe"));
    let said: Vec<String> = said
        .lines()
        .take(lines)
        .map(|line| line.expect("text"))
        .collect();
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill is there").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(said.len(), lines, "it ended by itself: {said:?}");
    said
}

/// A node of a cluster of two goes away and comes back, as a person does it: with a command, in two steps, and after kill -9.
pub fn is_maintained(state: &Path, file: &str, second: &str) {
    let refloat = |args: &[&str]| {
        let run = command(state).args(args).output();
        Run::new(run.expect("the program can be started"))
    };
    let maintain = |args: &[&str]| {
        let start = ["cluster", "maintain", "c-2", "--cluster", file];
        refloat(&[&start[..], args].concat())
    };
    maintain(&[]).exits(2).says("--begin and later --end");
    refloat(&["cluster", "maintain", "c-9", "--cluster", file, "--plan"])
        .exits(2)
        .says("no node is called c-9; there are c-1, c-2");
    refloat(&["cluster", "maintain", second, "--cluster", second, "--plan"])
        .exits(2)
        .says("no node is called");
    maintain(&["--end"])
        .exits(3)
        .says("no maintenance of c-2 has been begun");
    // The ring of these nodes has 8 MiB.
    let plan = maintain(&["--hold", "16M", "--plan"]).exits(0).stdout;
    assert!(
        plan.contains("kept by   c-1: is given 16.0 MiB of memory"),
        "{plan}"
    );
    assert!(plan.contains("c-1 is the only node that runs"), "{plan}");

    let run = maintain(&["--hold", "16M", "--", "sh", "-c", "exit 3"]).exits(1);
    assert!(
        run.stdout.starts_with("c-2 is back by IST: "),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout
            .contains("FAILED    what the node was down for: sh: exit status: 3"),
        "{}",
        run.stdout
    );

    let open = || {
        let listed = refloat(&["settings", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
        listed["open"].as_array().expect("a list").clone()
    };
    let begun = maintain(&["--hold", "16M", "--begin"]).exits(0);
    assert!(
        begun
            .stdout
            .contains("c-2 is down, and what it misses is kept"),
        "{}",
        begun.stdout
    );
    assert_eq!(
        open()[0]["journal"]["changes"][0]["name"],
        "gcache.mem_size"
    );
    maintain(&["--", "true"])
        .exits(3)
        .says("the maintenance of c-2, begun at")
        .says("--end");
    let ended = maintain(&["--end"]).exits(0).says("starting c-2");
    assert!(
        ended.stderr.contains("c-2 is back by IST"),
        "{}",
        ended.stderr
    );
    assert_eq!(open().len(), 0);

    // Whoever watches is killed: what c-1 was told can be put back, and the node comes back all the same.
    maintain(&["--hold", "16M", "--begin"]).exits(0);
    let owner = open()[0]["journal"]["owner"]["pid"]
        .as_u64()
        .expect("a process");
    let killed = Command::new("kill")
        .args(["-9", &owner.to_string()])
        .status();
    assert!(killed.expect("kill is there").success());
    let url = open()[0]["journal"]["server"]["peer"].clone();
    let first = format!("mysql://{}/", url.as_str().expect("an address"));
    let reverted = refloat(&["settings", "revert", "--to", &first]).exits(0);
    assert!(
        reverted.stdout.contains("gcache.mem_size: 0  put back"),
        "{}",
        reverted.stdout
    );
    let back = maintain(&["--end"]).exits(0).says("going on in its place");
    assert!(
        back.stdout.starts_with("c-2 is back by IST"),
        "{}",
        back.stdout
    );
    assert_eq!(open().len(), 0);
    maintain(&["--end"]).exits(3);
}
