//! A password must not appear in any argument, message, event or record.

// Hazard of faults: S-01 a password by variable, option file or terminal is in no argument,
//   message, event or record
// Hazard of faults: S-16 passwords and hashes of accounts in messages, events and records:
//   statements about accounts are quoted up to there (the server's own words, of a syntax error
//   say, are shown as they are). A row or another statement that is refused is quoted by its first
//   120 bytes, values included, so that it can be found: there is no redaction of rows | , unit
//   tests of `sqltext::head`, `tests/dump/accounts.rs`

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{BOTH, Desk, Run, Running, ask, dump, finish, shared, table};

const CANARY: &str = "c4n4ry-8823-pass";

/// Asserts that no file below `folder` contains the password.
fn assert_clean(folder: &Path) {
    let mut files = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                let content = fs::read(entry.path()).unwrap();
                assert!(
                    !String::from_utf8_lossy(&content).contains(CANARY),
                    "{} holds the password",
                    entry.path().display()
                );
            }
        }
    }
    assert!(files > 0, "a run leaves records");
}

fn clean(run: Run) -> Run {
    run.never_says(CANARY)
}

/// Runs on a terminal of its own, and types the password there when prompted.
fn typed(desk: &Desk, source: &Path, url: &str) -> Run {
    let line = format!(
        "{} load {} --to '{url}' -D {} --ask-password",
        env!("CARGO_BIN_EXE_refloat"),
        source.display(),
        desk.db
    );
    let mut child = Command::new("timeout")
        .args(["--foreground", "60", "script"])
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", desk.path(""))
        .env("REFLOAT_STATE_DIR", desk.state())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("script makes a terminal");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut shown, mut byte) = (Vec::new(), [0]);
    while !shown.ends_with(b": ") && screen.read(&mut byte).unwrap() == 1 {
        shown.push(byte[0]);
    }
    writeln!(keys, "{CANARY}").unwrap();
    screen.read_to_end(&mut shown).unwrap();
    drop(keys);
    Run {
        code: child.wait().unwrap().code(),
        stdout: String::from_utf8_lossy(&shown).into_owned(),
        stderr: String::new(),
    }
}

#[test]
fn a_password_is_never_written_or_shown() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let user = format!("s_{}", desk.db);
        ask(
            server,
            &format!("CREATE USER {user}@'%' IDENTIFIED BY '{CANARY}'"),
        );
        ask(server, &format!("GRANT ALL ON *.* TO {user}@'%'"));
        let url = server.url().replace("root@", &format!("{user}@"));
        let good = desk.file("good.sql", dump(&table("items", 50)));
        let bad = desk.file("bad.sql", dump("CREATE TABLE t (a nonsense);\n"));
        for more in [&[][..], &["--json"], &["--durability", "relaxed"]] {
            desk.next();
            let mut command = desk.load_command(&good, &url, more);
            clean(finish(std::mem::replace(
                command.env("MYSQL_PWD", CANARY),
                Command::new("true"),
            )))
            .exits(0);
        }
        for file in [&good, &bad] {
            let mut command = desk.load_command(file, &url, &[]);
            command.env("MYSQL_PWD", CANARY);
            // The database is not empty by now, or the statement is bad.
            let run = clean(finish(command));
            assert_ne!(run.code, Some(0));
        }
        let mut command = desk.load_command(&good, &url, &[]);
        command.env("MYSQL_PWD", format!("{CANARY}-wrong"));
        clean(finish(command)).exits(1).says("1045").says("hint: ");
        // Through option files, and typed at a terminal.
        desk.next();
        let options = desk.file("client.cnf", format!("[client]\npassword={CANARY}\n"));
        let options = options.to_str().unwrap();
        let more = ["--defaults-file", options, "--json"];
        clean(finish(desk.load_command(&good, &url, &more))).exits(0);
        fs::remove_file(options).unwrap();
        desk.next();
        let home = desk.file(".my.cnf", format!("[client]\npassword=\"{CANARY}\"\n"));
        clean(finish(desk.load_command(&good, &url, &[]))).exits(0);
        fs::remove_file(home).unwrap();
        desk.next();
        clean(finish(desk.load_command(&good, &url, &[])))
            .exits(1)
            .says("1045");
        clean(typed(&desk, &good, &url))
            .exits(0)
            .says("Password for");
        assert_eq!(desk.rows(server, "items"), Some(50));
        // While it runs, other users can see its arguments.
        let mut command = desk.load_command(Path::new("-"), &url, &[]);
        command.env("MYSQL_PWD", CANARY).stdin(Stdio::piped());
        let running = Running::start(command);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let line = fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&line).contains(CANARY));
        drop(running);
        // A password in a command-line URL is refused, and not repeated.
        let with_password = url.replace('@', &format!(":{CANARY}@"));
        clean(finish(desk.load_command(&good, &with_password, &[])));
        assert_clean(&desk.state());
        ask(server, &format!("DROP USER {user}@'%'"));
    }
}
