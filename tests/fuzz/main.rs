//! The fuzz targets are a workspace of their own, which takes minutes to compile. Each is one call
//! of a function that stands here, so they fit the code if this compiles and knows them all.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a target calls.
#[expect(dead_code, reason = "that it compiles is what matters")]
enum Body {
    /// A function of the input.
    Plain(fn(&[u8])),
    /// A function of the input whose result is dropped.
    Dropped(fn(&[u8])),
    /// A function that also gets a place for files.
    With(fn(&[u8], &Path)),
}

/// The name of a function, and the function. What a target returns must be nothing.
macro_rules! body {
    ($function:path) => {
        (stringify!($function), Body::Plain($function))
    };
    (drop $function:path) => {
        (
            stringify!($function),
            Body::Dropped(|data| {
                let _ = $function(data);
            }),
        )
    };
    ($function:path, at) => {
        (
            stringify!($function),
            Body::With(|data, at| {
                let _ = $function(data, at);
            }),
        )
    };
}

fn bodies() -> Vec<(&'static str, Body)> {
    vec![
        body!(refloat_cluster::fuzzing::texts),
        body!(refloat_host::fuzzing::sftp),
        body!(refloat_physical::fuzzing::binlog),
        body!(refloat_physical::fuzzing::copies),
        body!(drop refloat_repository::fuzzing::stream),
        body!(refloat_run::fuzzing::files, at),
        body!(refloat_schema::fuzzing::definitions),
        body!(refloat_source::delimited::fuzz),
        body!(refloat_source::fuzzing::file, at),
        body!(refloat_source::fuzzing::folder, at),
        body!(refloat_sqltext::fuzzing::ddl),
        body!(refloat_sqltext::fuzzing::scanner),
        body!(refloat_sqltext::fuzzing::values),
        body!(refloat_verify::fuzzing::other, at),
        body!(refloat_wire::fuzzing::options, at),
        body!(refloat_wire::fuzzing::packets),
        body!(refloat_xbstream::fuzzing::stream),
    ]
}

#[test]
fn fuzz_targets_call_what_is_there() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let mut called = BTreeSet::new();
    let bodies = bodies();
    for entry in fs::read_dir(fuzz.join("fuzz_targets")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let code: String = text
            .lines()
            .filter(|line| !line.starts_with("//"))
            .flat_map(|line| line.split_whitespace())
            .collect();
        let call = |(name, body): &&(&str, Body)| match body {
            Body::Plain(_) => code.contains(&format!("|{name}(data))")),
            Body::Dropped(_) => code.contains(&format!("let_={name}(data);")),
            Body::With(_) => code.contains(&format!("{name}(data,&std::env::temp_dir()")),
        };
        let found = bodies.iter().find(call);
        let (name, _) = found.unwrap_or_else(|| panic!("{}: what does it call?", path.display()));
        called.insert(*name);
        let file = path.file_name().unwrap().to_str().unwrap();
        let room = name.split("::").next().unwrap().replace('_', "-");
        for line in [
            format!("path = \"fuzz_targets/{file}\""),
            format!("{room} = {{ path = \"../crates/"),
        ] {
            assert!(manifest.contains(&line), "{file}: {line}");
        }
    }
    assert_eq!(called.len(), bodies.len(), "{called:?}");
}
