//! Speed of the hot loops in GB/s, medians of several passes. Run `cargo bench -p refloat-sqltext`;
//! shape names after `--` select shapes.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use refloat_sqltext::{ItemKind, LexMode, RowVisitor, Scanner, Step, StrLit, visit_rows};

/// Bytes of text per shape.
const SIZE: usize = 128 << 20;
/// Bytes per read, as in a loader.
const BLOCK: usize = 4 << 20;
const PASSES: usize = 7;

/// Appends the row with this number.
type Row = fn(&mut String, u64);

fn main() {
    // `cargo test` runs benches too, but only `cargo bench` passes `--bench`.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    println!(
        "{:<12} {:>10} {:>10} {:>10}",
        "shape", "scan GB/s", "visit GB/s", "rows"
    );
    let shapes: [(&str, Row); 4] = [
        ("sysbench", sysbench),
        ("employees", employees),
        ("binary", binary),
        ("single-row", single),
    ];
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    for (name, row) in shapes {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let text = statements(row, name == "single-row");
        let (scan, rows) = measure(text.len(), || scan(&text));
        let (visit, visited) = measure(text.len(), || visit(&text));
        assert_eq!(rows, visited);
        println!("{name:<12} {scan:>14} {visit:>14} {rows:>10}");
    }
}

fn measure(bytes: usize, mut run: impl FnMut() -> u64) -> (String, u64) {
    let mut times = Vec::new();
    let mut result = 0;
    for _ in 0..PASSES {
        let start = Instant::now();
        result = black_box(run());
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    (
        format!("{:.2} ({:.2})", rate(times[PASSES / 2]), rate(times[0])),
        result,
    )
}

/// Statements of 1 MiB, as mysqldump writes them, or of one row each.
fn statements(row: Row, single: bool) -> Vec<u8> {
    let limit = if single { 1 } else { 1 << 20 };
    let mut text = String::with_capacity(SIZE + limit);
    let mut n = 0;
    while text.len() < SIZE {
        text.push_str("INSERT INTO `some_table` VALUES ");
        let start = text.len();
        loop {
            row(&mut text, n);
            n += 1;
            if text.len() - start >= limit {
                break;
            }
            text.push(',');
        }
        text.push_str(";\n");
    }
    text.into_bytes()
}

/// A cheap pseudo-random number from a row number.
fn noise(n: u64) -> u64 {
    let mut x = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 8
}

fn groups(out: &mut String, n: u64, count: u64) {
    for i in 0..count {
        let dash = if i == 0 { "" } else { "-" };
        let _ = write!(out, "{dash}{:011}", noise(n * 16 + i) % 100_000_000_000);
    }
}

fn sysbench(out: &mut String, n: u64) {
    let _ = write!(out, "({},{},'", n + 1, noise(n) % 1_000_000);
    groups(out, n, 10);
    out.push_str("','");
    groups(out, n + 7, 5);
    out.push_str("')");
}

fn employees(out: &mut String, n: u64) {
    const NAMES: &[&str] = &[
        "Georgi",
        "Bezalel",
        "Parto",
        "Chirstian",
        "Kyoichi",
        "Anneke",
        "Tzvetan",
        "Saniya",
        "Sumant",
        "Li",
    ];
    let pick = |k: u64| NAMES[(noise(n * 3 + k) % NAMES.len() as u64) as usize];
    let _ = write!(
        out,
        "({},'19{:02}-09-{:02}','{}','{}','{}','198{}-06-26')",
        10_001 + n,
        50 + n % 16,
        1 + n % 28,
        pick(0),
        pick(1),
        if n.is_multiple_of(2) { "M" } else { "F" },
        n % 10,
    );
}

fn binary(out: &mut String, n: u64) {
    let _ = write!(
        out,
        "({n},_binary 'ab\\0cd\\n\\'x\\\\{}',NULL,-{}.25,'it\\'s \\\"quoted\\\"')",
        noise(n),
        n % 1000
    );
}

fn single(out: &mut String, n: u64) {
    employees(out, n);
}

/// Scans block by block, like a loader.
fn scan(text: &[u8]) -> u64 {
    each_piece(text, |_| {})
}

fn each_piece(text: &[u8], mut piece: impl FnMut(&[u8])) -> u64 {
    let mut scanner = Scanner::default();
    let (mut start, mut end, mut rows) = (0, BLOCK.min(text.len()), 0);
    loop {
        let buf = &text[start..end];
        match scanner.next(buf, end == text.len()).expect("good text") {
            Step::NeedMore => end = text.len().min(end + BLOCK),
            Step::Item(item) => {
                start += item.len;
                if let ItemKind::Rows(found) = item.kind {
                    rows += found.row_count;
                    piece(&buf[found.rows]);
                }
            }
            Step::End => return rows,
        }
    }
}

struct Count {
    values: u64,
    bytes: usize,
}

impl RowVisitor for Count {
    type Error = Infallible;

    fn value(&mut self) -> Result<(), Infallible> {
        self.values += 1;
        Ok(())
    }

    fn number(&mut self, text: &[u8]) -> Result<(), Infallible> {
        self.values += 1;
        self.bytes += text.len();
        Ok(())
    }

    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Infallible> {
        self.values += 1;
        self.bytes += literal.raw.len();
        Ok(())
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), Infallible> {
        self.bytes += digits.len();
        Ok(())
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), Infallible> {
        self.bytes += digits.len();
        Ok(())
    }

    fn expression(&mut self, text: &[u8]) -> Result<(), Infallible> {
        self.bytes += text.len();
        Ok(())
    }
}

/// Visits every value. A plain search finds the rows, in place of the scanner.
fn visit(text: &[u8]) -> u64 {
    let mut count = Count {
        values: 0,
        bytes: 0,
    };
    let mut rows = 0;
    let mut rest = text;
    // This generated text ends statements with `;\n`, and no row contains that.
    while !rest.is_empty() {
        let begin = rest.windows(2).position(|w| w == b" (").expect("rows") + 1;
        let end = memchr::memmem::find(rest, b";\n").expect("end");
        rows += visit_rows(&rest[begin..end], LexMode::default(), &mut count).expect("good rows");
        rest = &rest[end + 2..];
    }
    black_box((count.values, count.bytes));
    rows
}
