//! Where the file of a table is, and who may write there.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use refloat_sqltext::literal;
use refloat_tablespace::format::{HEADER, SPACE_AT, get_u32};
use refloat_wire::{Connection, Vendor};

use crate::table::Table;

/// The files of a table in the data directory.
pub struct TableFiles {
    /// The tablespace.
    pub ibd: PathBuf,
    /// The description beside it while it is exported or imported.
    pub cfg: PathBuf,
    /// Number of the tablespace, as the server has it.
    pub space: u32,
}

impl TableFiles {
    /// Asks the server. An error is a reason for people.
    pub fn of(conn: &mut Connection, table: &Table) -> Result<Self, String> {
        let name = |name: &str| {
            in_file_name(name)
                .ok_or_else(|| format!("the file of {name} has a name that only the server knows"))
        };
        let (db, own) = (name(&table.db)?, name(&table.name)?);
        let name = literal(&format!("{db}/{own}"));
        let sql = match conn.server().vendor {
            Vendor::MariaDb => format!(
                "SELECT SPACE, FILENAME FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME = {name}"
            ),
            Vendor::MySql => format!(
                "SELECT t.SPACE, f.PATH FROM information_schema.INNODB_TABLESPACES t JOIN information_schema.INNODB_DATAFILES f ON f.SPACE = t.SPACE WHERE t.NAME = {name}"
            ),
        };
        let found = conn
            .query(sql)
            .map_err(|error| format!("its file cannot be asked for: {error}"))?;
        let space = found.u64(0, 0).and_then(|space| u32::try_from(space).ok());
        let (Some(space), Some(path)) = (space, found.str(0, 1)) else {
            return Err("it has no file of its own".to_owned());
        };
        let path = path.to_owned();
        let datadir = datadir(conn)?;
        let ibd = datadir.join(&db).join(format!("{own}.ibd"));
        let said = datadir.join(path.strip_prefix("./").unwrap_or(&path));
        if said != ibd {
            return Err("its file is outside the data directory".to_owned());
        }
        Ok(Self {
            cfg: ibd.with_extension("cfg"),
            ibd,
            space,
        })
    }

    /// Where the tablespace of a table is, or was.
    pub fn path(conn: &mut Connection, db: &str, table: &str) -> Result<PathBuf, String> {
        let (db, own) = (in_file_name(db), in_file_name(table));
        let (Some(db), Some(own)) = (db, own) else {
            return Err("its file has a name that only the server knows".to_owned());
        };
        Ok(datadir(conn)?.join(db).join(format!("{own}.ibd")))
    }

    /// Makes sure that this is the server's file, from its first page.
    pub fn prove(&self, file: &[u8]) -> Result<(), String> {
        if file.len() > HEADER && get_u32(file, SPACE_AT) == self.space {
            return Ok(());
        }
        Err(format!(
            "{} is not the file that the server has open",
            self.ibd.display()
        ))
    }
}

fn datadir(conn: &mut Connection) -> Result<PathBuf, String> {
    let path = conn.query_value("SELECT @@datadir");
    let path = path.map_err(|error| format!("the data directory cannot be asked for: {error}"))?;
    Ok(PathBuf::from(path.unwrap_or_default()))
}

/// A name as it is in the name of a file (`tablename_to_filename`); `None` if a letter of it has a
/// spelling there that only the server knows.
fn in_file_name(name: &str) -> Option<String> {
    let mut file = String::new();
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => file.push(letter),
            letter if letter.is_ascii() => {
                let _ = write!(file, "@{:04x}", u32::from(letter));
            }
            _ => return None,
        }
    }
    Some(file)
}

/// Whether files of this owner can be made here, where the folder allows it.
pub fn may_own(owner: &Metadata) -> bool {
    let uid = rustix::process::geteuid();
    uid.is_root() || uid.as_raw() == owner.uid()
}

/// Creates a file like another one: the same owner, group and permissions.
pub fn create_like(path: &Path, like: &Metadata) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not where the server's account has put a link in its place.
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let given = || {
        if rustix::process::geteuid().is_root() {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777))
    };
    given().inspect_err(|_| {
        let _ = fs::remove_file(path);
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_the_server_spells_them() {
        assert_eq!(in_file_name("order_Item9").as_deref(), Some("order_Item9"));
        assert_eq!(
            in_file_name("a-b c$").as_deref(),
            Some("a@002db@0020c@0024")
        );
        assert_eq!(in_file_name("naïve"), None);
    }
}
