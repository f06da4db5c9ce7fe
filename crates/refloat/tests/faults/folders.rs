//! Folders and data files: what the program says about them, how it exits, and what it leaves
//! behind.

// Hazard of faults: Folders: planned, inspected, refused when not whole, links and names that lead
//   out of them

use std::path::PathBuf;

use refloat_sandbox::{Instance, ServerKind};

use crate::support::{
    BOTH, Desk, ask, assert_same_settings, finish, finish_with_input, settings, shared, table,
};

/// A folder as mydumper 0.10 writes it, with two tables.
pub fn folder(desk: &Desk, rows: u64) -> PathBuf {
    let folder = desk.path("dump");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("the folder can be made");
    let db = &desk.db;
    let write = |name: String, text: &str| {
        std::fs::write(folder.join(name), text).expect("the file can be written");
    };
    let head = "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n";
    write(
        format!("{db}-schema-create.sql"),
        &format!("CREATE DATABASE `{db}`;\n"),
    );
    for name in ["one", "two"] {
        let text = table(name, rows);
        let create = text.find("CREATE TABLE").expect("there is a definition");
        let insert = text.find("INSERT").expect("there are rows");
        let end = text.find("LOCK TABLES").expect("there is a lock");
        let rest = text.find("UNLOCK").expect("there is an end");
        write(
            format!("{db}.{name}-schema.sql"),
            &format!("{head}{}", &text[create..end]),
        );
        write(
            format!("{db}.{name}.sql"),
            &format!("{head}{}", &text[insert..rest]),
        );
    }
    write(
        "metadata".to_owned(),
        "Started dump at: 2026-01-01 00:00:00\nFinished dump at: 2026-01-01 00:00:01\n",
    );
    folder
}

/// A folder, and the server that it is loaded into.
struct Ground {
    desk: Desk,
    source: PathBuf,
    path: String,
    server: &'static Instance,
    url: String,
}

fn ground(kind: ServerKind, rows: u64) -> Ground {
    let desk = Desk::new();
    let source = folder(&desk, rows);
    let path = source.to_str().expect("a name in UTF-8").to_owned();
    let server = shared(kind);
    Ground {
        desk,
        source,
        path,
        server,
        url: server.url(),
    }
}

#[test]
fn a_folder_is_planned_inspected_and_loaded() {
    for kind in BOTH {
        let Ground {
            desk,
            path,
            server,
            url,
            ..
        } = ground(kind, 1200);
        let before = settings(server);
        finish(desk.refloat(["inspect", &path]))
            .exits(0)
            .says("mydumper folder")
            .says(&format!("{}.one: 1 file", desk.db))
            .says("whole       yes");
        let found = finish(desk.refloat(["inspect", &path, "--json"]))
            .exits(0)
            .json();
        assert_eq!(found["format"], "mydumper");
        assert_eq!(found["tables"].as_array().map(Vec::len), Some(2));
        finish(desk.refloat(["load", &path, "--to", &url, "--plan"]))
            .exits(0)
            .says("1,200");
        assert_eq!(desk.tables(server), 0, "a plan changes nothing");
        finish(desk.refloat(["load", &path, "--to", &url]))
            .exits(0)
            .says("2,400 in 2 tables");
        assert_eq!(desk.rows(server, "one"), Some(1200));
        assert_eq!(desk.rows(server, "two"), Some(1200));
        // Existing rows are not overwritten.
        finish(desk.refloat(["load", &path, "--to", &url]))
            .exits(3)
            .says("is not empty");
        finish(desk.refloat(["load", &path, "--to", &url, "--replace"])).exits(0);
        assert_eq!(desk.rows(server, "one"), Some(1200));
        assert_same_settings(&before, server);
    }
}

#[test]
fn folders_that_are_not_whole_are_refused_before_anything_is_touched() {
    for kind in BOTH {
        let Ground {
            desk,
            source,
            path,
            server,
            url,
        } = ground(kind, 10);
        let load = || finish(desk.refloat(["load", &path, "--to", &url]));
        let inspect = || finish(desk.refloat(["inspect", &path]));
        std::fs::write(source.join("metadata.partial"), "x").expect("the file can be written");
        load().exits(3).says("metadata.partial").says("hint: ");
        inspect()
            .exits(3)
            .says("whole       no")
            .says("metadata.partial");
        std::fs::remove_file(source.join("metadata.partial")).expect("the file can be removed");
        std::fs::write(source.join("what.is.this"), "x").expect("the file can be written");
        load().exits(3).says("what.is.this");
        inspect().exits(3).says("what.is.this");
        assert_eq!(desk.tables(server), 0);
    }
    let desk = Desk::new();
    std::fs::create_dir(desk.path("nothing")).expect("the folder can be made");
    finish(desk.refloat(["inspect", "nothing"]))
        .exits(3)
        .says("not a known kind of dump");
    finish(desk.refloat(["inspect", "missing.sql"])).exits(1);
    desk.file("cut.sql", "-- MySQL dump 10.13\nCREATE TABLE t (a int);\n");
    finish(desk.refloat(["inspect", "cut.sql"]))
        .exits(3)
        .says("Dump completed");
}

/// A `SET` that stands in no file, but that the metadata asks for: its refusal names no line.
#[test]
fn what_stands_on_no_line_names_none() {
    for kind in BOTH {
        let ground = ground(kind, 10);
        let (path, url) = (&ground.path, &ground.url);
        let db = &ground.desk.db;
        let metadata = format!(
            "[myloader_session_variables]\nSQL_MODE='NO_SUCH_MODE' /*!40101\n\n\
             [`{db}`.`one`]\nreal_table_name=one\nrows = 10\n\n\
             [`{db}`.`two`]\nreal_table_name=two\nrows = 10\n\n\
             # Finished dump at: 2026-01-01 00:00:01\n"
        );
        std::fs::write(ground.source.join("metadata"), metadata).expect("it can be written");
        let refusal = "server error 1231 (42000): Variable 'sql_mode' can't be set to the value of \
                    'NO_SUCH_MODE': SET SESSION sql_mode";
        let load = |more: &[&str]| {
            let args = ["load", path, "--to", url];
            finish(ground.desk.refloat(args.iter().chain(more)))
        };
        load(&[]).exits(3).says(refusal).never_says("line 0");
        load(&["--on-error", "continue"])
            .exits(1)
            .says("refused: 1:")
            .says(&format!("  - {refusal}"))
            .says(&format!("refloat: refused: {path}: {refusal}"))
            .never_says("line 0")
            .never_says("byte 0");
        assert_eq!(ground.desk.rows(ground.server, "one"), Some(10));
    }
}

#[test]
fn names_in_a_folder_do_not_lead_out_of_it() {
    for kind in BOTH {
        let Ground {
            desk,
            source,
            path,
            server,
            url,
        } = ground(kind, 10);
        let secret = desk.file("secret.dat", "1\tx\t2\n");
        let rows = source.join(format!("{}.one.sql", desk.db));
        for name in [secret.display().to_string(), "../secret.dat".to_owned()] {
            std::fs::write(
                &rows,
                format!("LOAD DATA LOCAL INFILE '{name}' INTO TABLE `one`;\n"),
            )
            .expect("the file can be written");
            finish(desk.refloat(["load", &path, "--to", &url]))
                .exits(3)
                .says("is missing");
        }
        std::fs::remove_file(&rows).expect("the file can be removed");
        std::os::unix::fs::symlink(&secret, &rows).expect("a link can be made");
        finish(desk.refloat(["load", &path, "--to", &url]))
            .exits(3)
            .says("leads out of the folder");
        assert_eq!(desk.tables(server), 0);
    }
}

#[test]
fn a_file_of_another_format_is_recognised_by_its_fields() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let url = server.url();
        desk.ask(server, "CREATE DATABASE @db");
        desk.ask(server, "CREATE TABLE @db.t (a INT, b VARCHAR(10))");
        let path = desk.file("rows.csv", "a,b\r\n1,\"x,y\"\r\n2,\r\n");
        let path = path.to_str().expect("a name in UTF-8");
        let table = format!("{}.t", desk.db);
        let load = |more: &[&str]| {
            let args = ["load", path, "--to", &url, "--table", &table];
            finish(desk.refloat(args.iter().chain(more)))
        };
        load(&[])
            .exits(1)
            .says("rows.csv: line 1, byte 0")
            .says("has 1 fields where 2 are expected")
            .says("--fields-terminated-by");
        load(&["--source-format", "csv", "--header", "--null", ""]).exits(0);
        let rows = desk.ask(
            server,
            "SELECT GROUP_CONCAT(a, IFNULL(b, '-') ORDER BY a) FROM @db.t",
        );
        assert_eq!(rows, "1x,y,2-");
        let command = desk.refloat([
            "load",
            "-",
            "--to",
            &url,
            "--table",
            &table,
            "--append",
            "--fields-terminated-by",
            ";",
        ]);
        finish_with_input(command, |stdin| {
            stdin.write_all(b"3;z\n4;\\N").unwrap_or_default();
        })
        .exits(0)
        .says("2 in 1 table");
        load(&["--fields-enclosed-by", "ab"])
            .exits(3)
            .says("takes one byte");
    }
}

/// mydumper puts a placeholder table where each view will be, until all tables exist.
#[test]
fn a_view_that_is_there_already_is_not_taken_for_the_table_in_its_place() {
    for kind in BOTH {
        let Ground {
            desk,
            source,
            path,
            server,
            url,
        } = ground(kind, 10);
        let db = &desk.db;
        let elsewhere = format!("{db}_elsewhere");
        for (view, select) in [
            ("above_all", "SELECT id FROM all_rows".to_owned()),
            ("all_rows", "SELECT id FROM one".to_owned()),
            ("no_rows", "SELECT id FROM one WHERE id < 0".to_owned()),
            ("zz_other", format!("SELECT id FROM {elsewhere}.t")),
        ] {
            let write = |end: &str, text: String| {
                std::fs::write(source.join(format!("{db}.{view}-{end}.sql")), text)
                    .expect("the file can be written");
            };
            write(
                "schema",
                format!("CREATE TABLE `{view}`(\n`id` int\n)ENGINE=MyISAM;\n"),
            );
            write(
                "schema-view",
                format!(
                    "DROP TABLE IF EXISTS `{view}`;\nDROP VIEW IF EXISTS `{view}`;\nCREATE VIEW `{view}` AS {select};\n"
                ),
            );
        }
        let load =
            |more: &[&str]| finish(desk.refloat(["load", &path, "--to", &url].iter().chain(more)));
        // The last view cannot be created yet; those before it exist.
        load(&[]).exits(1).says(&elsewhere);
        let rows = "SELECT COUNT(*) FROM @db.above_all";
        assert_eq!(desk.ask(server, rows), "10");
        load(&[]).exits(1).says(&elsewhere);
        assert_eq!(desk.ask(server, rows), "10");
        // A kill may happen while a view is missing that another one depends on.
        desk.ask(server, "DROP VIEW @db.all_rows");
        ask(
            server,
            &format!("CREATE DATABASE {elsewhere}; CREATE TABLE {elsewhere}.t (id INT)"),
        );
        load(&[]).exits(0).says("of them were already loaded");
        load(&["--replace"]).exits(0);
        let views = desk.ask(
            server,
            "SELECT GROUP_CONCAT(TABLE_NAME ORDER BY TABLE_NAME) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = '@db'",
        );
        assert_eq!(views, "above_all,all_rows,no_rows,zz_other", "{kind}");
        assert_eq!(desk.ask(server, rows), "10");
        ask(server, &format!("DROP DATABASE {elsewhere}"));
    }
}
