//! Lays out progress as text: a total line with a bar, and one line per active table.
//!
//! [`View`] is the content of a frame; [`lines`] fits it to a width. Nothing here knows about
//! terminals or runs.

use std::time::Duration;

use crate::human;
use crate::terminal::{bar, fit, shorten_left, visible_width};

/// Maximum number of table lines below the total line.
pub const TABLE_LINES_MAX: usize = 8;
/// Maximum width of the bar in cells. A wider one tells no more.
const BAR_MAX: usize = 40;
/// Minimum width of the bar in cells.
const BAR_MIN: usize = 8;
/// Width of a table's bar in cells.
const TABLE_BAR: usize = 12;
/// Maximum width of the column of table names.
const NAME_MAX: usize = 36;

/// The content of one frame.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// The current phase in one or two words, such as `data` or `indexes`.
    pub phase: String,
    /// Share of the work of all phases that is done, from 0 to 1; `None` if the input size is
    /// unknown.
    pub fraction: Option<f64>,
    /// Bytes of input read so far.
    pub bytes: u64,
    /// Total bytes of input; `None` if unknown.
    pub bytes_total: Option<u64>,
    /// Rows committed so far.
    pub rows: u64,
    /// Current rate in bytes per second, averaged over the last few seconds.
    pub byte_rate: f64,
    /// Time since the start of the run.
    pub elapsed: Duration,
    /// Estimated remaining time of all phases; `None` if unknown.
    pub eta: Option<Duration>,
    /// Active tables to show.
    pub tables: Vec<TableView>,
    /// Number of active tables not in `tables`.
    pub more_tables: usize,
    /// Number of warnings so far.
    pub warnings: u64,
    /// Length of InnoDB's history list while a snapshot is open; `None` if unknown.
    pub history: Option<u64>,
}

/// One active table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableView {
    /// `database.table`.
    pub name: String,
    /// Current work on the table, such as `rows` or `index k_1`.
    pub what: String,
    /// Share that is done, from 0 to 1; `None` if unknown.
    pub fraction: Option<f64>,
    /// Rows done so far.
    pub rows: u64,
    /// Bytes done so far.
    pub bytes: u64,
    /// Time since work on the table started.
    pub elapsed: Duration,
}

/// What the terminal can display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// ASCII only, for terminals whose locale is not UTF-8.
    pub ascii: bool,
    /// Use colour codes.
    pub colour: bool,
}

/// The frame for a terminal of this size. No line is wider than `columns - 1`, so that none wraps.
pub fn lines(view: &View, columns: u16, rows: u16, style: Style) -> Vec<String> {
    let width = usize::from(columns).saturating_sub(1);
    let room = usize::from(rows).saturating_sub(2).min(TABLE_LINES_MAX);
    let mut out = vec![total_line(view, width, style)];
    let shown = if view.tables.len() + usize::from(view.more_tables > 0) > room {
        room.saturating_sub(1)
    } else {
        view.tables.len()
    };
    let name_width = view.tables[..shown]
        .iter()
        .map(|table| visible_width(&table.name))
        .max()
        .unwrap_or(0)
        .min(NAME_MAX)
        .min(width / 2);
    out.extend(
        view.tables[..shown]
            .iter()
            .map(|table| table_line(table, name_width, width, style)),
    );
    let hidden = view.tables.len() - shown + view.more_tables;
    if hidden > 0 && room > 0 {
        out.push(fit(&format!("  and {hidden} more"), width));
    }
    out
}

/// `data  [████░░░░]  43%  248/576 MiB  1.29M rows  142 MiB/s  ETA 0:04  0:03`, or as much of it as
/// fits.
fn total_line(view: &View, width: usize, style: Style) -> String {
    let phase = fit(&view.phase, 14);
    // Padded for two digits from the start, so that nothing jumps.
    let percent = view
        .fraction
        .map(|fraction| format!("{:>3}", human::percent(fraction)));
    let amount = match view.bytes_total {
        Some(total) => {
            let widest = human::bytes_of(total, total).len();
            format!("{:>widest$}", human::bytes_of(view.bytes, total))
        }
        None => human::bytes(view.bytes),
    };
    let eta = match view.eta {
        Some(eta) => format!("ETA {}", human::clock(eta)),
        None => "ETA -:--".to_owned(),
    };
    let warnings = (view.warnings > 0).then(|| human::counted(view.warnings, "warning"));
    // In order of importance: parts that do not fit are dropped from the end.
    let wanted = [
        percent,
        Some(eta),
        warnings,
        Some(format!("{:>10}", human::byte_rate(view.byte_rate))),
        Some(human::clock(view.elapsed)),
        Some(amount),
        (view.rows > 0 || !view.tables.is_empty())
            .then(|| format!("{:>5} rows", human::short_count(view.rows))),
        view.history
            .map(|length| format!("history {:>5}", human::short_count(length))),
    ];
    let with_bar = view.fraction.is_some();
    let reserved = visible_width(&phase) + if with_bar { BAR_MIN + 4 } else { 0 };
    let mut kept = [false; 8];
    let mut used = reserved;
    for (index, part) in wanted.iter().enumerate() {
        let Some(part) = part else { continue };
        let cost = visible_width(part) + 2;
        if used + cost <= width {
            kept[index] = true;
            used += cost;
        }
    }
    let mut line = phase;
    if let Some(fraction) = view.fraction
        && width >= reserved
    {
        let cells = (BAR_MIN + width - used).min(BAR_MAX);
        line.push_str("  ");
        line.push_str(&paint(
            &format!("[{}]", bar(fraction, cells, style.ascii)),
            "\x1b[32m",
            style,
        ));
    }
    // In display order.
    for index in [0, 5, 6, 3, 1, 4, 7, 2] {
        if let (true, Some(part)) = (kept[index], &wanted[index]) {
            line.push_str("  ");
            line.push_str(&if index == 2 {
                paint(part, "\x1b[33m", style)
            } else {
                part.clone()
            });
        }
    }
    if visible_width(&line) > width {
        fit(&view.phase, width)
    } else {
        line
    }
}

/// `  shop.orders  rows  [████░░]  43%  640k rows  82.1 MiB  0:02`
fn table_line(table: &TableView, name_width: usize, width: usize, style: Style) -> String {
    let name = shorten_left(&table.name, name_width);
    let padding = " ".repeat(name_width.saturating_sub(visible_width(&name)));
    let mut line = fit(&format!("  {name}{padding}"), width);
    let mut parts = vec![format!("{:<10}", fit(&table.what, 24))];
    if let Some(fraction) = table.fraction {
        parts.push(format!(
            "[{}] {:>4}",
            bar(fraction, TABLE_BAR, style.ascii),
            human::percent(fraction)
        ));
    }
    if table.rows > 0 {
        parts.push(format!("{:>6} rows", human::short_count(table.rows)));
    }
    if table.bytes > 0 {
        parts.push(format!("{:>8}", human::bytes(table.bytes)));
    }
    parts.push(human::clock(table.elapsed));
    for part in parts {
        if visible_width(&line) + 2 + visible_width(&part) > width {
            break;
        }
        line.push_str("  ");
        line.push_str(&part);
    }
    line
}

fn paint(text: &str, code: &str, style: Style) -> String {
    if style.colour {
        format!("{code}{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            phase: "data".into(),
            fraction: Some(0.43),
            bytes: 248 << 20,
            bytes_total: Some(576 << 20),
            rows: 1_290_000,
            byte_rate: 142.0 * 1024.0 * 1024.0,
            elapsed: Duration::from_secs(3),
            eta: Some(Duration::from_secs(4)),
            tables: (1..=12)
                .map(|n| TableView {
                    name: format!("shop.sbtest{n}"),
                    what: "rows".into(),
                    fraction: Some(0.5),
                    rows: 640_000,
                    bytes: 82 << 20,
                    elapsed: Duration::from_secs(2),
                })
                .collect(),
            more_tables: 0,
            warnings: 0,
            history: None,
        }
    }

    #[test]
    fn a_frame_at_80_columns() {
        let lines = lines(&view(), 80, 24, Style::default());
        assert_eq!(
            lines[0],
            "data  [█████▌░░░░░░░]  43%  248/576 MiB  1.29M rows   142 MiB/s  ETA 0:04  0:03"
        );
        assert_eq!(
            lines[1],
            "  shop.sbtest1  rows        [██████░░░░░░]  50%    640k rows  82.0 MiB  0:02"
        );
        assert_eq!(lines.len(), 1 + TABLE_LINES_MAX);
        assert_eq!(lines[8], "  and 5 more");
    }

    #[test]
    fn no_line_is_ever_wider_than_the_terminal() {
        let mut odd = view();
        odd.tables[0].name = "a very long database name.表名".repeat(9);
        odd.warnings = 1_234_567;
        for columns in 1..200 {
            for style in [
                Style::default(),
                Style {
                    ascii: true,
                    colour: true,
                },
            ] {
                for line in lines(&odd, columns, 24, style) {
                    assert!(
                        visible_width(&line) < usize::from(columns).max(1),
                        "{columns}: {line}"
                    );
                }
            }
        }
    }

    #[test]
    fn never_more_lines_than_the_terminal_has() {
        for rows in 1..30 {
            assert!(
                lines(&view(), 80, rows, Style::default()).len()
                    <= usize::from(rows).saturating_sub(1).max(1),
                "{rows}"
            );
        }
    }

    #[test]
    fn an_input_of_unknown_size_has_no_bar() {
        let view = View {
            fraction: None,
            bytes_total: None,
            eta: None,
            ..view()
        };
        let line = &lines(&view, 80, 24, Style::default())[0];
        assert!(
            !line.contains('[') && line.contains("248 MiB") && line.contains("ETA -:--"),
            "{line}"
        );
    }

    #[test]
    fn ascii_style_is_ascii() {
        for line in lines(
            &view(),
            100,
            24,
            Style {
                ascii: true,
                colour: false,
            },
        ) {
            assert!(line.is_ascii(), "{line}");
        }
    }
}
