//! Body of the fuzz target for answers of SFTP servers.

use std::io::{self, Read, Write};

use refloat_store::storage::{Existing, UNFINISHED, check_readable};

use super::publish::{begin, clock, delete};
use super::session::{Session, flags};
use super::transfer::Fetch;
use super::url::{Root, SshUrl};
use super::walk::walk;

/// Number of bytes to request.
const WANTED: u64 = 100_000;

/// Replays the bytes of a server.
struct Played<'a>(&'a [u8]);

impl Read for Played<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::ConnectionAborted.into()),
            count => Ok(count),
        }
    }
}

impl Write for Played<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A session in which a server sends these bytes. The first byte selects the request.
pub fn sftp(data: &[u8]) {
    if let [what, answers @ ..] = data {
        // Most inputs end in an error.
        let _ = asked(Played(answers), *what);
    }
}

fn asked<S: Read + Write>(stream: S, what: u8) -> io::Result<()> {
    let root = "ssh://h/srv".parse::<SshUrl>();
    let root: Root = root.map_err(io::Error::other)?.root().clone();
    let mut session = Session::begin(stream)?;
    match what % 4 {
        0 => {
            for found in walk(&mut session, &root, "")?.files {
                let (folder, last) = found.name.rsplit_once('/').unwrap_or(("", &found.name));
                assert!(folder.is_empty() || check_readable("", folder).is_ok());
                let name = last.strip_prefix(UNFINISHED).unwrap_or(last);
                assert!(check_readable("", name).is_ok());
            }
        }
        1 => {
            let handle = session.open("x", flags::READ)?;
            let mut fetch = Fetch::new(handle, 0..WANTED);
            let mut count = 0;
            while let Some(piece) = fetch.next(&mut session)? {
                count += piece.get_ref().len() as u64 - piece.position();
            }
            assert!(count <= WANTED);
            fetch.close(&mut session);
        }
        2 => {
            let mut begun = begin(&mut session, &root, "a/b", Existing::Keep)?;
            let some = vec![7; 50_000];
            for _ in 0..3 {
                begun.write(&mut session, &some)?;
            }
            begun.publish(&mut session, Existing::Keep)?;
        }
        _ => {
            let mut begun = begin(&mut session, &root, "a/b", Existing::Replace)?;
            begun.publish(&mut session, Existing::Replace)?;
            delete(&mut session, &root, "a/b")?;
            clock(&mut session, &root)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use refloat_testkit::corpus;

    use super::*;

    /// Seeds with their names: recorded answers of OpenSSH's server.
    fn seeds() -> Vec<(String, Vec<u8>)> {
        let seeds = corpus::seeds("sftp");
        assert!(seeds.len() >= 7);
        seeds
    }

    #[test]
    fn seeds_are_understood() {
        for (name, seed) in seeds() {
            let expected = match name.as_str() {
                "read-refused" => Err(io::ErrorKind::NotFound),
                "write-exists" => Err(io::ErrorKind::AlreadyExists),
                "write-lacks" => Err(io::ErrorKind::Unsupported),
                _ => Ok(()),
            };
            let asked = asked(Played(&seed[1..]), seed[0]).map_err(|error| error.kind());
            assert_eq!(asked, expected, "{name}");
        }
    }

    #[test]
    fn what_ends_early_is_an_error() {
        for (name, seed) in seeds() {
            // Nothing may wait for the last answers, such as the one to a close.
            let most = (seed.len() - 100).min(2_000);
            for kept in 1..most {
                let asked = asked(Played(&seed[1..kept]), seed[0]);
                assert!(asked.is_err(), "{name}, {kept} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_like_the_seeds_makes_a_panic(
            which in any::<prop::sample::Index>(),
            changes in prop::collection::vec((0..2_000_usize, any::<u8>()), 0..4),
            kept in 0..3_000_usize,
        ) {
            let all = seeds();
            let mut seed = all[which.index(all.len())].1.clone();
            for (at, byte) in changes {
                let at = at % seed.len();
                seed[at] = byte;
            }
            seed.truncate(kept.max(1));
            sftp(&seed);
        }
    }
}
