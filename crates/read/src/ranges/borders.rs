//! Finds the borders at which a key is cut.

use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Error, ResultSet};

use super::{Range, Side, condition, from_clause, order, within_range};
use crate::catalog::{KeyLiteral, Table};

/// Upper limit on estimates per table; each costs a few page reads.
const ESTIMATES_MAX: usize = 4000;

/// A key is dense if it spans at most this many numbers per row.
const DENSE: i128 = 2;

/// Borders between ranges of about `target` bytes, in key order.
pub fn find(
    conn: &mut Connection,
    table: &Table,
    partition: Option<&str>,
    target: u64,
) -> Result<Vec<Vec<String>>, Error> {
    let row_bytes = (table.bytes / table.rows.max(1)).max(1);
    let target_rows = (target / row_bytes).max(1);
    if table.key.len() == 1
        && table.key[0].literal == KeyLiteral::Integer
        && table.engine.eq_ignore_ascii_case("innodb")
    {
        by_estimate(conn, table, partition, target_rows)
    } else {
        by_counting(conn, table, partition, target_rows)
    }
}

/// For integer keys: bisects the span from the smallest to the largest key until the server's row
/// estimate of each part is small enough.
fn by_estimate(
    conn: &mut Connection,
    table: &Table,
    partition: Option<&str>,
    target_rows: u64,
) -> Result<Vec<Vec<String>>, Error> {
    let column = &table.key[0];
    let name = quote_ident(&column.name);
    let from = from_clause(table, partition);
    let ends = conn.query(format!("SELECT MIN({name}), MAX({name}) {from}"))?;
    let number = |column| {
        ends.str(0, column)
            .and_then(|text| text.parse::<i128>().ok())
    };
    let (Some(least), Some(greatest)) = (number(0), number(1)) else {
        return Ok(Vec::new());
    };
    let parts = partition.map_or(1, |_| table.partitions.len().max(1) as u64);
    if let Some(step) = even_step(greatest - least + 1, table.rows / parts, target_rows) {
        let borders = (1..).map(|part| least + part * step);
        return Ok(as_borders(
            borders.take_while(|at| *at <= greatest).collect(),
            column.descending,
        ));
    }
    let mut asked = 0;
    // Parts still to be estimated, lowest on top. Those that are small enough move to `parts`.
    let mut open = vec![(least, greatest + 1)];
    let mut parts: Vec<(i128, u64)> = Vec::new();
    while let Some((low, high)) = open.pop() {
        let rows = if asked < ESTIMATES_MAX {
            asked += 1;
            estimate(
                conn,
                &format!("{from} WHERE {name} >= {low} AND {name} < {high}"),
            )?
        } else {
            0
        };
        if rows > target_rows && high - low > 1 {
            let middle = low + (high - low) / 2;
            open.push((middle, high));
            open.push((low, middle));
        } else {
            parts.push((low, rows));
        }
    }
    // Merge neighbors that are small together. A border is the first number of the next part.
    let mut borders = Vec::new();
    let mut rows_before = 0;
    for (low, rows) in parts {
        if rows_before > 0 && rows_before + rows > target_rows {
            borders.push(low);
            rows_before = 0;
        }
        rows_before += rows;
    }
    Ok(as_borders(borders, column.descending))
}

/// The distance between borders if the key is dense, where equal spans hold about equally many
/// rows; `None` if it is sparse.
///
/// Estimates are not free: each reads a few pages out of order, and InnoDB does not read ahead in
/// an extent whose pages were not read in order. Thirty estimates doubled the single-page reads of
/// a dump.
fn even_step(numbers: i128, rows: u64, target_rows: u64) -> Option<i128> {
    let rows = i128::from(rows);
    if rows * DENSE < numbers {
        return None;
    }
    let parts = (rows.min(numbers) / i128::from(target_rows.max(1))).max(1);
    Some((numbers / parts).max(1))
}

/// Formats borders for conditions. The input is the first number of each next part, ascending.
fn as_borders(mut borders: Vec<i128>, descending: bool) -> Vec<Vec<String>> {
    if descending {
        // In a descending key, the border is the last number of the lower part.
        borders.reverse();
        for border in &mut borders {
            *border -= 1;
        }
    }
    borders
        .into_iter()
        .map(|border| vec![border.to_string()])
        .collect()
}

/// The server's estimate of how many rows a query examines.
fn estimate(conn: &mut Connection, rest: &str) -> Result<u64, Error> {
    let plan = conn.query(format!("EXPLAIN SELECT 1 {rest}"))?;
    // If the server finds that no row can match, the plan has no number.
    Ok(plan
        .column("rows")
        .and_then(|column| plan.u64(0, column))
        .unwrap_or(0))
}

/// For other keys: walks along the key and takes every `target_rows`-th value.
fn by_counting(
    conn: &mut Connection,
    table: &Table,
    partition: Option<&str>,
    target_rows: u64,
) -> Result<Vec<Vec<String>>, Error> {
    let names: Vec<String> = table
        .key
        .iter()
        .map(|column| quote_ident(&column.name))
        .collect();
    let from = from_clause(table, partition);
    let ordered = order(&table.key, false);
    let mut borders: Vec<Vec<String>> = Vec::new();
    loop {
        let behind = borders
            .last()
            .map(|last| format!(" WHERE {}", condition(&table.key, last, Side::From)))
            .unwrap_or_default();
        let next = conn.query(format!(
            "SELECT {} {from}{behind} ORDER BY {ordered} LIMIT 1 OFFSET {target_rows}",
            names.join(", ")
        ))?;
        if next.is_empty() {
            return Ok(borders);
        }
        let values = written(table, &next);
        // A key that compares equal to the previous border would cut nothing, and would be found
        // forever.
        if borders.last() == Some(&values) {
            return Ok(borders);
        }
        borders.push(values);
    }
}

/// The key after the first `rows` rows of a range.
pub fn behind(
    conn: &mut Connection,
    table: &Table,
    range: &Range,
    rows: u64,
) -> Result<Option<Vec<String>>, Error> {
    let names: Vec<String> = table
        .key
        .iter()
        .map(|column| quote_ident(&column.name))
        .collect();
    let next = conn.query(format!(
        "SELECT {} {}{} ORDER BY {} LIMIT 1 OFFSET {rows}",
        names.join(", "),
        from_clause(table, range.partition.as_deref()),
        within_range(table, range),
        order(&table.key, false)
    ))?;
    Ok((!next.is_empty()).then(|| written(table, &next)))
}

/// The key in the first row of a result, as literals for conditions.
fn written(table: &Table, result: &ResultSet) -> Vec<String> {
    table
        .key
        .iter()
        .enumerate()
        .map(|(index, column)| column.write(result.bytes(0, index).unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_numbers_are_cut_evenly_without_asking() {
        assert_eq!(even_step(1_000, 1_000, 250), Some(250));
        assert_eq!(even_step(2_000, 1_000, 250), Some(500), "every other one");
        assert_eq!(even_step(10, 1_000, 10_000), Some(10), "one part");
        // More rows than numbers: the estimate is wrong.
        assert_eq!(even_step(100, 1_000, 1), Some(1));
        assert_eq!(even_step(2_001, 1_000, 250), None, "sparse");
        assert_eq!(even_step(1 << 64, 10, 1), None);
        let borders = vec![250, 500];
        assert_eq!(as_borders(borders.clone(), false), [["250"], ["500"]]);
        assert_eq!(as_borders(borders, true), [["499"], ["249"]]);
    }
}
