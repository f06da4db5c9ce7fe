//! `refloat verify`: exits with 0 if both sides are the same, with 4 if they differ, and with 3 or
//! 1 if they cannot be compared.

use std::fs;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{BOTH, Desk, Running, ask, dump, finish, shared, table};

/// What a comparison says of its two moments, whatever it has found.
const MOMENTS: &str = "(each by its own clock): what was written between the two moments would show \
                       as a difference";

#[test]
fn a_dump_and_its_server_and_what_was_changed_since() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        let db = desk.next().to_owned();
        ask(server, &format!("CREATE DATABASE {db}"));
        ask(
            server,
            &format!("CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))"),
        );
        ask(
            server,
            &format!("INSERT INTO {db}.t VALUES (1, 'one'), (2, 'two'), (3, NULL)"),
        );
        let url = server.socket_url();
        let out = desk.path(&format!("dump-{db}"));
        let folder = out.to_str().unwrap();
        finish(desk.refloat(["dump", "--from", &url, "--out", folder, "--databases", &db]))
            .exits(0);
        let verify = |more: &[&str]| {
            let args = [&["verify", folder, url.as_str(), "--no-progress"][..], more].concat();
            finish(desk.refloat(args))
        };
        // Nothing is said to differ where nothing does.
        verify(&[]).exits(0).says("the SAME").says(MOMENTS);
        ask(server, &format!("UPDATE {db}.t SET v = 'TWO' WHERE id = 2"));
        ask(server, &format!("DELETE FROM {db}.t WHERE id = 3"));
        ask(server, &format!("ALTER TABLE {db}.t MODIFY v VARCHAR(30)"));
        verify(&[])
            .exits(4)
            .says("DIFFERENT")
            .says(MOMENTS)
            .says(&format!("table {db}.t: column v: "))
            .says("id = '2': v: 'two' / 'TWO'")
            .says("only in the first, id = '3', v = NULL")
            .says(&format!("in {db}/t."));
        verify(&["--schema-only"]).exits(4).never_says("rows of");
        verify(&["--rows-only"]).exits(4).never_says("column v: ");
        let last = verify(&["--json"]).exits(4);
        let last = last.stdout.lines().last().unwrap().to_owned();
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["outcome"]["result"], "proof_failed");
        assert_eq!(last["outcome"]["summary"]["same"], false);
        verify(&["--tables", "nothing.there"])
            .exits(3)
            .says("nothing.there");
        let rows = fs::read_dir(out.join(&db)).unwrap();
        let rows = rows
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|ending| ending == "zst"))
            .unwrap();
        fs::remove_file(&rows).unwrap();
        verify(&[])
            .exits(1)
            .says("the file is missing")
            .says(rows.file_name().unwrap().to_str().unwrap());
        // Detected before any lock is taken; otherwise it would wait for this session's lock.
        let mut other = servers::connect(server);
        other.exec(format!("LOCK TABLES {db}.t WRITE")).unwrap();
        finish(desk.refloat(["verify", &url, &url]))
            .exits(3)
            .says("the same server")
            .never_says("not taken yet");
    }
}

#[test]
fn rows_that_cannot_be_compared_are_not_called_the_same() {
    let body = "CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(60), c INT);\n\
                INSERT INTO t VALUES (1,'plain',1);\nINSERT INTO t SET b='set', c=2;\n";
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", dump(body));
        let digest = ["--verify", "digest"];
        desk.load(&file, server, &digest)
            .exits(4)
            .says("loaded and counted, but not all rows could be compared")
            .never_says("proven");
        desk.ask(server, "DELETE FROM @db.t WHERE b = 'set'");
        let url = format!("{}{}", server.url(), desk.db);
        let verify = |file| finish(desk.refloat(["verify".as_ref(), file, url.as_ref()]));
        verify(file.as_os_str())
            .exits(4)
            .says("NOT PROVEN the same")
            .says("rows NOT compared")
            .says("some of its rows have no value for column a")
            .never_says("the SAME");
        // With the key it is an ordinary row.
        let changed = dump(&body.replace("SET b", "SET a=2, b"));
        let changed = desk.file("changed.sql", changed);
        verify(changed.as_os_str())
            .exits(4)
            .says("only in the first, a = '2', b = 'set', c = '2'");
        desk.ask(server, "INSERT INTO @db.t VALUES (2, 'set', 2)");
        verify(changed.as_os_str()).exits(0).says("the SAME");
    }
}

#[test]
fn a_row_that_is_changed_while_it_is_loaded_is_found_by_digest() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let db = &desk.db;
        desk.load_text(
            dump(&format!(
                "{}{}",
                table("first", 10),
                table("second", 80_000)
            )),
            server,
            &[],
        )
        .exits(0);
        let url = server.url();
        let out = desk.path("dump");
        let folder = out.to_str().unwrap();
        finish(desk.refloat(["dump", "--from", &url, "--out", folder, "--databases", db])).exits(0);
        let load = |more: &[&str]| {
            desk.refloat([&["load", folder, "--to", &url, "--verify", "digest"], more].concat())
        };
        ask(server, &format!("DROP DATABASE {db}"));
        finish(load(&["--append"]))
            .exits(3)
            .says("--append adds rows");
        finish(load(&[]))
            .exits(0)
            .says("done and proven")
            .says("the SAME");
        ask(server, &format!("DROP DATABASE {db}"));
        let running = Running::start(load(&["--threads", "2", "--chunk-bytes", "64K"]));
        wait_until("the first rows are in", || {
            desk.rows(server, "first") == Some(10)
        });
        ask(
            server,
            &format!("UPDATE {db}.first SET name = 'changed' WHERE id = 7"),
        );
        let run = running
            .ends_within(std::time::Duration::from_secs(60))
            .exits(4)
            .says("DIFFERENT")
            .says("'changed'");
        assert!(
            run.stdout.contains("no difference"),
            "counts see nothing: {run:?}"
        );
        ask(server, &format!("DROP DATABASE {db}"));
    }
}

#[test]
fn a_dump_of_another_tool_is_compared_by_its_rows() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let db = &desk.db;
        let rows = table("items", 3_000);
        let file = desk.file("plain.sql", dump(&format!("{rows}{}", table("few", 3))));
        let file = file.to_str().unwrap();
        let url = server.url();
        let load = |source: &str, more: &[&str]| {
            let args = ["load", source, "--to", &url, "-D", db, "--verify", "digest"];
            desk.refloat([&args, more].concat())
        };
        finish(load(file, &[]))
            .exits(0)
            .says("done and proven")
            .says("the SAME");
        finish(load("-", &["--replace"]))
            .exits(3)
            .says("reads the dump a second time");
        // One row changed, one removed, one added.
        ask(
            server,
            &format!("UPDATE {db}.items SET name = 'changed' WHERE id = 7"),
        );
        ask(server, &format!("DELETE FROM {db}.few WHERE id = 2"));
        ask(
            server,
            &format!("INSERT INTO {db}.few (id, name) VALUES (70, 'more')"),
        );
        let verify =
            |more: &[&str]| finish(desk.refloat([&["verify", file, &url][..], more].concat()));
        verify(&["-D", db])
            .exits(4)
            .says("DIFFERENT")
            .says("'changed'")
            .says("only in the first")
            .says("'more'");
        // The database must be named; the URL can do that too.
        verify(&[]).exits(3).says("does not say in which database");
        let of_db = format!("{url}{db}");
        finish(desk.refloat(["verify", file, &of_db, "--tables", "items"]))
            .exits(4)
            .says("1 table")
            .never_says("'more'");
        // A value that is not a literal is not guessed.
        let file = desk.file(
            "unknown.sql",
            dump("CREATE TABLE odd (id INT PRIMARY KEY, n INT); INSERT INTO odd VALUES (1, 1), (2, 1 + 1);"),
        );
        finish(load(file.to_str().unwrap(), &["--replace"]))
            .exits(4)
            .says("rows NOT compared")
            .says("rows of table")
            .says("what the server makes of 1 + 1 in column n is not known");
    }
}

#[test]
fn a_dump_that_is_cut_is_compared_with_nothing() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let whole = dump(&table("items", 100));
    desk.load_text(whole.clone(), server, &[]).exits(0);
    let url = format!("{}{}", server.url(), desk.db);
    let half = whole.find(" VALUES\n").unwrap() + 8;
    for (name, text, words) in [
        ("trailer.sql", &whole[..whole.len() - 30], "is not whole"),
        ("half.sql", &whole[..half], "in the middle of a statement"),
    ] {
        let file = desk.file(name, text);
        finish(desk.refloat(["verify", file.to_str().unwrap(), &url]))
            .exits(1)
            .says(words)
            .says(name);
    }
    let file = desk.file("none.bin", "\0\u{1}\u{2}\0");
    finish(desk.refloat(["verify", file.to_str().unwrap(), &url]))
        .exits(3)
        .says("is not a dump");
}

/// phpMyAdmin adds keys and `AUTO_INCREMENT` after the rows.
#[test]
fn a_dump_of_phpmyadmin_is_compared() {
    let text = "-- phpMyAdmin SQL Dump\nSET SQL_MODE = \"NO_AUTO_VALUE_ON_ZERO\";\n\
         CREATE TABLE `u` (\n  `id` mediumint(8) UNSIGNED NOT NULL,\n  `n` varchar(10)\n) ENGINE=InnoDB;\n\
         INSERT INTO `u` (`id`, `n`) VALUES\n(1, 'a'),\n(2, 'b');\n\
         ALTER TABLE `u`\n  ADD PRIMARY KEY (`id`),\n  ADD KEY `n` (`n`);\n\
         ALTER TABLE `u`\n  MODIFY `id` mediumint(8) UNSIGNED NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=3;\nCOMMIT;\n";
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", text);
        desk.load(&file, server, &["--verify", "digest"])
            .exits(0)
            .says("done and proven");
        let verify = || {
            let mut verify = desk.refloat(["verify", "--database", &desk.db]);
            verify.arg(&file).arg(server.url());
            finish(verify)
        };
        verify().exits(0).says("the definitions of 1 tables");
        desk.ask(server, "UPDATE @db.u SET n = 'c' WHERE id = 2");
        verify().exits(4).says("DIFFERENT");
        desk.ask(server, "DROP DATABASE @db");
    }
}
