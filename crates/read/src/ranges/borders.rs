//! Where a key is cut.

use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Error, ResultSet};

use super::{Range, Side, condition, from_clause, order, within_range};
use crate::catalog::{KeyLiteral, Table};

/// Estimates that are asked for at most; each is a few page reads.
const ESTIMATES_MAX: usize = 4000;

/// Numbers between the least and the greatest for each row, up to which a key counts as dense.
const DENSE: i128 = 2;

/// Borders between ranges of about `target` bytes, in the order of the key.
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

/// Integer keys: halves the numbers between the least and the greatest until the server's estimate of each part is small.
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
    // Parts still to be looked at, the lowest on top; what is small enough goes to the end of `parts`.
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
    // Neighbours that are small together are one range. A border is the first number of the part behind it.
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

/// How far borders are from one another where numbers are dense, so that equal parts of the numbers have about equally many rows;
/// `None` where they are not.
///
/// Estimates are not for nothing: each reads some pages out of the order in which they are read afterwards, and InnoDB does not
/// read ahead in an extent whose pages were not read in order. Thirty of them doubled the single reads of a dump.
fn even_step(numbers: i128, rows: u64, target_rows: u64) -> Option<i128> {
    let rows = i128::from(rows);
    if rows * DENSE < numbers {
        return None;
    }
    let parts = (rows.min(numbers) / i128::from(target_rows.max(1))).max(1);
    Some((numbers / parts).max(1))
}

/// Borders as conditions write them, from the first numbers of the parts behind them, which go upwards.
fn as_borders(mut borders: Vec<i128>, descending: bool) -> Vec<Vec<String>> {
    if descending {
        // The order of the key is downwards: the border is the last number of the part in front of it.
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

/// The server's estimate of how many rows a query looks at.
fn estimate(conn: &mut Connection, rest: &str) -> Result<u64, Error> {
    let plan = conn.query(format!("EXPLAIN SELECT 1 {rest}"))?;
    // Where it finds out that there is no row at all, there is no number.
    Ok(plan
        .column("rows")
        .and_then(|column| plan.u64(0, column))
        .unwrap_or(0))
}

/// Other keys: walks along the key and takes every so-manieth.
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
        // A key that compares as equal to the border before would cut nothing, and be found for ever.
        if borders.last() == Some(&values) {
            return Ok(borders);
        }
        borders.push(values);
    }
}

/// The key behind so many rows of a range.
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

/// The key in the first row of a result, as conditions write it.
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
        // More rows than numbers are an estimate that is wrong.
        assert_eq!(even_step(100, 1_000, 1), Some(1));
        assert_eq!(even_step(2_001, 1_000, 250), None, "sparse");
        assert_eq!(even_step(1 << 64, 10, 1), None);
        let borders = vec![250, 500];
        assert_eq!(as_borders(borders.clone(), false), [["250"], ["500"]]);
        assert_eq!(as_borders(borders, true), [["499"], ["249"]]);
    }
}
