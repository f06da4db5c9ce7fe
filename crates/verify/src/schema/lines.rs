//! Compares two table definitions of servers of the same version line by line.

use refloat_schema::definition::without_auto_increment;

/// Characters of a line to show, from shortly before the first difference.
const SHOWN: usize = 160;
/// Characters shown before the first difference.
const BEFORE: usize = 40;

/// Calls `differ` for each part in which the two definitions differ.
pub fn compare(a: &str, b: &str, differ: &mut dyn FnMut(&str, String, String)) {
    let (a, b) = (spelled(a), spelled(b));
    if a == b {
        return;
    }
    let (parts_a, parts_b) = (parts(&a), parts(&b));
    let mut any = false;
    let line = |parts: &[(String, &str)], label: &str| -> Option<String> {
        let found = parts.iter().find(|(name, _)| name == label);
        found.map(|(_, line)| (*line).to_owned())
    };
    for (label, of_a) in &parts_a {
        match line(&parts_b, label) {
            Some(of_b) if of_b == *of_a => {}
            Some(of_b) => {
                any = true;
                let (of_a, of_b) = from_difference(of_a, &of_b, SHOWN);
                differ(label, of_a, of_b);
            }
            None => {
                any = true;
                differ(label, shown(of_a, SHOWN), "missing".to_owned());
            }
        }
    }
    for (label, of_b) in &parts_b {
        if line(&parts_a, label).is_none() {
            any = true;
            differ(label, "missing".to_owned(), shown(of_b, SHOWN));
        }
    }
    if !any {
        let order = |parts: &[(String, &str)]| -> String {
            let labels: Vec<&str> = parts.iter().map(|(label, _)| label.as_str()).collect();
            labels.join(", ")
        };
        let (of_a, of_b) = from_difference(&order(&parts_a), &order(&parts_b), SHOWN);
        differ("order of columns and keys", of_a, of_b);
    }
}

/// Labels the lines of a definition; repeated labels get a line number.
fn parts(text: &str) -> Vec<(String, &str)> {
    let mut parts: Vec<(String, &str)> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches(',');
        let name = |rest: &str| rest.split('`').nth(1).unwrap_or_default().to_owned();
        let label = if line.starts_with("CREATE ") {
            // The table name is the same: the two were matched by it.
            continue;
        } else if line.starts_with('`') {
            format!("column {}", name(line))
        } else if line.starts_with("PRIMARY KEY") {
            "primary key".to_owned()
        } else if line.starts_with("CONSTRAINT ") {
            format!("constraint {}", name(line))
        } else if line.contains("KEY `") && !line.starts_with(')') {
            format!("key {}", name(line))
        } else if line.starts_with(')') {
            "options".to_owned()
        } else {
            "definition".to_owned()
        };
        let same = parts.iter().filter(|(earlier, _)| {
            earlier == &label
                || earlier
                    .strip_prefix(&label)
                    .is_some_and(|rest| rest.starts_with(", line "))
        });
        let label = match same.count() {
            0 => label,
            count => format!("{label}, line {}", count + 1),
        };
        parts.push((label, line));
    }
    parts
}

/// Normalises a definition to the form the server prints after reading its own text.
fn spelled(text: &str) -> String {
    let text = without_auto_increment(text);
    // Aria prints the default page_checksum of a table that did not set it, and from then on treats
    // it as set.
    let text = text
        .replacen(" page_checksum=1", "", 1)
        .replacen(" PAGE_CHECKSUM=1", "", 1);
    // MySQL prints a column's character set if it differs from the table's or was given explicitly;
    // the collation implies it anyway.
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut quote: Option<char> = None;
    while let Some(c) = rest.chars().next() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '`' | '"') => quote = Some(c),
            None => {
                if let Some(behind) = rest.strip_prefix("CHARACTER SET ")
                    && let Some((charset, behind)) = behind.split_once(' ')
                    && let Some(collation) = behind.strip_prefix("COLLATE ")
                    && collation.starts_with(charset)
                {
                    rest = behind;
                    continue;
                }
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Both texts, from shortly before the first difference.
pub fn from_difference(a: &str, b: &str, width: usize) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let skip = same.saturating_sub(BEFORE);
    let cut = |text: &str| {
        let rest: String = text.chars().skip(skip).collect();
        let start = if skip > 0 { "…" } else { "" };
        format!("{start}{}", shown(&rest, width))
    };
    (cut(a), cut(b))
}

/// The beginning of a text on one line, without control characters that a terminal would act on.
fn shown(text: &str, width: usize) -> String {
    let mut out: String = text
        .chars()
        .take(width)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().count() > width {
        out.push('…');
    }
    if out.is_empty() {
        out.push_str("(ends here)");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "CREATE TABLE `t` (\n  `a` varchar(100) NOT NULL DEFAULT 'x',\n  `b` int(11) DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  KEY `k` (`b`)\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4";

    fn differences(other: &str) -> Vec<String> {
        let mut found = Vec::new();
        compare(TABLE, other, &mut |part, a, b| {
            found.push(format!("{part}: {a} / {b}"));
        });
        found
    }

    #[test]
    fn each_part_is_named() {
        assert!(differences(&TABLE.replace("=7", "=9")).is_empty());
        assert_eq!(
            differences(&TABLE.replace("varchar(100)", "varchar(50)")),
            [
                "column a: `a` varchar(100) NOT NULL DEFAULT 'x' / `a` varchar(50) NOT NULL DEFAULT 'x'"
            ]
        );
        assert_eq!(differences(&TABLE.replace("'x'", "'y'")).len(), 1);
        assert_eq!(
            differences(&TABLE.replace("`b` int(11) DEFAULT NULL", "`b` int(11) NOT NULL")).len(),
            1
        );
        let without = TABLE.replace(",\n  KEY `k` (`b`)", "");
        assert_eq!(differences(&without), ["key k: KEY `k` (`b`) / missing"]);
        assert_eq!(differences(&TABLE.replace("InnoDB", "MyISAM")).len(), 1);
        let swapped = TABLE
            .replace("  `b` int(11) DEFAULT NULL,\n", "")
            .replace("(\n  `a`", "(\n  `b` int(11) DEFAULT NULL,\n  `a`");
        assert_eq!(
            differences(&swapped).len(),
            1,
            "{:?}",
            differences(&swapped)
        );
    }

    #[test]
    fn spellings_of_one_definition() {
        assert_eq!(
            spelled(
                "`a` char(1) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'CHARACTER SET latin1 COLLATE latin1_bin'"
            ),
            "`a` char(1) COLLATE latin1_bin DEFAULT 'CHARACTER SET latin1 COLLATE latin1_bin'"
        );
    }
}
