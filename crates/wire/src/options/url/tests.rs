use super::*;
use crate::options::Target;
use proptest::prelude::*;

#[test]
fn all_parts_are_read() {
    let o = ConnectOptions::from_url("mysql://re%40load@db.example:3307/sh%2Fop?ssl-mode=VERIFY_CA&ssl_ca=/etc/ca.pem&connect-timeout=3").unwrap();
    assert_eq!(
        (o.user.as_str(), o.host.as_deref(), o.port),
        ("re@load", Some("db.example"), Some(3307))
    );
    assert_eq!(
        (o.database.as_deref(), o.ssl_mode),
        (Some("sh/op"), SslMode::VerifyCa)
    );
    assert_eq!(
        (o.ssl_ca, o.connect_timeout),
        (Some(PathBuf::from("/etc/ca.pem")), Duration::from_secs(3))
    );
    assert_eq!(o.password, None);
}

#[test]
fn addresses_of_all_forms() {
    let host = |url: &str| ConnectOptions::from_url(url).map(|o| (o.host, o.port));
    assert_eq!(
        host("mariadb://u@[2001:db8::1]:3310/"),
        Ok((Some("2001:db8::1".into()), Some(3310)))
    );
    assert_eq!(host("mariadb://u@[::1]"), Ok((Some("::1".into()), None)));
    assert_eq!(
        host("MYSQL://127.0.0.1"),
        Ok((Some("127.0.0.1".into()), None))
    );
    assert_eq!(host("mysql://u@/db"), Ok((None, None)));
    assert_eq!(host("mysql://u@[::1/db"), Err(UrlError::Bracket));
    assert_eq!(host("mysql://u@[::1]x"), Err(UrlError::Port));
    for port in ["0", "70000", "x", "", "-1"] {
        assert_eq!(
            host(&format!("mysql://u@h:{port}/db")),
            Err(UrlError::Port),
            "{port}"
        );
    }
    assert_eq!(host("postgres://u@h/db"), Err(UrlError::Scheme));
    assert_eq!(host("h:3306"), Err(UrlError::Scheme));
}

#[test]
fn a_password_is_refused_and_not_repeated() {
    let url = "mysql://u:hunter2@h/db";
    let error = ConnectOptions::from_url(url).unwrap_err();
    assert_eq!(error, UrlError::Password);
    assert!(!error.to_string().contains("hunter2"));
    let parsed = ParsedUrl::parse(url).unwrap();
    assert!(parsed.has_password);
    assert!(!format!("{parsed:?} {}", parsed.options.describe()).contains("hunter2"));
    assert_eq!(parsed.options.password, Some(Secret::from("hunter2")));
    assert!(
        ConnectOptions::from_url("mysql://u:@h/db").is_ok(),
        "an empty one is no secret"
    );
}

#[test]
fn unknown_or_wrong_options_are_refused() {
    let error =
        |query: &str| ConnectOptions::from_url(&format!("mysql://u@h/db?{query}")).unwrap_err();
    assert_eq!(
        error("sslmod=required"),
        UrlError::UnknownKey("sslmod".into())
    );
    assert!(matches!(error("ssl-mode=strict"), UrlError::Value { .. }));
    assert!(matches!(
        error("connect-timeout=soon"),
        UrlError::Value { .. }
    ));
    assert_eq!(error("ssl-ca=%zz"), UrlError::Percent);
    assert_eq!(error("ssl-ca=%ff"), UrlError::Percent);
    assert_eq!(error("socket=/run/x.sock"), UrlError::HostAndSocket);
}

#[test]
fn the_target_follows_the_rule() {
    let target = |url: &str| ConnectOptions::from_url(url).unwrap().target();
    assert_eq!(
        target("mysql://u@localhost/db?socket=/run/a.sock"),
        Target::Unix("/run/a.sock".into())
    );
    assert_eq!(
        target("mysql://u@/db?socket=%2Frun%2Fa.sock"),
        Target::Unix("/run/a.sock".into())
    );
    assert_eq!(
        target("mysql://u@localhost:3307/db"),
        Target::Tcp("localhost".into(), 3307)
    );
    assert_eq!(
        target("mysql://u@127.0.0.1/db"),
        Target::Tcp("127.0.0.1".into(), 3306)
    );
    let from_file = ConnectOptions {
        socket: Some("/run/a.sock".into()),
        ..ConnectOptions::tcp("db", 3306, "u")
    };
    assert_eq!(
        from_file.target(),
        Target::Tcp("db".into(), 3306),
        "a host is never replaced by a socket"
    );
    assert_eq!(ConnectOptions::tcp("::1", 1, "u").describe(), "u@[::1]:1");
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(mysql://)?.{0,60}") {
        let _ = ParsedUrl::parse(&text);
    }
}
