//! Repairs foreign keys whose names a server does not quote correctly.
//!
//! MariaDB 11.8 (seen with 11.8.6; 10.11.19 is correct) does not double a backtick in the names of
//! foreign keys and their columns: nothing can parse the `SHOW CREATE TABLE` text, not even the
//! server itself.

use std::borrow::Cow;
use std::collections::HashMap;

use refloat_sqltext::{literal, quote_ident};
use refloat_wire::{Connection, Error, ResultSet, Vendor};

const LIST: &str = "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME \
    FROM information_schema.KEY_COLUMN_USAGE";
const ORDER: &str =
    "ORDER BY CAST(TABLE_NAME AS BINARY), CAST(CONSTRAINT_NAME AS BINARY), ORDINAL_POSITION";

/// A foreign key with a backtick in its name or in one of its column names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForeignKey {
    name: String,
    columns: Vec<String>,
    referenced: Vec<String>,
}

/// The definition of one table, as shown by the server, with such keys quoted correctly.
pub fn corrected(
    conn: &mut Connection,
    (database, table): (&str, &str),
    create: String,
) -> Result<String, Error> {
    if !may_be_odd(conn, create.as_bytes()) {
        return Ok(create);
    }
    let rows = conn.query(format!(
        "{LIST} WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} AND REFERENCED_TABLE_NAME IS NOT NULL {ORDER}",
        literal(database),
        literal(table)
    ))?;
    let keys = grouped(&rows);
    let Some(keys) = keys.values().next() else {
        return Ok(create);
    };
    let text = mended(create.as_bytes(), keys);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn may_be_odd(conn: &Connection, create: &[u8]) -> bool {
    let server = conn.server();
    server.vendor == Vendor::MariaDb
        && server.version >= (11, 0, 0)
        && memchr::memmem::find(create, b" FOREIGN KEY (`").is_some()
}

/// Such foreign keys of a database, by table. `creates` holds the definitions of all its tables.
pub fn read(
    conn: &mut Connection,
    schema: &str,
    creates: &[Vec<u8>],
) -> Result<HashMap<String, Vec<ForeignKey>>, Error> {
    if !creates.iter().any(|create| may_be_odd(conn, create)) {
        return Ok(HashMap::new());
    }
    let rows = conn.query(format!(
        "{LIST} WHERE TABLE_SCHEMA = {schema} AND REFERENCED_TABLE_NAME IS NOT NULL {ORDER}"
    ))?;
    Ok(grouped(&rows))
}

fn grouped(rows: &ResultSet) -> HashMap<String, Vec<ForeignKey>> {
    let text = |row, column| rows.str(row, column).unwrap_or_default().to_owned();
    let mut keys: HashMap<String, Vec<ForeignKey>> = HashMap::new();
    for row in 0..rows.len() {
        let of = keys.entry(text(row, 0)).or_default();
        let name = text(row, 1);
        if of.last().is_none_or(|last| last.name != name) {
            of.push(ForeignKey {
                name,
                ..ForeignKey::default()
            });
        }
        if let Some(key) = of.last_mut() {
            key.columns.push(text(row, 2));
            key.referenced.push(text(row, 3));
        }
    }
    keys.retain(|_, keys| {
        keys.retain(ForeignKey::is_odd);
        !keys.is_empty()
    });
    keys
}

impl ForeignKey {
    fn is_odd(&self) -> bool {
        let mut names = self.columns.iter().chain(&self.referenced);
        self.name.contains('`') || names.any(|name| name.contains('`'))
    }

    /// The text before the referenced table, and the text after it.
    fn written(&self, quote: impl Fn(&str) -> String) -> (String, String) {
        let list = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
            names.join(", ")
        };
        (
            format!(
                "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES ",
                quote(&self.name),
                list(&self.columns)
            ),
            format!(" ({})", list(&self.referenced)),
        )
    }
}

/// The definition with these keys quoted correctly.
pub fn mended<'a>(create: &'a [u8], keys: &[ForeignKey]) -> Cow<'a, [u8]> {
    let mut text = Cow::Borrowed(create);
    for key in keys {
        let shown = key.written(|name| format!("`{name}`"));
        let right = key.written(quote_ident);
        // Between the two is the referenced table, with or without its database, and quoted
        // correctly.
        let Some(at) = memchr::memmem::find(&text, shown.0.as_bytes()) else {
            continue;
        };
        let table = at + shown.0.len();
        let Some(length) = memchr::memmem::find(&text[table..], shown.1.as_bytes()) else {
            continue;
        };
        let behind = table + length;
        let mut new = text[..at].to_vec();
        new.extend_from_slice(right.0.as_bytes());
        new.extend_from_slice(&text[table..behind]);
        new.extend_from_slice(right.1.as_bytes());
        new.extend_from_slice(&text[behind + shown.1.len()..]);
        text = Cow::Owned(new);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_they_have_to_be() {
        let key = |name: &str, column: &str, referenced: &str| ForeignKey {
            name: name.to_owned(),
            columns: vec![column.to_owned(), "b".to_owned()],
            referenced: vec![referenced.to_owned(), "e".to_owned()],
        };
        let shown = b"(\n  CONSTRAINT `c`c` FOREIGN KEY (`a`x`, `b`) REFERENCES `k``k`.`p``1` (`i``d`, `e`) ON DELETE CASCADE,\n  CONSTRAINT `d` FOREIGN KEY (`a``x`, `b`) REFERENCES `p` (`i``d`, `e`)\n)";
        let right = "(\n  CONSTRAINT `c``c` FOREIGN KEY (`a``x`, `b`) REFERENCES `k``k`.`p``1` (`i````d`, `e`) ON DELETE CASCADE,\n  CONSTRAINT `d` FOREIGN KEY (`a````x`, `b`) REFERENCES `p` (`i````d`, `e`)\n)";
        let keys = [key("c`c", "a`x", "i``d"), key("d", "a``x", "i``d")];
        assert!(keys.iter().all(ForeignKey::is_odd));
        let text = mended(shown, &keys);
        assert_eq!(String::from_utf8_lossy(&text), right);
        // Text that the server quoted correctly is left alone.
        assert_eq!(&*mended(right.as_bytes(), &keys), right.as_bytes());
    }
}
