//! What a dump or a backup writes is readable by its owner only, whatever the umask: it contains
//! rows and accounts. What a restore puts into a data directory is as the server makes it.

// Hazard of faults: S-09 what a dump writes is readable by its owner alone, whatever the umask

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;

use crate::support::{Desk, finish, shared};

/// The most permissive umask, the usual one, and a strict one.
const UMASKS: [&str; 3] = ["000", "022", "077"];

/// A folder and everything below it.
fn all(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("the folder can be read");
            found.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        at += 1;
    }
    found
}

fn mode(path: &Path) -> u32 {
    let meta = std::fs::metadata(path).expect("the file is there");
    meta.permissions().mode() & 0o7777
}

/// The program, started by a shell with this umask.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(command.get_current_dir().expect("a desk"));
    shell
}

#[test]
fn a_dump_is_readable_by_its_owner_alone() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    desk.ask(server, "CREATE DATABASE @db");
    desk.ask(server, "CREATE TABLE @db.t (id int PRIMARY KEY, s text)");
    desk.ask(server, "INSERT INTO @db.t VALUES (1, 'a'), (2, 'b')");
    desk.ask(server, "CREATE PROCEDURE @db.p() SELECT 1");
    let url = server.url();
    for umask in UMASKS {
        let dump = |out: &Path, more: &[&str]| {
            let out = out.to_str().expect("a name in UTF-8");
            let mut command = desk.refloat([
                "dump",
                "--from",
                &url,
                "--out",
                out,
                "--databases",
                &desk.db,
            ]);
            command.args(more);
            finish(with_umask(umask, &command)).exits(0);
        };
        let folder = desk.path(&format!("new-{umask}"));
        dump(&folder, &["--users"]);
        // An existing folder keeps its mode; its content does not inherit that.
        let given = desk.path(&format!("given-{umask}"));
        std::fs::create_dir(&given).expect("the folder can be made");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&given, open).expect("a mode");
        dump(&given, &[]);
        assert_eq!(mode(&given), 0o755);
        let found: Vec<PathBuf> = [all(&folder), all(&given)[1..].to_vec()].concat();
        let kinds = |end: &str| {
            found
                .iter()
                .filter(|path| path.to_string_lossy().ends_with(end))
                .count()
        };
        assert!(
            kinds("manifest.json") == 2 && kinds(".tsv.zst") >= 2 && kinds(".sql") >= 2,
            "{found:?}"
        );
        for path in &found {
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(
                format!("{:o}", mode(path)),
                format!("{wanted:o}"),
                "umask {umask}: {}",
                path.display()
            );
        }
        let sql = desk.path(&format!("dump-{umask}.sql"));
        dump(&sql, &["--format", "sql"]);
        assert_eq!(
            format!("{:o}", mode(&sql)),
            "600",
            "umask {umask}: a file of SQL"
        );
    }
}

/// Asserts the modes of a folder and of everything below it.
#[track_caller]
fn assert_modes(root: &Path, folders: u32, files: u32) {
    let found = all(root);
    assert!(found.len() > 2, "{found:?}");
    for path in found {
        let wanted = if path.is_dir() { folders } else { files };
        assert_eq!(
            format!("{:o}", mode(&path)),
            format!("{wanted:o}"),
            "{}",
            path.display()
        );
    }
}

// Hazard of files: P-15 umask 0: the repository, the records of runs, an unfinished restore and an
//   unfinished rebuild are readable by their owner alone, and restored files are as the server
//   makes them
#[test]
fn files_of_a_server_are_readable_by_nobody_else() {
    let desk = Desk::new();
    let server = servers::start(&servers::quick(ServerKind::MariaDb1011));
    desk.ask(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.inno (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE shop.aria (id INT PRIMARY KEY) ENGINE=Aria",
    );
    let url = server.url();
    let (repo, data) = (desk.path("repo"), desk.path("data"));
    let [from, to] = [&repo, &data].map(|path| path.to_str().expect("a name in UTF-8"));
    let run = |args: &[&str]| finish(with_umask("000", &desk.refloat(args)));
    run(&[
        "backup",
        "--no-defaults",
        "--from",
        &url,
        "--repo",
        from,
        "--label",
        "one",
    ])
    .exits(0);
    assert_modes(&repo, 0o700, 0o600);

    // It does not end: the tool prepares the files, and says that it could not.
    let tool = desk.file(
        "tool",
        "#!/bin/sh\nmariadb-backup \"$@\"\ncase \"$*\" in *--prepare*) exit 1;; esac\n",
    );
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&tool, open).expect("a mode");
    let tool = tool.to_str().expect("a name in UTF-8");
    let building = desk.path("data.refloat-building");
    let rebuild = ["rebuild", "--no-defaults", "--from", &url, "--to", to];
    run(&[&rebuild[..], &["--tool", tool]].concat()).exits(1);
    assert_modes(&building, 0o700, 0o600);
    std::fs::remove_dir_all(&building).expect("it is there");
    let restore = ["restore", "one", "--repo", from, "--to", to];
    run(&[&restore[..], &["--tool", tool]].concat()).exits(1);
    assert_modes(&building, 0o700, 0o600);
    run(&restore).exits(0);
    assert_modes(&data, 0o700, 0o660);
    assert_modes(&desk.state(), 0o700, 0o600);

    // As the server itself has made them.
    for path in &all(&data)[1..] {
        let name = path.strip_prefix(&data).expect("it is in there");
        let original = server.datadir().join(name);
        if original.exists() {
            assert_eq!(mode(path), mode(&original), "{}", name.display());
        }
    }
}
