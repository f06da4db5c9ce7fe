//! `--json`: scripts get what `docs/json.md` describes.

// Hazard of faults: JSON that is not as documented

use std::collections::{BTreeMap, BTreeSet};

use refloat_sandbox::StartOptions;
use refloat_testkit::servers;
use serde_json::Value;

use crate::support::{BOTH, Desk, assert_same_settings, dump, finish, settings, table};

const PAGE: &str = include_str!("../../../../docs/json.md");

/// Words in backticks in the page's table row that begins with `name`.
#[track_caller]
fn documented(name: &str) -> BTreeSet<&'static str> {
    let row = PAGE
        .lines()
        .find(|line| line.starts_with(&format!("| `{name}` |")))
        .unwrap_or_else(|| panic!("docs/json.md has no row for {name}"));
    row.split('`').skip(3).step_by(2).collect()
}

/// Every key of `value`, at any depth, except those inside `plan`.
fn keys(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.insert(key.clone());
                if key != "plan" {
                    keys(value, out);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
        _ => {}
    }
}

/// The events of a run, after checking time, kind and fields of each.
#[track_caller]
fn events(stdout: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut latest = 0.0;
    for line in stdout.lines() {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        let fields = event.as_object().expect("an event is an object");
        let ts = event["ts"].as_str().expect("it has a time");
        assert!(
            ts.len() == "2026-01-01T00:00:00.000Z".len() && ts.ends_with('Z'),
            "{ts}"
        );
        let elapsed = event["elapsed"].as_f64().expect("it has a second");
        assert!(elapsed >= latest, "{elapsed} after {latest}");
        latest = elapsed;
        let kind = event["event"].as_str().expect("it has a kind");
        let known = documented(kind);
        for field in fields.keys() {
            assert!(
                ["ts", "elapsed", "event"].contains(&field.as_str())
                    || known.contains(field.as_str()),
                "docs/json.md does not name {field} of {kind}"
            );
        }
        let mut all = BTreeSet::new();
        keys(&event, &mut all);
        for key in all {
            assert!(
                PAGE.contains(&format!("`{key}`")),
                "docs/json.md does not name {key}, which is in {kind}"
            );
        }
        events.push(event);
    }
    let kinds: Vec<_> = events.iter().map(|event| &event["event"]).collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "run_started").count(),
        1
    );
    assert_eq!(kinds.iter().filter(|kind| **kind == "finished").count(), 1);
    assert_eq!(*kinds[kinds.len() - 1], "finished");
    // Until it is known what will be done, nothing is touched.
    let begun = kinds.iter().position(|kind| **kind == "run_started");
    let touched =
        |kind: &&Value| ["setting_changed", "table_started"].contains(&kind.as_str().unwrap());
    assert!(begun < kinds.iter().position(touched), "{kinds:?}");
    events
}

/// Number of events of each kind.
fn counts(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts
            .entry(event["event"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

#[test]
fn events_of_a_load_are_as_documented() {
    for kind in BOTH {
        let server = servers::start(&StartOptions::new(kind));
        let mut desk = Desk::new();
        let before = settings(&server);
        let body = format!("{}{}", table("one", 150_000), table("two", 10));
        let run = desk
            .load_text(
                dump(&body),
                &server,
                &["--json", "--durability", "relaxed", "--chunk-rows", "2000"],
            )
            .exits(0);
        assert_eq!(run.stderr, "", "stdout has it all");
        let all = events(&run.stdout);
        let seen = counts(&all);
        for (kind, least) in [
            ("phase_started", 5),
            ("phase_finished", 5),
            ("table_started", 2),
            ("table_finished", 2),
            ("build_started", 1),
            ("build_finished", 1),
            ("setting_changed", 1),
            ("setting_reverted", 1),
        ] {
            assert!(
                seen.get(kind).is_some_and(|n| *n >= least),
                "{kind}: {seen:?}"
            );
        }
        assert_eq!(
            seen["setting_changed"], seen["setting_reverted"],
            "{seen:?}"
        );
        let outcome = &all.last().unwrap()["outcome"];
        assert_eq!(outcome["result"], "done");
        assert_eq!(outcome["message"], Value::Null);
        let summary = &outcome["summary"];
        assert_eq!(summary["rows"], 150_010);
        assert_eq!(summary["proven"], true);
        assert_eq!(summary["warnings"]["total"], 0);
        assert_eq!(summary["settings_left"], serde_json::json!([]));
        let mut tables: Vec<_> = summary["tables"].as_array().unwrap().iter().collect();
        tables.sort_by_key(|table| table["table"].as_str());
        assert_eq!(tables[0]["rows"], 150_000);
        assert_eq!(tables[0]["complete"], true);
        assert_eq!(tables[1]["rows"], 10);

        // The record of the run says the same.
        let runs = desk.state().join("runs");
        let folder = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let recorded = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert_eq!(recorded, run.stdout);
        assert_same_settings(&before, &server);

        // The same load again is refused, and a refused statement has an event.
        let run = desk.load_text(dump(&body), &server, &["--json"]).exits(3);
        let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "finished");
        assert_eq!(last["outcome"]["result"], "refused");
        assert!(run.stderr.contains("is not empty"), "{}", run.stderr);

        // Nothing is proven of what was left out.
        let some = ["--json", "--replace", "--tables", "two"];
        let run = desk.load_text(dump(&body), &server, &some).exits(0);
        let outcome = &events(&run.stdout).pop().unwrap()["outcome"];
        assert_eq!(outcome["result"], "done");
        assert_eq!(outcome["summary"]["proven"], false);
        assert_eq!(outcome["summary"]["skipped"]["total"], 1);
        desk.next();
        let bad = dump(
            "CREATE TABLE bad (a nonsense);\nCREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n",
        );
        let run = desk
            .load_text(bad, &server, &["--json", "--on-error", "continue"])
            .exits(1);
        let all = events(&run.stdout);
        assert_eq!(counts(&all)["statement_failed"], 1);
        let outcome = &all.last().unwrap()["outcome"];
        assert_eq!(outcome["result"], "failed");
        assert!(outcome["message"].is_string());
        assert_eq!(outcome["summary"]["failures"]["total"], 1);
        assert_eq!(outcome["summary"]["rows"], 1);
        assert!(run.stderr.contains("refloat: error: "), "{}", run.stderr);

        settings_are_shown_and_nothing_is_changed(&desk, &server);
        let plan = desk.file("plan.sql", dump(&body));
        desk.next();
        desk.load(&plan, &server, &["--plan", "--json"])
            .exits(0)
            .json();
        assert_eq!(desk.tables(&server), 0, "a plan touches nothing");
        assert_same_settings(&before, &server);
    }
}

fn settings_are_shown_and_nothing_is_changed(desk: &Desk, server: &refloat_sandbox::Instance) {
    let url = server.url();
    let shown = finish(desk.refloat(["settings", "show", "--to", &url])).exits(0);
    shown
        .says("with --durability relaxed:")
        .says("with --durability disposable:")
        .says("innodb_flush_log_at_trx_commit: 1 -> ");
    let shown = finish(desk.refloat(["settings", "show", "--json", "--to", &url]))
        .exits(0)
        .json();
    for level in ["relaxed", "disposable"] {
        assert_eq!(shown[level]["durability"], level, "{shown}");
        let changes = shown[level]["changes"].as_array().expect("a list");
        let flush = changes
            .iter()
            .find(|one| one["name"] == "innodb_flush_log_at_trx_commit")
            .unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(flush["old"], "1");
        assert!(flush["reason"].is_string());
    }
    let listed = finish(desk.refloat(["settings", "list", "--json", "--to", &url]))
        .exits(0)
        .json();
    assert_eq!(listed["open"], serde_json::json!([]));
    let reverted = finish(desk.refloat(["settings", "revert", "--json", "--to", &url]))
        .exits(0)
        .json();
    assert_eq!(reverted["reverted"], serde_json::json!([]));
}
