//! Prompts for a password on the terminal, whatever stdin and stdout are connected to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};

use refloat_wire::Secret;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Longest password accepted, in bytes.
const MAX: usize = 4096;
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// Restores the terminal on drop.
struct Quiet<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> Quiet<'a> {
    /// Turns off echo, signals and line editing. [`password`] handles the last two itself: if
    /// Ctrl-C ended the program here, the terminal would stay without echo.
    fn new(tty: &'a File) -> io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut quiet = before.clone();
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(tty, OptionalActions::Flush, &quiet)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.tty, OptionalActions::Flush, &self.before);
    }
}

/// Shows `prompt` and reads one line without echo.
///
/// # Errors
/// There is no terminal, or the user pressed Ctrl-C (`Interrupted`) or closed it.
pub fn password(prompt: &str) -> io::Result<Secret> {
    let mut tty = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(|error| io::Error::new(error.kind(), format!("there is no terminal: {error}")))?;
    let mut keys = tty.try_clone()?;
    let line = {
        let _quiet = Quiet::new(&tty)?;
        // Only now: anything typed right after the prompt would be echoed, and then discarded.
        (&tty).write_all(prompt.as_bytes())?;
        read_line(std::iter::from_fn(|| {
            let mut byte = [0];
            match keys.read(&mut byte) {
                Ok(0) => None,
                Ok(_) => Some(Ok(byte[0])),
                Err(error) => Some(Err(error)),
            }
        }))
    };
    tty.write_all(b"\n")?;
    line.map(Secret::new)
}

/// The bytes of one line, after the usual editing keys.
fn read_line(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    for key in keys {
        match key? {
            b'\n' | b'\r' => return Ok(line),
            CTRL_C => {
                return Err(io::Error::new(
                    io::ErrorKind::Interrupted,
                    "stopped by Ctrl-C",
                ));
            }
            CTRL_D if line.is_empty() => break,
            BACKSPACE | DELETE => {
                // A whole character: continuation bytes of UTF-8 go with their first byte.
                while line.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {}
            }
            CTRL_U => line.clear(),
            byte if line.len() < MAX => line.push(byte),
            _ => {}
        }
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the terminal was closed",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Result<Vec<u8>, io::ErrorKind> {
        read_line(keys.iter().map(|key| Ok(*key))).map_err(|error| error.kind())
    }

    #[test]
    fn keys_that_people_use() {
        assert_eq!(typed(b"abc\n"), Ok(b"abc".to_vec()));
        assert_eq!(typed("aö\x7fb\r".as_bytes()), Ok(b"ab".to_vec()));
        assert_eq!(typed(b"wrong\x15right\n"), Ok(b"right".to_vec()));
        assert_eq!(typed(b"\x7f\n"), Ok(Vec::new()));
        assert_eq!(typed(b"ab\x03c\n"), Err(io::ErrorKind::Interrupted));
        assert_eq!(typed(b"\x04"), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(typed(b"ab"), Err(io::ErrorKind::UnexpectedEof));
    }
}
