//! Character sets and collations of tables and columns.

use crate::columns::charset_of;

/// What a table or column says about the encoding of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collated {
    pub charset: Option<String>,
    /// `None` together with a character set means the default collation of that set.
    pub collation: Option<String>,
    /// Whether the name `utf8` was used, which a mode of MariaDB turns into `utf8mb4`.
    old_name: bool,
}

impl Collated {
    /// From the words after `CHARACTER SET` and `COLLATE`.
    pub fn new(charset: Option<&[u8]>, collation: Option<&[u8]>) -> Self {
        let explicit = |name: Option<&[u8]>| {
            let name = String::from_utf8_lossy(name?).to_ascii_lowercase();
            (name != "default").then_some(name)
        };
        let mut old_name = false;
        let mut modern = |name: String| {
            let rest = name.strip_prefix("utf8");
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('_'));
            old_name |= rest.is_some();
            rest.map_or(name.clone(), |rest| format!("utf8mb3{rest}"))
        };
        let mut charset = explicit(charset).map(&mut modern);
        let mut collation = explicit(collation).map(&mut modern);
        // MariaDB accepts such names without the character set.
        if let (Some(charset), Some(short)) = (&charset, &collation)
            && short.starts_with("uca1400_")
        {
            collation = Some(format!("{charset}_{short}"));
        }
        if let Some(name) = &collation
            && charset.is_none()
            && !name.starts_with("uca1400_")
        {
            charset = Some(charset_of(name));
        }
        Self {
            charset,
            collation,
            old_name,
        }
    }

    /// Whether neither is given.
    pub fn is_unspecified(&self) -> bool {
        self.charset.is_none() && self.collation.is_none()
    }

    /// The collation or character set, for display.
    pub fn shown(&self) -> String {
        let unsaid = || "nothing".to_owned();
        let charset = self.charset.clone();
        self.collation.clone().or(charset).unwrap_or_else(unsaid)
    }

    /// For a character set without a collation: its default collation where such dumps come from,
    /// and the one here, if they differ. Servers with a default other than `general_ci` always name
    /// the collation in what they show.
    pub fn other_default(&self, server: &Self) -> Option<(String, String)> {
        let asked = self.charset.as_ref().filter(|_| self.collation.is_none())?;
        let (charset, found) = (server.charset.as_ref()?, server.collation.as_ref()?);
        let old = format!("{charset}_general_ci");
        (UNICODE.contains(&asked.as_str()) && *found != old).then(|| (old, found.clone()))
    }

    /// Whether the server has what the dump asks for. A character set alone asks for its default
    /// collation, which is up to the server.
    pub fn is_met_by(&self, server: &Self) -> bool {
        let (Some(charset), Some(found)) = (&self.charset, &server.charset) else {
            return true;
        };
        if self.old_name && found == "utf8mb4" {
            let newer = |name: &String| name.replace("utf8mb3", "utf8mb4");
            let newer = Self {
                charset: self.charset.as_ref().map(newer),
                collation: self.collation.as_ref().map(newer),
                old_name: false,
            };
            return newer.is_met_by(server);
        }
        if charset != found {
            return false;
        }
        let Some(collation) = &self.collation else {
            return true;
        };
        match &server.collation {
            Some(found) => collation == found || is_alias(collation, found),
            None => is_default(charset, collation),
        }
    }
}

/// Character sets whose default collation changes between versions of a server.
const UNICODE: &[&str] = &["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"];

/// MariaDB (from 11.4.5) accepts MySQL's newer collations as other names of its own.
fn is_alias(dump: &str, server: &str) -> bool {
    dump.contains("_0900_") && (server.contains("_uca1400_") || server.contains("_nopad_"))
}

/// Whether this is the collation that servers omit next to its character set.
fn is_default(charset: &str, collation: &str) -> bool {
    let Some(rest) = collation.strip_prefix(charset) else {
        return collation == charset;
    };
    let rest = rest.trim_start_matches('_');
    match charset {
        "latin1" | "dec8" | "swe7" => rest == "swedish_ci",
        "latin5" => rest == "turkish_ci",
        "hp8" => rest == "english_ci",
        "tis620" => rest == "thai_ci",
        "euckr" => rest == "korean_ci",
        "big5" | "gbk" | "gb2312" | "gb18030" => rest == "chinese_ci",
        "sjis" | "cp932" | "ujis" | "eucjpms" => rest == "japanese_ci",
        "binary" => rest.is_empty(),
        _ => ["general_ci", "0900_ai_ci", "uca1400_ai_ci"].contains(&rest),
    }
}
