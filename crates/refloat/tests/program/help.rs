//! Help is the manual: every visible command has a long page with examples, and the pages fit 100
//! columns.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::refloat;

/// Every visible command. The test below fails when one is missing here.
pub const COMMANDS: &[&[&str]] = &[
    &["load"],
    &["inspect"],
    &["dump"],
    &["copy"],
    &["verify"],
    &["cluster"],
    &["cluster", "status"],
    &["cluster", "maintain"],
    &["cluster", "rolling"],
    &["cluster", "rejoin"],
    &["cluster", "bootstrap"],
    &["cluster", "verify"],
    &["cluster", "restore"],
    &["cluster", "advise"],
    &["cluster", "healthd"],
    &["cluster", "install-sst"],
    &["backup"],
    &["restore"],
    &["rebuild"],
    &["backups"],
    &["backups", "init"],
    &["backups", "list"],
    &["backups", "show"],
    &["backups", "verify"],
    &["backups", "prune"],
    &["backups", "remove"],
    &["backups", "export"],
    &["backups", "import"],
    &["backups", "keys"],
    &["backups", "keys", "list"],
    &["backups", "keys", "add"],
    &["backups", "keys", "remove"],
    &["backups", "keys", "save"],
    &["binlog"],
    &["binlog", "archive"],
    &["binlog", "list"],
    &["binlog", "fetch"],
    &["binlog", "prune"],
    &["settings"],
    &["settings", "list"],
    &["settings", "show"],
    &["settings", "revert"],
    &["sandbox"],
    &["sandbox", "start"],
    &["sandbox", "node"],
    &["sandbox", "node", "start"],
    &["sandbox", "node", "status"],
    &["sandbox", "node", "stop"],
    &["sandbox", "node", "kill"],
    &["sandbox", "node", "freeze"],
    &["sandbox", "node", "thaw"],
    &["sandbox", "node", "cut"],
    &["sandbox", "node", "heal"],
    &["sandbox", "node", "recover"],
    &["sandbox", "list"],
    &["sandbox", "stop"],
    &["sandbox", "restart"],
    &["sandbox", "remove"],
    &["sandbox", "shell"],
    &["sandbox", "env"],
    &["completions"],
];

#[test]
fn every_page_has_examples_and_fits() {
    for command in std::iter::once(&[][..]).chain(COMMANDS.iter().copied()) {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let run = refloat(&args).exits(0);
        assert!(run.stderr.is_empty(), "{args:?}: {}", run.stderr);
        assert!(
            run.stdout.contains("EXAMPLES:"),
            "{args:?} has no examples:\n{}",
            run.stdout
        );
        assert!(run.stdout.contains("refloat "), "{args:?}");
        assert!(
            !run.stdout.contains('\x1b'),
            "{args:?}: colour without a terminal"
        );
        for line in run.stdout.lines() {
            assert!(
                line.chars().count() <= 110,
                "{args:?}: a line of {} columns: {line}",
                line.chars().count()
            );
        }
        // A command that an 80-column terminal breaks cannot be pasted.
        let (_, examples) = run.stdout.split_once("EXAMPLES:").unwrap();
        let of_haproxy = |line: &&str| line.trim_start().starts_with("server ");
        let commands = examples.lines().filter(|line| line.starts_with("      "));
        for line in commands.filter(|line| !of_haproxy(line)) {
            let columns = line.chars().count();
            assert!(
                columns <= 80,
                "{args:?}: an example of {columns} columns: {line}"
            );
        }
    }
}

#[test]
fn the_list_of_commands_above_is_complete() {
    for command in [
        &[][..],
        &["backups"],
        &["backups", "keys"],
        &["cluster"],
        &["settings"],
        &["sandbox"],
        &["sandbox", "node"],
    ] {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let page = refloat(&args).exits(0).stdout;
        let listed = page
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| {
                line.strip_prefix("  ")
                    .filter(|line| !line.starts_with(' '))
            })
            .filter_map(|line| line.split_whitespace().next());
        let mut count = 0;
        for name in listed {
            let path: Vec<&str> = command.iter().copied().chain([name]).collect();
            assert!(
                COMMANDS.contains(&path.as_slice()),
                "{path:?} is not in the list of this test"
            );
            count += 1;
        }
        assert!(count > 0, "no commands were found on the page:\n{page}");
    }
}

#[test]
fn the_short_page_is_short() {
    let short = refloat(&["load", "-h"]).exits(0).stdout;
    let long = refloat(&["load", "--help"]).exits(0).stdout;
    assert!(
        short.lines().count() * 2 < long.lines().count(),
        "short {}, long {}",
        short.lines().count(),
        long.lines().count()
    );
}

/// The stock clients read `-h` as the host: a job ported from them must not report success.
#[test]
fn the_short_flag_of_help_stands_alone() {
    for command in COMMANDS {
        let run = |more: &[&str]| refloat(&[*command, more].concat());
        run(&["-h"]).exits(0);
        for more in [
            &["-h", "db1", "-u", "root"][..],
            &["-hdb1"],
            &["--json", "-h", "db1"],
            &["-h", "-u", "root"],
            &["/dump.sql", "-h"],
        ] {
            let run = run(more).exits(2);
            assert!(
                run.stdout.is_empty(),
                "{command:?} {more:?}: {}",
                run.stdout
            );
        }
    }
    for (command, flag) in [
        ("load", "--to mysql://"),
        ("dump", "--from mysql://"),
        ("copy", "--to mysql://"),
        ("verify", "mysql://"),
        ("cluster", "--cluster mysql://"),
        ("settings", "--to mysql://"),
    ] {
        refloat(&[command, "-h", "db1", "-u", "root", "-o", "x"])
            .exits(2)
            .says("-h prints help here")
            .says(flag);
    }
    refloat(&["load", "/dump.sql", "--help"]).exits(0);
}

/// Server options of the stock clients, as a ported job has them, are answered with what to use
/// here.
#[test]
fn options_of_the_stock_clients_are_answered_with_a_url() {
    for (args, says) in [
        (&["load", "x.sql", "-u", "root"][..], "--to mysql://"),
        (&["dump", "--user=root", "-o", "x"], "--from mysql://"),
        (&["copy", "--host", "db1"], "--to mysql://"),
        (&["cluster", "status", "-P", "3307"], "--cluster mysql://"),
        (&["settings", "list", "-psecret"], "--ask-password"),
    ] {
        let run = refloat(args).exits(2);
        let run = run.says("servers are named by URLs").says(says);
        assert!(!run.stderr.contains("as a value"), "{}", run.stderr);
        assert!(!run.stderr.contains("secret"), "{}", run.stderr);
    }
}

#[test]
fn help_is_a_word_too() {
    for command in [&["load"][..], &["cluster", "rejoin"], &[]] {
        let by_word = refloat(&[&["help"], command].concat()).exits(0).stdout;
        let by_flag = refloat(&[command, &["--help"]].concat()).exits(0).stdout;
        assert_eq!(by_word, by_flag, "{command:?}");
    }
    refloat(&["help", "nothing"]).exits(2);
}

#[test]
fn options_stand_in_groups() {
    let page = refloat(&["load", "--help"]).exits(0).stdout;
    for heading in [
        "Connection:",
        "What to load:",
        "Speed and safety:",
        "When something does not fit:",
        "Output:",
    ] {
        assert!(page.contains(heading), "{heading} is missing");
    }
}

/// A heading extends to the next one: an option after the connection options would appear to be one
/// of them.
#[test]
fn only_connections_stand_among_connections() {
    let of_connections = [
        "--to",
        "--from",
        "--cluster",
        "--node",
        "--defaults-",
        "--no-defaults",
        "--ask-password",
        "--ssl-",
    ];
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let page = refloat(&args).exits(0).stdout;
        let group = page
            .lines()
            .skip_while(|line| *line != "Connection:")
            .skip(1)
            .take_while(|line| line.is_empty() || line.starts_with(' '));
        for option in group
            .map(str::trim_start)
            .filter(|line| line.starts_with('-') && !line.starts_with("- "))
        {
            assert!(
                of_connections.iter().any(|name| option.starts_with(name)),
                "{command:?}: {option}"
            );
        }
    }
}

#[test]
fn exit_codes_of_the_help_are_those_of_the_page() {
    let help = refloat(&["--help"]).exits(0).stdout;
    let page = include_str!("../../../../docs/exit-codes.md");
    for code in 0..=6 {
        assert!(
            help.lines()
                .any(|line| line.trim_start().starts_with(&format!("{code}  "))),
            "help does not name {code}"
        );
        assert!(
            page.lines()
                .any(|line| line.starts_with(&format!("| {code} |"))),
            "the page does not name {code}"
        );
    }
}

/// Every option that a help page or the documentation mentions is an option of some command.
#[test]
fn options_that_are_named_exist() {
    let mut help = String::new();
    for command in std::iter::once(&[][..]).chain(COMMANDS.iter().copied()) {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        help.push_str(&refloat(&args).exits(0).stdout);
    }
    let known: BTreeSet<&str> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .flat_map(options_in)
        .chain(FOREIGN.iter().copied())
        .collect();
    assert!(known.len() > 30, "{known:?}");
    let mut pages = vec![
        ("the help".to_owned(), help.clone()),
        (
            "exit/hints.rs".to_owned(),
            include_str!("../../src/exit/hints.rs").to_owned(),
        ),
        (
            "exit/physical_hints.rs".to_owned(),
            include_str!("../../src/exit/physical_hints.rs").to_owned(),
        ),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).expect("pages");
    let docs = docs.map(|entry| entry.expect("a page").path());
    for page in docs.chain([root.join("README.md")]) {
        // That one names the options of other tools.
        if page.extension().is_some_and(|end| end == "md") && !page.ends_with("coming-from.md") {
            let text = fs::read_to_string(&page).expect("a page");
            pages.push((page.display().to_string(), text));
        }
    }
    assert!(pages.len() > 25, "{}", pages.len());
    for (name, page) in pages {
        for option in options_in(&page) {
            assert!(
                known.contains(option),
                "{name} names {option}, which no command has"
            );
        }
    }
}

/// Options of other programs that the pages mention.
const FOREIGN: &[&str] = &[
    "--wsrep-recover",
    "--skip-tz-utc",
    "--databases",
    "--all-databases",
    "--single-transaction",
    "--skip-comments",
    "--compact",
    "--stream",
    "--regex",
    "--no-schemas",
    "--chunk-filesize",
    "--rows",
    "--socket",
    "--user",
    "--events",
    "--routines",
    "--hostname",
    "--locked",
    "--release",
    "--binary-mode",
    "--comments",
    "--skip-set-charset",
    "--port",
    "--verbose",
    "--fast",
    "--wsrep-sst-donor",
    "--local-infile",
    "--dump-history",
    "--base",
];

/// The long options in a text.
fn options_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c == '-' || c.is_ascii_alphanumeric()))
        .map(|(at, _)| {
            let name = &text[at + 2..];
            let end = name
                .find(|c: char| c != '-' && !c.is_ascii_lowercase())
                .unwrap_or(name.len());
            text[at..at + 2 + end].trim_end_matches('-')
        })
        .filter(|name| name.len() > 2)
}

#[test]
fn the_version_is_the_packages() {
    let run = refloat(&["--version"]).exits(0);
    assert_eq!(
        run.stdout,
        format!("refloat {}\n", env!("CARGO_PKG_VERSION"))
    );
}
