//! Exit codes and messages for command lines that are refused.

use crate::support::{Run, command, refloat};

#[test]
fn wrong_command_lines_exit_with_2_and_say_why() {
    let cases: &[(&[&str], &str)] = &[
        (&["lod"], "unrecognized subcommand 'lod'"),
        (&["load"], "required arguments were not provided"),
        (&["load", "x.sql"], "--to <URL>"),
        (
            &["load", "x.sql", "--to", "mysql://h/", "--frob"],
            "unexpected argument '--frob'",
        ),
        (
            &["load", "x.sql", "--to", "mysql://h/", "--threads", "0"],
            "--threads",
        ),
        (
            &[
                "load",
                "x.sql",
                "--to",
                "mysql://h/",
                "--chunk-bytes",
                "16X",
            ],
            "unknown unit `x`",
        ),
        (
            &[
                "load",
                "x.sql",
                "--to",
                "mysql://h/",
                "--replace",
                "--append",
            ],
            "cannot be used with",
        ),
        (
            &[
                "load",
                "x.sql",
                "--to",
                "mysql://h/",
                "--map-collation",
                "a",
            ],
            "FROM=TO",
        ),
        (
            &[
                "load",
                "x.sql",
                "--to",
                "mysql://h/",
                "--durability",
                "none",
            ],
            "keep, relaxed, disposable",
        ),
        (
            &["load", "x.sql", "--to", "mysql://h/", "--ssl-cert", "c.pem"],
            "--ssl-key",
        ),
        (
            &[
                "load",
                "x.sql",
                "--to",
                "mysql://h/",
                "--no-defaults",
                "--defaults-file",
                "f",
            ],
            "cannot be used with",
        ),
        (&["completions", "tcsh"], "tcsh"),
    ];
    for (args, expected) in cases {
        let run = refloat(args).exits(2);
        assert!(
            run.stderr.starts_with("refloat: error: "),
            "{args:?}: {}",
            run.stderr
        );
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
        assert!(
            run.stdout.is_empty(),
            "{args:?}: stdout is for data: {}",
            run.stdout
        );
        assert!(
            !run.stderr.contains('\x1b'),
            "{args:?}: colour without a terminal: {:?}",
            run.stderr
        );
    }
}

#[test]
fn no_arguments_at_all_is_a_usage_error_with_the_help_on_stderr() {
    let run = refloat(&[]).exits(2);
    assert!(run.stderr.contains("Usage: refloat"), "{}", run.stderr);
    assert!(run.stdout.is_empty());
}

#[test]
fn a_password_in_the_url_is_refused_and_never_repeated() {
    for url in [
        "mysql://root:s3cr3t-pw@db1:3306/",
        "mariadb://root:s3cr3t-pw@db1/shop?socket=/run/x.sock",
        "mysql://root@db1/?password=s3cr3t-pw",
        "root:s3cr3t-pw@db1",
        "mysql://root:12/s3cr3t-pw@127.0.0.1/",
        "mysql://root:a/s3cr3t-pw@db1/",
        "mysql://root:a?s3cr3t-pw@db1/",
        "mysql://root:12?socket=x&s3cr3t-pw@db1/",
        "mysql://root:a#s3cr3t-pw@db1/",
        "mysql://root:a/s3cr3t-pw@b@db1/",
        "mysql://root:'s3cr3t-pw \"x@db1/",
        "root:a/s3cr3t-pw@db1",
        "root:a://s3cr3t-pw@db1",
    ] {
        let run = refloat(&["load", "x.sql", "--to", url]).exits(2);
        assert!(
            !run.stderr.contains("s3cr3t-pw") && !run.stdout.contains("s3cr3t-pw"),
            "{}",
            run.stderr
        );
        let mut lines = run.stderr.lines();
        assert!(
            lines
                .next()
                .is_some_and(|line| line.starts_with("refloat: error: a password in a URL")),
            "{}",
            run.stderr
        );
        let hint = lines.next().expect("a hint follows");
        assert!(hint.starts_with("hint: "), "{hint}");
        for way in ["~/.my.cnf", "MYSQL_PWD", "--ask-password"] {
            assert!(hint.contains(way), "{way} is missing: {hint}");
        }
    }
}

#[test]
fn a_slash_in_a_password_is_refused_with_the_way_to_write_it() {
    for url in ["mysql://root:12/x@127.0.0.1/", "mysql://us/er@127.0.0.1/"] {
        let run = refloat(&["load", "x.sql", "--to", url]).exits(2);
        let hint = run.stderr.lines().find(|line| line.contains("%2F"));
        assert!(
            hint.is_some_and(|hint| hint.starts_with("hint: ")),
            "{}",
            run.stderr
        );
        assert!(
            !run.stderr.contains("root:12") && !run.stderr.contains("us/er"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_password_in_a_misplaced_argument_is_never_repeated() {
    for url in [
        "mysql://root:s3cr3t-pw@db1/",
        "mysql://root:se/s3cr3t-pw@db1/",
        "mysql://root:se?s3cr3t-pw@db1/",
        "mysql://root:it's s3cr3t-pw@db1/",
        "mysql://root:a@s3cr3t-pw/b@db1/",
        "mysql://db1/?password=s3cr3t-pw",
        "root:s3cr3t-pw@db1",
        "root:a b/s3cr3t-pw@db1",
    ] {
        let with_equals = format!("--threads={url}");
        let on_off = format!("--plan={url}");
        let to = ["--to", "mysql://127.0.0.1:1/"];
        let lines: &[&[&str]] = &[
            &["load", "x.sql", "y.sql", url],
            &["load", "x.sql", to[0], to[1], url],
            &["load", "x.sql", to[0], to[1], "--threads", url],
            &["load", "x.sql", to[0], to[1], &with_equals],
            &["load", "x.sql", to[0], to[1], &on_off],
            &["load", "x.sql", to[0], to[1], "--ssl-mode", url],
            &["settings", url],
            &[url],
        ];
        for line in lines {
            let run = refloat(line).exits(2);
            assert!(
                !run.stderr.contains("s3cr3t-pw"),
                "{line:?}: {}",
                run.stderr
            );
            assert!(run.stdout.is_empty(), "{line:?}: {}", run.stdout);
        }
        if url.contains("://") {
            let run = refloat(&["load", url, to[0], to[1]]).exits(2);
            assert!(!run.stderr.contains("s3cr3t-pw"), "{}", run.stderr);
        }
    }
}

#[test]
fn a_server_that_does_not_answer_is_named_once() {
    let dump = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let text = "-- MariaDB dump 10.19\nCREATE TABLE t (a INT);\n-- Dump completed\n";
    std::fs::write(dump.path(), text).expect("the file can be written");
    let path = dump.path().to_str().expect("the path is UTF-8");
    let url = "mysql://root@127.0.0.1:1/shop";
    for line in [
        &["load", path, "--to", url][..],
        &["settings", "show", "--to", url],
    ] {
        let run = refloat(line).exits(1);
        assert_eq!(
            run.stderr.matches("127.0.0.1:1").count(),
            1,
            "{}",
            run.stderr
        );
        assert!(
            run.stderr.to_lowercase().contains("connection refused"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn one_damaged_journal_is_named_and_the_rest_is_listed() {
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    let run = refloat_run::RunDir::create(state.path(), "load").expect("a run");
    let file = run.path().join("settings.json");
    std::fs::write(&file, "{").expect("the file can be written");
    for what in ["list", "revert"] {
        let run = Run::of(command(state.path()).args(["settings", what])).exits(6);
        assert!(
            run.stderr.contains(&file.display().to_string()),
            "{what}: {}",
            run.stderr
        );
        assert!(run.stderr.contains("remove the file"), "{}", run.stderr);
        let run = Run::of(command(state.path()).args(["settings", what, "--json"])).exits(6);
        assert!(
            run.stdout.contains(&file.display().to_string()),
            "{what}: {}",
            run.stdout
        );
    }
}

#[test]
fn a_restore_that_is_not_open_is_neither_resumed_nor_planned_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let list = folder.path().join("c.toml");
    let text = "name = \"c\"\n[[node]]\nname = \"n1\"\nurl = \"mysql://root@127.0.0.1:1/\"\n";
    std::fs::write(&list, text).expect("the list can be written");
    let list = list.to_str().expect("the path is UTF-8");
    let line = ["cluster", "restore", "x.sql", "--cluster", list, "--resume"];
    for more in [&[][..], &["--plan"]] {
        refloat(&[&line[..], more].concat())
            .exits(3)
            .says("no restore of c is open on this machine");
    }
}
