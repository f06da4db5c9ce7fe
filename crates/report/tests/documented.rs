//! Checks that `docs/json.md` documents every field of the JSON output.

use refloat_run::progress::{Progress, TableState};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/json.md");

/// Collects every key of `value`, at any depth.
fn keys(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.push(key.clone());
                keys(value, out);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
        _ => {}
    }
}

#[track_caller]
fn assert_documented(value: &Value) {
    let mut found = Vec::new();
    keys(value, &mut found);
    assert!(found.len() > 3, "nothing to look for in {value}");
    for key in found {
        assert!(
            PAGE.contains(&format!("`{key}`")),
            "docs/json.md does not name the field {key}"
        );
    }
}

#[test]
fn every_field_of_a_snapshot() {
    let progress = Progress::new();
    let _table = progress.table("a.b", TableState::Loading);
    assert_documented(&serde_json::to_value(progress.snapshot()).expect("a snapshot is JSON"));
}

#[test]
fn every_field_of_the_summary_of_a_load() {
    let outcome = refloat_load::LoadOutcome::default();
    assert_documented(&serde_json::to_value(outcome).expect("an outcome is JSON"));
}

#[test]
fn every_field_of_the_summary_of_a_copy() {
    let outcome = refloat_copy::CopyOutcome::default();
    assert_documented(&serde_json::to_value(outcome).expect("an outcome is JSON"));
}

#[test]
fn a_copy_reports_its_load_as_a_load_does() {
    let mut outcome = refloat_copy::CopyOutcome::default();
    outcome.load.proven = true;
    outcome.load.skipped.push("a table".to_owned());
    let load = outcome.load.to_json();
    let copy = serde_json::to_value(outcome).expect("an outcome is JSON");
    for (field, value) in load.as_object().expect("an object") {
        assert_eq!(&copy[field], value, "{field}");
    }
    assert_eq!(copy["proven"], false, "something was left out");
}

#[test]
fn every_field_of_the_summary_of_a_comparison() {
    let outcome = refloat_verify::VerifyOutcome::default();
    assert_documented(&serde_json::to_value(outcome).expect("an outcome is JSON"));
}
