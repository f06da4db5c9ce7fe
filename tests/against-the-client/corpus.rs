//! Dumps in the style of many tools: one file each under `files/`.

use std::fs;
use std::path::Path;

use refloat_sandbox::ServerKind;

pub struct Dump {
    /// The file's name without its extension.
    pub name: String,
    pub text: Vec<u8>,
}

/// The first line of a file may exclude servers, with a reason: `-- not for mysql-9.7: REASON`.
const NOT_FOR: &str = "-- not for ";

/// The dumps for a server, and the reasons why others are left out.
pub fn dumps(kind: ServerKind) -> (Vec<Dump>, Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("against-the-client/files");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let (mut dumps, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read(&path).unwrap();
        let head = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
        let first = head.lines().next().unwrap_or_default();
        match first.strip_prefix(NOT_FOR) {
            Some(servers)
                if servers
                    .split(':')
                    .next()
                    .unwrap()
                    .contains(&kind.to_string()) =>
            {
                left_out.push(format!("{name}: {first}"));
            }
            _ => dumps.push(Dump { name, text }),
        }
    }
    (dumps, left_out)
}
