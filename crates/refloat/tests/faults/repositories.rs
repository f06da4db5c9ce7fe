//! Dumps in repositories, in buckets and on other machines: they are listed, checked, loaded and
//! compared where they lie, and nothing that is damaged, cut or changed becomes a load.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::s3::{BUCKET, KEY, Kind, SECRET, Server};
use refloat_testkit::ssh::SshServer;

use crate::folders::folder;
use crate::support::{Desk, Run, dump, finish, finish_with_input, shared, table};

/// Tables whose names no object of a repository could have, and one of several blocks.
pub fn fill(server: &Instance, desk: &Desk) {
    let sql = "CREATE DATABASE @db; USE @db;
        CREATE TABLE many (id INT PRIMARY KEY, text VARCHAR(200), KEY (text));
        CREATE TABLE `a b/ä` (id INT PRIMARY KEY);
        CREATE TABLE none (id INT PRIMARY KEY);
        CREATE VIEW seen AS SELECT id FROM many;
        INSERT INTO many SELECT seq, CONCAT(SHA2(seq, 256), SHA2(-seq, 256)) FROM seq_1_to_30000;
        INSERT INTO `a b/ä` VALUES (1), (2)";
    desk.ask(server, sql);
}

fn checksums(server: &Instance, desk: &Desk) -> String {
    let sql =
        "CHECKSUM TABLE @db.many, @db.`a b/ä`, @db.none EXTENDED; SELECT COUNT(*) FROM @db.seen";
    desk.ask(server, sql)
}

/// The program with what opens a bucket.
pub fn with_bucket(mut command: Command, bucket: &Server) -> Command {
    command
        .env(
            "AWS_ENDPOINT_URL",
            format!("http://127.0.0.1:{}", bucket.port),
        )
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}

/// The largest file below a folder.
fn largest(folder: &Path) -> PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.metadata().unwrap().len(), entry.path()));
            }
        }
    }
    found.into_iter().max().unwrap().1
}

/// Changes one byte in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Dumps into a repository, checks what is there, and loads it in place of what was dumped.
fn comes_back(desk: &Desk, run: &dyn Fn(&[&str]) -> Run) {
    let server = shared(ServerKind::MariaDb1011);
    let url = server.url();
    fill(server, desk);
    let before = checksums(server, desk);
    let make = ["dump", "--from", &url, "--databases", &desk.db, "--label"];
    run(&[&make[..], &["one"]].concat())
        .exits(0)
        .says("label       one");
    run(&["backups", "list"]).exits(0).says("logical");
    run(&["backups", "verify"])
        .exits(0)
        .says("1 backup can be read");
    run(&["inspect", "latest"])
        .exits(0)
        .says("refloat dump, ")
        .says("30000 rows")
        .says("whole       yes");
    run(&["verify", "one", &url]).exits(0).says("the SAME");
    desk.ask(server, "DROP DATABASE @db");
    run(&["load", "latest", "--to", &url, "--verify", "digest"])
        .exits(0)
        .says("done and proven");
    assert_eq!(checksums(server, desk), before);
    desk.ask(server, "DROP DATABASE @db");
    let chosen = format!("{}.none", desk.db);
    run(&["load", "one", "--to", &url, "--tables", &chosen])
        .exits(0)
        .says("done, without what was left out on purpose");
    assert_eq!(desk.tables(server), 1);
    desk.ask(server, "DROP DATABASE @db");
}

#[test]
fn a_dump_in_a_repository_is_loaded_from_there() {
    let desk = Desk::new();
    let (repo, key) = (desk.path("repo"), desk.path("key"));
    let kept = [
        "--repo",
        repo.to_str().unwrap(),
        "--key-file",
        key.to_str().unwrap(),
    ];
    let run = |args: &[&str]| finish(desk.refloat([args, &kept[..]].concat()));
    run(&["backups", "init"]).exits(0);
    comes_back(&desk, &run);

    // Of two dumps each is whole, and what they have in common is there once.
    let server = shared(ServerKind::MariaDb1011);
    let url = server.url();
    run(&["load", "one", "--to", &url]).exits(0);
    let make = ["dump", "--from", &url, "--databases", &desk.db, "--label"];
    run(&[&make[..], &["one"]].concat())
        .says("already has a backup \"one\"")
        .never_says("What was written")
        .exits(3);
    let two = run(&[&make[..], &["two", "--json"]].concat()).exits(0);
    let last: serde_json::Value =
        serde_json::from_str(two.stdout.lines().next_back().unwrap()).unwrap();
    let stored = &last["outcome"]["summary"]["stored"];
    let number = |key: &str| stored[key].as_u64().unwrap();
    assert!(number("known") > 1 << 20, "{stored}");
    assert!(number("added") < number("bytes") / 10, "{stored}");
    let listed = run(&["backups", "list", "--json"]).exits(0).json();
    for (at, label) in ["one", "two"].into_iter().enumerate() {
        assert_eq!(listed[at]["label"], label);
        assert_eq!(listed[at]["kind"], "logical");
        assert_eq!(listed[at]["about"]["rows"], 30_002);
    }
    run(&["backups", "prune", "--keep-for", "1h", "--plan"])
        .exits(0)
        .never_says("would remove")
        .says("2 backups stay");
    // As old as that they are soon.
    std::thread::sleep(std::time::Duration::from_secs(2));
    run(&["backups", "prune", "--keep-for", "1s"])
        .exits(3)
        .says("none of the 2 backups would stay");
    run(&["backups", "prune", "--keep", "1", "--plan"])
        .exits(0)
        .says("would remove one")
        .says("1 backup stays");
    run(&["backups", "show", "one"]).exits(0);
    run(&["backups", "prune", "--keep", "1"])
        .exits(0)
        .says("removed one");
    run(&["backups", "show", "latest"])
        .exits(0)
        .says("backup two (logical)")
        .says("30,002 in 3 tables of 1 database");

    // Files are not made of it, and what is damaged is not loaded.
    run(&["restore", "two", "--to", "/nowhere"])
        .exits(3)
        .says("is logical, not physical")
        .says("refloat load");
    flip(&largest(&repo.join("packs")));
    desk.ask(server, "DROP DATABASE @db");
    run(&["load", "two", "--to", &url])
        .exits(1)
        .says("is damaged: it cannot be decrypted")
        .never_says("done and proven");
    run(&["backups", "verify"]).exits(4).says("is damaged");
    desk.ask(server, "DROP DATABASE IF EXISTS @db");
    // Blocks of tables that are not chosen are not read.
    let chosen = format!("{}.a b/ä", desk.db);
    run(&["load", "two", "--to", &url, "--tables", &chosen])
        .exits(0)
        .says("done, without what was left out on purpose");
    desk.ask(server, "DROP DATABASE @db");
}

/// Identities of age, made for this test, and their recipients.
const AGE: [(&str, &str); 2] = [
    (
        "AGE-SECRET-KEY-1QK788SD46RGS9TNFYCQ9SUPDN95WM39PFEGZTAT6E9PZ9NYRWN7Q59RK7P",
        "age1g65rs5edwddd5ynccdweqhrm2tqcwf0u7zmlezf6dz0wvm7wfeesvcp87k",
    ),
    (
        "AGE-SECRET-KEY-150K0R3HU40X0H3NLFD6AE996RW0LTCYMGSPWK74UJVMFW8Y7P8ESPU4EZW",
        "age1xtvf60a0ekg6l4wqeua0ypf6mmfn75fr4sxhdvqzyf7msnwphdxsyxvmcm",
    ),
];

/// The recipients of a repository come and go.
fn recipients_change(desk: &Desk, run: &dyn Fn(&[&str]) -> Run) {
    let [mine, yours] = [0, 1].map(|at| {
        let file = desk.path(["mine", "yours"][at]);
        fs::write(&file, format!("{}\n", AGE[at].0)).unwrap();
        file.display().to_string()
    });
    let [me, you] = AGE.map(|(_, recipient)| recipient);
    run(&["backups", "init", "--recipient", me]).exits(0);
    let keys = ["backups", "keys"];
    let add = ["add", "--identity", &mine, "--recipient", you];
    run(&[&keys[..], &add].concat()).exits(0);
    let listed = run(&["backups", "keys", "list"]).exits(0);
    assert_eq!(listed.stdout, format!("{me}\n{you}\n"));
    let remove = ["remove", "--identity", &yours, "--recipient", me];
    run(&[&keys[..], &remove].concat()).exits(0);
    run(&["backups", "list", "--identity", &yours]).exits(0);
    run(&["backups", "list", "--identity", &mine])
        .says("no identity that was given opens its key")
        .exits(2);
}

/// A backup leaves one repository as a stream, and comes into another one on the same storage.
fn is_carried(desk: &Desk, base: &str, command: &dyn Fn(&[&str]) -> Command) {
    let [from, to] = ["repo", "copy"].map(|name| format!("{base}/{name}"));
    let stream = desk.path("stream");
    let mut export = command(&["backups", "export", "one", "--repo", &from]);
    export.stdout(fs::File::create(&stream).unwrap());
    finish(export).exits(0);
    let stream = fs::read(stream).unwrap();
    let import = |bytes: &[u8]| {
        let import = command(&["backups", "import", "--repo", &to]);
        // It may end before all of it is read.
        finish_with_input(import, |input| drop(input.write_all(bytes)))
    };
    import(&stream[..stream.len() - 1]).exits(1);
    import(&stream).exits(0);
    finish(command(&["backups", "verify", "--repo", &to]))
        .exits(0)
        .says("1 backup can be read");
}

#[test]
fn a_repository_in_a_bucket_and_one_on_another_machine() {
    let desk = Desk::new();
    let bucket = Server::start(Kind::default());
    let machine = SshServer::start();
    let command = |args: &[&str]| {
        let mut command = with_bucket(desk.refloat(args), &bucket);
        command.env("PATH", format!("{}:/usr/bin:/bin", machine.bin().display()));
        command
    };
    for base in ["s3://bucket", "ssh://store/~"] {
        let at = |name: &str, args: &[&str]| {
            let repo = format!("{base}/{name}");
            finish(command(&[args, &["--repo", &repo]].concat()))
        };
        comes_back(&desk, &|args| at("repo", args));
        is_carried(&desk, base, &command);
        recipients_change(&desk, &|args| at("sealed", args));
    }
}

// Hazard of files: a backup of files from another machine into a bucket, and onto a third one
#[test]
fn files_go_from_another_machine_into_a_bucket_and_back() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let bucket = Server::start(Kind::default());
    let machine = SshServer::start();
    fill(server, &desk);
    let url = server.url();
    let mut restored = Vec::new();
    for (number, base) in ["s3://bucket", "ssh://store/~"].into_iter().enumerate() {
        let repo = format!("{base}/files");
        let run = |args: &[&str]| {
            let mut command =
                with_bucket(desk.refloat([args, &["--repo", &repo]].concat()), &bucket);
            command.env(
                "PATH",
                format!("{}:/usr/sbin:/usr/bin:/bin", machine.bin().display()),
            );
            finish(command)
        };
        run(&[
            "backup",
            "--no-defaults",
            "--from",
            &url,
            "--host",
            "donor",
            "--label",
            "one",
        ])
        .exits(0);
        run(&["backups", "verify"])
            .exits(0)
            .says("1 backup can be read");
        let to = desk.path(&format!("restored-{number}"));
        run(&["restore", "one", "--to", to.to_str().unwrap()]).exits(0);
        restored.push(fs::read(to.join(&desk.db).join("many.ibd")).unwrap());
        let scratch = desk.path("").display().to_string();
        run(&["backups", "verify", "--restore", "--scratch", &scratch])
            .exits(0)
            .says("a server runs on it");
    }
    assert!(restored[0] == restored[1], "one of them is another one");
    let sessions = machine.log();
    assert!(sessions.contains("Accepted publickey"), "{sessions}");
    // What it may have open is less than there are tablespaces.
    let repo = desk.path("few");
    let mut few = Command::new("sh");
    let backup = desk.refloat([
        "backup",
        "--no-defaults",
        "--from",
        &url,
        "--repo",
        repo.to_str().unwrap(),
    ]);
    few.args(["-c", "ulimit -n 150 && exec \"$@\"", "sh"])
        .arg(backup.get_program())
        .args(backup.get_args());
    few.envs(
        backup
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    finish(few)
        .exits(3)
        .says("a process there may open only 150 files");
    desk.ask(server, "DROP DATABASE @db");
}

#[test]
fn a_dump_in_a_bucket_is_loaded_from_there() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let bucket = Server::start(Kind::default());
    let url = server.url();
    let run = |args: &[&str]| finish(with_bucket(desk.refloat(args), &bucket));
    fill(server, &desk);
    let before = checksums(server, &desk);
    let folder = bucket.files().join("dumps/one");
    fs::create_dir(bucket.files().join("dumps")).unwrap();
    run(&[
        "dump",
        "--from",
        &url,
        "--databases",
        &desk.db,
        "--out",
        folder.to_str().unwrap(),
    ])
    .exits(0);
    let source = format!("s3://{BUCKET}/dumps/one/");
    run(&["inspect", &source, "--checksums"])
        .exits(0)
        .says("every file is the one that was written");
    run(&["verify", &source, &url]).exits(0).says("the SAME");
    desk.ask(server, "DROP DATABASE @db");

    // Files of other tables are not fetched.
    bucket.seen.read.lock().unwrap().clear();
    let load = ["load", source.as_str(), "--to", &url];
    run(&[&load[..], &["--tables", &format!("{}.a b/ä", desk.db)]].concat())
        .exits(0)
        .says("done, without what was left out on purpose")
        .says("3 tables that were not chosen");
    let read: BTreeSet<String> = bucket.seen.read.lock().unwrap().clone();
    assert!(read.iter().any(|key| key.contains("a%20b")), "{read:?}");
    assert!(!read.iter().any(|key| key.contains("many")), "{read:?}");
    desk.ask(server, "DROP DATABASE @db");

    // What is damaged or cut stops the load, which goes on once it is whole again.
    let rows = largest(&folder);
    let whole = fs::read(&rows).unwrap();
    flip(&rows);
    run(&load).exits(1).never_says("done and proven");
    fs::write(&rows, &whole[..whole.len() / 2]).unwrap();
    run(&load).exits(3).says("but had");
    fs::write(&rows, &whole).unwrap();
    run(&load)
        .exits(0)
        .says("resuming the load")
        .says("done and proven");
    assert_eq!(checksums(server, &desk), before);
    desk.ask(server, "DROP DATABASE @db");
}

#[test]
fn files_and_folders_of_other_tools_are_loaded_from_elsewhere() {
    let server = shared(ServerKind::MariaDb1011);
    let mut desk = Desk::new();
    let text = dump(&table("t", 3000));
    let file = desk.file("t.sql", &text);
    let bucket = Server::start(Kind::default());
    fs::write(bucket.files().join("t.sql"), &text).unwrap();
    let machine = SshServer::start();
    fs::write(
        machine.home().join("t.sql.gz"),
        Desk::compressed("gzip", &file),
    )
    .unwrap();
    let here = format!("file://{}", file.display());
    for source in ["s3://bucket/t.sql", "ssh://store/~/t.sql.gz", &here] {
        let db = desk.next().to_owned();
        let args = ["load", source, "--to", &server.url(), "-D", &db];
        let mut command = with_bucket(desk.refloat(args), &bucket);
        let path = format!("{}:/usr/bin:/bin", machine.bin().display());
        command.env("PATH", path);
        finish(command).exits(0).says("done and proven");
        assert_eq!(desk.rows(server, "t"), Some(3000), "{source}");
    }
    desk.next();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(folder(&desk, 300))
        .arg(machine.home())
        .status();
    assert!(copied.unwrap().success());
    let args = ["load", "ssh://store/~/dump/", "--to", &server.url()];
    let mut command = desk.refloat(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", machine.bin().display()));
    finish(command).exits(0).says("done and proven");
    for name in ["one", "two"] {
        assert_eq!(desk.rows(server, name), Some(300));
    }
    // What is not there is named, and so is a dump that has no end.
    fs::write(bucket.files().join("t.sql"), &text[..text.len() / 2]).unwrap();
    let db = desk.next().to_owned();
    for (source, says) in [
        ("s3://bucket/t.sql", "Dump completed"),
        ("s3://bucket/none", "it is not there"),
    ] {
        let args = ["load", source, "--to", &server.url(), "-D", &db];
        let run = finish(with_bucket(desk.refloat(args), &bucket));
        assert_ne!(run.code, Some(0));
        run.says(says).never_says("done and proven");
    }
}
