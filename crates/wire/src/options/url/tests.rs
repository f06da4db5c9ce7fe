use proptest::prelude::*;

use super::*;
use crate::options::Target;

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
fn a_raw_delimiter_in_user_or_password_never_becomes_a_host() {
    for url in [
        "mysql://root:12/cr3t@127.0.0.1/",
        "mysql://root:12?cr3t@127.0.0.1/",
        "mysql://root:12?socket=x&cr3t@127.0.0.1/",
        "mysql://root:a@b/cr3t@h/",
        "mysql://us/er@h/",
        "mysql://us?er@h/",
        "mysql://h/a@b",
    ] {
        assert_eq!(ParsedUrl::parse(url), Err(UrlError::Delimiter), "{url}");
    }
    let percent = ConnectOptions::from_url("mysql://us%2Fer@h/a%40b").unwrap();
    assert_eq!(
        (percent.user.as_str(), percent.host.as_deref()),
        ("us/er", Some("h"))
    );
    assert_eq!(percent.database.as_deref(), Some("a@b"));
    let socket =
        ConnectOptions::from_url("mysql://u@/?ssl_ca=/a@b&socket=/run/a:b@c.sock").unwrap();
    assert_eq!(socket.socket, Some(PathBuf::from("/run/a:b@c.sock")));
}

#[test]
fn user_and_password_end_at_the_last_at_sign() {
    for (url, info) in [
        ("mysql://u@h/", Some("u")),
        ("mysql://u:a@b/c@h/", Some("u:a@b/c")),
        ("root:a://b@h", Some("root:a://b")),
        ("mysql://h/?socket=/x:y@z", None),
        ("mysql://u@h/?socket=/x:y@z", Some("u")),
        // When in doubt, more counts as secret rather than less.
        (
            "mysql://u:p?q=1@h/?ssl_key=/x@z",
            Some("u:p?q=1@h/?ssl_key=/x"),
        ),
        ("mysql://h:3306/", None),
    ] {
        assert_eq!(user_info(url).map(|range| &url[range]), info, "{url}");
    }
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
