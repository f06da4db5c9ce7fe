//! The list of a cluster's nodes, as `refloat cluster` reads it.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The head of a list.
pub fn head(cluster: &str) -> String {
    format!("name = {}\n", quoted(cluster))
}

/// The entry of one node, with the keys that name its files. `command` is the command line of
/// `refloat sandbox node`; without it, the entry does not say how the node is started and stopped.
pub fn entry(name: &str, url: &str, files: [(&str, PathBuf); 3], command: Option<&str>) -> String {
    // A node with a network of its own runs on this machine too.
    let mut text = format!(
        "\n[[node]]\nname = {}\nurl = {}\nlocal = true\n",
        quoted(name),
        quoted(url)
    );
    for (key, path) in files {
        let _ = writeln!(text, "{key} = {}", quoted(&path.to_string_lossy()));
    }
    for (key, line) in command.iter().flat_map(|command| control(command, name)) {
        let _ = writeln!(text, "control.{key} = {}", quoted(&line));
    }
    text
}

/// The commands that start, stop and check a node.
fn control(command: &str, name: &str) -> [(&'static str, String); 7] {
    let start = format!("{command} start {name} --no-wait");
    let donors = "${REFLOAT_SST_DONOR:+--option=\"wsrep_sst_donor=$REFLOAT_SST_DONOR\"}";
    let options = "$(printf ' --option=%s' $REFLOAT_SERVER_OPTIONS)";
    [
        ("start", format!("{start} {donors}")),
        ("bootstrap", format!("{start} --bootstrap")),
        ("start_standalone", format!("{start} {options}")),
        ("stop", format!("{command} stop {name}")),
        // With its helpers, as systemd does: a script that still receives a copy would be in the
        // way of the next one.
        ("kill", format!("{command} kill {name}")),
        (
            "running",
            format!(
                "case $({command} status {name}) in *': stopped' | *': broken') exit 1 ;; ?*) exit 0 ;; *) exit 2 ;; esac"
            ),
        ),
        ("recover", format!("{command} recover {name}")),
    ]
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
