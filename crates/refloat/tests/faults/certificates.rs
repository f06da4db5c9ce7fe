//! Accounts that require a client certificate.

// Hazard of faults: S-02 accounts that require a certificate of the client, of version 1 too

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::{Instance, ServerKind, Tls};
use refloat_testkit::servers;

use crate::support::{Desk, Run, ask, dump, finish, shared, table};

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl is needed");
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Creates a CA (`ca.pem`) with certificates for a server and a client: `server.pem`, `client.pem`
/// and their keys.
fn authority(folder: &Path) {
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=Authority -keyout ca-key.pem -out ca.pem",
    );
    for (name, serial) in [("server", 2), ("client", 3)] {
        openssl(
            folder,
            &format!(
                "req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}-key.pem -out {name}-request.pem"
            ),
        );
        openssl(
            folder,
            &format!(
                "x509 -req -in {name}-request.pem -CA ca.pem -CAkey ca-key.pem -set_serial {serial} -days 10 -out {name}.pem"
            ),
        );
    }
    // The server runs as another user.
    std::fs::set_permissions(
        folder.join("server-key.pem"),
        PermissionsExt::from_mode(0o644),
    )
    .unwrap();
}

/// A folder that a server running as another user can read.
fn folder() -> tempfile::TempDir {
    let mode = PermissionsExt::from_mode(0o755);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap()
}

/// Loads as a user who needs a certificate, with and without one.
fn loads_with_a_certificate(server: &Instance, certificate: &Path, key: &Path, stranger: &Path) {
    let mut desk = Desk::new();
    let user = format!("x_{}", desk.db);
    ask(server, &format!("CREATE USER {user}@'%' REQUIRE X509"));
    ask(server, &format!("GRANT ALL ON *.* TO {user}@'%'"));
    let url = server.url().replace("root@", &format!("{user}@"));
    let file = desk.file("dump.sql", dump(&table("items", 1000)));
    let load = |desk: &Desk, url: &str, more: &[&str]| -> Run {
        finish(desk.load_command(&file, url, more))
    };
    load(&desk, &url, &[]).exits(1).says("1045").says("hint: ");
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let both = ["--ssl-cert", certificate, "--ssl-key", key];
    load(&desk, &url, &both).exits(0).says("done and proven");
    assert_eq!(desk.rows(server, "items"), Some(1000));
    // The same through the URL and through an option file.
    desk.next();
    let glue = if url.contains('?') { '&' } else { '?' };
    let with_certificate = format!("{url}{glue}ssl-cert={certificate}&ssl-key={key}");
    load(&desk, &with_certificate, &[]).exits(0);
    desk.next();
    let options = desk.file(
        "client.cnf",
        format!("[client]\nssl-cert={certificate}\nssl-key={key}\n"),
    );
    load(&desk, &url, &["--defaults-file", options.to_str().unwrap()]).exits(0);
    // A certificate of another CA, one without its key, and a file that is not one.
    desk.next();
    let (other, other_key) = (stranger.join("client.pem"), stranger.join("client-key.pem"));
    let (other, other_key) = (other.to_str().unwrap(), other_key.to_str().unwrap());
    load(&desk, &url, &["--ssl-cert", other, "--ssl-key", other_key]).exits(1);
    load(
        &desk,
        &url,
        &["--ssl-cert", certificate, "--ssl-key", other_key],
    )
    .exits(1)
    .says("ssl-key");
    let missing = desk.path("missing.pem");
    load(
        &desk,
        &url,
        &["--ssl-cert", missing.to_str().unwrap(), "--ssl-key", key],
    )
    .exits(1)
    .says("missing.pem");
    assert_eq!(desk.tables(server), 0);
    ask(server, &format!("DROP USER {user}@'%'"));
}

#[test]
fn an_account_that_requires_a_certificate() {
    let (certificates, stranger) = (folder(), folder());
    authority(certificates.path());
    authority(stranger.path());
    let at = |name: &str| -> PathBuf { certificates.path().join(name) };
    let option = |name: &str| at(name).display().to_string();
    let options = servers::quick(ServerKind::MariaDb1011)
        .tls(Tls::Off)
        .option("ssl_ca", option("ca.pem"))
        .option("ssl_cert", option("server.pem"))
        .option("ssl_key", option("server-key.pem"));
    let server = servers::start(&options);
    loads_with_a_certificate(
        &server,
        &at("client.pem"),
        &at("client-key.pem"),
        stranger.path(),
    );
    // This server has generated certificates for itself and for a client.
    let server = shared(ServerKind::MySql97);
    let data = server.datadir();
    loads_with_a_certificate(
        server,
        &data.join("client-cert.pem"),
        &data.join("client-key.pem"),
        stranger.path(),
    );
}
