//! Small files of a machine, several at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::files::word;
use crate::host::Host;

impl Host {
    /// Reads small text files, all at once. Those that cannot be read are left out.
    pub fn texts(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        if *self == Self::Local {
            let read = |path: &PathBuf| Some((path.clone(), std::fs::read_to_string(path).ok()?));
            return paths.iter().filter_map(read).collect();
        }
        let stdout = self.run(&script(paths)).map(|output| output.stdout);
        texts(&String::from_utf8_lossy(&stdout.unwrap_or_default()), paths)
    }
}

/// Prints the number of each file, and its lines after a space.
fn script(paths: &[PathBuf]) -> String {
    let mut script = String::new();
    for (at, path) in paths.iter().enumerate() {
        let path = word(path);
        let _ = writeln!(
            script,
            "[ ! -r {path} ] || {{ echo {at}; sed 's/^/ /' {path}; }}"
        );
    }
    script
}

/// Reads what the script has printed.
fn texts(output: &str, paths: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let mut texts = BTreeMap::new();
    let mut text: Option<&mut String> = None;
    for line in output.lines() {
        if let Some(line) = line.strip_prefix(' ') {
            if let Some(text) = &mut text {
                text.push_str(line);
                text.push('\n');
            }
        } else {
            let path = line.parse().ok().and_then(|at: usize| paths.get(at));
            text = path.map(|path| texts.entry(path.clone()).or_default());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_says_what_this_one_reads() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["it's one", "none", "empty", "two"].map(|name| folder.path().join(name));
        for (path, text) in [(0, "1\n 2\n\n0\n"), (2, ""), (3, "max\n")] {
            std::fs::write(&paths[path], text).unwrap();
        }
        let here = Host::Local.texts(&paths);
        assert_eq!(here.len(), 3);
        let output = Host::Local.run(&script(&paths)).unwrap();
        assert!(output.stderr.is_empty());
        assert_eq!(
            texts(&String::from_utf8_lossy(&output.stdout), &paths),
            here
        );
    }
}
