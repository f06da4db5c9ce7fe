//! Dumps the accounts of a server and loads them into a fresh one of the same kind.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_dump::{DumpOptions, dump};
use refloat_load::{LoadOptions, LoadOutcome, StatementClass, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::quote;
use refloat_testkit::{chain, servers};

use refloat_wire::{ConnectOptions, Connection, Secret};

/// The password of every account that has one.
const PASSWORD: &str = "sandbox-only";
/// Accounts and grants that both vendors know, and the objects that the grants name.
const COMMON: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE DATABASE a_b",
    "CREATE TABLE d.t (i INT PRIMARY KEY, j INT)",
    "CREATE PROCEDURE d.p() SELECT 1",
    "CREATE FUNCTION d.f() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE ROLE nested",
    "CREATE ROLE reader",
    "CREATE ROLE `it's a ``role``@home`",
    "CREATE USER plain@localhost IDENTIFIED BY 'sandbox-only'",
    "CREATE USER 'at@home'@'%' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER 'o''brien \"and\" `co` \\\\'@'localhost' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER 'naïve 用户'@'localhost' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER nopassword@localhost",
    "CREATE USER ''@'192.0.2.%'",
    "CREATE USER net@'192.0.2.0/255.255.255.0' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER locked@localhost IDENTIFIED BY 'sandbox-only' ACCOUNT LOCK",
    "CREATE USER expired@localhost IDENTIFIED BY 'sandbox-only' PASSWORD EXPIRE",
    "CREATE USER ninety@localhost IDENTIFIED BY 'sandbox-only' PASSWORD EXPIRE INTERVAL 90 DAY",
    "CREATE USER never@localhost IDENTIFIED BY 'sandbox-only' PASSWORD EXPIRE NEVER ACCOUNT LOCK",
    "CREATE USER tls@'%' IDENTIFIED BY 'sandbox-only' REQUIRE SUBJECT '/CN=it\\'s DEFAULT ROLE ' AND ISSUER '/CN=x' \
     WITH MAX_QUERIES_PER_HOUR 1000 MAX_USER_CONNECTIONS 7",
    "CREATE USER encrypted@localhost IDENTIFIED BY 'sandbox-only' REQUIRE SSL",
    "GRANT nested TO reader",
    "GRANT SELECT ON d.* TO nested",
    "GRANT SELECT ON `a\\_b`.* TO plain@localhost WITH GRANT OPTION",
    "GRANT CREATE, DROP ON `a%`.* TO 'at@home'@'%'",
    "GRANT INSERT ON *.* TO 'at@home'@'%' WITH GRANT OPTION",
    "GRANT RELOAD ON *.* TO tls@'%' WITH GRANT OPTION",
    "GRANT SELECT (i), INSERT (i, j), REFERENCES (j) ON d.t TO 'o''brien \"and\" `co` \\\\'@'localhost' WITH GRANT OPTION",
    "GRANT EXECUTE ON PROCEDURE d.p TO 'naïve 用户'@'localhost'",
    "GRANT EXECUTE, ALTER ROUTINE ON FUNCTION d.f TO 'naïve 用户'@'localhost' WITH GRANT OPTION",
    "GRANT reader TO plain@localhost WITH ADMIN OPTION",
    "GRANT reader TO 'o''brien \"and\" `co` \\\\'@'localhost'",
    "GRANT `it's a ``role``@home` TO 'o''brien \"and\" `co` \\\\'@'localhost'",
    "GRANT PROXY ON plain@localhost TO 'at@home'@'%' WITH GRANT OPTION",
    "CREATE USER v6@'2001:db8::1' IDENTIFIED BY 'sandbox-only'",
    "GRANT ALL ON d.* TO v6@'2001:db8::1' WITH GRANT OPTION",
    "GRANT USAGE ON *.* TO net@'192.0.2.0/255.255.255.0' WITH GRANT OPTION",
    "GRANT CREATE, SELECT ON d.later TO v6@'2001:db8::1'",
    "CREATE DATABASE `we``ird`",
    "GRANT SELECT ON `we``ird`.* TO v6@'2001:db8::1'",
    "CREATE VIEW d.v AS SELECT i FROM d.t",
    "GRANT SELECT (i) ON d.v TO v6@'2001:db8::1'",
];
const ON_MARIADB: &[&str] = &[
    "CREATE USER 'mariadb.sys'@'192.0.2.1' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER limited@localhost IDENTIFIED BY 'sandbox-only' REQUIRE CIPHER 'x\"y' AND ISSUER '/C=SE/O=\"q\"' \
     WITH MAX_STATEMENT_TIME 1.5 MAX_USER_CONNECTIONS -1",
    "CREATE USER three@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('sandbox-only') \
     OR mysql_native_password USING '*0123456789012345678901234567890123456789' OR unix_socket REQUIRE SSL ACCOUNT LOCK PASSWORD EXPIRE INTERVAL 3 DAY",
    "CREATE USER nobody@localhost IDENTIFIED VIA mysql_native_password USING 'invalid'",
    "CREATE ROLE plain",
    "GRANT SELECT ON d.* TO plain",
    "ALTER USER ninety@localhost PASSWORD EXPIRE",
    "CREATE USER once@localhost IDENTIFIED BY 'sandbox-only' PASSWORD EXPIRE NEVER ACCOUNT LOCK",
    "ALTER USER once@localhost PASSWORD EXPIRE",
    "SET DEFAULT ROLE `it's a ``role``@home` FOR 'o''brien \"and\" `co` \\\\'@'localhost'",
    "CREATE ROLE managed WITH ADMIN plain@localhost",
    "GRANT DELETE ON d.t TO PUBLIC",
    "CREATE USER either@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('sandbox-only') OR unix_socket",
    "GRANT SHOW VIEW ON *.* TO either@localhost WITH GRANT OPTION",
];
const ON_MYSQL: &[&str] = &[
    "CREATE USER two@localhost IDENTIFIED BY 'before' PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 10 DAY",
    "ALTER USER two@localhost IDENTIFIED BY 'sandbox-only' RETAIN CURRENT PASSWORD",
    "CREATE USER `two ``of' them`@'%' IDENTIFIED BY 'before'",
    "ALTER USER `two ``of' them`@'%' IDENTIFIED BY 'sandbox-only' RETAIN CURRENT PASSWORD",
    "ALTER USER `two ``of' them`@'%' PASSWORD EXPIRE INTERVAL 30 DAY",
    "ALTER USER `two ``of' them`@'%' PASSWORD EXPIRE",
    "ALTER USER ninety@localhost PASSWORD EXPIRE",
    "CREATE USER once@localhost IDENTIFIED BY 'sandbox-only' PASSWORD EXPIRE NEVER",
    "ALTER USER once@localhost PASSWORD EXPIRE",
    "CREATE USER 'mysql.sys'@'192.0.2.1' IDENTIFIED BY 'sandbox-only'",
    "CREATE USER bound@localhost IDENTIFIED BY 'sandbox-only' REQUIRE X509 WITH MAX_UPDATES_PER_HOUR 2 MAX_CONNECTIONS_PER_HOUR 3 \
     PASSWORD REQUIRE CURRENT OPTIONAL PASSWORD HISTORY 0 PASSWORD REUSE INTERVAL 0 DAY FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED",
    "CREATE ROLE elsewhere@'192.0.2.7'",
    "GRANT reader TO elsewhere@'192.0.2.7' WITH ADMIN OPTION",
    "GRANT plain@localhost, elsewhere@'192.0.2.7' TO bound@localhost",
    "SET DEFAULT ROLE ALL TO bound@localhost",
    "GRANT ALL ON *.* TO bound@localhost WITH GRANT OPTION",
    "SET DEFAULT ROLE reader, `it's a ``role``@home` TO 'o''brien \"and\" `co` \\\\'@'localhost'",
    "ALTER USER plain@localhost COMMENT 'no DEFAULT ROLE here REQUIRE \\'none'",
    "CREATE USER tagged@localhost IDENTIFIED BY 'sandbox-only' DEFAULT ROLE nested PASSWORD HISTORY 5 PASSWORD REQUIRE CURRENT \
     FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2 ATTRIBUTE '{\"why\": \"a DEFAULT ROLE \\\\\" b\"}'",
    "GRANT nested TO tagged@localhost",
    "GRANT BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO tagged@localhost WITH GRANT OPTION",
    "GRANT SELECT, INSERT ON *.* TO never@localhost",
    "REVOKE INSERT ON d.* FROM never@localhost",
    "REVOKE SELECT ON mysql.* FROM never@localhost",
];

const MARIADB: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

fn run_in(state: &Path, name: &str) -> Run {
    Run {
        dir: RunDir::create(state, name).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

/// Dumps everything on a server, with its accounts. Returns the dump's directory.
fn dumped(server: &Ephemeral, state: &Path) -> PathBuf {
    let out = state.join("out");
    let mut options = DumpOptions::new(servers::target(server), &out);
    options.read.accounts = true;
    dump(&options, &run_in(state, "dump")).unwrap_or_else(|failure| {
        panic!("{}", chain(&failure.error));
    });
    out
}

/// Loads a dump, or the accounts file of one.
fn loaded(server: &Ephemeral, source: &Path, state: &Path) -> LoadOutcome {
    let mut options = LoadOptions::new(source, servers::target(server));
    options.durability = Some(Durability::Keep);
    options.allow = vec![StatementClass::Accounts];
    load(&options, &run_in(state, "load")).unwrap_or_else(|failure| {
        panic!("{}: {}", source.display(), chain(&failure.error));
    })
}

/// Runs statements one by one.
fn ask(server: &Ephemeral, statements: &[&str]) {
    let mut conn = servers::connect(server);
    for sql in statements {
        conn.exec(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", server.name()));
    }
}

/// The first column of a result. Password hashes that are not text appear in hexadecimal.
fn shown(server: &Ephemeral, query: &str) -> Vec<String> {
    let mut conn = servers::connect(server);
    if !server.kind().is_mariadb() {
        conn.exec("SET SESSION print_identified_with_as_hex = ON")
            .unwrap();
    }
    let result = conn
        .query(query)
        .unwrap_or_else(|error| panic!("{}: {query}: {error}", server.name()));
    result.texts(0).map(str::to_owned).collect()
}

#[test]
fn what_everybody_may_do_comes_with_the_accounts() {
    for kind in MARIADB {
        let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(kind)));
        ask(
            &from,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (i INT PRIMARY KEY, j INT)",
                "CREATE ROLE reader",
                "GRANT SELECT ON d.* TO PUBLIC",
                "GRANT INSERT (i), UPDATE (j) ON d.t TO PUBLIC",
                "GRANT reader TO PUBLIC",
                // An ordinary account with this name.
                "CREATE USER 'PUBLIC'@'localhost' IDENTIFIED BY 'sandbox-only'",
                "GRANT DELETE ON d.t TO 'PUBLIC'@'localhost'",
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let out = dumped(&from, folder.path());
        let text = fs::read_to_string(out.join("users.sql")).unwrap();
        assert!(!text.contains("CREATE ROLE IF NOT EXISTS PUBLIC"), "{text}");
        loaded(&to, &out, folder.path());
        loaded(&to, &out.join("users.sql"), folder.path());
        for name in ["PUBLIC", "'PUBLIC'@'localhost'"] {
            let grants = format!("SHOW GRANTS FOR {name}");
            let wanted = shown(&from, &grants);
            assert!(wanted.len() > 1, "{kind}: {wanted:?}");
            assert_eq!(shown(&to, &grants), wanted, "{kind}");
        }
    }
}

#[test]
fn grants_on_what_is_gone_are_left_out_and_reported() {
    for kind in ServerKind::ALL {
        let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(kind)));
        ask(
            &from,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (i INT PRIMARY KEY, j INT, k INT)",
                "CREATE TABLE d.gone (i INT)",
                "CREATE DATABASE all_gone",
                "CREATE TABLE all_gone.t (i INT)",
                "CREATE USER a@localhost IDENTIFIED BY 'sandbox-only'",
                "GRANT SELECT ON d.gone TO a@localhost WITH GRANT OPTION",
                "GRANT SELECT (i) ON all_gone.t TO a@localhost",
                "GRANT INSERT ON d.t TO a@localhost",
                "CREATE USER b@localhost IDENTIFIED BY 'sandbox-only'",
                "GRANT UPDATE (j), SELECT (k) ON d.t TO b@localhost",
                "GRANT CREATE ON d.gone TO b@localhost",
                "DROP TABLE d.gone",
                "ALTER TABLE d.t DROP COLUMN k",
                "DROP DATABASE all_gone",
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let out = dumped(&from, folder.path());
        let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
        for gone in ["table d.gone", "table all_gone.t", "column k of table d.t"] {
            let note =
                format!("{gone} does not exist, so a grant on it is not in the dump: GRANT ");
            assert!(manifest.contains(&note), "{kind}: {note}: {manifest}");
        }
        loaded(&to, &out, folder.path());
        let outcome = loaded(&to, &out.join("users.sql"), folder.path());
        assert!(outcome.proven, "{kind}: {:?}", outcome.warnings);
        for (name, on) in [("a", "ON `d`.`t`"), ("b", "ON `d`.`gone`")] {
            let grants = shown(&to, &format!("SHOW GRANTS FOR {name}@localhost"));
            assert_eq!(grants.len(), 2, "{kind}: {grants:?}");
            assert!(grants[1].contains(on), "{kind}: {grants:?}");
        }
    }
}

#[test]
fn words_in_a_comment_are_no_clause() {
    let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(ServerKind::MySql97)));
    ask(
        &from,
        &[
            "CREATE DATABASE d",
            "CREATE ROLE r",
            "CREATE USER a@localhost IDENTIFIED BY 'sandbox-only' COMMENT 'none: DEFAULT ROLE x REQUIRE y'",
            "CREATE USER b@localhost IDENTIFIED BY 'sandbox-only' DEFAULT ROLE r COMMENT '\\'s DEFAULT ROLE '",
            "CREATE USER `c DEFAULT ROLE d`@localhost IDENTIFIED BY 'sandbox-only'",
            "GRANT r TO b@localhost",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let out = dumped(&from, folder.path());
    loaded(&to, &out.join("users.sql"), folder.path());
    for name in ["a", "b", "`c DEFAULT ROLE d`"] {
        let create = format!("SHOW CREATE USER {name}@localhost");
        assert_eq!(shown(&to, &create), shown(&from, &create));
    }
}

/// Accounts as (name, host). MariaDB's roles have no host.
fn accounts(server: &Ephemeral) -> Vec<(String, String)> {
    let is_role = if server.kind().is_mariadb() {
        "is_role = 'Y'"
    } else {
        "0"
    };
    let list = servers::connect(server)
        .query(format!(
            "SELECT User, Host, {is_role} FROM mysql.user WHERE User NOT LIKE 'm%.sys' AND User NOT LIKE 'mysql.%' ORDER BY 1, 2"
        ))
        .unwrap();
    (0..list.len())
        .map(|row| {
            let text = |column| list.str(row, column).unwrap().to_owned();
            (text(0), text(1))
        })
        .collect()
}

/// What the server reports about each account, root excepted: creating a role on MariaDB makes root
/// its admin.
fn messages(server: &Ephemeral) -> Vec<String> {
    let mut listed = Vec::new();
    for (user, host) in accounts(server) {
        let name = match (user.as_str(), host.as_str()) {
            ("root", _) => continue,
            ("PUBLIC", "") => user.clone(),
            (_, "") => quote(&user),
            _ => format!("{}@{}", quote(&user), quote(&host)),
        };
        if !host.is_empty() {
            listed.extend(shown(server, &format!("SHOW CREATE USER {name}")));
        }
        listed.extend(shown(server, &format!("SHOW GRANTS FOR {name}")));
    }
    listed
}

/// For each account and password, the account that the login gets, or the error number.
fn logins(server: &Ephemeral) -> Vec<String> {
    let mut logins = Vec::new();
    for (user, host) in accounts(server) {
        if user == "root" || !["localhost", "%"].contains(&host.as_str()) {
            continue;
        }
        for password in [PASSWORD, "before", "wrong", ""] {
            let mut options = ConnectOptions::unix(server.socket(), &user);
            options.password = Some(Secret::new(password));
            let answer = Connection::connect(&options)
                .and_then(|mut conn| conn.query_value("SELECT CURRENT_USER()"));
            let answer = match answer {
                Ok(account) => account.unwrap(),
                Err(error) => format!("{:?}", error.server_code().ok_or(error)),
            };
            logins.push(format!("{user} {password:?}: {answer}"));
        }
    }
    logins
}

/// Both passwords of each MySQL account, as stored by the server, and their lifetimes.
fn retained(server: &Ephemeral) -> Vec<String> {
    if server.kind().is_mariadb() {
        return Vec::new();
    }
    let query = "SELECT CONCAT_WS(' ', User, HEX(authentication_string), User_attributes->>'$.additional_password', \
                 password_expired, password_lifetime) FROM mysql.user ORDER BY User";
    let rows = shown(server, query);
    assert!(rows.len() > 10, "{rows:?}");
    rows
}

/// Accounts of every sort, dumped and loaded into a fresh server of the same kind.
fn come_back(kind: ServerKind) {
    let [from, to] = [(); 2].map(|()| {
        let options = servers::quick(kind);
        servers::start(&if kind.is_mariadb() {
            options
        } else {
            options.option("partial_revokes", "ON")
        })
    });
    ask(&from, COMMON);
    let of_vendor = if kind.is_mariadb() {
        ON_MARIADB
    } else {
        ON_MYSQL
    };
    ask(&from, of_vendor);
    let folder = tempfile::tempdir().unwrap();
    let out = dumped(&from, folder.path());
    loaded(&to, &out, folder.path());
    let outcome = loaded(&to, &out.join("users.sql"), folder.path());
    assert!(outcome.proven, "{kind}: {:?}", outcome.warnings);
    let text = fs::read_to_string(out.join("users.sql")).unwrap();
    assert_eq!(messages(&to), messages(&from), "{kind}: {text}");
    assert_eq!(retained(&to), retained(&from), "{text}");
    // A second load finds the same accounts and leaves them unchanged.
    let outcome = loaded(&to, &out.join("users.sql"), folder.path());
    assert!(outcome.proven, "{kind}: {:?}", outcome.warnings);
    assert_eq!(messages(&to), messages(&from), "{kind}: {text}");
    assert_eq!(retained(&to), retained(&from), "{text}");
    let (are, were) = (logins(&to), logins(&from));
    assert_eq!(are, were, "{kind}");
    for account in [
        "plain@localhost",
        "at@home@%",
        "o'brien \"and\" `co` \\@localhost",
    ] {
        assert!(
            are.iter().any(|line| line.ends_with(account)),
            "{kind}: {account} is not let in: {are:?}"
        );
    }
}

// Hazard of dumps: L-86 accounts of every sort come back in a fresh server: passwords, locks,
//   expiry, certificates, roles, grants on names with wildcards, columns and routines, partial
//   revokes, `PUBLIC`, two passwords of one account; who could log in can
#[test]
fn accounts_of_mariadb_10_11_come_back() {
    come_back(ServerKind::MariaDb1011);
}

#[test]
fn accounts_of_mariadb_11_8_come_back() {
    come_back(ServerKind::MariaDb118);
}

#[test]
fn accounts_of_mysql_9_7_come_back() {
    come_back(ServerKind::MySql97);
}

// Hazard of dumps: L-86 an account that is on the target already with another password or lock:
//   left as it is and reported, even if the dump switches notes off
#[test]
fn an_account_that_is_there_is_left_and_reported() {
    for kind in ServerKind::ALL {
        let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(kind)));
        ask(
            &from,
            &[
                "CREATE DATABASE d",
                "CREATE USER other@localhost IDENTIFIED BY 'sandbox-only'",
                "CREATE USER locked@localhost IDENTIFIED BY 'sandbox-only' ACCOUNT LOCK",
                "CREATE USER same@localhost IDENTIFIED BY 'sandbox-only' REQUIRE NONE",
                if kind.is_mariadb() {
                    "ALTER USER other@localhost PASSWORD EXPIRE INTERVAL 90 DAY"
                } else {
                    "ALTER USER other@localhost IDENTIFIED BY 'sandbox-only' RETAIN CURRENT PASSWORD"
                },
                "ALTER USER other@localhost PASSWORD EXPIRE",
                "GRANT SELECT ON d.* TO other@localhost",
            ],
        );
        let same = &shown(&from, "SHOW CREATE USER same@localhost")[0];
        let open = shown(&from, "SHOW CREATE USER locked@localhost")[0]
            .replace("ACCOUNT LOCK", "ACCOUNT UNLOCK");
        ask(
            &to,
            &[
                "CREATE DATABASE d",
                "CREATE USER other@localhost IDENTIFIED BY 'wrong'",
                same,
                &open,
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let users = dumped(&from, folder.path()).join("users.sql");
        let mut text = fs::read(&users).unwrap();
        // Dumps of the stock tools begin like this: the server then sends no notes.
        let silent = folder.path().join("silent.sql");
        text.splice(0..0, *b"SET SQL_NOTES=0;\n");
        fs::write(&silent, &text).unwrap();
        for source in [&users, &silent] {
            let outcome = loaded(&to, source, folder.path());
            assert!(!outcome.proven, "{kind}");
            let about: Vec<&str> = outcome
                .warnings
                .first
                .iter()
                .inspect(|one| assert!(one.message.contains("left as it is"), "{one:?}"))
                .map(|one| one.about.split_once(": ").unwrap().1)
                .collect();
            let expected = [
                "account `locked`@`localhost`",
                "account `other`@`localhost`",
            ];
            assert_eq!(about, expected, "{kind}");
        }
        let logins = logins(&to);
        let let_in = |password| format!("other {password:?}: other@localhost");
        assert!(logins.contains(&let_in("wrong")), "{kind}: {logins:?}");
        assert!(!logins.contains(&let_in(PASSWORD)), "{kind}: {logins:?}");
        let granted = shown(&to, "SHOW GRANTS FOR other@localhost");
        assert!(granted.iter().any(|one| one.contains("`d`")), "{granted:?}");
        // Accounts that the load itself has created match the dump.
        ask(&to, &["DROP USER other@localhost, locked@localhost"]);
        for _ in 0..2 {
            let outcome = loaded(&to, &users, folder.path());
            assert!(outcome.proven, "{kind}: {:?}", outcome.warnings);
        }
    }
}
