//! Text that fits a width: bars and truncated lines.

/// Eighths of a cell, from empty to almost full.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of exactly `width` cells, with `fraction` of it full. `ascii` is for terminals without
/// block characters.
pub fn bar(fraction: f64, width: usize, ascii: bool) -> String {
    let fraction = if fraction.is_finite() {
        fraction.clamp(0.0, 1.0)
    } else {
        0.0
    };
    if ascii {
        let full = (fraction * width as f64).floor() as usize;
        return format!("{}{}", "#".repeat(full), "-".repeat(width - full));
    }
    let eighths = (fraction * width as f64 * 8.0).floor() as usize;
    let (full, part) = (eighths / 8, eighths % 8);
    let mut out = "█".repeat(full.min(width));
    let mut used = full.min(width);
    if part > 0 && used < width {
        out.push_str(EIGHTHS[part]);
        used += 1;
    }
    out.push_str(&"░".repeat(width - used));
    out
}

/// The number of cells that `text` takes, without colour codes. Counts one cell per character, two
/// for wide East Asian ones and none for combining marks.
pub fn visible_width(text: &str) -> usize {
    let mut width = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            // Our output contains no escape sequences but `ESC [ … letter`.
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            width += cell_width(c);
        }
    }
    width
}

/// Truncates plain `text` to `columns` cells, with an ellipsis if anything was cut. Control
/// characters, which table names may contain, become `?`.
pub fn fit(text: &str, columns: usize) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    if text.chars().map(|c| cell_width(clean(c))).sum::<usize>() <= columns {
        return text.chars().map(clean).collect();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars().map(clean) {
        if used + cell_width(c) + 1 > columns {
            break;
        }
        used += cell_width(c);
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Like [`fit`], but keeps the end: in `database.table`, the table says more.
pub fn shorten_left(text: &str, columns: usize) -> String {
    let text = fit(text, usize::MAX);
    if visible_width(&text) <= columns {
        return text;
    }
    let mut kept = Vec::new();
    let mut used = 1;
    for c in text.chars().rev() {
        if used + cell_width(c) > columns {
            break;
        }
        used += cell_width(c);
        kept.push(c);
    }
    if columns == 0 {
        return String::new();
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

/// 2 for blocks of wide characters, 0 for the main block of combining marks and other zero-width
/// characters, otherwise 1.
fn cell_width(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036F | 0x200B..=0x200D | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_at_every_fraction() {
        for width in [0, 1, 7, 30] {
            for step in 0..=200 {
                let fraction = f64::from(step) / 200.0;
                assert_eq!(bar(fraction, width, false).chars().count(), width);
                assert_eq!(bar(fraction, width, true).chars().count(), width);
            }
        }
        assert_eq!(bar(1.0, 3, false), "███");
        assert_eq!(bar(0.5, 3, false), "█▌░");
        assert_eq!(bar(f64::NAN, 2, true), "--");
    }

    #[test]
    fn text_is_cut_to_cells_not_bytes() {
        assert_eq!(fit("orders", 6), "orders");
        assert_eq!(fit("orders", 5), "orde…");
        assert_eq!(fit("größe", 4), "grö…");
        assert_eq!(fit("表名表名", 5), "表名…");
        assert_eq!(fit("a\x1b[31mb", 20), "a?[31mb");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(shorten_left("shop.orders", 7), "…orders");
        assert_eq!(shorten_left("shop", 7), "shop");
    }

    #[test]
    fn colour_takes_no_cells() {
        assert_eq!(visible_width("\x1b[1;31mred\x1b[0m"), 3);
    }
}
