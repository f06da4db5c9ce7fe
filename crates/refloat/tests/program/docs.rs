//! Gives every command line in the documentation and the help to the program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use refloat_testkit::memory;

use crate::help::COMMANDS;
use crate::support::{Run, command, refloat};

/// An address where nothing answers: commands that need a server get that far.
const NOWHERE: &str = "mysql://root@127.0.0.1:1/";
/// Pages and folders of pages with commands.
const PAGES: &[&str] = &["README.md", "CONTRIBUTING.md", "docs", "docs/design"];

/// A command line, where it stands, and the exit code that the page gives.
struct Example {
    place: String,
    words: Vec<String>,
    code: Option<i32>,
    /// The output that the page shows below it.
    shown: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in PAGES {
        let path = root().join(name);
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("the folder can be read");
            let files = entries.map(|entry| entry.expect("an entry").path());
            found.extend(files.filter(|path| path.extension().is_some_and(|end| end == "md")));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Commands in a page's code: fenced blocks, and lines indented by four.
fn in_page(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).expect("the page can be read");
    let name = path
        .file_name()
        .expect("a page has a name")
        .to_string_lossy();
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    let text = text.replace("\\\n", "  ");
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = fence.is_none().then_some(kind);
            continue;
        }
        let console = fence == Some("console");
        if fence.is_none() && !line.starts_with("    ") {
            continue;
        }
        for words in commands(line) {
            let mut after = lines[index + 1..].iter();
            let mut next = after.next();
            let expected = next
                .filter(|_| console)
                .and_then(|line| line.strip_prefix("? "));
            if expected.is_some() {
                next = after.next();
            }
            found.push(Example {
                place: format!("{name}, line {}", index + 1),
                words,
                code: console.then(|| {
                    expected.map_or(0, |code| code.trim().parse().expect("a code is a number"))
                }),
                shown: next
                    .filter(|line| console && !line.starts_with("```") && !line.starts_with('$'))
                    .map(|line| (*line).to_owned()),
            });
        }
    }
    found
}

/// This program's commands in a shell line, as words. Variables and command substitutions stand for
/// server addresses.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("refloat ") {
        let before = line[..at].trim_end();
        let starts = before.is_empty()
            || ["$", "|", "$(", "&&", ";"]
                .iter()
                .any(|end| before.ends_with(end));
        if starts {
            found.push(words(&line[at + "refloat ".len()..]));
        }
    }
    found
}

/// Words as the shell splits them, up to the end of the command.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut begun) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None | Some('"'), '$') => {
                if rest.peek() == Some(&'(') {
                    while rest.next().is_some_and(|c| c != ')') {}
                } else {
                    while rest.next_if(char::is_ascii_alphanumeric).is_some() {}
                }
                word.push_str(NOWHERE);
                begun = true;
            }
            (None, '|' | ')' | ';' | '&' | '>' | '<') => break,
            (None, '#') if !begun => break,
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// The same words, with every server replaced by one that does not answer, and every storage by a
/// folder that is not there.
fn with_unreachable_servers(words: &[String]) -> Vec<String> {
    let address = |word: &String| word.contains("://") || word == "URL";
    let storages = [
        "s3://", "az://", "azure://", "gs://", "ssh://", "sftp://", "file://",
    ];
    let lead = |word: &String| {
        if storages.iter().any(|scheme| word.starts_with(scheme)) {
            "/nowhere/at/all".to_owned()
        } else if address(word) {
            NOWHERE.to_owned()
        } else {
            word.clone()
        }
    };
    words.iter().map(lead).collect()
}

fn run(words: &[String]) -> Run {
    refloat(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn check(example: &Example) {
    let Example { place, words, .. } = example;
    let line = words.join(" ");
    // Parse the whole line, and run nothing.
    let mut helped = words.clone();
    // What follows `--` is for another program.
    let end = words.iter().position(|word| word == "--");
    helped.insert(end.unwrap_or(words.len()), "--help".to_owned());
    let parsed = run(&helped);
    assert_eq!(parsed.code, 0, "{place}: refloat {line}\n{}", parsed.stderr);
    // Only these go further: the others may start servers or write files.
    if !["load", "settings"].contains(&words[0].as_str()) {
        return;
    }
    // Next: checks of the whole command line, which `--help` skips.
    if words.iter().any(|word| word == "--help") {
        return;
    }
    if let Some(code) = example.code {
        let run = run(words);
        assert_eq!(run.code, code, "{place}: refloat {line}\n{}", run.stderr);
        if let Some(shown) = &example.shown {
            assert!(
                run.stdout
                    .lines()
                    .chain(run.stderr.lines())
                    .any(|printed| printed == shown),
                "{place}: «{shown}» is not what it says:\n{}{}",
                run.stdout,
                run.stderr
            );
        }
        return;
    }
    let run = run(&with_unreachable_servers(words));
    assert_ne!(run.code, 2, "{place}: refloat {line}\n{}", run.stderr);
}

/// The quick start, from the point where `refloat` and a server are installed.
#[test]
fn the_quick_start_works_as_it_stands() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the page can be read");
    let (_, rest) = text
        .split_once("    # A throw-away server")
        .expect("a quick start");
    let (script, _) = rest.split_once("\n[The doc").expect("its end");
    // The server's account has to enter it.
    let folder = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(memory::folder())
        .expect("a temporary folder can be made");
    let program = Path::new(env!("CARGO_BIN_EXE_refloat"));
    let programs = program.parent().expect("its folder").display();
    let state = command(&folder.path().join("state"));
    let mut shell = std::process::Command::new("bash");
    shell
        .env_clear()
        .envs(
            state
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", format!("{programs}:/usr/sbin:/usr/bin:/bin"))
        .current_dir(folder.path());
    let run = Run::of(shell.args(["-euo", "pipefail", "-c", &format!("#{script}")]));
    let run = run
        .says("load of shop.sql.gz into root@")
        .says("done and proven")
        .exits(0);
    assert!(run.stdout.contains("200,000 rows"), "{}", run.stdout);
}

#[test]
fn every_command_line_of_the_pages_is_understood() {
    let mut count = 0;
    for page in pages() {
        for example in in_page(&page) {
            check(&example);
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} commands were found");
}

#[test]
fn every_example_of_the_help_is_understood() {
    let mut count = 0;
    for command in std::iter::once(&[][..]).chain(COMMANDS.iter().copied()) {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let page = refloat(&args).exits(0).stdout.replace("\\\n", "  ");
        let examples = page
            .lines()
            .skip_while(|line| !line.starts_with("EXAMPLES:"));
        for line in examples {
            for words in commands(line) {
                check(&Example {
                    place: format!("refloat {}", args.join(" ")),
                    words,
                    code: None,
                    shown: None,
                });
                count += 1;
            }
        }
    }
    assert!(count >= 15, "only {count} examples were found");
}

#[test]
fn shell_lines_are_read_as_the_shell_reads_them() {
    let one = |line: &str| commands(line).into_iter().next().unwrap_or_default();
    assert_eq!(
        one("$ refloat load 'a b' --to \"$URL\" # x"),
        ["load", "a b", "--to", NOWHERE]
    );
    assert_eq!(
        one("    URL=$(refloat sandbox env try --url)   # its URL"),
        ["sandbox", "env", "try", "--url"]
    );
    assert_eq!(one("x | refloat load - | tail"), ["load", "-"]);
    assert_eq!(
        one("load --to \"$(refloat sandbox env a --url)\""),
        ["sandbox", "env", "a", "--url"]
    );
    assert_eq!(
        one("refloat load x --to \"$(refloat sandbox env a --url)\" -t 2"),
        ["load", "x", "--to", NOWHERE, "-t", "2"]
    );
    assert!(commands("install target/release/refloat /usr/local/bin/").is_empty());
}
