//! What must not be taken for a backup, and what must not be lost by a restore.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use refloat_physical::backup::{backup, plan};
use refloat_physical::restore::restore;
use refloat_physical::{PhysicalError, verify};
use refloat_sandbox::ServerKind;
use refloat_testkit::{SOON, servers, wait_until};
use refloat_wire::Secret;

use crate::common::{Place, TABLES, lsn};

/// A tool that says that it is of another version, and does no more.
fn of_version(place: &Place, version: &str) -> std::path::PathBuf {
    let words = format!("mariadb-backup based on MariaDB server {version}-MariaDB Linux");
    says(place, &words)
}

/// A tool that says these words, and does no more.
fn says(place: &Place, words: &str) -> std::path::PathBuf {
    let path = place.folder.path().join("other-tool");
    fs::write(&path, format!("#!/bin/sh\necho '{words}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

// Hazard of files: P-03, P-04 a tool that fails after a whole stream, that does not say that it is
//   done, a stream that is cut or changed, a tool that dies: there is no backup, and no pack of it
#[test]
fn nothing_that_fails_looks_like_a_backup() {
    let place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    for (script, expected) in [
        // The stream is whole, and the tool failed.
        ("\"$real\" \"$@\"; exit 1", "failed with exit status 1"),
        // It succeeds and does not say so.
        (
            "\"$real\" \"$@\" 2> >(grep -v 'completed OK' >&2)",
            "completed OK",
        ),
        // Cut anywhere, with good words and status: even between two chunks.
        (
            "\"$real\" \"$@\" | head -c 9000000; exit 0",
            "the stream of mariadb-backup",
        ),
        ("echo 'completed OK!' >&2", "the stream of mariadb-backup"),
        // One byte is another one.
        (
            "\"$real\" \"$@\" | perl -e 'undef $/; $_ = <STDIN>; substr($_, 5000000, 1) ^= \"\\1\"; print'",
            "the stream of mariadb-backup",
        ),
        // Its copy of the redo log may have gaps, and it succeeds.
        (
            "echo '[01] no parse limit' >&2; \"$real\" \"$@\"",
            "a redo log that may be incomplete",
        ),
        // It copies a part of the server only.
        ("\"$real\" \"$@\" --databases=shop", "partial"),
        // It dies.
        ("kill -9 $$", "exit status 137"),
        (
            "echo '[00] FATAL ERROR: 2026-11-28 06:50:25 disk is full' >&2; exit 1",
            "FATAL ERROR: disk is full",
        ),
    ] {
        let mut options = place.options("x");
        options.donor.tool = Some(place.instead(script));
        let run = place.run("backup");
        let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
        let text = refloat_host::chain(&error);
        assert!(text.contains(expected), "{script}: {text}");
        place.assert_no_backup();
    }
}

/// Anybody on the machine can read a process's arguments, and its account the environment.
#[test]
fn a_password_is_in_no_arguments_of_a_tool() {
    let mut place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    place.sql("CREATE USER keeper@localhost IDENTIFIED BY 'not-to-be-seen'; GRANT ALL ON *.* TO keeper@localhost");
    let seen = place.folder.path().join("seen");
    let script = format!(
        "{{ echo \"$@\"; env; }} >> {}; \"$real\" \"$@\"",
        seen.display()
    );
    let tool = place.instead(&script);
    let mut options = place.options("one");
    options.donor.tool = Some(tool.clone());
    options.donor.source.user = "keeper".to_owned();
    options.donor.source.password = Some(Secret::new("not-to-be-seen"));
    backup(&options, &place.repository, &place.run("backup")).unwrap();
    place.server.stop().unwrap();
    let mut restoring = place.restoring("one");
    restoring.target.tool = Some(tool);
    place.restore(&restoring).unwrap();
    let words = fs::read_to_string(&seen).unwrap();
    assert!(!words.contains("not-to-be-seen"), "{words}");
    for option in ["--backup", "--parallel=2", "--prepare", "--use-memory="] {
        assert!(words.contains(option), "{option}: {words}");
    }
}

// Hazard of files: P-01 a tool of another series than the server or the backup, or of a version
//   that is known to lose data
#[test]
fn what_stands_against_a_backup_is_named_at_once() {
    let place = Place::new(ServerKind::MariaDb1011);
    place.sql(
        "CREATE USER poor@localhost; GRANT RELOAD ON *.* TO poor@localhost; CREATE DATABASE old; CREATE TABLE old.t (i INT) ENGINE = Aria",
    );
    let mut options = place.options("latest");
    options.donor.source.user = "poor".to_owned();
    options.donor.max_rate = Some(1000);
    let run = place.run("backup");
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    let text = error.to_string();
    let all = [
        "1000 bytes per second",
        "PROCESS, LOCK TABLES",
        "latest always means",
    ];
    for part in all {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("RELOAD") && !text.contains("MDEV"), "{text}");
    options.donor.tool = Some(of_version(&place, "10.11.14"));
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    let text = error.to_string();
    for part in all.iter().chain(&["is 10.11.14, but", "MDEV-37520"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    options.donor.tool = Some(Path::new("/no/such/tool").to_owned());
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    let text = error.to_string();
    for part in all.iter().chain(&["there is no /no/such/tool"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    place.assert_no_backup();

    // What a newer tool is does not say what the server is.
    let process = place.server.pid().unwrap();
    let version = place.server.query("SELECT VERSION()").unwrap();
    let known = refloat_physical::sst::server_version(process);
    assert_eq!(known, refloat_physical::sst::version_in(version.trim()));
    assert!(known.is_some(), "{version}");

    // One of another vendor.
    options.donor.tool = Some(says(
        &place,
        "xtrabackup version 8.4.0-1 based on MySQL server 8.4.0 Linux (x86_64)",
    ));
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    assert!(
        error.to_string().contains("but the server is 10.11"),
        "{error}"
    );

    // One of another series.
    let other = of_version(&place, "11.8.2");
    options.donor.tool = Some(other.clone());
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("is 11.8.2, but the server is 10.11"),
        "{text}"
    );
    place.assert_no_backup();
    place.back_up("one").unwrap();
    let mut restoring = place.restoring("one");
    restoring.target.tool = Some(other);
    let text = place.restore(&restoring).unwrap_err().to_string();
    assert!(
        text.contains("is 11.8.2 here, but the backup was made with 10.11"),
        "{text}"
    );
}

#[test]
fn a_cancelled_backup_leaves_nothing() {
    let place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    let mut options = place.options("x");
    options.donor.tool = Some(place.instead("\"$real\" \"$@\" & sleep 600"));
    let run = place.run("backup");
    let cancel = run.cancel.clone();
    let progress = run.progress.clone();
    let waiter = std::thread::spawn(move || {
        while progress.snapshot().bytes_done == 0 {
            std::thread::sleep(SOON);
        }
        cancel.cancel(refloat_run::CancelReason::Signal(2));
    });
    let (error, _) = backup(&options, &place.repository, &run).unwrap_err();
    waiter.join().unwrap();
    assert!(matches!(error, PhysicalError::Cancelled(_)), "{error}");
    place.assert_no_backup();
}

// Hazard of files: P-09, P-12, P-28 a data directory that is served or holds data, a tool that
//   fails or is killed while it prepares, a server that does not start
// Hazard of files: P-27 a preparation that does not get its memory
#[test]
fn a_restore_never_touches_what_serves_or_holds_data() {
    let mut place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    let expected = place.snapshot();
    place.back_up("one").unwrap();
    let error = place.restore(&place.restoring("one")).unwrap_err();
    assert!(
        error.to_string().contains("a server is running in"),
        "{error}"
    );
    place.server.stop().unwrap();
    let mut options = place.restoring("one");
    options.target.replace = false;
    let error = place.restore(&options).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");

    // A server of another container has the files open, and is not to be seen here.
    let holder = format!(
        "use Fcntl; open my $file, '+<', '{}/ibdata1' or die; \
         my $lock = pack('ssx4qqi', F_WRLCK, 0, 0, 0, 0); \
         fcntl($file, F_SETLK, $lock) or die; $| = 1; print \"held\\n\"; <STDIN>",
        place.server.datadir().display()
    );
    let mut holder = Command::new("perl")
        .args(["-e", &holder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let error = place.restore(&place.restoring("one")).unwrap_err();
    assert!(error.to_string().contains("holds a lock on"), "{error}");
    drop(holder.stdin.take());
    holder.wait().unwrap();

    // The server keeps its redo log elsewhere, where the old one would lie beside new files.
    let redo = place.server.datadir().join("ib_logfile0");
    let away = place.folder.path().join("ib_logfile0");
    fs::rename(&redo, &away).unwrap();
    let error = place.restore(&place.restoring("one")).unwrap_err();
    assert!(error.to_string().contains("no redo log"), "{error}");
    fs::rename(&away, &redo).unwrap();

    // The tool fails: the old data serve on.
    let mut options = place.restoring("one");
    options.target.tool = Some(place.instead("\"$real\" \"$@\"; exit 1"));
    let error = place.restore(&options).unwrap_err();
    assert!(error.to_string().contains("exit status 1"), "{error}");
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    place.server.stop().unwrap();

    // It does not get the memory that it needs.
    options.target.tool = Some(
        place.instead("case \"$*\" in *--prepare*) ulimit -v 100000 ;; esac; \"$real\" \"$@\""),
    );
    let words = place.restore(&options).unwrap_err().to_string();
    assert!(words.contains("mariadb-backup failed"), "{words}");
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    place.server.stop().unwrap();

    // It was killed while it prepared: the next restore fetches what it has changed.
    options.target.tool = Some(place.instead(
        "\"$real\" \"$@\" 2>/dev/null; echo junk >\"${3#--target-dir=}/ibdata1\"; kill -9 $$",
    ));
    place.restore(&options).unwrap_err();
    // And a server that does not start loses nothing of it.
    let mut options = place.restoring("one");
    options.target.start = Some("echo no such unit >&2; exit 5".to_owned());
    let run = place.run("restore");
    let (error, again) = restore(&options, &place.repository, &run).unwrap_err();
    let words = error.to_string();
    assert!(
        words.contains("could not be started: no such unit"),
        "{words}"
    );
    assert!(
        again.fetched > 0 && again.fetched < again.bytes && !again.started,
        "{again:?}"
    );
    assert!(again.aside.is_some());
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    nobody_creates_a_server_before_a_restore_is_done(&place);
}

/// A script of MariaDB's packages and images runs where a restore prepares its files, and fails.
fn nobody_creates_a_server_before_a_restore_is_done(place: &Place) {
    let [data, output] = ["fresh", "said"].map(|name| place.folder.path().join(name));
    let mut options = place.restoring("one");
    options.target.datadir.clone_from(&data);
    options.target.replace = false;
    let script = format!(
        "case \"$*\" in *--prepare*) \
         mariadb-install-db --no-defaults --user=root --datadir={} >{} 2>&1 && exit 9 ;; esac; \
         exec \"$real\" \"$@\"",
        data.display(),
        output.display()
    );
    let mut usual = options.clone();
    options.target.tool = Some(place.instead(&script));
    let words = place.restore(&options).unwrap_err().to_string();
    let output = fs::read_to_string(output).unwrap();
    assert!(words.contains("meanwhile"), "{words}: {output}");
    assert!(
        output.contains("Installation of system tables failed"),
        "{output}"
    );
    // What it has left is no server's, and is kept.
    assert!(!data.join("ibdata1").exists());
    let words = place.restore(&usual).unwrap_err().to_string();
    assert!(words.contains("is not empty"), "{words}");
    usual.target.replace = true;
    let done = place.restore(&usual).unwrap();
    assert_eq!(done.fetched, 0);
    assert!(data.join("ibdata1").is_file());
    assert!(done.aside.unwrap().join("aria_log_control").exists());
}

// Hazard of files: flipped bytes in a repository
#[test]
fn a_damaged_repository_is_noticed() {
    let mut place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    place.back_up("one").unwrap();
    let packs = place.repository.storage().list("packs/").unwrap();
    let pack = packs.into_iter().max_by_key(|pack| pack.size).unwrap();
    // The second one has nearly all blocks in common with the first one.
    place.back_up("two").unwrap();
    place.server.stop().unwrap();
    let path = place.folder.path().join("repository").join(&pack.name);
    let mut bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(10_000) {
        bytes[at] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let error = place.restore(&place.restoring("one")).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    let backups = place.repository.backups().unwrap();
    let read = verify(&place.repository, &backups, None, 2, &place.run("verify")).unwrap();
    let damaged: Vec<&str> = read.damaged.keys().map(String::as_str).collect();
    assert_eq!((damaged, read.labels.len()), (vec!["one", "two"], 0));
    place.server.restart().unwrap();
}

// Hazard of files: P-08 files outside the data directory
#[test]
fn files_that_lie_elsewhere_do_not_come_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("undo");
    fs::create_dir(&elsewhere).unwrap();
    for path in [folder.path(), &elsewhere] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    // It has no undo tablespaces of its own, so it starts although its files were made elsewhere.
    let options = servers::quick(ServerKind::MariaDb1011)
        .option("innodb_undo_directory", elsewhere.to_str().unwrap());
    let mut place = Place::with(&options);
    place.sql(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY='{}';
        INSERT INTO shop.t VALUES (1);
        CREATE TABLE shop.m (id INT PRIMARY KEY) ENGINE=MyISAM DATA DIRECTORY='{0}' INDEX DIRECTORY='{0}';
        INSERT INTO shop.m VALUES (1)",
        elsewhere.display()
    ));
    let warned = plan(
        &place.options("one"),
        &**place.repository.storage(),
        Some(&place.repository),
    )
    .unwrap();
    let warned = warned.warnings.join(" ");
    assert!(warned.contains("1 table lies outside"), "{warned}");
    place.back_up("one").unwrap();
    for table in ["t", "m"] {
        place.sql(&format!("INSERT INTO shop.{table} VALUES (2)"));
    }
    place.server.stop().unwrap();
    let old = || fs::read(elsewhere.join("shop/t.ibd")).unwrap();
    let before = old();
    let error = place.restore(&place.restoring("one")).unwrap_err();
    let words = error.to_string();
    assert!(words.contains("innodb_undo_directory = "), "{words}");
    assert!(words.contains("outside of the data directory"), "{words}");
    let mut options = place.restoring("one");
    options.target.all_in_datadir = true;
    place.restore(&options).unwrap();
    place.server.restart().unwrap();
    // The tool copies what the links of MyISAM lead to.
    for table in ["t", "m"] {
        let rows = place.server.query(&format!("SELECT id FROM shop.{table}"));
        assert_eq!(rows.unwrap().trim(), "1", "{table}");
    }
    let kept = fs::metadata(elsewhere.join("m.MYD")).unwrap().len();
    assert_eq!(kept, 14, "both rows");
    assert!(old() == before, "the old tablespace was written to");
    assert!(elsewhere.join("shop/t.ibd").exists());
}

// Hazard of files: P-08 directories in the new server's option file
#[test]
fn files_do_not_come_where_the_new_server_does_not_look() {
    let mut place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    place.back_up("one").unwrap();
    place.server.stop().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, logs) = (folder.path().join("my.cnf"), folder.path().join("logs"));
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("bin.000007"), "old").unwrap();
    let datadir = place.server.datadir().display().to_string();
    let mut options = place.restoring("one");
    options.target.option_file = Some(file.clone());
    let write = |text: &str| fs::write(&file, format!("[mysqld]\n{text}\n")).unwrap();
    for (text, expected) in [
        ("datadir = /no/such", "says datadir = /no/such"),
        (
            "innodb_undo_directory = /undo",
            "innodb-undo-directory = /undo",
        ),
        (
            "innodb-log-group-home-dir = redo",
            "innodb-log-group-home-dir = redo",
        ),
    ] {
        for all_in_datadir in [false, true] {
            write(text);
            options.target.all_in_datadir = all_in_datadir;
            let error = place.restore(&options).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    options.target.all_in_datadir = false;
    write(&format!(
        "datadir = {datadir}\nlog_bin = {}/bin.log",
        logs.display()
    ));
    let plan = refloat_physical::restore::plan(&options, &place.repository).unwrap();
    let warned = plan.warnings.join(" ");
    assert!(
        warned.contains("the new server would continue it"),
        "{warned}"
    );
    place.restore(&options).unwrap();
    place.server.restart().unwrap();
}

/// A copy that is held to a rate is let go as soon as half of the redo log waits to be copied.
// Hazard of files: P-02 a small redo log, a server that writes all the time, and a slow copy
#[test]
fn a_slow_copy_keeps_up_with_the_redo_log() {
    const REDO: u64 = 8 << 20;
    const RATE: u32 = 8 << 20;
    let options =
        servers::quick(ServerKind::MariaDb1011).option("innodb_log_file_size", REDO.to_string());
    let mut place = Place::with(&options);
    place.sql(TABLES);
    place.sql(
        "CREATE TABLE shop.sequence (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE shop.copy (id INT PRIMARY KEY) ENGINE=InnoDB;
        CREATE TABLE shop.big (id INT PRIMARY KEY, text LONGTEXT) ENGINE=InnoDB; INSERT INTO shop.big SELECT seq, REPEAT(MD5(seq), 60000) FROM shop.seq_1_to_160",
    );
    let lsn = || lsn(&mut servers::connect(&place.server));
    let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut options = place.options("slow");
    options.donor.max_rate = Some(RATE.into());
    let run = place.run("backup");
    let (written, sequence) = std::thread::scope(|scope| {
        scope.spawn(|| place.write_sequence(&[], &committed, &over));
        scope.spawn(|| {
            let mut conn = servers::connect(&place.server);
            // The tool reads the log once a second: more than it holds must not come meanwhile.
            for id in (1..=160).cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                conn.exec(format!(
                    "UPDATE shop.big SET text = REVERSE(text) WHERE id = {id}"
                ))
                .unwrap();
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        });
        wait_until("20 rows are committed", || {
            committed.load(Ordering::Relaxed) >= 20
        });
        let before = lsn();
        let done = backup(&options, &place.repository, &run);
        let written = lsn() - before;
        over.store(true, Ordering::Relaxed);
        let done = done.unwrap();
        let at_that_rate = done.bytes as f64 / f64::from(RATE);
        assert!(
            done.seconds < at_that_rate,
            "{} s, {at_that_rate} s",
            done.seconds
        );
        (written, committed.load(Ordering::Relaxed))
    });
    assert!(written > REDO / 2, "{written} bytes of redo log");
    place.server.stop().unwrap();
    place.restore(&place.restoring("slow")).unwrap();
    place.server.restart().unwrap();
    place.assert_sound();
    let (numbers, found) = place.numbers("SELECT COUNT(*), MAX(id) FROM shop.sequence");
    assert!(
        numbers[0] == numbers[1] && (20..=sequence + 1).contains(&numbers[0]),
        "{found}"
    );
}

/// Where files will be, or are moved one by one, a folder has the name of InnoDB's system
/// tablespace. Neither does a server start there, nor is one created.
#[test]
fn no_server_starts_where_files_are_moved() {
    let ways = ServerKind::ALL.map(|kind| [(kind, false), (kind, true)]);
    for (kind, creates) in ways.into_iter().flatten() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("ibdata1")).unwrap();
        let name = if kind.is_mariadb() {
            "mariadbd"
        } else {
            "mysqld"
        };
        let program = servers::program(servers::server(kind), name, folder.path());
        let mut command = std::process::Command::new(program);
        command.arg("--no-defaults").arg("--user=root");
        command.arg(format!("--datadir={}", data.display()));
        command.arg(format!("--socket={}", folder.path().join("s").display()));
        command.arg("--skip-networking");
        if kind == ServerKind::MySql97 {
            command.args(["--mysqlx=OFF", "--secure-file-priv="]);
        }
        let (creation, why) = match (creates, kind.is_mariadb()) {
            (false, _) => (None, "is not a regular"),
            (true, true) => (Some("--bootstrap"), "is not a regular"),
            (true, false) => (Some("--initialize-insecure"), "has files in it"),
        };
        let output = command.args(creation).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{kind} {creation:?}: {words}");
        assert!(words.contains(why), "{kind} {creation:?}: {words}");
        for made in ["ibdata1/", "mysql", "mysql.ibd", "ib_logfile0", "undo001"] {
            assert_eq!(
                data.join(made).exists(),
                made == "ibdata1/",
                "{kind}: {made}"
            );
        }
    }
}
