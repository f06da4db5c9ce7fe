use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::settings::{Facts, Grants, Hints, SettingsPlan, catalog};

fn facts(vendor: Vendor, version: (u16, u16, u16), variables: &[(&str, &str)]) -> Facts {
    let variables: BTreeMap<_, _> = variables
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    Facts {
        vendor,
        version,
        variables,
        startup_only: BTreeSet::new(),
        grants: Grants::on_everything(["ALL PRIVILEGES"]),
        redo_enabled: (vendor == Vendor::MySql).then_some(true),
        replicas: Some(0),
    }
}

fn hints() -> Hints {
    Hints {
        dump_bytes: Some(4 * GIB),
        server_memory_available: Some(8 * GIB),
        ..Hints::default()
    }
}

fn new_of(plan: &SettingsPlan, name: &str) -> Option<String> {
    plan.changes
        .iter()
        .find(|c| c.name == name)
        .map(|c| c.new.clone())
}

fn mysql() -> Facts {
    facts(
        Vendor::MySql,
        (9, 7, 4),
        &[
            ("innodb_buffer_pool_size", "134217728"),
            ("innodb_buffer_pool_chunk_size", "134217728"),
            ("innodb_buffer_pool_instances", "1"),
            ("innodb_redo_log_capacity", "104857600"),
            ("innodb_log_file_size", "50331648"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("innodb_doublewrite", "ON"),
            ("log_bin", "ON"),
            ("sync_binlog", "1"),
            ("local_infile", "OFF"),
            ("innodb_autoinc_lock_mode", "2"),
        ],
    )
}

#[test]
fn keep_touches_nothing() {
    let plan = catalog::plan(&mysql(), Durability::Keep, &hints());
    assert!(plan.changes.is_empty() && plan.session.is_empty());
    assert!(
        plan.advice
            .iter()
            .any(|a| a.name == "innodb_buffer_pool_size" && !a.restart)
    );
}

#[test]
fn levels_differ() {
    let relaxed = catalog::plan(&mysql(), Relaxed, &hints());
    assert_eq!(
        new_of(&relaxed, "innodb_flush_log_at_trx_commit").as_deref(),
        Some("2")
    );
    assert_eq!(new_of(&relaxed, "sync_binlog").as_deref(), Some("0"));
    assert_eq!(
        new_of(&relaxed, "innodb_redo_log_capacity"),
        Some((2 * GIB).to_string())
    );
    assert_eq!(
        new_of(&relaxed, "innodb_log_file_size"),
        None,
        "without effect there"
    );
    assert_eq!(new_of(&relaxed, "innodb_doublewrite"), None);
    assert_eq!(new_of(&relaxed, REDO_LOG), None);
    assert_eq!(new_of(&relaxed, "local_infile"), None, "only when allowed");
    assert!(relaxed.advice.iter().any(|a| a.name == "local_infile"));
    assert!(relaxed.session.is_empty());
    let all = catalog::plan(
        &mysql(),
        Disposable,
        &Hints {
            allow_local_infile: true,
            ..hints()
        },
    );
    assert_eq!(new_of(&all, REDO_LOG).as_deref(), Some("OFF"));
    assert_eq!(
        new_of(&all, "innodb_doublewrite").as_deref(),
        Some("DETECT_ONLY")
    );
    assert_eq!(new_of(&all, "local_infile").as_deref(), Some("ON"));
    assert_eq!(all.session[0].name, "sql_log_bin");
    let replica = Facts {
        replicas: Some(1),
        ..mysql()
    };
    assert!(
        catalog::plan(&replica, Disposable, &hints())
            .session
            .is_empty()
    );
}

#[test]
fn the_pool_grows_only_as_far_as_useful_and_free() {
    let pool = |hints: &Hints| {
        new_of(
            &catalog::plan(&mysql(), Relaxed, hints),
            "innodb_buffer_pool_size",
        )
    };
    let number = |h: &Hints| pool(h).map(|n| n.parse::<u64>().unwrap());
    let n = number(&hints()).unwrap();
    assert!(
        n > 4 * GIB && n <= 4 * GIB + 128 * MIB && n.is_multiple_of(128 * MIB),
        "{n}"
    );
    let small = Hints {
        dump_bytes: Some(50 * MIB),
        ..hints()
    };
    assert_eq!(number(&small), None, "the dump fits already");
    let tight = Hints {
        server_memory_available: Some(10 * MIB),
        ..hints()
    };
    assert_eq!(number(&tight), None);
    let remote = Hints {
        server_memory_available: None,
        ..hints()
    };
    assert_eq!(number(&remote), None);
    let mut limited = mysql();
    limited
        .variables
        .insert("innodb_buffer_pool_size_max".into(), (GIB).to_string());
    let plan = catalog::plan(&limited, Relaxed, &hints());
    assert_eq!(
        new_of(&plan, "innodb_buffer_pool_size"),
        Some(GIB.to_string())
    );
}

#[test]
fn the_page_cache_helps_where_the_pool_cannot_grow() {
    let maria = |max: u64| {
        let max = max.to_string();
        let variables = [
            ("innodb_buffer_pool_size", "134217728"),
            ("innodb_buffer_pool_size_max", max.as_str()),
            ("innodb_data_file_buffering", "OFF"),
        ];
        let facts = facts(Vendor::MariaDb, (11, 8, 6), &variables);
        let small = Hints {
            dump_bytes: Some(GIB),
            ..hints()
        };
        let plan = catalog::plan(&facts, Relaxed, &small);
        new_of(&plan, "innodb_data_file_buffering")
    };
    assert_eq!(maria(128 * MIB).as_deref(), Some("ON"));
    assert_eq!(maria(64 * GIB), None, "the pool itself can hold the rows");
}

#[test]
fn startup_only_becomes_advice_and_missing_privileges_a_reason() {
    let mut maria = facts(
        Vendor::MariaDb,
        (10, 6, 0),
        &[
            ("innodb_log_file_size", "100663296"),
            ("innodb_doublewrite", "ON"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("innodb_autoinc_lock_mode", "1"),
        ],
    );
    maria.startup_only = ["innodb_log_file_size", "innodb_doublewrite"]
        .map(Into::into)
        .into();
    let plan = catalog::plan(&maria, Disposable, &hints());
    let advised: Vec<_> = plan
        .advice
        .iter()
        .filter(|a| a.restart)
        .map(|a| a.name.as_str())
        .collect();
    assert_eq!(
        advised,
        [
            "innodb_log_file_size",
            "innodb_doublewrite",
            "innodb_autoinc_lock_mode"
        ]
    );
    maria.grants = Grants::on_everything(["SELECT"]);
    let plan = catalog::plan(&maria, Disposable, &hints());
    assert!(plan.changes.is_empty());
    assert!(
        plan.skipped.iter().any(|s| s.reason.contains("SUPER")),
        "{plan:?}"
    );
}

#[test]
fn the_redo_log_of_mariadb_grows_where_that_is_quick_or_worth_it() {
    let log = |variables: &[(&str, &str)], dump_bytes| {
        let maria = facts(Vendor::MariaDb, (10, 11, 19), variables);
        let hints = Hints {
            dump_bytes,
            ..hints()
        };
        new_of(
            &catalog::plan(&maria, Relaxed, &hints),
            "innodb_log_file_size",
        )
    };
    let size = ("innodb_log_file_size", "100663296");
    let quick = |bytes| log(&[size, ("innodb_log_checkpoint_now", "OFF")], bytes);
    assert_eq!(quick(Some(90 * MIB)), None, "it fits");
    assert_eq!(quick(Some(100 * MIB)), Some((192 * MIB).to_string()));
    assert_eq!(quick(Some(900 * MIB)), Some((300 * MIB).to_string()));
    assert_eq!(quick(Some(90 * GIB)), Some((2 * GIB).to_string()));
    assert_eq!(quick(None), Some((512 * MIB).to_string()));
    let tiny = [
        ("innodb_log_file_size", "8388608"),
        ("innodb_log_buffer_size", "16777216"),
        ("innodb_log_checkpoint_now", "OFF"),
    ];
    assert_eq!(log(&tiny, Some(GIB)), None, "it could not be put back");
    let slow = |bytes| log(&[size], bytes);
    assert_eq!(slow(Some(900 * MIB)), None);
    assert_eq!(slow(None), None);
    assert_eq!(slow(Some(90 * GIB)), Some((2 * GIB).to_string()));
}

#[test]
fn super_is_not_enough_for_the_binary_log_of_newer_mariadb() {
    let lacks = |version, rights: &[&str]| {
        let variables = [("log_bin", "ON"), ("sync_binlog", "1")];
        let mut maria = facts(Vendor::MariaDb, version, &variables);
        maria.grants = Grants::on_everything(rights.iter().copied());
        let plan = catalog::plan(&maria, Disposable, &hints());
        let skipped = plan.skipped.iter();
        let lacking =
            skipped.filter(|one| one.missing_privilege.as_deref() == Some("BINLOG ADMIN"));
        lacking.map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    let both = ["sync_binlog", "sql_log_bin"];
    assert!(lacks((10, 11, 6), &["SUPER"]).is_empty());
    assert_eq!(lacks((11, 8, 6), &["SUPER"]), both);
    assert!(lacks((11, 8, 6), &["BINLOG ADMIN"]).is_empty());
}
