//! Restores on another machine, which reads the repository through this one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use refloat_sandbox::ServerKind;
use refloat_testkit::s3::{Kind, Server};
use refloat_testkit::ssh::SshServer;
use refloat_testkit::wait_until;

use crate::repositories::{fill, with_bucket};
use crate::support::{Desk, Run, Running, finish, shared};

/// Bytes of answers after which a line is cut: more than two reads, less than there are.
const CUT: u64 = 10_000_000;

/// A program for the other machine: refloat, with a record of runs of its own, and what a shell
/// puts before it.
fn program(desk: &Desk, name: &str, before: &str) -> String {
    let state = desk.path("there");
    let refloat = env!("CARGO_BIN_EXE_refloat");
    let script = format!(
        "#!/bin/sh\nexport REFLOAT_STATE_DIR='{}'\n{before}'{refloat}' \"$@\"\n",
        state.display()
    );
    let path = desk.file(name, script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A backup, and the machine onto which it is restored.
struct Stage {
    desk: Desk,
    bucket: Server,
    machine: SshServer,
    key: String,
}

impl Stage {
    fn command(&self, repo: &str, args: &[&str]) -> Command {
        let repo = ["--repo", repo, "--key-file", &self.key];
        let mut command = with_bucket(self.desk.refloat([args, &repo].concat()), &self.bucket);
        let path = format!("{}:/usr/sbin:/usr/bin:/bin", self.machine.bin().display());
        command.env("PATH", path);
        command
    }

    fn restore(&self, repo: &str, to: &Path, program: &str, more: &[&str]) -> Command {
        let to = to.display().to_string();
        let args = [
            "restore",
            "one",
            "--to",
            &to,
            "--host",
            "there",
            "--host-program",
            program,
        ];
        self.command(repo, &[&args[..], more].concat())
    }
}

fn outcome(run: &Run) -> serde_json::Value {
    let last = run.stdout.lines().next_back().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    last["outcome"]["summary"].clone()
}

// Hazard of files: a restore onto another machine whose connection is cut, whose program is missing
//   or which is stopped: nothing there has changed, and the same command resumes
#[test]
fn a_restore_on_another_machine_is_whole_or_resumed() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    fill(server, &desk);
    let stage = Stage {
        bucket: Server::start(Kind::default()),
        machine: SshServer::start(),
        key: desk.path("key").display().to_string(),
        desk,
    };
    let desk = &stage.desk;
    let repo = desk.path("repo").display().to_string();
    let url = server.url();
    let backup = [
        "backup",
        "--no-defaults",
        "--from",
        &url,
        "--label",
        "one",
        "--level",
        "0",
    ];
    for repo in [&repo, "s3://bucket/files"] {
        finish(stage.command(repo, &["backups", "init"])).exits(0);
        finish(stage.command(repo, &backup)).exits(0);
    }
    let here = desk.path("here");
    let args = ["restore", "one", "--to", here.to_str().unwrap()];
    finish(stage.command(&repo, &args)).exits(0);
    let rows = |folder: &Path| fs::read(folder.join(&desk.db).join("many.ibd")).unwrap();

    let whole = program(desk, "whole", "");
    let to = desk.path("above/data");
    fs::create_dir(desk.path("above")).unwrap();
    what_stands_against_it_is_said_first(&stage, &repo, &to, &whole);

    // A line that is cut, and the user who has waited long enough.
    // What goes through is not held back until a buffer is full, as by `head`.
    let until = format!("dd bs=65536 iflag=count_bytes count={CUT} status=none");
    let cut = program(desk, "cut", &format!("{until} | "));
    let run = finish(stage.restore(&repo, &to, &cut, &[]));
    run.exits(1)
        .says("has ended, or the connection to it was lost")
        .says("Run the same command again");
    assert!(!to.exists());
    let stuck = program(desk, "stuck", &format!("({until}; cat >/dev/null) | "));
    let building = desk.path("above/data.refloat-building");
    let before = bytes(&building);
    assert!(before > 0);
    let running = Running::start(stage.restore(&repo, &to, &stuck, &[]));
    wait_until("it has fetched more", || bytes(&building) > before);
    running.signal("INT");
    running
        .ends_within(Duration::from_secs(60))
        .exits(5)
        .says("stopping the restore on the other machine");
    assert!(!to.exists());

    // The rest, with what is to be done there.
    let started = desk.path("started");
    // What it starts may go on, and is not waited for.
    let start = format!("sleep 600 & echo $! >'{}'", started.display());
    let run = finish(stage.restore(&repo, &to, &whole, &["--json", "--start", &start])).exits(0);
    let done = outcome(&run);
    let number = |name: &str| done[name].as_u64().unwrap();
    assert!(number("fetched") > 0 && number("fetched") + CUT / 2 < number("bytes"));
    let process = fs::read_to_string(&started).unwrap();
    let killed = Command::new("kill").arg(process.trim()).status();
    assert!(killed.unwrap().success(), "it was not there any more");
    assert!(rows(&to) == rows(&here), "it is another one");
    finish(stage.restore(&repo, &to, &whole, &["--start", "exit 1"]))
        .exits(3)
        .says("--replace");
    // From a bucket, to which that machine has no key.
    let to = desk.path("above/other");
    finish(stage.restore("s3://bucket/files", &to, &whole, &[]))
        .exits(0)
        .says("other");
    assert!(rows(&to) == rows(&here), "it is another one");
    let records = fs::read_dir(desk.path("there/runs")).unwrap().count();
    assert!(records >= 4, "{records} runs");
    assert!(stage.machine.log().contains("Accepted publickey"));
    desk.ask(server, "DROP DATABASE @db");
}

/// Here and there, and before anything is done.
fn what_stands_against_it_is_said_first(stage: &Stage, repo: &str, to: &Path, whole: &str) {
    let desk = &stage.desk;
    let missing = stage.restore(repo, to, "/nowhere/refloat", &[]);
    finish(missing)
        .exits(3)
        .says("there is no /nowhere/refloat on there")
        .says("Install refloat there");
    finish(stage.restore(repo, Path::new("data"), whole, &[]))
        .exits(2)
        .says("has to begin with /");
    let stranger = ["--host", SshServer::STRANGER];
    let mut args = vec!["restore", "one", "--to", to.to_str().unwrap()];
    args.extend(stranger);
    finish(stage.command(repo, &args))
        .exits(1)
        .says("the connection to stranger could not be made");
    finish(stage.restore(repo, to, whole, &["--ask-password"]))
        .exits(2)
        .says("has no terminal");
    let old = program(
        desk,
        "old",
        "read -r line; echo \"${line}\" | sed 's/\\(\"version\":\"\\)/\\10/' | ",
    );
    finish(stage.restore(repo, to, &old, &[]))
        .exits(3)
        .says("refloat 0")
        .says("Install the same version");
    let other = stage.restore(repo, to, whole, &["--option-file", "/nowhere/my.cnf"]);
    finish(other).exits(1).says("/nowhere/my.cnf");
    let plan = finish(stage.restore(repo, to, whole, &["--plan", "--json"])).exits(0);
    assert_eq!(plan.json()["datadir"], to.to_str().unwrap());
    assert!(!to.exists() && !desk.path("above/data.refloat-building").exists());
}

/// Bytes of the files in a folder that a restore fills, as far as they are written.
fn bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut sum = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => sum += found.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    sum
}
