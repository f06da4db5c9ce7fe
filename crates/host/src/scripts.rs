//! Beginnings of scripts that are about a server on the machine that they run on.

/// Finds the process of a server and the option files that it reads. Before it stand assignments of
/// `datadir` and `defaults`; it sets `pid` (empty: the server does not run), `file`, and the
/// parameters with which `my_print_defaults` reads the same files.
pub const SERVER: &str = include_str!("server.sh");

/// Sets `enter` to what is put before a command that has to run in the network of the process
/// `pid`. It is empty where that is the script's own.
pub const ENTER: &str = include_str!("enter.sh");
