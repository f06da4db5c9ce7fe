use std::process::Command;

use super::*;
use crate::options::SslMode;

fn groups(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn lines(found: &OptionFiles) -> Vec<String> {
    let text = |o: &FileOption| match &o.value {
        Some(v) => format!("--{}={}", o.key, String::from_utf8_lossy(v.expose())),
        None => format!("--{}", o.key),
    };
    found.options.iter().map(text).collect()
}

const AWKWARD: &str = r#"# comment
; comment
[client]
user = re load
password="a#b\"c"
password = 'it is # not' # but this is
port=3307# comment
host= "db.example" 
socket=C:\temp\sdir\\x\q
ssl_ca=/etc/a b.pem
connect-timeout
loose-unheard_of=1
no-value=
two=a=b
  indented = yes
[mysqld]
user=mysql
[client-server]
port = 3308
[mysql]
user=other
"#;

#[test]
fn the_reader_agrees_with_the_stock_one() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("my.cnf");
    let extra = folder.path().join("conf.d");
    fs::create_dir(&extra).unwrap();
    fs::write(extra.join("b.cnf"), "[client]\nuser=from b\n").unwrap();
    fs::write(
        extra.join("a.cnf"),
        "[client]\nuser=from a\n[mysql]\nhost=x\n",
    )
    .unwrap();
    fs::write(extra.join("c.txt"), "[client]\nuser=never\n").unwrap();
    fs::write(folder.path().join("one.inc"), "[client]\ndatabase=inc\n").unwrap();
    let includes = format!(
        "!include {}/one.inc\n!includedir {}\n",
        folder.path().display(),
        extra.display()
    );
    fs::write(&main, format!("{AWKWARD}{includes}[client]\nlast=1\n")).unwrap();

    let ours = read_groups(
        &[(main.as_path(), true)],
        &groups(&["client", "client-server"]),
    )
    .unwrap();
    let stock = Command::new("my_print_defaults")
        .arg(format!("--defaults-file={}", main.display()))
        .args(["client", "client-server"])
        .output()
        .expect("my_print_defaults comes with every server; install mariadb-client-core");
    assert!(stock.status.success());
    let stock: Vec<String> = String::from_utf8_lossy(&stock.stdout)
        .lines()
        .map(normal)
        .collect();
    assert!(stock.len() > 10, "{stock:?}");
    assert_eq!(lines(&ours), stock);
}

/// The stock reader keeps names as written; dashes and underscores mean the same.
fn normal(line: &str) -> String {
    let line = line.strip_prefix("--").unwrap_or(line);
    let (key, value) = line
        .split_once('=')
        .map_or((line, None), |(k, v)| (k, Some(v)));
    let key = key.replace('_', "-");
    let key = key.strip_prefix("loose-").unwrap_or(&key);
    value.map_or_else(|| format!("--{key}"), |v| format!("--{key}={v}"))
}

#[test]
fn options_reach_the_connection_and_the_last_wins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    fs::write(&file, "[client]\nuser=a\npassword=hunter2\nport=3307\nssl-mode=REQUIRED\nprompt=x\n[refloat]\nuser=b\n[client7]\nport=3310\n").unwrap();
    let found = load_option_files(Some(&file), None, None, None).unwrap();
    let mut o = ConnectOptions::default();
    found.apply(&mut o).unwrap();
    assert_eq!(
        (o.user.as_str(), o.port, o.ssl_mode),
        ("b", Some(3307), SslMode::Required)
    );
    assert_eq!(o.password, Some(Secret::from("hunter2")));
    assert!(!format!("{found:?} {o:?}").contains("hunter2"));
    let found = load_option_files(Some(&file), None, None, Some("7")).unwrap();
    found.apply(&mut o).unwrap();
    assert_eq!(o.port, Some(3310));
}

#[test]
fn an_empty_password_is_one_and_a_missing_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    let password = |text: &str| {
        fs::write(&file, format!("[client]\n{text}\n")).unwrap();
        let mut o = ConnectOptions {
            password: Some(Secret::from("before")),
            ..ConnectOptions::default()
        };
        let found = load_option_files(Some(&file), None, None, None).unwrap();
        found.apply(&mut o).unwrap();
        o.password
    };
    assert_eq!(password("user=u"), Some(Secret::from("before")));
    assert_eq!(password("password"), Some(Secret::from("before")));
    assert_eq!(password("password="), Some(Secret::from("")));
    assert_eq!(password("skip-password"), Some(Secret::from("")));
    assert_eq!(password("password=x"), Some(Secret::from("x")));
}

#[test]
fn a_ca_turns_checking_on_unless_a_mode_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    let mode = |text: &str| {
        fs::write(&file, format!("[client]\n{text}")).unwrap();
        let mut o = ConnectOptions::default();
        load_option_files(Some(&file), None, None, None)
            .unwrap()
            .apply(&mut o)
            .unwrap();
        o.ssl_mode
    };
    assert_eq!(mode("ssl-ca=/x\n"), SslMode::VerifyCa);
    assert_eq!(mode("ssl-ca=/x\nssl-mode=preferred\n"), SslMode::Preferred);
    assert_eq!(mode("ssl\n"), SslMode::Required);
    assert_eq!(mode("skip-ssl\n"), SslMode::Disabled);
    assert_eq!(mode("ssl-verify-server-cert\n"), SslMode::VerifyIdentity);
}

#[test]
fn a_file_that_everybody_can_write_is_ignored_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    fs::write(&file, "[client]\nhost=evil\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let found = load_option_files(Some(&file), None, None, None).unwrap();
    assert!(found.options.is_empty());
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn named_files_must_exist_and_lines_must_make_sense() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.cnf");
    assert!(matches!(
        load_option_files(Some(&missing), None, None, None),
        Err(OptionFilesError::Read { .. })
    ));
    assert!(
        load_option_files(None, None, Some(folder.path()), None).is_ok(),
        "a home without one is fine"
    );
    let file = folder.path().join("my.cnf");
    for (text, line) in [
        ("user=hunter2\n", 1),
        ("[client\n", 1),
        ("[client]\n!inclde hunter2\n", 2),
    ] {
        fs::write(&file, text).unwrap();
        match load_option_files(Some(&file), None, None, None) {
            Err(error @ OptionFilesError::Line { line: found, .. }) if found == line => {
                assert!(!error.to_string().contains("hunter2"));
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
    fs::write(&file, "[client]\nport=many\n").unwrap();
    let found = load_option_files(Some(&file), None, None, None).unwrap();
    assert!(found.apply(&mut ConnectOptions::default()).is_err());
}

#[test]
fn files_that_include_themselves_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    fs::write(
        &file,
        format!("!include {}\n[client]\nuser=u\n", file.display()),
    )
    .unwrap();
    let found = load_option_files(Some(&file), None, None, None).unwrap();
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.options.len(), MAX_DEPTH + 1);
}
