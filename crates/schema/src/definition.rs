//! Compares table definitions.

use refloat_sqltext::{LexMode, parse_create_table};
use refloat_wire::{ServerInfo, Vendor};
use twox_hash::XxHash3_128;

pub use self::conditional::{as_seen_by, is_ignored_by};
pub use self::foreign::{Lost, written_for};
use self::words::Side;
use crate::Difference;

mod checks;
mod collation;
mod columns;
mod conditional;
mod defaults;
mod foreign;
mod keys;
mod options;
mod partitions;
mod types;
mod words;

/// Fingerprint of a `SHOW CREATE TABLE` text without the next `AUTO_INCREMENT` value, which changes
/// with the rows.
pub fn fingerprint(create: &str) -> u128 {
    XxHash3_128::oneshot(without_auto_increment(create).as_bytes())
}

/// The text without ` AUTO_INCREMENT=n` in the table options.
pub fn without_auto_increment(create: &str) -> String {
    let Some((start, end)) = auto_increment_range(create) else {
        return create.to_owned();
    };
    format!("{}{}", &create[..start], &create[end..])
}

/// The next `AUTO_INCREMENT` value in the table options. Servers print none while it is 1.
pub fn next_auto_increment(create: &str) -> Option<u64> {
    let (start, end) = auto_increment_range(create)?;
    create[start..end].rsplit('=').next()?.parse().ok()
}

/// Vendor and version of the server that a definition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerVersion {
    /// MariaDB or MySQL.
    pub vendor: Vendor,
    /// Major, minor, patch.
    pub version: (u16, u16, u16),
}

impl ServerVersion {
    /// The number that conditional comments are compared with: 100611 for 10.6.11.
    fn number(self) -> u32 {
        let (major, minor, patch) = self.version;
        u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(patch)
    }
}

impl From<&ServerInfo> for ServerVersion {
    fn from(server: &ServerInfo) -> Self {
        Self {
            vendor: server.vendor,
            version: server.version,
        }
    }
}

/// Everything in which the server's table differs from what the dump asked for.
///
/// `dump` is the dump's text, read in `mode`; `create` is what `SHOW CREATE TABLE` printed
/// afterwards. Only what the dump says is compared, and only where a difference can be recognised:
/// names, types, character sets, defaults, keys and options have one meaning however they are
/// written, but an expression that the server wrote differently may still be the same. A difference
/// is what the server did in spite of the dump: another engine or length, a default or option
/// dropped, a `CHECK` or partitions ignored. A text that cannot be parsed is a difference too,
/// because nothing is known about it.
pub fn differences(
    server: ServerVersion,
    table: &str,
    dump: &[u8],
    mode: LexMode,
    create: &str,
) -> Vec<Difference> {
    let dump = as_seen_by(dump, mode, Some(server));
    let (create, server_mode) = shown(create);
    let mut found = Found {
        table,
        list: Vec::new(),
    };
    let (wanted, present) = match (
        parse_create_table(&dump, mode),
        parse_create_table(&create, server_mode),
    ) {
        (Ok(wanted), Ok(present)) => (wanted, present),
        (wanted, present) => {
            let read = |side: Result<_, _>| match side.err() {
                Some(error) => format!("a definition that cannot be read: {error}"),
                None => "a definition that can be read".to_owned(),
            };
            found.differ("not compared", read(wanted), read(present));
            return found.list;
        }
    };
    let dump = Side {
        text: &dump,
        mode,
        table: &wanted,
    };
    let server = Side {
        text: &create,
        mode: server_mode,
        table: &present,
    };
    // The text does not contain the columns of another table or of a query.
    if !wanted.like && !wanted.select {
        columns::compare(&dump, &server, &mut found);
        keys::compare(&dump, &server, &mut found);
        keys::compare_foreign(&dump, &server, &mut found);
        checks::compare(&dump, &server, &mut found);
    }
    if !wanted.like {
        options::compare(&dump, &server, &mut found);
        partitions::compare(&dump, &server, &mut found);
    }
    found.list
}

/// What a server shows, and how to read it.
fn shown(create: &str) -> (Vec<u8>, LexMode) {
    // A session in the mode of another vendor gets double quotes around names.
    let mode = LexMode {
        ansi_quotes: create.starts_with("CREATE TABLE \""),
        ..LexMode::default()
    };
    (as_seen_by(create.as_bytes(), mode, None), mode)
}

/// A character set named without a collation, whose default collation on this server differs from
/// the default where such definitions come from.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherDefault {
    /// The column; `None` for the table.
    pub column: Option<String>,
    /// The default collation where the definition comes from.
    pub old: String,
    /// The default collation on this server.
    pub new: String,
}

/// Default collations that changed. [`differences`] does not report them, because the dump leaves
/// them to the server. If all columns have the table's character set, only the table is named.
pub fn other_defaults(
    server: ServerVersion,
    dump: &[u8],
    mode: LexMode,
    create: &str,
) -> Vec<OtherDefault> {
    let dump = as_seen_by(dump, mode, Some(server));
    let (create, server_mode) = shown(create);
    let (Ok(wanted), Ok(present)) = (
        parse_create_table(&dump, mode),
        parse_create_table(&create, server_mode),
    ) else {
        return Vec::new();
    };
    let dump = Side {
        text: &dump,
        mode,
        table: &wanted,
    };
    let server = Side {
        text: &create,
        mode: server_mode,
        table: &present,
    };
    let of_table = options::other_default(&dump, &server).map(|found| (None, found.0, found.1));
    let of_columns = columns::other_defaults(&dump, &server);
    let of_columns = of_columns
        .into_iter()
        .map(|(name, old, new)| (Some(name), old, new));
    of_table
        .into_iter()
        .chain(of_columns)
        .map(|(column, old, new)| OtherDefault { column, old, new })
        .collect()
}

struct Found<'a> {
    table: &'a str,
    list: Vec<Difference>,
}

impl Found<'_> {
    fn differ(&mut self, what: &str, expected: String, found: String) {
        self.list.push(Difference {
            about: format!("table {}: {what}", self.table),
            expected,
            found,
        });
    }
}

fn auto_increment_range(create: &str) -> Option<(usize, usize)> {
    // The server writes options after the line that closes the columns, with ENGINE first among
    // them.
    let options = create.rfind("\n) ENGINE=")?;
    let word = " AUTO_INCREMENT=";
    let start = options + create[options..].find(word)?;
    if create[options..start].contains('\'') {
        // The match is in the table's comment, which comes after the option.
        return None;
    }
    let digits = start + word.len();
    let end = digits
        + create[digits..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
    (end > digits).then_some((start, end))
}

#[cfg(test)]
mod tests;
