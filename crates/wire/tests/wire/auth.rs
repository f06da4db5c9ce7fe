use refloat_sandbox::ServerKind;
use refloat_wire::{ConnectOptions, Connection, Error, Secret, SslMode};

use crate::common::{ALL, MARIADB, ca, tcp, unix};

const PASSWORD: &str = "s3cret 'päss' \\ %";

/// Tries TLS, plain TCP and the socket, each with the right password, a wrong one and none.
fn try_all(kind: ServerKind, user: &str, plugin: &str) {
    let tls = ConnectOptions {
        ssl_mode: SslMode::Required,
        ..tcp(kind)
    };
    let plain = ConnectOptions {
        ssl_mode: SslMode::Disabled,
        ..tcp(kind)
    };
    for options in [&tls, &plain, &unix(kind)] {
        let with = |password: Option<&str>| ConnectOptions {
            user: user.to_owned(),
            password: password.map(Secret::from),
            ..options.clone()
        };
        let what = format!(
            "{kind} {plugin} {} {}",
            options.describe(),
            options.ssl_mode
        );
        // Twice: the second caching_sha2_password login takes the fast path.
        for _ in 0..2 {
            let mut c = Connection::connect(&with(Some(PASSWORD)))
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(c.server().auth_plugin, plugin, "{what}");
            assert_eq!(c.server().is_tls, options.ssl_mode == SslMode::Required);
            assert_eq!(
                c.query_value("SELECT SUBSTRING_INDEX(USER(), '@', 1)")
                    .unwrap()
                    .as_deref(),
                Some(user)
            );
        }
        for wrong in [Some("hunter2"), Some(""), None] {
            let error = Connection::connect(&with(wrong)).unwrap_err();
            assert_eq!(error.server_code(), Some(1045), "{what}: {error:?}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }
}

fn account(c: &mut Connection, user: &str, how: &str) {
    c.exec(format!("DROP USER IF EXISTS {user}@'%', {user}@localhost"))
        .unwrap();
    for host in ["'%'", "localhost"] {
        c.exec(format!("CREATE USER {user}@{host} IDENTIFIED {how}"))
            .unwrap();
    }
}

fn quoted() -> String {
    format!("'{}'", PASSWORD.replace('\\', "\\\\").replace('\'', "''"))
}

#[test]
fn mysql_native_password() {
    for kind in MARIADB {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        account(
            &mut c,
            "w_native",
            &format!("VIA mysql_native_password USING PASSWORD({})", quoted()),
        );
        try_all(kind, "w_native", "mysql_native_password");
    }
}

#[test]
fn client_ed25519() {
    for kind in MARIADB {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        c.exec("INSTALL SONAME 'auth_ed25519'").unwrap();
        account(
            &mut c,
            "w_ed",
            &format!("VIA ed25519 USING PASSWORD({})", quoted()),
        );
        try_all(kind, "w_ed", "client_ed25519");
    }
}

#[test]
fn parsec() {
    let kind = ServerKind::MariaDb118;
    let mut c = Connection::connect(&unix(kind)).unwrap();
    c.exec("INSTALL SONAME 'auth_parsec'").unwrap();
    account(
        &mut c,
        "w_parsec",
        &format!("VIA parsec USING PASSWORD({})", quoted()),
    );
    try_all(kind, "w_parsec", "parsec");
}

#[test]
fn caching_sha2_password() {
    let kind = ServerKind::MySql97;
    let mut c = Connection::connect(&unix(kind)).unwrap();
    account(
        &mut c,
        "w_sha2",
        &format!("WITH caching_sha2_password BY {}", quoted()),
    );
    try_all(kind, "w_sha2", "caching_sha2_password");
    // The full path on each transport: empty the cache first.
    let plain = ConnectOptions {
        ssl_mode: SslMode::Disabled,
        ..tcp(kind)
    };
    for options in [
        plain.clone(),
        unix(kind),
        ConnectOptions {
            ssl_mode: SslMode::Required,
            ..tcp(kind)
        },
    ] {
        c.exec("FLUSH PRIVILEGES").unwrap();
        Connection::connect(&ConnectOptions {
            user: "w_sha2".into(),
            password: Some(PASSWORD.into()),
            ..options
        })
        .unwrap();
    }
    // Unless it may ask for the key, plain TCP has the fast path only.
    let careful = ConnectOptions {
        user: "w_sha2".into(),
        password: Some(PASSWORD.into()),
        get_server_public_key: false,
        ..plain
    };
    Connection::connect(&careful).unwrap();
    c.exec("FLUSH PRIVILEGES").unwrap();
    let error = Connection::connect(&careful).unwrap_err();
    assert!(
        matches!(&error, Error::Auth { plugin, .. } if plugin == "caching_sha2_password"),
        "{error}"
    );
}

#[test]
fn unix_socket_accounts() {
    let me = String::from_utf8(
        std::process::Command::new("id")
            .arg("-un")
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    let me = me.trim();
    for kind in ALL {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        let how = if kind.is_mariadb() {
            format!("VIA unix_socket AS '{me}'")
        } else {
            if c.query_value("SELECT PLUGIN_NAME FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'auth_socket'").unwrap().is_none() {
                c.exec("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'").unwrap();
            }
            format!("WITH auth_socket AS '{me}'")
        };
        // MariaDB before 11.7 takes no name: the account must be named like the system user.
        let user = if kind == ServerKind::MariaDb1011 {
            me
        } else {
            "w_socket"
        };
        let how = if kind == ServerKind::MariaDb1011 {
            "VIA unix_socket".to_owned()
        } else {
            how
        };
        if user == "root" {
            c.exec("ALTER USER root@localhost IDENTIFIED VIA unix_socket")
                .unwrap();
        } else {
            account(&mut c, user, &how);
        }
        let options = ConnectOptions {
            user: user.to_owned(),
            ..unix(kind)
        };
        let r = Connection::connect(&options);
        if user == "root" {
            c.exec("ALTER USER root@localhost IDENTIFIED VIA mysql_native_password USING ''")
                .unwrap();
        }
        let mut s = r.unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(s.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
        if user != "root" {
            let error = Connection::connect(&ConnectOptions {
                user: user.to_owned(),
                ..tcp(kind)
            })
            .unwrap_err();
            assert!(error.is_access_denied(), "{kind}: {error}");
        }
    }
}

#[test]
fn an_account_that_needs_a_database_or_a_certificate() {
    for kind in ALL {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        let with = if kind.is_mariadb() {
            format!("BY {}", quoted())
        } else {
            format!("WITH caching_sha2_password BY {}", quoted())
        };
        account(&mut c, "w_ssl", &with);
        c.exec("ALTER USER w_ssl@'%' REQUIRE SSL").unwrap();
        let base = ConnectOptions {
            user: "w_ssl".into(),
            password: Some(PASSWORD.into()),
            ..tcp(kind)
        };
        let host = |ssl_mode, database: Option<&str>| ConnectOptions {
            ssl_mode,
            database: database.map(str::to_owned),
            ..base.clone()
        };
        // 127.0.0.1 may match the localhost account, which does not require TLS: drop that one.
        c.exec("DROP USER w_ssl@localhost").unwrap();
        assert!(
            Connection::connect(&host(SslMode::Disabled, None))
                .unwrap_err()
                .is_access_denied()
        );
        Connection::connect(&host(SslMode::Preferred, None)).unwrap();
        assert!(Connection::connect(&host(SslMode::Preferred, Some("no_such_db"))).is_err());
        let verified = ConnectOptions {
            ssl_ca: Some(ca(kind)),
            ..host(SslMode::VerifyIdentity, None)
        };
        Connection::connect(&verified).unwrap();
    }
}
