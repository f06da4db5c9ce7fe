//! `refloat backups prune` is killed while it removes: what is kept is whole, whatever is gone, and
//! the next one removes the rest.
//!
//! `REFLOAT_COPY_KILLS` and `REFLOAT_KILL_SEED` are those of `killed_copies`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use refloat_sandbox::ServerKind;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::wait_until;

use crate::killed_copies::USUAL;
use crate::seeded::{Dice, number};
use crate::support::{Desk, Running, finish, shared};

/// Upper limit for one command.
const LONG: Duration = Duration::from_secs(60);
/// Kills, for the usual number of those of copies.
const KILLS: u64 = 4;
/// Digits of a pack's name that say when it was begun (`refloat_repository`, `pack.rs`).
const TIME: usize = 10;

/// The files below a folder, with their sizes. Somebody may be removing some.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&path)),
            Ok(metadata) => {
                found.insert(path, metadata.len());
            }
            Err(_) => {}
        }
    }
    found
}

/// Manifests and packs of a repository, by their names there.
fn objects(repo: &Path) -> BTreeMap<PathBuf, u64> {
    let all = ["backups", "packs"].map(|folder| files(&repo.join(folder)));
    let named = |(path, size): (PathBuf, u64)| (path.strip_prefix(repo).unwrap().to_owned(), size);
    all.into_iter().flatten().map(named).collect()
}

/// Makes the packs of a repository without a key so old that nobody can be writing them: when a
/// pack was begun is in its name, and its name is in manifests, which end with a checksum.
fn age(repo: &Path) {
    let read = |path: PathBuf| (fs::read_to_string(&path).unwrap(), path);
    let manifests = files(&repo.join("backups")).into_keys();
    let mut manifests: Vec<(String, PathBuf)> = manifests.map(read).collect();
    for pack in files(&repo.join("packs")).into_keys() {
        let name = pack.file_name().unwrap().to_str().unwrap();
        let old = format!("{}{}", "0".repeat(TIME), &name[TIME..]);
        for (text, _) in &mut manifests {
            *text = text.replace(name, &old);
        }
        fs::rename(&pack, pack.with_file_name(old)).unwrap();
    }
    for (text, path) in manifests {
        let (json, _) = text.trim_end().rsplit_once('\n').unwrap();
        let sum = blake3::hash(json.as_bytes()).to_hex();
        fs::write(path, format!("{json}\n{sum}\n")).unwrap();
    }
}

fn copied(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Four dumps in a repository. They share the rows of one table, and those of another one differ.
/// Those of one second are in the order of their labels.
fn repository(desk: &Desk) -> PathBuf {
    let server = shared(ServerKind::MariaDb1011);
    let table = "(id INT PRIMARY KEY, text TEXT) SELECT seq AS id, SHA2(seq, 512) AS text FROM seq_1_to_5000";
    let sql = format!(
        "CREATE DATABASE @db; USE @db; CREATE TABLE stays {table}; CREATE TABLE moves {table}"
    );
    desk.ask(server, &sql);
    let repo = desk.path("repo");
    for label in ["a", "b", "c", "kept"] {
        let url = server.url();
        let make = ["dump", "--from", &url, "--databases", &desk.db, "--repo"];
        let mut dump = desk.refloat(make);
        dump.arg(&repo).args(["--label", label]);
        finish(dump).exits(0);
        desk.ask(server, "UPDATE @db.moves SET text = SHA2(text, 512)");
    }
    age(&repo);
    repo
}

// Hazard of files: kill -9 of a prune after each of the things that it removes (80 kills in the
//   slow tests): every backup that is left can be read, and the next prune removes the rest
#[test]
fn a_killed_prune_loses_nothing_that_is_kept() {
    let kills = number("REFLOAT_COPY_KILLS", USUAL) * KILLS / USUAL;
    let seed = number("REFLOAT_KILL_SEED", u64::from(std::process::id())).max(1);
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let desk = Desk::new();
    let full = repository(&desk);
    let ssh = SshServer::start();
    let backups = |words: &[&str], repo: &str| {
        let mut command = desk.refloat(["backups"]);
        command.args(words).args(["--repo", repo]);
        command.env("PATH", format!("{}:/usr/bin:/bin", ssh.bin().display()));
        command
    };
    let prune = ["prune", "--keep", "1"];
    let at = |name: &str| {
        let repo = desk.path(name);
        copied(&full, &repo);
        (repo.display().to_string(), repo)
    };

    // Undisturbed.
    let (here, repo) = at("pruned");
    let all = objects(&repo).len();
    finish(backups(&prune, &here)).exits(0).says("removed a");
    finish(backups(&["verify"], &here))
        .exits(0)
        .says("1 backup can be read");
    let left = objects(&repo);
    let goes = (all - left.len()) as u64;
    assert!(goes > 4, "nothing but manifests goes: {left:?}");

    let mut hits = 0;
    for round in 0..kills {
        // All moments are tried. Over ssh, each thing that it removes takes a while.
        let gone = 1 + (round * goes + dice.below(goes)) / kills;
        let story = format!("seed {seed}, {gone} of {goes} gone");
        let (here, repo) = at(&format!("repo{round}"));
        let mut running = Running::start(backups(&prune, &format!("ssh://donor{here}")));
        while (all - objects(&repo).len().min(all)) < gone as usize && !running.has_ended() {
            // Over ssh, nothing goes faster.
            std::thread::sleep(Duration::from_micros(200));
        }
        running.kill();
        let run = running.ends_within(LONG);
        assert!(matches!(run.code, None | Some(0)), "{story}: {run:?}");
        hits += u64::from(run.code.is_none());
        wait_until("nobody works there", || ssh.sessions().is_empty());
        let listed = finish(backups(&["list", "--json"], &here)).exits(0).json();
        let mut labels = listed.as_array().unwrap().iter();
        assert!(
            labels.any(|one| one["label"] == "kept"),
            "{story}: {listed}"
        );
        finish(backups(&["verify"], &here)).exits(0);
        finish(backups(&prune, &here)).exits(0);
        assert_eq!(objects(&repo), left, "{story}");
    }
    eprintln!("seed {seed}: {hits} of {kills} had not ended");
    assert!(hits > 0, "each of them had ended before it was killed");
}
