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
    refloat(&["cluster", "advise", "--cluster", path])
        .exits(1)
        .says("no node answers: connecting failed");
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

    is_advised(file, &cluster);

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

/// What is said of full copies to the nodes of that cluster, and written; nothing would make one fail.
fn is_advised(file: &str, cluster: &dyn Fn(&[&str]) -> Run) {
    let folder = tempfile::tempdir().unwrap();
    let tuned = folder.path().join("tuned.cnf");
    let tuned = tuned.to_str().unwrap();
    let all = ["advise", "c-2", "--cluster", file, "--write", tuned];
    let page = cluster(&all).exits(0).stdout;
    for words in [
        "Cluster c: copies (SST) to c-2\n",
        "without TLS",
        "  [sst] ssl-mode=VERIFY_CA  (now DISABLED; c-2, c-1)  to be decided",
        "Written to ",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let text = std::fs::read_to_string(tuned).unwrap();
    assert!(
        text.contains("\n[sst]\n") && text.contains("\n#ssl-mode=VERIFY_CA\n"),
        "{text}"
    );
    cluster(&all).exits(3).says("is there already");
    assert_eq!(std::fs::read_to_string(tuned).unwrap(), text);
    cluster(&["advise", "c-3", "--cluster", file])
        .exits(2)
        .says("has no node \"c-3\"");
    cluster(&["advise", "--cluster", file, "--window", "2 hours"])
        .exits(2)
        .says("such as 90m, 2h or 1d");

    // One of them told to ask a node that there is not.
    let listed = std::fs::read_to_string(file).unwrap();
    let url = listed
        .lines()
        .find_map(|line| line.strip_prefix("url = \"")?.strip_suffix('"'));
    let ask = |sql: &str| {
        let options = refloat_wire::ConnectOptions::from_url(url.unwrap()).unwrap();
        let mut server = refloat_wire::Connection::connect(&options).unwrap();
        server.exec(sql).unwrap();
    };
    ask("SET GLOBAL wsrep_sst_donor = 'nobody'");
    let run = cluster(&["advise", "--cluster", file, "--json"]).exits(4);
    ask("SET GLOBAL wsrep_sst_donor = ''");
    let seen: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    let first = &seen["mistakes"][0];
    assert_eq!(
        (&first["kind"], &first["effect"], &first["nodes"][0]),
        (&"donor_name".into(), &"fails".into(), &"c-1".into()),
        "{seen}"
    );
    let machine = &seen["nodes"][0]["machine"];
    assert!(
        machine["memory"]["total"].as_u64() > Some(1 << 20),
        "{seen}"
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
