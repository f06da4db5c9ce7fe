//! Current rows stay current between versions of MariaDB that have a different end of time (2038 up
//! to 11.4, 2106 from 11.5 on).

use std::path::{Path, PathBuf};

use refloat_dump::{DumpError, DumpFormat, DumpOptions, dump};
use refloat_load::WritePath;
use refloat_read::ReadError;
use refloat_run::{Cancel, Events, Progress, Refusal, Run, RunDir};
use refloat_sandbox::ServerKind;
use refloat_testkit::{chain, servers};
use refloat_verify::{Endpoint, VerifyOptions, VerifyOutcome, verify};

use crate::bench::{Adjust, Bench};

/// One table with period columns and one without, each with current rows and history.
const ROWS: &str = "\
CREATE TABLE plain (a INT PRIMARY KEY, b INT, at DATETIME(6)) WITH SYSTEM VERSIONING;
CREATE TABLE named (a INT PRIMARY KEY, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e))
  WITH SYSTEM VERSIONING;
INSERT INTO plain VALUES (1, 1, '2038-01-19 03:14:07.999999'), (2, 2, '2106-02-07 06:28:15.999999');
UPDATE plain SET b = 3 WHERE a = 1;
INSERT INTO named (a) VALUES (1), (2);
DELETE FROM named WHERE a = 1;
";

fn take(bench: &Bench, name: &str, format: DumpFormat) -> PathBuf {
    let out = bench.path(name);
    let mut options = DumpOptions::new(servers::target(bench.server), &out);
    options.format = format;
    dump(&options, &a_run(bench, "dump"))
        .unwrap_or_else(|failure| panic!("{}", chain(&failure.error)));
    out
}

fn a_run(bench: &Bench, command: &str) -> Run {
    Run {
        dir: RunDir::create(&bench.path("."), command).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

fn compare(a: &Path, target: &Bench) -> VerifyOutcome {
    let of_target = Endpoint::Server(Box::new(servers::target(target.server)));
    let options = VerifyOptions::new(Endpoint::Dump(a.to_owned()), of_target);
    verify(&options, &a_run(target, "verify"))
        .unwrap_or_else(|failure| panic!("{}", chain(&failure.error)))
}

#[test]
fn rows_of_now_stay_rows_of_now() {
    // Always in this order: each test waits for its turn on a server.
    let (old, new) = (
        Bench::new(ServerKind::MariaDb1011),
        Bench::new(ServerKind::MariaDb118),
    );
    let ways: [Adjust; 3] = [
        |_| {},
        |options| options.write_path = WritePath::LoadData,
        |options| options.write_path = WritePath::Insert,
    ];
    for (source, target) in [(&old, &new), (&new, &old)] {
        source.empty();
        source.fill(ROWS);
        let folder = take(source, "folder", DumpFormat::Refloat);
        for adjust in ways {
            target.empty();
            let outcome = target.load(&folder, adjust).unwrap();
            assert!(outcome.proven, "{:?}", outcome.proof);
            let counted = target
                .connect()
                .query(
                    "SELECT (SELECT COUNT(*) FROM it.plain), (SELECT COUNT(*) FROM it.plain FOR SYSTEM_TIME ALL), \
                     (SELECT COUNT(*) FROM it.named), (SELECT COUNT(*) FROM it.named FOR SYSTEM_TIME ALL), \
                     (SELECT GROUP_CONCAT(at ORDER BY a) FROM it.plain)",
                )
                .unwrap();
            let counts: Vec<&str> = (0..5).filter_map(|at| counted.str(0, at)).collect();
            assert_eq!(
                counts,
                [
                    "2",
                    "3",
                    "1",
                    "2",
                    "2038-01-19 03:14:07.999999,2106-02-07 06:28:15.999999"
                ],
                "into {}",
                target.kind
            );
            let found = compare(&folder, target);
            assert!(found.same, "{found:#?}");
        }
        // A current row that has become history is found.
        servers::client(target.server, &["it"], b"DELETE FROM named WHERE a = 2").unwrap();
        assert!(!compare(&folder, target).same);
        // The text of an INSERT is not rewritten.
        let sql = take(source, "dump.sql", DumpFormat::Sql);
        target.empty();
        target.refuses(&sql, |_| {}, "this server takes for historical rows");
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::remove_file(&sql).unwrap();
    }
}

/// Transaction numbers belong to one server: every version rejects a row that brings its own
/// (1906).
#[test]
fn a_past_that_no_server_takes_back_is_not_dumped() {
    let (source, target) = (
        Bench::new(ServerKind::MariaDb1011),
        Bench::new(ServerKind::MariaDb118),
    );
    source.empty();
    target.empty();
    source.fill(
        "CREATE TABLE numbered (a INT PRIMARY KEY, s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING ENGINE=InnoDB;
         INSERT INTO numbered (a) VALUES (1), (2); DELETE FROM numbered WHERE a = 1;",
    );
    let out = source.path("numbered");
    let mut options = DumpOptions::new(servers::target(source.server), &out);
    let refused = dump(&options, &a_run(&source, "dump")).unwrap_err().error;
    let DumpError::Read(ReadError::Refused(Refusal { reason, hint })) = refused else {
        panic!("{}", chain(&refused));
    };
    assert!(
        reason.contains("the history of it.numbered") && hint.contains("--no-history"),
        "{reason} {hint}"
    );
    assert!(!out.exists(), "nothing was written");

    options.read.no_history = true;
    dump(&options, &a_run(&source, "dump"))
        .unwrap_or_else(|failure| panic!("{}", chain(&failure.error)));
    let outcome = target.load(&out, |_| {}).unwrap();
    assert!(outcome.proven, "{:?}", outcome.proof);
    let rows = target
        .connect()
        .query_value("SELECT GROUP_CONCAT(a) FROM it.numbered FOR SYSTEM_TIME ALL");
    assert_eq!(rows.unwrap().as_deref(), Some("2"));
    std::fs::remove_dir_all(&out).unwrap();
}
