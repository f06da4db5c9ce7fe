//! Exit codes and messages for command lines that are refused.

use crate::support::refloat;

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
fn a_password_in_a_misplaced_argument_is_never_repeated() {
    let run = refloat(&["load", "x.sql", "y.sql", "mysql://root:s3cr3t-pw@db1/"]).exits(2);
    assert!(!run.stderr.contains("s3cr3t-pw"), "{}", run.stderr);
    let run = refloat(&["mysql://root:s3cr3t-pw@db1/"]).exits(2);
    assert!(!run.stderr.contains("s3cr3t-pw"), "{}", run.stderr);
}
