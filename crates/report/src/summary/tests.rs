use refloat_load::{LoadOutcome, LoadWarning, Proof, StatementFailure, TableOutcome, WritePath};
use refloat_run::phases::PhaseTime;

use refloat_verify::{SchemaDifference, VerifyOutcome};

use super::load;

fn table(name: &str, rows: u64, complete: bool) -> TableOutcome {
    TableOutcome {
        database: "shop".into(),
        table: name.into(),
        rows,
        bytes: rows * 200,
        indexes_built: 1,
        transactional: true,
        complete,
        missing: if complete {
            Vec::new()
        } else {
            vec!["ADD KEY `k_1` (`k`)".into()]
        },
    }
}

fn outcome() -> LoadOutcome {
    let mut outcome = LoadOutcome::default();
    outcome.source = "shop.sql.gz".into();
    outcome.target = "root@db1:3306".into();
    outcome.server = "MariaDB 11.8.6".into();
    outcome.tables = vec![
        table("orders", 1_500_000, true),
        table("items", 1_500_000, true),
    ];
    outcome.rows = 3_000_000;
    outcome.bytes = 604_000_000;
    outcome.statements = 31;
    outcome.seconds = 6.3;
    outcome.phases = [
        ("data", 4.4),
        ("indexes", 1.8),
        ("proof", 0.1),
        ("settings", 0.0),
    ]
    .map(|(phase, seconds)| PhaseTime {
        phase: phase.into(),
        seconds,
    })
    .into();
    outcome.chunk_bytes = 32 << 20;
    outcome.chunk_rows = 166_000;
    outcome.write_paths = vec![(WritePath::Bulk, 3_000_000)];
    outcome.proof = Proof {
        done: true,
        tables_counted: 2,
        first_rows_compared: 1,
        first_rows_read_back: 1,
        first_rows_not_compared: vec!["table shop.orders: so it is".to_owned()],
        definitions_compared: 2,
        ..Proof::default()
    };
    outcome.proven = true;
    outcome
}

#[test]
fn a_load_that_went_well() {
    let expected = "\
load of shop.sql.gz into root@db1:3306 (MariaDB 11.8.6): done and proven
  rows        3,000,000 in 2 tables
  read        576 MiB of dump text, 31 other statements
  time        6.3 s: data 4.4 s, indexes 1.8 s, proof 0.10 s
  rate        91.4 MiB/s, 476k rows/s, over all phases
  write path  array-bound insert (3,000,000 rows)
  chunk       32.0 MiB, 166,000 rows on average
  settings    nothing was changed on the server
  warnings    0
  proof       2 tables counted, first rows of 1 compared and of 1 read back, 2 definitions compared, no difference
first rows that were not compared:
  - table shop.orders: so it is
";
    assert_eq!(load(&outcome(), None), expected);
}

#[test]
fn what_was_left_out_stands_in_the_first_line() {
    let mut outcome = outcome();
    outcome.skipped.push("line 4: UPDATE b SET i=2".to_owned());
    let text = load(&outcome, None);
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.ends_with(": done, without what was left out on purpose"),
        "{text}"
    );
    assert!(
        text.contains("left out on purpose: 1:\n  - line 4"),
        "{text}"
    );
}

#[test]
fn nobody_is_advised_after_no_rows() {
    let mut outcome = outcome();
    outcome
        .advice
        .push("sync_binlog = 0 would be better".to_owned());
    assert!(load(&outcome, None).contains("advice:"));
    outcome.rows = 0;
    assert!(!load(&outcome, None).contains("advice:"));
}

#[test]
fn a_load_that_stopped_says_what_is_there_and_what_is_not() {
    let mut outcome = outcome();
    outcome.proven = false;
    outcome.proof = Proof::default();
    outcome.tables[1] = table("items", 40_000, false);
    outcome.settings_changed = vec!["sync_binlog: 1 -> 0 (speed)".into()];
    outcome.settings_left = vec!["sync_binlog: 1 -> 0".into()];
    let text = load(&outcome, None);
    for line in [
        "load of shop.sql.gz into root@db1:3306 (MariaDB 11.8.6): NOT complete",
        "complete: 1 table, 1,500,000 rows:",
        "  - shop.orders: 1,500,000 rows",
        "not complete: 1 table:",
        "  - shop.items: 40,000 rows committed; missing: ADD KEY `k_1` (`k`)",
        "  settings    1 changed, NOT all put back: see below, and `refloat settings revert`",
        "settings still to be put back:",
        "  proof       not run",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nis missing in\n{text}"
        );
    }
}

#[test]
fn what_a_comparison_says_stands_in_the_first_line() {
    let mut outcome = outcome();
    outcome.proven = false;
    let mut verified = VerifyOutcome::default();
    let first = |outcome: &LoadOutcome, verified: &VerifyOutcome| {
        let text = load(outcome, Some(verified));
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert!(
        first(&outcome, &verified).ends_with(": loaded and counted, but NOT compared to the end")
    );
    verified.complete = true;
    assert!(
        first(&outcome, &verified)
            .ends_with(": loaded and counted, but not all rows could be compared")
    );
    verified.schema_differences.push(SchemaDifference {
        about: "table t".into(),
        a: "there".into(),
        b: "missing".into(),
    });
    assert!(first(&outcome, &verified).ends_with("but the comparison found DIFFERENCES"));
    // Refused statements count without a comparison too.
    assert!(
        load(&outcome, None)
            .lines()
            .next()
            .unwrap()
            .ends_with(": NOT complete")
    );
}

#[test]
fn long_lists_are_cut_and_counted() {
    let mut outcome = outcome();
    outcome.proven = false;
    for line in 0..5_000 {
        let (code, head) = (1062, "INSERT INTO `t` VALUES".to_owned());
        outcome.failures.push(StatementFailure {
            hint: String::new(),
            file: "shop.sql".into(),
            line,
            offset: 0,
            head,
            code,
            message: "duplicate".into(),
            table: None,
        });
    }
    outcome.warnings.push(LoadWarning {
        about: "shop.t".into(),
        code: 1265,
        message: "truncated\x1b[2J".into(),
    });
    let text = load(&outcome, None);
    assert!(text.contains("refused: 5,000:\n"), "{text}");
    assert!(text.contains("  - and 4,900 more\n"), "{text}");
    assert!(
        text.contains("  - shop.t: truncated?[2J (1265)\n"),
        "{text}"
    );
    assert!(!text.contains('\x1b'));
    assert!(text.contains("  warnings    1\n"), "{text}");
}
