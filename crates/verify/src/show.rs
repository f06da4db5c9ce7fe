//! Formats rows that differ, for people.

use refloat_digest::rows::cells;
use refloat_schema::display::{two_values, value};

use super::outcome::{ColumnDifference, NamedValue, RowDifference, RowKind};
use super::pair::Pair;

/// Columns shown of a row that only one side has.
const COLUMNS: usize = 12;

fn key(pair: &Pair, cells: &[Option<&[u8]>]) -> Vec<NamedValue> {
    let named = |place: &usize| NamedValue {
        column: pair.columns[*place].name.clone(),
        value: value(cells.get(*place).copied().flatten(), 0),
    };
    pair.key.iter().map(named).collect()
}

/// Describes a row whose key is on both sides with different values.
pub fn changed(pair: &Pair, a: &[u8], b: &[u8], files: Vec<String>) -> RowDifference {
    let (a, b) = (cells(a), cells(b));
    let different = pair.columns.iter().zip(a.iter().zip(&b));
    RowDifference {
        kind: RowKind::Changed,
        key: key(pair, &a),
        columns: different
            .filter(|(_, (a, b))| a != b)
            .map(|(column, (a, b))| {
                let (a, b) = two_values(*a, *b);
                ColumnDifference {
                    column: column.name.clone(),
                    a,
                    b,
                }
            })
            .collect(),
        values: Vec::new(),
        times: 1,
        files,
    }
}

/// Describes a row that one side has more often than the other.
pub fn alone(
    pair: &Pair,
    kind: RowKind,
    row: &[u8],
    times: u64,
    files: Vec<String>,
) -> RowDifference {
    let cells = cells(row);
    let named = pair.columns.iter().zip(&cells).take(COLUMNS);
    RowDifference {
        kind,
        key: key(pair, &cells),
        columns: Vec::new(),
        values: named
            .map(|(column, cell)| NamedValue {
                column: column.name.clone(),
                value: value(*cell, 0),
            })
            .collect(),
        times,
        files,
    }
}
