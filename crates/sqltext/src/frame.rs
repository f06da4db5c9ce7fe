//! How a dump begins and ends, which shows whether it was truncated.
//!
//! Dump tools begin with a header comment and end with a closing one, unless `--skip-comments`
//! leaves both out. They also save session settings in user variables at the beginning and restore
//! them at the end, unless `--compact` leaves that out too. The last setting that they restore is
//! `SQL_NOTES`, or `NOTE_VERBOSITY` (MariaDB since 10.6.16).

/// The settings that a dump saves first and restores last.
const KEPT: [&str; 2] = ["SQL_NOTES", "NOTE_VERBOSITY"];

/// Signs of a dump's beginning and end, as far as they were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// The header comment was seen.
    pub header: bool,
    /// The closing comment was seen.
    pub completed: bool,
    /// Session settings were saved and not restored yet.
    pub kept: bool,
}

impl Frame {
    /// Tracks a `SET` statement.
    pub fn set(&mut self, text: &[u8]) {
        let mut text = text.to_ascii_uppercase();
        text.retain(|byte| !byte.is_ascii_whitespace() && *byte != b':');
        let has = |word: &str| memchr::memmem::find(&text, word.as_bytes()).is_some();
        for name in KEPT {
            if has(&format!("@OLD_{name}")) {
                let keeps = has(&format!("@OLD_{name}=@@"));
                self.kept = keeps;
            }
        }
    }

    /// Examines the last bytes of a file whose statements were not all read: a line there with a
    /// saved setting shows whether the setting is restored.
    pub fn tail(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            self.set(line);
        }
    }

    /// Whether the dump begins as tools begin it, but does not end as they end it.
    pub fn is_cut(&self) -> bool {
        !self.completed && (self.header || self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(statements: &[&str]) -> Frame {
        let mut frame = Frame::default();
        for text in statements {
            frame.set(text.as_bytes());
        }
        frame
    }

    #[test]
    fn settings_that_are_not_put_back_are_a_cut() {
        let keeps = "/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */";
        let back = "/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */";
        assert!(after(&[keeps]).is_cut());
        assert!(!after(&[keeps, back]).is_cut());
        assert!(
            after(&[keeps, back, keeps]).is_cut(),
            "two dumps in one file"
        );
        assert!(!after(&["SET NAMES utf8mb4", "SET SQL_NOTES=0"]).is_cut());
        let maria = [
            "/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */",
            "/*M!100616 SET NOTE_VERBOSITY=@OLD_NOTE_VERBOSITY */",
        ];
        assert!(after(&maria[..1]).is_cut() && !after(&maria).is_cut());
        // HeidiSQL, and others by hand.
        for back in [
            "/*!40111 SET SQL_NOTES=IFNULL(@OLD_SQL_NOTES, 1) */",
            "SET SQL_NOTES = COALESCE(@OLD_SQL_NOTES, @@SQL_NOTES)",
        ] {
            assert!(!after(&[keeps, back]).is_cut(), "{back}");
        }
        assert!(after(&["set @old_sql_notes := @@session.sql_notes"]).is_cut());
        let mut frame = after(&[keeps]);
        frame.tail(b"(1),(2);\n/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */; -- end\n");
        assert!(!frame.is_cut());
        frame.tail(b"(1),(2);\n");
        assert!(!frame.is_cut());
    }

    #[test]
    fn a_dump_with_a_header_ends_with_a_comment() {
        let mut frame = after(&[
            "SET @OLD_SQL_NOTES=@@SQL_NOTES",
            "SET SQL_NOTES=@OLD_SQL_NOTES",
        ]);
        frame.header = true;
        assert!(frame.is_cut());
        frame.completed = true;
        assert!(!frame.is_cut());
    }
}
