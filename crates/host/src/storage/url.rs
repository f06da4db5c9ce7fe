//! Addresses of folders: `ssh://USER@HOST:PORT/FOLDER`.

use std::io;
use std::str::FromStr;

use refloat_store::storage::StorageError;

/// A folder on a machine that `ssh` reaches.
///
/// `ssh://[USER@]HOST[:PORT]/FOLDER`, or `sftp://` with the same; `/~/FOLDER` is in the home folder
/// of the account. Characters that a URL does not allow can be written like `%20`. User and port
/// default to the configuration of `ssh`, and `HOST` may be a name from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshUrl {
    written: String,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    root: Root,
}

impl SshUrl {
    /// The URL as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    fn parse(written: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = written.split_once("://").unwrap_or_default();
        if !["ssh", "sftp"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return Err("it does not begin with ssh://");
        }
        let folder = "it names no folder: write ssh://HOST/FOLDER, or ssh://HOST/~/FOLDER for one \
                      in the home folder";
        let (place, path) = rest.find('/').map(|at| rest.split_at(at)).ok_or(folder)?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(decoded(user).ok_or(NO_TEXT)?), place),
            None => (None, place),
        };
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err("ssh takes no password from it: use a key");
        }
        let (host, port) = match place.strip_prefix('[') {
            Some(place) => place.split_once(']').ok_or("a ] is missing")?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or("its port is none")?,
            ),
            None if port.is_empty() => None,
            None => return Err("its port is none"),
        };
        let is_word = |word: &str| {
            let strange = |c: char| c.is_control() || c.is_whitespace();
            !word.is_empty() && !word.starts_with('-') && !word.contains(strange)
        };
        if !is_word(host) {
            return Err("it names no host");
        }
        if !user.as_deref().is_none_or(is_word) {
            return Err("its user is none");
        }
        Ok(Self {
            written: written.to_owned(),
            user,
            host: host.to_owned(),
            port,
            root: Root::of(&decoded(path).ok_or(NO_TEXT)?),
        })
    }
}

const NO_TEXT: &str = "what follows a % in it is not text";

impl FromStr for SshUrl {
    type Err = StorageError;

    fn from_str(written: &str) -> Result<Self, StorageError> {
        Self::parse(written).map_err(|why| refused(written, why))
    }
}

/// The error for an invalid address. Leaves out what may be a password.
pub fn refused(written: &str, why: &str) -> StorageError {
    let shown = match written.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => {
            let (user, rest) = rest.rsplit_once('@').unwrap_or_default();
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{rest}")
        }
        _ => written.to_owned(),
    };
    let source = io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    StorageError::from_io(&shown, "", "reading this address", source)
}

/// A text of a URL without its `%XX`. `None`: the result is not text.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.as_bytes());
    for part in parts {
        let code = part.get(..2)?;
        if !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

/// The folder of a storage as its server takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(String);

impl Root {
    /// From the path of a URL, which begins with `/`.
    fn of(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        match path.strip_prefix("/~") {
            // Servers begin in the home folder.
            Some("") => Self(".".to_owned()),
            Some(rest) if rest.starts_with('/') => {
                Self(format!("./{}", rest.trim_start_matches('/')))
            }
            _ => Self(path.to_owned()),
        }
    }

    /// The path of something in it. The empty name is the folder itself.
    pub fn path(&self, name: &str) -> String {
        match (self.0.as_str(), name) {
            ("", "") => "/".to_owned(),
            (root, "") => root.to_owned(),
            (root, name) => format!("{root}/{name}"),
        }
    }
}

/// The folder above a path. `None`: there is none, or the server begins there.
pub fn above(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((above, _)) => Some(above),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (Option<String>, String, Option<u16>, String) {
        let url: SshUrl = url.parse().unwrap();
        (url.user, url.host, url.port, url.root.path("x"))
    }

    #[test]
    fn addresses_say_where() {
        let some = |text: &str| Some(text.to_owned());
        let host = "h".to_owned();
        for (url, expected) in [
            ("ssh://h/srv/a", (None, host.clone(), None, "/srv/a/x")),
            (
                "sftp://u@h:2222/a//",
                (some("u"), host.clone(), Some(2222), "/a/x"),
            ),
            ("SSH://h/", (None, host.clone(), None, "/x")),
            ("ssh://h/~", (None, host.clone(), None, "./x")),
            ("ssh://h/~/a%20b/c", (None, host.clone(), None, "./a b/c/x")),
            ("ssh://h/~u/a", (None, host.clone(), None, "/~u/a/x")),
            (
                "ssh://d%5cu@[::1]:7/a",
                (some("d\\u"), "::1".to_owned(), Some(7), "/a/x"),
            ),
            ("ssh://a@b@h/a@b:c", (some("a@b"), host, None, "/a@b:c/x")),
        ] {
            let (user, host, port, path) = expected;
            assert_eq!(parsed(url), (user, host, port, path.to_owned()), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in [
            "ssh://h",
            "ssh:///a",
            "ssh://-oProxyCommand=x/a",
            "ssh://h:0/a",
            "ssh://h:x/a",
            "ssh://h:70000/a",
            "ssh://[::1/a",
            "ssh://[::1]x/a",
            "ssh://@h/a",
            "ssh://-x@h/a",
            "ssh://h h/a",
            "ssh://h/%",
            "ssh://h/%+1",
            "ssh://h/%ff",
            "ssh://h/%00",
            "http://h/a",
            "h:/a",
            "",
        ] {
            let error = url.parse::<SshUrl>().unwrap_err();
            assert!(
                error.to_string().contains("reading this address: "),
                "{error}"
            );
        }
        let error = "ssh://me:hush@h/a"
            .parse::<SshUrl>()
            .unwrap_err()
            .to_string();
        assert!(
            !error.contains("hush") && error.contains("use a key"),
            "{error}"
        );
    }

    #[test]
    fn folders_above() {
        let all = |mut path| {
            let mut found = Vec::new();
            while let Some(next) = above(path) {
                found.push(next);
                path = next;
            }
            found
        };
        assert_eq!(all("/a/b"), ["/a", "/"]);
        assert_eq!(all("./a/b"), ["./a", "."]);
    }
}
