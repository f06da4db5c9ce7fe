//! Makes a certificate authority and a server certificate for the local machine, using `openssl`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installation::run;
use crate::user::ServerUser;
use crate::{Error, Result};

pub const CA: &str = "ca.pem";
pub const CERTIFICATE: &str = "server-cert.pem";
pub const KEY: &str = "server-key.pem";
const CA_KEY: &str = "ca-key.pem";
const REQUEST: &str = "request.pem";
const EXTENSIONS: &str = "extensions.cnf";

/// Ten years: a cached certificate that expires between two test runs would be a puzzling failure.
const DAYS: &str = "3650";

/// The names and addresses by which a client may reach a sandbox server.
const SERVER_EXTENSIONS: &str = "basicConstraints=critical,CA:FALSE\n\
    keyUsage=critical,digitalSignature,keyEncipherment\n\
    extendedKeyUsage=serverAuth\n\
    subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n";

/// Makes [`CA`], [`CERTIFICATE`] and [`KEY`] in an empty directory.
pub fn generate(folder: &Path) -> Result<()> {
    let at = |name: &str| folder.join(name);
    let extensions = at(EXTENSIONS);
    fs::write(&extensions, SERVER_EXTENSIONS).map_err(Error::io("write", &extensions))?;
    openssl(
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            DAYS,
            "-subj",
            "/CN=Refloat sandbox CA",
        ],
        &["-addext", "keyUsage=critical,keyCertSign,cRLSign"],
        &[("-keyout", at(CA_KEY)), ("-out", at(CA))],
    )?;
    openssl(
        &[
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ],
        &[],
        &[("-keyout", at(KEY)), ("-out", at(REQUEST))],
    )?;
    openssl(
        &["x509", "-req", "-days", DAYS, "-CAcreateserial"],
        &[],
        &[
            ("-in", at(REQUEST)),
            ("-CA", at(CA)),
            ("-CAkey", at(CA_KEY)),
            ("-extfile", extensions.clone()),
            ("-out", at(CERTIFICATE)),
        ],
    )?;
    for name in [REQUEST, EXTENSIONS] {
        fs::remove_file(at(name)).map_err(Error::io("delete", at(name)))?;
    }
    Ok(())
}

/// Copies the server's certificate files into its own directory. Only the server can read the key.
pub fn install(from: &Path, to: &Path, user: Option<&ServerUser>) -> Result<()> {
    for (name, mode) in [(CA, 0o644), (CERTIFICATE, 0o644), (KEY, 0o600)] {
        let target = to.join(name);
        fs::copy(from.join(name), &target).map_err(Error::io("write", &target))?;
        fs::set_permissions(&target, Permissions::from_mode(mode))
            .map_err(Error::io("protect", &target))?;
        if let Some(user) = user {
            user.make_owner_of(&target)?;
        }
    }
    Ok(())
}

fn openssl(arguments: &[&str], more: &[&str], files: &[(&str, PathBuf)]) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args(arguments).args(more);
    for (option, path) in files {
        command.arg(option).arg::<&OsStr>(path.as_ref());
    }
    run(&mut command, "openssl").map(drop)
}
