//! Generates names and texts that nobody would choose.

use super::Rng;

/// Pieces of names and comments: SQL delimiters, and letters of several scripts.
const PIECES: &[&str] = &[
    "a",
    "B",
    "zz",
    "1",
    "0x41",
    "_",
    "$",
    " ",
    "  x",
    "`",
    "``",
    "'",
    "\"",
    "\\",
    "\\'",
    "\n",
    "\r\nx",
    "\t",
    ";",
    "--",
    "-- ",
    "#",
    "/*",
    "*/",
    "/*!50000 ",
    ",",
    "(",
    ")",
    "),(",
    ".",
    "%",
    "@",
    "@@x",
    "?",
    "{}",
    "é",
    "ß",
    "İ",
    "日本",
    "表",
    "ソ",
    "VALUES",
    " KEY ",
    "select",
    "NULL",
    "\\N",
    "DEFAULT",
    "AUTO_INCREMENT=7",
    "ENGINE=MyISAM",
    "DELIMITER",
    "COLLATE utf8mb4_bin",
    "GENERATED ALWAYS AS (1)",
    "PARTITION",
    "CONSTRAINT `c` FOREIGN KEY",
    "COMMENT 'x'",
    "INVISIBLE",
    "CHECK (0)",
    "\u{a0}",
];

/// A text of up to `most` pieces.
pub fn text(rng: &mut Rng, most: usize) -> String {
    let count = rng.below(most + 1);
    (0..count).map(|_| *rng.pick(PIECES)).collect()
}

/// A name that is unique per number, does not end with a space, and is at most 40 characters long.
pub fn name(rng: &mut Rng, number: usize) -> String {
    let plain = rng.chance(40);
    let text: String = if plain {
        "n".to_owned()
    } else {
        // MySQL's stock client removes a backslash before a newline, even within a name.
        let text = text(rng, 4).replace("\\\n", "\n");
        text.chars().take(30).collect()
    };
    format!("{text}{number}")
}

/// Quotes a text with apostrophes, for a session without `NO_BACKSLASH_ESCAPES`.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
