//! Checks what the documentation and option files say against real servers.

use std::os::unix::fs::PermissionsExt as _;

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers::server;

use crate::support::{Run, command};

fn settings_show(server: &Instance, account: &str, flags: &[&str], password: Option<&str>) -> Run {
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    let url = server
        .socket_url()
        .replacen("root@", &format!("{account}@"), 1);
    let mut program = command(state.path());
    program
        .args(["settings", "show", "--json", "--to", &url])
        .args(flags);
    program.envs(password.map(|password| ("MYSQL_PWD", password)));
    Run::of(&mut program)
}

/// Compares which password wins in the server's own client and in the program.
#[test]
fn a_password_in_an_option_file_wins_over_the_environment_as_in_the_stock_clients() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let server = server(kind);
        server
            .query("CREATE USER wins@localhost IDENTIFIED BY 'right'; GRANT ALL ON *.* TO wins@localhost")
            .expect("the account can be made");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("my.cnf");
        for (line, environment, expected) in [
            ("", Some("right"), true),
            ("", Some("wrong"), false),
            ("", None, false),
            ("password=right", Some("wrong"), true),
            ("password=wrong", Some("right"), false),
            ("password=", Some("right"), false),
            ("skip-password", Some("right"), false),
        ] {
            std::fs::write(&file, format!("[client]\n{line}\n")).expect("the file can be written");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))
                .expect("the file is ours");
            let defaults = format!("--defaults-file={}", file.display());
            let client = server
                .installation()
                .expect("the server is installed")
                .client()
                .args([&defaults, "--user=wins", "--batch", "-e", "SELECT 1"])
                .arg(format!("--socket={}", server.socket().display()))
                .envs(environment.map(|password| ("MYSQL_PWD", password)))
                .output()
                .expect("the client can be started");
            let what = format!("{kind}: «{line}», MYSQL_PWD {environment:?}");
            let stderr = String::from_utf8_lossy(&client.stderr);
            assert_eq!(
                client.status.success(),
                expected,
                "the client, {what}: {stderr}"
            );
            let ours = settings_show(server, "wins", &[&defaults], environment);
            assert_eq!(ours.code, i32::from(!expected), "{what}: {}", ours.stderr);
            assert!(
                expected || ours.stderr.contains("1045"),
                "{what}: {}",
                ours.stderr
            );
        }
    }
}

/// The page lists every setting that a load changes at `--durability relaxed`.
#[test]
fn settings_of_relaxed_stand_on_the_page() {
    let page = include_str!("../../../../docs/load.md");
    for kind in ServerKind::ALL {
        let shown = settings_show(server(kind), "root", &["--no-defaults"], None).exits(0);
        let plans: serde_json::Value =
            serde_json::from_str(&shown.stdout).expect("the output is JSON");
        let relaxed = &plans["relaxed"];
        let lists = ["changes", "skipped"].map(|list| relaxed[list].as_array().expect("a list"));
        let mut count = 0;
        for setting in lists.into_iter().flatten() {
            let reason = setting["reason"].as_str().expect("a reason");
            if !reason.contains("--durability disposable") {
                let name = setting["name"].as_str().expect("a name");
                assert!(page.contains(&format!("`{name}`")), "{kind}: {name}");
                count += 1;
            }
        }
        assert!(count >= 2, "{kind}: {}", shown.stdout);
    }
}
