//! Dumps in tar archives: they are loaded, inspected and compared like folders. Archives that are
//! truncated, lead outside or do not fit are refused.

// Hazard of faults: S-06, S-04 names in archives, streams and folders that lead out of them,
//   links; what looks like a header of a stream | , `folders`; unit tests of `archive` in
//   `crates/store`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use refloat_sandbox::ServerKind;
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::wait_until;

use crate::folders::folder;
use crate::large_dumps::peak_kib;
use crate::support::{
    BOTH, Desk, Running, ask, dump, fill_wide, finish, finish_with_input, shared, table,
};

/// An archive of a folder, made by GNU tar.
fn tar(desk: &Desk, folder: &Path, name: &str) -> PathBuf {
    let path = desk.path(name);
    let status = Command::new("tar")
        .arg("-cf")
        .arg(&path)
        .arg("-C")
        .arg(folder.parent().unwrap())
        .arg(folder.file_name().unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "tar failed");
    path
}

/// A scratch folder for this desk.
fn scratch(desk: &Desk) -> String {
    let path = desk.path("scratch");
    fs::create_dir_all(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn is_empty(scratch: &str) {
    let left: Vec<_> = fs::read_dir(scratch).unwrap().collect();
    assert!(left.is_empty(), "left in the scratch folder: {left:?}");
}

#[test]
fn archives_of_a_folder_plain_and_compressed_by_any_name() {
    let server = shared(ServerKind::MariaDb1011);
    let mut desk = Desk::new();
    let scratch = scratch(&desk);
    for (program, name) in [
        ("", "a.tar"),
        ("gzip", "a.tgz"),
        ("zstd", "a.tar.zst"),
        ("xz", "named.sql"),
        ("bzip2", "no-ending"),
    ] {
        let source = folder(&desk, 700);
        let mut path = tar(&desk, &source, "plain");
        if !program.is_empty() {
            let bytes = Desk::compressed(program, &path);
            path = desk.file(name, bytes);
        }
        let shown = path.to_str().unwrap();
        finish(desk.refloat(["inspect", shown, "--scratch", &scratch]))
            .exits(0)
            .says(&format!("{shown}: mydumper folder"))
            .says("whole       yes");
        let url = server.url();
        let args = ["load", shown, "--to", &url, "--scratch", &scratch];
        finish(desk.refloat(args.iter().chain(&["--plan"])))
            .exits(0)
            .says("1,400 in 2 tables");
        finish(desk.refloat(args))
            .exits(0)
            .says("is unpacked into")
            .says(&format!("load of {shown} into"))
            .says("done and proven");
        assert_eq!(desk.rows(server, "two"), Some(700));
        is_empty(&scratch);
        // As a stream.
        ask(server, &format!("DROP DATABASE {}", desk.db));
        let bytes = fs::read(&path).unwrap();
        let mut stream = args;
        stream[1] = "-";
        finish_with_input(desk.refloat(stream), |out| out.write_all(&bytes).unwrap())
            .exits(0)
            .says("done and proven");
        assert_eq!(desk.rows(server, "one"), Some(700));
        is_empty(&scratch);
        ask(server, &format!("DROP DATABASE {}", desk.db));
        desk.next();
    }
}

/// A mydumper folder as `mydumper --stream` writes it, with `metadata` last
/// (`src/mydumper/mydumper_stream.c`).
fn stream(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| (path.ends_with("metadata"), path.clone()));
    let mut out = Vec::new();
    for path in files {
        let content = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        out.extend_from_slice(format!("\n-- {name} {}\n", content.len()).as_bytes());
        out.extend(content);
    }
    out
}

#[test]
fn streams_of_mydumper_are_loaded() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let scratch = scratch(&desk);
        let bytes = stream(&folder(&desk, 700));
        let plain = desk.file("dump.stream", &bytes);
        let packed = desk.file("dump.stream.zst", Desk::compressed("zstd", &plain));
        let url = server.url();
        let rows = || (desk.rows(server, "one"), desk.rows(server, "two"));
        for path in [&plain, &packed] {
            let shown = path.to_str().unwrap();
            finish(desk.refloat(["inspect", shown, "--scratch", &scratch]))
                .exits(0)
                .says("mydumper folder")
                .says("whole       yes");
            finish(desk.refloat(["load", shown, "--to", &url, "--scratch", &scratch]))
                .exits(0)
                .says("done and proven");
            assert_eq!(rows(), (Some(700), Some(700)));
            is_empty(&scratch);
            ask(server, &format!("DROP DATABASE {}", desk.db));
        }
        let piped = desk.refloat(["load", "-", "--to", &url, "--scratch", &scratch]);
        finish_with_input(piped, |out| out.write_all(&bytes).unwrap())
            .exits(0)
            .says("done and proven");
        assert_eq!(rows(), (Some(700), Some(700)));
        ask(server, &format!("DROP DATABASE {}", desk.db));
        // Without its last file it is incomplete, wherever it is cut.
        let last = bytes.len() - bytes.windows(3).rev().position(|w| w == b"\n--").unwrap() - 3;
        for at in [bytes.len() / 2, last] {
            let cut = desk.file("cut.stream", &bytes[..at]);
            let shown = cut.to_str().unwrap();
            let run = finish(desk.refloat(["load", shown, "--to", &url, "--scratch", &scratch]));
            assert!(matches!(run.code, Some(1 | 3)), "cut at {at}: {run:?}");
            assert_eq!(desk.tables(server), 0, "cut at {at}");
            is_empty(&scratch);
        }
    }
}

#[test]
fn an_archive_of_an_own_dump_is_compared_and_loaded() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let scratch = scratch(&desk);
        desk.load_text(dump(&table("items", 3000)), server, &[])
            .exits(0);
        let (url, out) = (server.url(), desk.path("own"));
        let shown = out.to_str().unwrap();
        finish(desk.refloat([
            "dump",
            "--from",
            &url,
            "--out",
            shown,
            "--databases",
            &desk.db,
        ]))
        .exits(0);
        let archive = tar(&desk, &out, "own.tar");
        let shown = archive.to_str().unwrap();
        let verify = ["verify", shown, &url, "--scratch", &scratch];
        finish(desk.refloat(verify)).exits(0).says("the SAME");
        ask(
            server,
            &format!("DELETE FROM {}.items WHERE id = 7", desk.db),
        );
        finish(desk.refloat(verify)).exits(4).says("DIFFERENT");
        let load = ["load", shown, "--to", &url, "--scratch", &scratch];
        finish(desk.refloat(load.iter().chain(&["--replace"]))).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(3000));
        is_empty(&scratch);
    }
}

#[test]
fn what_is_cut_or_no_dump_or_leads_out_is_refused_before_anything() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let scratch = scratch(&desk);
    let source = folder(&desk, 700);
    let path = tar(&desk, &source, "whole.tar");
    let bytes = fs::read(&path).unwrap();
    let url = server.url();
    let load = |path: &Path| {
        let shown = path.to_str().unwrap();
        let run = finish(desk.refloat(["load", shown, "--to", &url, "--scratch", &scratch]));
        let there = ask(
            server,
            &format!(
                "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{}'",
                desk.db
            ),
        );
        assert_eq!(there, "0", "something was touched");
        is_empty(&scratch);
        run
    };
    // After all of these cuts but the first, the names of all files are known.
    for at in [bytes.len() / 3, bytes.len() / 2, bytes.len() - 10_240] {
        load(&desk.file("cut.tar", &bytes[..at]))
            .exits(3)
            .says("the archive is cut")
            .says("hint: The dump is truncated");
    }
    let packed = Desk::compressed("gzip", &path);
    load(&desk.file("cut.tgz", &packed[..packed.len() - 100])).exits(1);
    let mut link = source.join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    load(&tar(&desk, &source, "link.tar"))
        .exits(3)
        .says("dump/link")
        .says("it is neither a file nor a folder");
    fs::remove_file(&link).unwrap();
    link = desk.path("other");
    fs::create_dir(&link).unwrap();
    fs::write(link.join("readme"), "no dump").unwrap();
    load(&tar(&desk, &link, "other.tar"))
        .exits(3)
        .says("other.tar: not a known kind of dump");
}

#[test]
fn a_scratch_folder_without_room_is_named() {
    let desk = Desk::new();
    let source = folder(&desk, 700);
    let path = tar(&desk, &source, "a.tar");
    let small = SmallDisk::mount(2);
    let scratch = small.path().to_str().unwrap().to_owned();
    let shown = path.to_str().unwrap();
    finish(desk.refloat(["inspect", shown, "--scratch", &scratch]))
        .exits(3)
        .says(&format!("{scratch} has 0 MiB free"))
        .says("--scratch names another folder");
    finish(desk.refloat(["inspect", shown, "--scratch", "/nowhere/at/all"]))
        .exits(3)
        .says("/nowhere/at/all: making a scratch folder failed");
}

#[test]
fn ctrl_c_while_an_archive_comes_leaves_nothing() {
    let server = shared(ServerKind::MySql97);
    let desk = Desk::new();
    let scratch = scratch(&desk);
    let source = folder(&desk, 30_000);
    let bytes = fs::read(tar(&desk, &source, "a.tar")).unwrap();
    let url = server.url();
    let mut command = desk.refloat(["load", "-", "--to", &url, "--scratch", &scratch]);
    command.stdin(Stdio::piped());
    let (running, mut stdin) = Running::start_with_stdin(command);
    std::io::Write::write_all(&mut stdin, &bytes[..bytes.len() / 2]).unwrap();
    wait_until("it is unpacked", || {
        fs::read_dir(&scratch).unwrap().count() > 0
    });
    running.signal("INT");
    running.stops().exits(5);
    drop(stdin);
    is_empty(&scratch);
    assert_eq!(desk.tables(server), 0);
}

/// A dump to standard output.
fn dump_to_stdout(desk: &Desk, url: &str, more: &[&str]) -> Command {
    let mut command = desk.refloat(["dump", "--from", url, "--out", "-"]);
    command.args(["--databases", &desk.db]).args(more);
    command
}

#[test]
fn a_dump_is_one_archive_on_standard_output() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let scratch = scratch(&desk);
        let text = format!("{}{}", table("items", 10_000), table("more", 10));
        desk.load_text(dump(&text), server, &[]).exits(0);
        let url = server.url();
        let more = [
            "--threads",
            "4",
            "--chunk-size",
            "50K",
            "--compress",
            "none",
        ];
        let mut command = dump_to_stdout(&desk, &url, &more);
        let path = desk.path("dump.tar");
        command.stdout(fs::File::create(&path).unwrap());
        finish(command).exits(0).says("all rows of one moment");
        let listed = Command::new("tar").arg("-tf").arg(&path).output().unwrap();
        assert!(listed.status.success());
        let names = String::from_utf8(listed.stdout).unwrap();
        assert!(names.lines().count() > 10, "{names}");
        assert_eq!(names.lines().last(), Some("manifest.json"));
        // Unpacked by hand, it is the dump's folder.
        let by_hand = desk.path("by-hand");
        fs::create_dir(&by_hand).unwrap();
        let unpacked = Command::new("tar")
            .arg("-xf")
            .arg(&path)
            .arg("-C")
            .arg(&by_hand)
            .status();
        assert!(unpacked.unwrap().success());
        for source in [&by_hand, &path] {
            let shown = source.to_str().unwrap();
            finish(desk.refloat(["verify", shown, &url, "--scratch", &scratch]))
                .exits(0)
                .says("the SAME");
        }
        // From one process to another, back onto the same server.
        let mut dump = dump_to_stdout(&desk, &url, &[])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let args = [
            "load",
            "-",
            "--to",
            &url,
            "--replace",
            "--scratch",
            &scratch,
        ];
        let mut load = desk.refloat(args);
        load.stdin(dump.stdout.take().unwrap());
        finish(load).exits(0).says("done and proven");
        assert!(dump.wait().unwrap().success());
        assert_eq!(desk.rows(server, "items"), Some(10_000));
        is_empty(&scratch);
    }
}

#[test]
fn memory_does_not_grow_with_an_archive_or_its_threads() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    fill_wide(server, &desk);
    let more = ["--threads", "24", "--compress", "none"];
    let mut command = dump_to_stdout(&desk, &server.url(), &more);
    command.stdout(Stdio::null());
    let mut running = Running::start(command);
    let mut peak = 0;
    while !running.has_ended() {
        peak = peak_kib(running.pid()).unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(10));
    }
    running.ends_within(Duration::from_secs(1)).exits(0);
    println!("220 MB into an archive by 24 readers: {} MiB", peak >> 10);
    assert!(peak > 0 && peak <= 256 << 10, "{} MiB", peak >> 10);
    ask(server, &format!("DROP DATABASE {}", desk.db));
}

#[test]
fn an_archive_of_a_dump_that_stopped_is_none() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let scratch = scratch(&desk);
    desk.load_text(dump(&table("items", 30_000)), server, &[])
        .exits(0);
    let url = server.url();
    let path = desk.path("dump.tar");
    let slowly = [
        "--max-rate",
        "300K",
        "--chunk-size",
        "50K",
        "--compress",
        "none",
    ];
    let mut command = dump_to_stdout(&desk, &url, &slowly);
    command.stdout(fs::File::create(&path).unwrap());
    let running = Running::start(command);
    wait_until("rows are in the archive", || {
        path.metadata().unwrap().len() > 200_000
    });
    running.signal("INT");
    running.stops().exits(5).says("no manifest");
    let shown = path.to_str().unwrap();
    finish(desk.refloat(["load", shown, "--to", &url, "--scratch", &scratch]))
        .exits(3)
        .says("the archive is cut");
    is_empty(&scratch);
    // The reader of the pipe goes away.
    let mut running = dump_to_stdout(&desk, &url, &slowly).spawn().unwrap();
    drop(running.stdout.take());
    let output = running.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("standard output: writing the archive failed"),
        "{stderr}"
    );
    finish(dump_to_stdout(&desk, &url, &["--json"]))
        .exits(2)
        .says("both want standard output");
}
