//! Rows that differ, for people.

use refloat_schema::shown::{two_values, value};

use super::digest::cells;
use super::outcome::{ColumnDifference, NamedValue, RowDifference, RowKind};
use super::pair::Pair;

/// Columns of a row that are shown where it stands alone.
const COLUMNS: usize = 12;

fn key(pair: &Pair, cells: &[Option<&[u8]>]) -> Vec<NamedValue> {
    let named = |place: &usize| NamedValue {
        column: pair.columns[*place].name.clone(),
        value: value(cells.get(*place).copied().flatten(), 0),
    };
    pair.key.iter().map(named).collect()
}

/// A row with the same key on both sides and other values.
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

/// A row that one side has more often than the other.
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
