//! The operating system account that servers run as.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use crate::{Error, Result};

/// The account that server packages create. Servers refuse to run as root unless forced to, and we
/// do not force them.
const SERVER_ACCOUNT: &str = "mysql";

/// The account that a server runs as when root starts it. Other users run servers as themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    pub name: &'static str,
    uid: u32,
    gid: u32,
}

impl ServerUser {
    /// `None` if the server runs as the user who starts it.
    pub fn for_this_process() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = Path::new("/etc/passwd");
        let accounts = fs::read_to_string(path).map_err(Error::io("read", path))?;
        match find_account(&accounts, SERVER_ACCOUNT) {
            Some((uid, gid)) => Ok(Some(Self {
                name: SERVER_ACCOUNT,
                uid,
                gid,
            })),
            None => Err(Error::NoUser {
                user: SERVER_ACCOUNT.to_owned(),
            }),
        }
    }

    pub const fn uid(&self) -> u32 {
        self.uid
    }

    pub const fn gid(&self) -> u32 {
        self.gid
    }

    /// Makes the account the owner of one file or directory.
    pub fn make_owner_of(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid)).map_err(Error::io("change the owner of", path))
    }

    /// Can the account enter this directory and everything above it?
    pub fn can_reach(&self, wanted: &Path) -> Result<()> {
        for folder in wanted
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
        {
            let meta = fs::metadata(folder).map_err(Error::io("look at", folder))?;
            let bit = if meta.uid() == self.uid {
                0o100
            } else if meta.gid() == self.gid {
                0o010
            } else {
                0o001
            };
            if meta.mode() & bit == 0 {
                return Err(Error::Unreachable {
                    user: self.name.to_owned(),
                    folder: folder.to_path_buf(),
                    wanted: wanted.to_path_buf(),
                });
            }
        }
        Ok(())
    }
}

/// UID and GID of an account, from the text of a passwd file.
fn find_account(accounts: &str, name: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some((uid, gid))
    })
}

#[cfg(test)]
mod tests {
    use super::find_account;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let text = "root:x:0:0:root:/root:/bin/bash\nmysql2:x:7:8::/:/bin/false\nmysql:x:101:102:MySQL,,,:/n:/bin/false\n";
        assert_eq!(find_account(text, "mysql"), Some((101, 102)));
        assert_eq!(find_account(text, "mys"), None);
        assert_eq!(find_account("mysql:x:no:1\n", "mysql"), None);
    }
}
