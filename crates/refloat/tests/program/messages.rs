//! Keeps the headings of docs/troubleshooting.md true: each is a message that the program has.

use std::fs;
use std::path::{Path, PathBuf};

/// Runs of fewer words may be the name of something that a message takes, such as a program.
const WORDS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What is below `path` in files of Rust: without comments and unit tests, and with string literals
/// of several lines on one.
fn read_code(path: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(path).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().unwrap_or_default();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            read_code(&path, all);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("it can be read");
            all.push(code(&text));
        }
    }
}

fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    let mut is_continued = false;
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && !lines.peek().is_some_and(|next| next.ends_with(';')) {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        let line = if is_continued {
            line.trim_start()
        } else {
            line
        };
        is_continued = line.ends_with('\\');
        code.push_str(line.strip_suffix('\\').unwrap_or(line));
        if !is_continued {
            code.push('\n');
        }
    }
    code
}

/// The parts of a heading that stand in backquotes.
fn messages(heading: &str) -> impl Iterator<Item = &str> {
    heading.split('`').skip(1).step_by(2)
}

/// Whether a heading ends in error numbers of the server, and so has the server's words.
fn is_of_server(heading: &str) -> bool {
    let end = heading.rsplit_once(" (").map(|(_, end)| end);
    end.and_then(|end| end.strip_suffix(')'))
        .is_some_and(|end| end.split(", ").all(|one| one.parse::<u16>().is_ok()))
}

/// What a message says between its names and numbers: every run of [`WORDS`] words, and the longest
/// one.
fn fixed_words(message: &str) -> Vec<String> {
    let is_fixed = |word: &&str| !word.contains('…') && word.contains(char::is_alphabetic);
    let words: Vec<&str> = message.split(' ').collect();
    let runs = words.split(|word| !is_fixed(word));
    let mut runs: Vec<&[&str]> = runs.filter(|run| !run.is_empty()).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    let shown = |run: &[&str]| {
        let run = run.join(" ");
        let end = |c: char| ".,:;()/".contains(c);
        run.trim_matches(end).to_owned()
    };
    let long = runs.iter().take_while(|run| run.len() >= WORDS).count();
    runs.iter()
        .take(long.max(1))
        .map(|run| shown(run))
        .collect()
}

#[test]
fn messages_of_the_troubleshooting_page_are_those_of_the_program() {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("the folder can be read") {
        read_code(&entry.expect("an entry").path().join("src"), &mut all);
    }
    let page = fs::read_to_string(root().join("docs/troubleshooting.md"));
    let page = page.expect("the page can be read");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let (mut unknown, mut count) = (Vec::new(), 0);
    for heading in headings.filter(|heading| !is_of_server(heading)) {
        let mut fixed = messages(heading).flat_map(fixed_words).peekable();
        assert!(fixed.peek().is_some(), "{heading}: no message");
        for words in fixed {
            count += 1;
            if !all.iter().any(|code| code.contains(&words)) {
                unknown.push(format!("{heading}: no message says «{words}»"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(count >= 100, "only {count} messages were found");
}

#[test]
fn headings_are_cut_at_names_and_numbers() {
    let all = |heading| messages(heading).flat_map(fixed_words).collect::<Vec<_>>();
    assert_eq!(
        all("`backup … has no table …`, exit code 4"),
        ["has no table"]
    );
    assert_eq!(
        all("`… is not empty`, `run (process 7): the … is still being made`"),
        ["is not empty", "is still being made"]
    );
    assert_eq!(all("`corrupt …`"), ["corrupt"]);
    assert!(is_of_server("`Duplicate entry … for key …` (1062)"));
    assert!(is_of_server("`Out of range value` (1264, 1406)"));
    assert!(!is_of_server("`a server is running in … (process …)`"));
    assert!(!is_of_server(
        "`the server writes no binary log (log_bin is OFF)`"
    ));
}

#[test]
fn code_is_read_without_comments_and_tests() {
    let text = "/// a b c\nlet x = \"one \\\n    two\"; // three\n#[cfg(test)]\nmod tests;\nlet y;\n\
                #[cfg(test)]\nmod tests {\n    hidden\n}\n";
    assert_eq!(
        code(text),
        "let x = \"one two\"; // three\n#[cfg(test)]\nmod tests;\nlet y;\n"
    );
}
