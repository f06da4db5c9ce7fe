//! Beginnings of scripts that deal with a server on the same machine.

/// Finds the process of a server and the option files that it reads. The script must set `datadir`
/// and `defaults` first. Sets `pid` (empty: the server does not run), `file`, and the positional
/// parameters for `my_print_defaults` to read the same files.
pub const SERVER: &str = include_str!("server.sh");

/// Sets `enter` to the prefix for a command that must run in the network namespace of the process
/// `pid`. Empty if that is the script's own.
pub const ENTER: &str = include_str!("enter.sh");
