//! Types of columns, whatever name they go by.

use refloat_sqltext::{LexMode, TokenKind};

use super::words::{Words, agree, split_commas};
use crate::columns::TEXTS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The name that servers print; `None` if it is unknown here, so that nothing can be said.
    pub base: Option<&'static str>,
    /// The text inside its parentheses.
    pub arguments: Option<Vec<u8>>,
    /// Whether it is unsigned: by `UNSIGNED`, `ZEROFILL` or `SERIAL`.
    pub unsigned: bool,
    pub zerofill: bool,
}

/// The names that servers print for types, and the first words of those types in upper case. `REAL`
/// is left out, because its meaning depends on a mode.
const NAMES: &[(&str, &[&str])] = &[
    ("tinyint", &["TINYINT", "INT1", "BOOL", "BOOLEAN"]),
    ("smallint", &["SMALLINT", "INT2"]),
    ("mediumint", &["MEDIUMINT", "INT3", "MIDDLEINT"]),
    ("int", &["INT", "INTEGER", "INT4"]),
    ("bigint", &["BIGINT", "INT8", "SERIAL"]),
    ("decimal", &["DECIMAL", "DEC", "NUMERIC", "FIXED"]),
    ("float", &["FLOAT", "FLOAT4"]),
    ("double", &["DOUBLE", "FLOAT8"]),
    ("bit", &["BIT"]),
    ("char", &["CHAR", "CHARACTER"]),
    ("varchar", &["VARCHAR", "VARCHARACTER"]),
    ("binary", &["BINARY"]),
    ("varbinary", &["VARBINARY"]),
    ("tinytext", &["TINYTEXT"]),
    ("text", &["TEXT"]),
    ("mediumtext", &["MEDIUMTEXT"]),
    ("longtext", &["LONGTEXT"]),
    ("tinyblob", &["TINYBLOB"]),
    ("blob", &["BLOB"]),
    ("mediumblob", &["MEDIUMBLOB"]),
    ("longblob", &["LONGBLOB"]),
    ("enum", &["ENUM"]),
    ("set", &["SET"]),
    ("json", &["JSON"]),
    ("date", &["DATE"]),
    ("time", &["TIME"]),
    ("datetime", &["DATETIME"]),
    ("timestamp", &["TIMESTAMP"]),
    ("year", &["YEAR"]),
    ("geometry", &["GEOMETRY"]),
    ("point", &["POINT"]),
    ("linestring", &["LINESTRING"]),
    ("polygon", &["POLYGON"]),
    ("multipoint", &["MULTIPOINT"]),
    ("multilinestring", &["MULTILINESTRING"]),
    ("multipolygon", &["MULTIPOLYGON"]),
    (
        "geometrycollection",
        &["GEOMETRYCOLLECTION", "GEOMCOLLECTION"],
    ),
    ("uuid", &["UUID"]),
    ("inet4", &["INET4"]),
    ("inet6", &["INET6"]),
    ("vector", &["VECTOR"]),
];

/// Words that make it another type if they follow its first word.
const MORE_WORDS: &[&str] = &["VARYING", "BYTE", "LARGE"];

impl Type {
    /// From a type's first word in upper case and the text inside its parentheses. `rest` follows
    /// them.
    pub fn new(name: &[u8], arguments: Option<&[u8]>, rest: &mut Words<'_>) -> Self {
        let name = String::from_utf8_lossy(name);
        let mut base = NAMES
            .iter()
            .find(|(_, names)| names.contains(&name.as_ref()))
            .map(|(base, _)| *base);
        let mut arguments = arguments.map(<[u8]>::to_vec);
        if name == "DOUBLE" && rest.word("PRECISION") {
            arguments = rest.parenthesised().map(<[u8]>::to_vec);
        }
        if rest.is_any(MORE_WORDS) {
            base = None;
        }
        // `mariadb_schema.date`: a type of another mode.
        if rest.is_punct(b'.') {
            base = None;
        }
        Self {
            base,
            arguments,
            unsigned: name == "SERIAL",
            zerofill: false,
        }
    }

    /// Whether it is one of these.
    pub fn is(&self, bases: &[&str]) -> bool {
        self.base.is_some_and(|base| bases.contains(&base))
    }

    /// Whether it has a character set.
    pub fn is_text(&self) -> bool {
        self.is(TEXTS)
    }

    /// Whether it holds numbers.
    pub fn is_number(&self) -> bool {
        self.is_integer() || self.is(&["decimal", "float", "double", "year"])
    }

    fn is_integer(&self) -> bool {
        self.is(&["tinyint", "smallint", "mediumint", "int", "bigint"])
    }

    /// The length of a type that has one. If omitted, it is 1 for `CHAR`, `BINARY` and `BIT`, and 0
    /// for times.
    pub fn length(&self) -> Option<u32> {
        let explicit = || {
            let arguments = self.arguments.as_deref()?;
            std::str::from_utf8(arguments).ok()?.trim().parse().ok()
        };
        match self.base? {
            "char" | "binary" | "bit" => Some(explicit().unwrap_or(1)),
            "varchar" | "varbinary" => explicit(),
            "time" | "datetime" | "timestamp" => Some(explicit().unwrap_or(0)),
            _ => None,
        }
    }

    /// The type, for display.
    pub fn shown(&self) -> String {
        let base = self.base.unwrap_or("other type");
        let arguments = self.arguments.as_deref().map(String::from_utf8_lossy);
        let arguments = arguments.map_or(String::new(), |text| format!("({})", text.trim()));
        let mut out = format!("{base}{arguments}");
        if self.unsigned {
            out += " unsigned";
        }
        if self.zerofill {
            out += " zerofill";
        }
        out
    }

    /// Whether the server has the type that the dump asks for. Also true if that cannot be told.
    pub fn is_met_by(&self, mode: LexMode, server: &Self) -> bool {
        let (Some(base), Some(found)) = (self.base, server.base) else {
            return true;
        };
        if base != found {
            return self.may_become(mode, server);
        }
        if self.is_number() && base != "year" {
            let signs = (self.unsigned, self.zerofill) == (server.unsigned, server.zerofill);
            return signs && self.same_numbers(server);
        }
        if matches!(base, "enum" | "set") {
            return self.same_members(mode, server);
        }
        if base == "vector" {
            return self.numbers() == server.numbers();
        }
        self.length() == server.length()
    }

    /// Whether another name is no change: chosen by the length, or by a mode that is not known
    /// here.
    fn may_become(&self, mode: LexMode, server: &Self) -> bool {
        let sized = self.arguments.is_some();
        let (base, found) = (self.base.unwrap_or(""), server.base.unwrap_or(""));
        match (base, found) {
            // MariaDB's JSON is an alias.
            ("json", "longtext") => true,
            // The requested size decides.
            ("float", "double") => self.numbers().len() == 1,
            ("text", "tinytext" | "mediumtext" | "longtext")
            | ("blob", "tinyblob" | "mediumblob") => sized,
            ("blob", "longblob") => sized || mode.ansi_quotes,
            // Oracle mode, which implies double quotes around names.
            ("date", "datetime") => mode.ansi_quotes,
            _ => false,
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let text = String::from_utf8_lossy(self.arguments.as_deref().unwrap_or_default());
        text.split(',')
            .filter_map(|one| one.trim().parse().ok())
            .collect()
    }

    fn same_numbers(&self, server: &Self) -> bool {
        let (wanted, found) = (self.numbers(), server.numbers());
        if self.is_integer() {
            // A display width only says how many zeros are filled in.
            return !self.zerofill || wanted.is_empty() || found.is_empty() || wanted == found;
        }
        if self.is(&["decimal"]) {
            let filled = |numbers: &[u32]| {
                let digits = numbers.first().copied().unwrap_or(10);
                (digits, numbers.get(1).copied().unwrap_or(0))
            };
            // DECIMAL(0) asks for the default.
            return wanted.first() == Some(&0) || filled(&wanted) == filled(&found);
        }
        // One number chooses between FLOAT and DOUBLE and is not kept.
        wanted.len() < 2 && found.len() < 2 || wanted == found
    }

    fn same_members(&self, mode: LexMode, server: &Self) -> bool {
        let list = |arguments: &Option<Vec<u8>>, mode: LexMode| -> Option<Vec<Vec<u8>>> {
            split_commas(arguments.as_deref()?, mode)
                .into_iter()
                .map(|part| {
                    let mut words = Words::new(part, mode);
                    let token = words.next()?;
                    let alone = words.peek().is_none() && token.kind == TokenKind::Text;
                    // Trailing blanks of a member are not kept.
                    alone.then(|| words.unquoted(&token).trim_ascii_end().to_vec())
                })
                .collect()
        };
        let (Some(wanted), Some(found)) = (
            list(&self.arguments, mode),
            list(&server.arguments, LexMode::default()),
        ) else {
            return true;
        };
        wanted.len() == found.len()
            && wanted
                .iter()
                .zip(&found)
                .all(|(wanted, found)| agree(wanted, mode, found))
    }
}
