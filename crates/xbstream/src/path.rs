//! What may be the path of a file in a stream.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Paths must be shorter, in bytes: the tools' own limit (`FN_REFLEN`).
pub const PATH_LIMIT: usize = 512;

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It has [`PATH_LIMIT`] bytes or more.
    #[error("it has {PATH_LIMIT} bytes or more")]
    TooLong,
    /// It begins with a slash.
    #[error("it is absolute")]
    Absolute,
    /// A part of it is empty, `.` or `..`.
    #[error("a part of it is empty, \".\" or \"..\"")]
    Part,
    /// It has a NUL byte or a backslash.
    #[error("it has a NUL byte or a backslash")]
    Byte,
}

/// Is it the path of a file below the folder that a stream is extracted into, and on every system?
pub(crate) fn check(path: &[u8]) -> Result<(), BadPath> {
    if path.is_empty() {
        return Err(BadPath::Empty);
    }
    if path.len() >= PATH_LIMIT {
        return Err(BadPath::TooLong);
    }
    if path[0] == b'/' {
        return Err(BadPath::Absolute);
    }
    if path.iter().any(|byte| matches!(byte, 0 | b'\\')) {
        return Err(BadPath::Byte);
    }
    let part = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    if path.split(|byte| *byte == b'/').any(part) {
        return Err(BadPath::Part);
    }
    Ok(())
}

pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(crate) fn as_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        let long = vec![b'a'; PATH_LIMIT - 1];
        for good in [
            &b"ibdata1"[..],
            b"db/t#P#p0.MAD",
            b"a/b/...c",
            b"\xff",
            &long,
        ] {
            assert_eq!(check(good), Ok(()), "{}", good.escape_ascii());
        }
        let longer = vec![b'a'; PATH_LIMIT];
        for (bad, why) in [
            (&b""[..], BadPath::Empty),
            (&longer, BadPath::TooLong),
            (b"/etc/passwd", BadPath::Absolute),
            (b"..", BadPath::Part),
            (b"../a", BadPath::Part),
            (b"a/../b", BadPath::Part),
            (b"a/..", BadPath::Part),
            (b"./a", BadPath::Part),
            (b"a//b", BadPath::Part),
            (b"a/", BadPath::Part),
            (b"a\\..\\b", BadPath::Byte),
            (b"a\0b", BadPath::Byte),
        ] {
            assert_eq!(check(bad), Err(why), "{}", bad.escape_ascii());
        }
    }
}
