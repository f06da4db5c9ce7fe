//! What unit tests share.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::datadir::server_in;
use crate::host::Host;

/// A process that looks like a server working in this folder. It ends with its standard input.
pub fn something_like_a_server(datadir: &Path) -> Child {
    let server = Command::new("sh")
        .args(["-c", "printf mariadbd >/proc/$$/comm; read -r line"])
        .current_dir(datadir)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    while server_in(&Host::Local, datadir).unwrap().is_none() {
        std::thread::yield_now();
    }
    server
}
