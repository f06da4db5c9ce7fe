use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::{ServerKind, StartOptions, Tls};
use refloat_wire::{ConnectOptions, Connection, Error, SslMode};

use crate::common::{ALL, ca, sandbox, tcp, unix};

/// Another way to write 127.0.0.1, which is in no certificate here.
const ALIAS: &str = "::ffff:127.0.0.1";

fn openssl(folder: &Path, arguments: &str) {
    let out = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl is needed");
    assert!(
        out.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn other_ca() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    openssl(
        folder.path(),
        "req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=Other -keyout k.pem -out ca.pem",
    );
    let path = folder.path().join("ca.pem");
    (folder, path)
}

fn refused(options: &ConnectOptions) -> String {
    match Connection::connect(options) {
        Err(Error::Tls { reason, .. }) => reason,
        other => panic!("{} {}: {other:?}", options.describe(), options.ssl_mode),
    }
}

#[test]
fn every_mode_with_a_good_and_a_bad_authority() {
    let (_folder, bad) = other_ca();
    for kind in ALL {
        let with = |ssl_mode, ssl_ca: Option<PathBuf>| ConnectOptions {
            ssl_mode,
            ssl_ca,
            ..tcp(kind)
        };
        for (mode, encrypted) in [
            (SslMode::Disabled, false),
            (SslMode::Preferred, true),
            (SslMode::Required, true),
        ] {
            for authority in [None, Some(bad.clone())] {
                let mut c = Connection::connect(&with(mode, authority)).unwrap();
                assert_eq!(c.server().is_tls, encrypted, "{kind} {mode}");
                let cipher = c.query("SHOW STATUS LIKE 'Ssl_cipher'").unwrap();
                assert_eq!(
                    !cipher.str(0, 1).unwrap().is_empty(),
                    encrypted,
                    "{kind} {mode}"
                );
            }
        }
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
            let c = Connection::connect(&with(mode, Some(ca(kind))))
                .unwrap_or_else(|e| panic!("{kind} {mode}: {e}"));
            assert!(
                c.server().tls.as_ref().unwrap().starts_with("TLSv1_"),
                "{:?}",
                c.server().tls
            );
            assert!(
                refused(&with(mode, Some(bad.clone()))).contains("UnknownIssuer"),
                "{kind} {mode}"
            );
            assert!(
                refused(&with(mode, None)).contains("UnknownIssuer"),
                "{kind}: the system's roots do not know it"
            );
            assert!(matches!(
                Connection::connect(&with(mode, Some("/none.pem".into()))),
                Err(Error::Options { .. })
            ));
        }
        // The name: the certificate has localhost and 127.0.0.1, but not the alias, which reaches
        // the same server.
        let named = |host: &str, ssl_mode| ConnectOptions {
            host: Some(host.to_owned()),
            ..with(ssl_mode, Some(ca(kind)))
        };
        assert!(
            refused(&named(ALIAS, SslMode::VerifyIdentity)).contains("not valid for name"),
            "{kind}"
        );
        Connection::connect(&named(ALIAS, SslMode::VerifyCa)).unwrap();
        Connection::connect(&named("localhost", SslMode::VerifyIdentity)).unwrap();
        // A socket is not encrypted unless required, but can be.
        assert!(!Connection::connect(&unix(kind)).unwrap().server().is_tls);
        let asked = ConnectOptions {
            ssl_mode: SslMode::Required,
            ..unix(kind)
        };
        assert!(Connection::connect(&asked).unwrap().server().is_tls);
    }
}

#[test]
fn a_server_without_tls() {
    let options = StartOptions::new(ServerKind::MariaDb1011).tls(Tls::Off);
    let server = sandbox().start_ephemeral(&options).unwrap();
    let plain = ConnectOptions::from_url(&server.url()).unwrap();
    assert_eq!(plain.ssl_mode, SslMode::Preferred);
    assert!(!Connection::connect(&plain).unwrap().server().is_tls);
    for ssl_mode in [
        SslMode::Required,
        SslMode::VerifyCa,
        SslMode::VerifyIdentity,
    ] {
        assert!(
            refused(&ConnectOptions {
                ssl_mode,
                ..plain.clone()
            })
            .contains("does not offer TLS")
        );
    }
}

/// Servers with certificates found in practice: version 1 (which openssl makes by default),
/// expired, without alternative names.
#[test]
fn certificates_that_webpki_would_not_read() {
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let at = |name: &str| folder.path().join(name);
    openssl(
        folder.path(),
        "req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=OldStyle -keyout cak.pem -out ca.pem",
    );
    openssl(
        folder.path(),
        "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout k.pem -out r.pem",
    );
    openssl(
        folder.path(),
        "x509 -req -in r.pem -CA ca.pem -CAkey cak.pem -set_serial 7 -days 10 -out v1.pem",
    );
    openssl(
        folder.path(),
        "x509 -req -in r.pem -CA ca.pem -CAkey cak.pem -set_serial 8 -days -1 -out old.pem",
    );
    let text = Command::new("openssl")
        .args(["x509", "-noout", "-text", "-in"])
        .arg(at("v1.pem"))
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("Version: 1 "),
        "this openssl makes another version"
    );
    let (_other, bad) = other_ca();
    for (cert, valid) in [("v1.pem", true), ("old.pem", false)] {
        let chown = Command::new("chmod")
            .arg("644")
            .arg(at("k.pem"))
            .status()
            .unwrap();
        assert!(chown.success());
        let options = StartOptions::new(ServerKind::MariaDb1011)
            .tls(Tls::Off)
            .option("ssl_cert", at(cert).to_str().unwrap())
            .option("ssl_key", at("k.pem").to_str().unwrap());
        let server = sandbox().start_ephemeral(&options).unwrap();
        let plain = ConnectOptions::from_url(&server.url()).unwrap();
        let with = |ssl_mode, ssl_ca: Option<PathBuf>| ConnectOptions {
            ssl_mode,
            ssl_ca,
            ..plain.clone()
        };
        assert!(
            Connection::connect(&with(SslMode::Required, None))
                .unwrap()
                .server()
                .is_tls,
            "{cert}"
        );
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
            if valid {
                Connection::connect(&with(mode, Some(at("ca.pem")))).unwrap();
                // A certificate given in `ssl-ca` needs no other authority.
                Connection::connect(&with(mode, Some(at(cert)))).unwrap();
                assert!(refused(&with(mode, Some(bad.clone()))).contains("UnknownIssuer"));
            } else {
                let reason = refused(&with(mode, Some(at("ca.pem"))));
                assert!(reason.to_lowercase().contains("expired"), "{reason}");
            }
        }
        let elsewhere = ConnectOptions {
            host: Some(ALIAS.to_owned()),
            ..with(SslMode::VerifyIdentity, Some(at("ca.pem")))
        };
        let reason = refused(&elsewhere);
        assert!(!valid || reason.contains("not valid for name"), "{reason}");
    }
}
