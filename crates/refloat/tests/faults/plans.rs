//! A plan says what a load then does, and exits with 3 if the load would be refused or stop. A long
//! scan of a dump can be cancelled.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_sandbox::Instance;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{
    BOTH, Desk, Run, Running, ask, dump, finish, finish_with_input, shared, table,
};

/// Two seconds are promised; a machine that runs other tests as well takes longer to notice.
const STOP: Duration = Duration::from_secs(5);

/// The plan of a dump from a plain file, a compressed one and a pipe: all must say the same.
fn plans(desk: &Desk, text: &str, url: &str, more: &[&str]) -> [Run; 3] {
    let plain = desk.file("dump.sql", text);
    let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
    let command = |source: &Path| {
        let mut command = desk.load_command(source, url, more);
        command.arg("--plan");
        command
    };
    [
        finish(command(&plain)),
        finish(command(&packed)),
        finish_with_input(command(Path::new("-")), |stdin| {
            let _ = stdin.write_all(text.as_bytes());
        }),
    ]
}

/// Statements of a dump, more arguments, and what plan and load say about the two.
type Refused = (&'static str, &'static [&'static str], &'static str);

const REFUSED: &[Refused] = &[
    (
        "USE `elsewhere`;\nITEMS",
        &[],
        "names its own database elsewhere",
    ),
    (
        "CREATE DATABASE `elsewhere`;\nITEMS",
        &[],
        "names its own database elsewhere",
    ),
    ("ITEMSCREATE USER evil@'%';\n", &[], "--allow accounts"),
    (
        "ITEMSSET GLOBAL max_connections=17;\n",
        &[],
        "--allow global",
    ),
    (
        "ITEMSSET GLOBAL max_connections=17;\n",
        &["--allow", "accounts"],
        "--allow global",
    ),
    ("ITEMS\\! ls\n", &[], "client command"),
    ("ITEMSsystem ls\n", &[], "client command"),
    (
        "ITEMSLOAD DATA INFILE '/etc/passwd' INTO TABLE items;\n",
        &[],
        "reads a file",
    ),
    (
        "ITEMS",
        &["--tables", "nothing"],
        "no table of the dump is called nothing",
    ),
    (
        "ITEMSPREPARE x FROM 'SELECT 1';\nEXECUTE x;\n",
        &[],
        "--skip dynamic-sql",
    ),
    (
        "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5';\nITEMS",
        &[],
        "--skip gtid-purged leaves it out",
    ),
    ("ITEMSROLLBACK;\n", &[], "rows before it are committed"),
    (
        "ITEMSCREATE TABLE late (a varchar(9) COLLATE nosuch_ci);\n",
        &[],
        "Unknown collation: 'nosuch_ci'",
    ),
    (
        "ITEMSCREATE TABLE late (a varchar(9)) DEFAULT CHARSET=nosuch;\n",
        &[],
        "--map-collation nosuch=utf8mb4",
    ),
    (
        "ITEMSCREATE TABLE late (a varchar(9) COLLATE utf8mb4_nosuch_ci);\n",
        &[],
        "--map-collation utf8mb4_nosuch_ci=utf8mb4_",
    ),
    (
        "ITEMSCREATE TABLE late (a varchar(9) COLLATE nosuch_ci);\n",
        &["--map-collation", "nosuch_ci=nosuch_either"],
        "to which --map-collation maps nosuch_ci",
    ),
    ("ITEMS", &["--write-path", "nonsense"], "nonsense"),
];

#[test]
fn a_plan_is_refused_like_the_load() {
    let items = table("items", 20);
    for kind in BOTH {
        let server = shared(kind);
        let mut desk = Desk::new();
        for case in REFUSED {
            desk.next();
            let (body, _, _) = case;
            let text = dump(&body.replace("ITEMS", &items));
            refused_by_plan_and_load(&desk, server, &text, case);
            if *body == "ITEMSSET GLOBAL max_connections=17;\n" {
                stops_midway_from_a_pipe(&desk, server, &text, case);
            }
        }
        everything_at_once(&mut desk, server, &items);
        dynamic_sql_is_allowed(&mut desk, server, &items);
        system_schemas(&desk, server, &items);
        no_database(&desk, server, &items);
    }
}

fn refused_by_plan_and_load(desk: &Desk, server: &Instance, text: &str, case: &Refused) {
    let (body, more, says) = case;
    let code = if more.contains(&"nonsense") { 2 } else { 3 };
    for run in plans(desk, text, &server.url(), more) {
        run.exits(code).says(says);
    }
    assert_eq!(desk.tables(server), 0, "a plan touches nothing");
    // The load says the same before it touches anything, even if the source must be decompressed
    // twice for that.
    let plain = desk.file("load.sql", text);
    let packed = desk.file("load.sql.gz", Desk::compressed("gzip", &plain));
    for source in [&plain, &packed] {
        desk.load(source, server, more).exits(code).says(says);
        let made = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('@db', 'elsewhere')";
        assert_eq!(desk.ask(server, made), "0", "{body} {more:?}");
    }
}

/// A pipe cannot be scanned in advance: the load stops at the statement, and what it loaded before
/// that stays.
fn stops_midway_from_a_pipe(desk: &Desk, server: &Instance, text: &str, case: &Refused) {
    let (_, more, says) = case;
    let piped = desk.load_command(Path::new("-"), &server.url(), more);
    let run = finish_with_input(piped, |stdin| {
        let _ = stdin.write_all(text.as_bytes());
    });
    run.exits(1).says(says);
    assert_eq!(desk.tables(server), 1, "{more:?}");
    let limit = desk.ask(server, "SELECT @@GLOBAL.max_connections");
    assert_ne!(limit, "17", "{more:?}");
}

/// Everything at once, with one flag for each.
fn everything_at_once(desk: &mut Desk, server: &Instance, items: &str) {
    let many = format!(
        "SET GLOBAL max_connections=17;\nCREATE USER evil@'%';\nGRANT SELECT ON *.* TO evil@'%';\n{items}PREPARE x FROM 'SELECT 1';\n"
    );
    desk.next();
    let run = desk.load_text(dump(&many), server, &["--tables", "items,nothing"]);
    let order = ["--skip global", "--skip accounts", "--skip dynamic-sql"];
    assert!(
        order.is_sorted_by_key(|flag| run.stderr.find(flag)),
        "not in the order of their lines: {run:?}"
    );
    run.exits(3)
        .says("--skip global")
        .says("--skip accounts")
        .says("(and 1 more of this class)")
        .says("--skip dynamic-sql")
        .says("no table of the dump is called nothing")
        .never_says("--on-error");
    desk.load_text(
        dump(&many),
        server,
        &["--skip", "global,accounts,dynamic-sql"],
    )
    .exits(0);
}

fn dynamic_sql_is_allowed(desk: &mut Desk, server: &Instance, items: &str) {
    desk.next();
    desk.load_text(
        dump(&format!(
            "{items}PREPARE x FROM 'DELETE FROM items';\nEXECUTE x;\n"
        )),
        server,
        &["--allow", "dynamic-sql"],
    )
    .exits(0);
    assert_eq!(
        desk.rows(server, "items"),
        Some(0),
        "what it did is counted"
    );
}

fn system_schemas(desk: &Desk, server: &Instance, items: &str) {
    let system = dump(&format!("USE `mysql`;\n{items}"));
    let url = server.url();
    let file = desk.file("system.sql", &system);
    let plan = |more: &[&str]| {
        let mut args = vec!["load", file.to_str().unwrap(), "--to", &url, "--plan"];
        args.extend(more);
        finish(desk.refloat(args))
    };
    plan(&[]).exits(3).says("--system-schema skip");
    plan(&["--system-schema", "skip"])
        .exits(0)
        .says("0 in 0 tables")
        .never_says("items");
}

fn no_database(desk: &Desk, server: &Instance, items: &str) {
    let homeless = desk.file("homeless.sql", dump(items));
    let args = [
        "load",
        homeless.to_str().unwrap(),
        "--to",
        &server.url(),
        "--plan",
    ];
    finish(desk.refloat(args))
        .exits(3)
        .says("names no database");
}

/// For a plan, the server parses definitions without running them.
#[test]
fn a_plan_names_definitions_that_the_server_cannot_read() {
    let items = table("items", 20);
    for kind in BOTH {
        let server = shared(kind);
        let mut desk = Desk::new();
        let of_other_vendor = if kind == refloat_sandbox::ServerKind::MySql97 {
            "CREATE TABLE u (\n  a UUID\n)"
        } else {
            "CREATE TABLE u (\n  a INT,\n  KEY f ((a + 1))\n)"
        };
        for definition in [
            of_other_vendor,
            "CREATE TABLE u (\n  a INT\n) ENGINE=Nosuch",
        ] {
            desk.next();
            let text = dump(&format!(
                "{items}SET sql_mode='NO_ENGINE_SUBSTITUTION';\n{definition};\n"
            ));
            let line = text
                .lines()
                .position(|line| line.starts_with("CREATE TABLE u"));
            for run in plans(&desk, &text, &server.url(), &[]) {
                run.exits(3).says(&format!("line {}:", line.unwrap() + 1));
            }
            assert_eq!(desk.tables(server), 0, "a plan touches nothing");
            desk.load_text(&text, server, &[]).exits(1);
            // Versioned comments that apply are parsed with the rest.
            desk.next();
            let fine = dump(
                "CREATE TABLE /*!32312 IF NOT EXISTS*/ u (a INT) ENGINE=InnoDB /*!99999 ENGINE=Nosuch */;\n",
            );
            for run in plans(&desk, &fine, &server.url(), &[]) {
                run.exits(0);
            }
            // If the server may substitute another engine, the plan passes.
            if definition.contains("Nosuch") {
                desk.next();
                let lenient = text.replace("'NO_ENGINE_SUBSTITUTION'", "''");
                for run in plans(&desk, &lenient, &server.url(), &[]) {
                    run.exits(0);
                }
            }
        }
    }
}

#[test]
fn a_plan_holds_what_was_asked_for() {
    let body = format!(
        "{}{}CREATE USER evil@'%';\n/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a` */;\n",
        table("items", 20),
        table("other", 30)
    );
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let text = dump(&body);
        for run in plans(
            &desk,
            &text,
            &server.url(),
            &["--tables", "it*", "--skip", "accounts"],
        ) {
            run.exits(0)
                .says("20 in 1 table")
                .says("left out on purpose: 2")
                .says("CREATE USER evil")
                .never_says("other")
                .never_says("30 rows");
        }
        for run in plans(&desk, &text, &server.url(), &["--allow", "accounts"]) {
            run.exits(0)
                .says("50 in 2 tables")
                .says("statements that run alone")
                .never_says("left out");
        }
        for run in plans(&desk, &text, &server.url(), &["--on-error", "continue"]) {
            run.exits(0)
                .says("statements that are refused: 1")
                .says("CREATE USER evil");
        }
        assert_eq!(
            ask(server, "SELECT COUNT(*) FROM mysql.user WHERE user='evil'"),
            "0"
        );
        assert_eq!(desk.tables(server), 0, "a plan touches nothing");
    }
}

#[test]
fn a_plan_looks_at_the_server_for_every_kind_of_source() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let mut desk = Desk::new();
        let text = dump(&table("items", 20));
        ask(&server, "CREATE USER poor@'%'");
        ask(
            &server,
            &format!("GRANT SELECT ON {}.* TO poor@'%'", desk.db),
        );
        let url = server.url().replace("root@", "poor@");
        for run in plans(&desk, &text, &url, &[]) {
            run.exits(3)
                .says("lacks INSERT, CREATE")
                .says("before anything was touched");
        }
        desk.next();
        desk.ask(&server, "CREATE DATABASE @db");
        desk.ask(&server, "CREATE TABLE @db.there (a int)");
        for run in plans(&desk, &text, &server.url(), &[]) {
            run.exits(3).says("is not empty").says("there");
        }
        for run in plans(&desk, &text, &server.url(), &["--replace"]) {
            run.exits(0).says("20 in 1 table");
        }
        let changing = dump(&format!("{}DELETE FROM there;\n", table("items", 20)));
        for run in plans(&desk, &changing, &server.url(), &["--append"]) {
            run.exits(3).says("DELETE FROM there");
        }
        // A truncated dump is reported by a plan too.
        let cut = &text[..text.find("-- Dump completed").unwrap()];
        for run in plans(&desk, cut, &server.url(), &["--replace"]) {
            run.exits(1).says("may be truncated: its closing line");
        }
    }
}

/// How far a program has read a file.
fn read_up_to(pid: u32, file: &Path) -> Option<u64> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        if std::fs::read_link(entry.path()).is_ok_and(|target| target == file) {
            let name = entry.file_name();
            let path = format!("/proc/{pid}/fdinfo/{}", name.to_string_lossy());
            let info = std::fs::read_to_string(path).ok()?;
            let position = info.lines().find_map(|line| line.strip_prefix("pos:"))?;
            let position: u64 = position.trim().parse().ok()?;
            // The file is open twice: once to be loaded, once to be scanned.
            if position > 8 << 20 {
                return Some(position);
            }
        }
    }
    None
}

#[test]
fn ctrl_c_while_a_large_dump_is_looked_over() {
    const SIZE: u64 = 7 << 30;
    let server = shared(BOTH[0]);
    let desk = Desk::new();
    let path = desk.path("dump.sql");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(dump(&table("items", 50)).as_bytes())
        .unwrap();
    // A sparse part: it takes no space, but time to read.
    file.seek(SeekFrom::Start(SIZE)).unwrap();
    file.write_all(b"\n-- Dump completed\n").unwrap();
    drop(file);
    let path = path.canonicalize().unwrap();
    let run = Running::start(desk.load_command(&path, &server.url(), &[]));
    let pid = run.pid();
    wait_until("the dump is being looked over", || {
        read_up_to(pid, &path).is_some()
    });
    let at = read_up_to(pid, &path).unwrap_or(SIZE);
    let signalled = Instant::now();
    run.signal("INT");
    let mut last = at;
    while let Some(at) = read_up_to(pid, &path) {
        last = last.max(at);
        std::thread::sleep(Duration::from_millis(2));
    }
    run.ends_within(STOP).exits(5);
    assert!(signalled.elapsed() < STOP, "{:?}", signalled.elapsed());
    assert!(last < SIZE - (1 << 30), "it was read to its end: {last}");
    assert_eq!(desk.tables(server), 0, "it went on");
}
