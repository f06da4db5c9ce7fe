//! Writes benchmark data as SQL text to standard output, the same bytes on every machine.
//!
//! `bench-data sysbench ROWS` writes two tables like those of sysbench's `oltp` tests. `bench-data
//! employees SCALE` writes a schema like the well-known employees sample, with foreign keys, and
//! tables of other shapes: long texts, binary values, many indexes, and many small tables. Scale
//! 100 gives about 300 MB.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

/// Size of one `INSERT` in bytes, as dump tools write them.
const STATEMENT: usize = 1_000_000;

/// A small random number generator (xorshift64*), so that the data does not depend on a library's
/// version.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }

    /// Groups of digits joined by dashes, as in sysbench's columns.
    fn digits(&mut self, out: &mut String, groups: usize) {
        for group in 0..groups {
            let _ = write!(
                out,
                "{}{:011}",
                if group == 0 { "" } else { "-" },
                self.below(100_000_000_000)
            );
        }
    }

    fn date(&mut self, first_year: u64, years: u64) -> String {
        format!(
            "{}-{:02}-{:02}",
            first_year + self.below(years),
            1 + self.below(12),
            1 + self.below(28)
        )
    }
}

/// Writes the rows of one table as multi-row inserts.
struct Inserts<'a, W> {
    out: &'a mut W,
    table: &'a str,
    line: String,
}

impl<'a, W: Write> Inserts<'a, W> {
    fn new(out: &'a mut W, table: &'a str) -> Self {
        Self {
            out,
            table,
            line: String::with_capacity(STATEMENT + 1000),
        }
    }

    fn row(&mut self, row: &str) -> io::Result<()> {
        if self.line.is_empty() {
            let _ = write!(self.line, "INSERT INTO `{}` VALUES ({row})", self.table);
        } else {
            let _ = write!(self.line, ",({row})");
        }
        if self.line.len() >= STATEMENT {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            writeln!(self.out, "{};", self.line)?;
            self.line.clear();
        }
        Ok(())
    }
}

fn sysbench(out: &mut impl Write, rows: u64) -> io::Result<()> {
    let mut numbers = Numbers(0x5eed);
    for table in ["sbtest1", "sbtest2"] {
        writeln!(
            out,
            "CREATE TABLE `{table}` (`id` int NOT NULL AUTO_INCREMENT, `k` int NOT NULL DEFAULT '0', `c` char(120) NOT NULL DEFAULT '', \
             `pad` char(60) NOT NULL DEFAULT '', PRIMARY KEY (`id`), KEY `k_1` (`k`));"
        )?;
        let mut inserts = Inserts::new(out, table);
        for id in 1..=rows {
            let mut row = format!("{id},{},'", 1 + numbers.below(rows));
            numbers.digits(&mut row, 10);
            row.push_str("','");
            numbers.digits(&mut row, 5);
            row.push('\'');
            inserts.row(&row)?;
        }
        inserts.flush()?;
    }
    Ok(())
}

const EMPLOYEES: &str = "
CREATE TABLE departments (dept_no char(4) NOT NULL, dept_name varchar(40) NOT NULL, PRIMARY KEY (dept_no), UNIQUE KEY dept_name (dept_name));
CREATE TABLE employees (emp_no int NOT NULL, birth_date date NOT NULL, first_name varchar(14) NOT NULL, last_name varchar(16) NOT NULL,
  gender enum('M','F') NOT NULL, hire_date date NOT NULL, PRIMARY KEY (emp_no), KEY last_name (last_name, first_name));
CREATE TABLE dept_emp (emp_no int NOT NULL, dept_no char(4) NOT NULL, from_date date NOT NULL, to_date date NOT NULL, PRIMARY KEY (emp_no, dept_no),
  KEY dept_no (dept_no), CONSTRAINT dept_emp_1 FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
  CONSTRAINT dept_emp_2 FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE);
CREATE TABLE titles (emp_no int NOT NULL, title varchar(50) NOT NULL, from_date date NOT NULL, to_date date DEFAULT NULL,
  PRIMARY KEY (emp_no, title, from_date), CONSTRAINT titles_1 FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE);
CREATE TABLE salaries (emp_no int NOT NULL, salary int NOT NULL, from_date date NOT NULL, to_date date NOT NULL, PRIMARY KEY (emp_no, from_date),
  CONSTRAINT salaries_1 FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE);
CREATE TABLE documents (id bigint unsigned NOT NULL AUTO_INCREMENT, emp_no int NOT NULL, title varchar(200) NOT NULL, body mediumtext, digest varbinary(32) DEFAULT NULL,
  price decimal(12,2) DEFAULT NULL, weight double DEFAULT NULL, created timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), KEY emp_no (emp_no), KEY title (title(20)),
  CONSTRAINT documents_1 FOREIGN KEY (emp_no) REFERENCES employees (emp_no));
CREATE TABLE visits (id int NOT NULL AUTO_INCREMENT, emp_no int NOT NULL, page varchar(80) NOT NULL, at datetime NOT NULL, status smallint NOT NULL, bytes int unsigned NOT NULL,
  agent varchar(60) NOT NULL, PRIMARY KEY (id), KEY emp_no (emp_no), KEY page (page, at), KEY at (at), UNIQUE KEY once (emp_no, at, id));
";

const DEPARTMENTS: [&str; 9] = [
    "Development",
    "Finance",
    "Human Resources",
    "Marketing",
    "Production",
    "Quality",
    "Research",
    "Sales",
    "Service",
];

const FIRST_NAMES: [&str; 12] = [
    "Georgi",
    "Bezalel",
    "Parto",
    "Chirstian",
    "Kyoichi",
    "Anneke",
    "Tzvetan",
    "Saniya",
    "Sumant",
    "Duangkaew",
    "Mary",
    "Zo\u{eb}",
];

const LAST_NAMES: [&str; 12] = [
    "Facello",
    "Simmel",
    "Bamford",
    "Koblick",
    "Maliniak",
    "Preusig",
    "Zielinski",
    "Kalloufi",
    "Peac",
    "Piveteau",
    "O\\'Brien",
    "M\u{fc}ller",
];

const TITLES: [&str; 7] = [
    "Engineer",
    "Senior Engineer",
    "Staff",
    "Senior Staff",
    "Assistant Engineer",
    "Technique Leader",
    "Manager",
];

const WORDS: [&str; 12] = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "it\\'s",
    "\u{e9}t\u{e9}",
    "na\u{ef}ve",
    "\\\"quoted\\\"",
    "line\\nbreak",
    "tab\\\\t",
];

/// The tables share one sequence of random numbers, so their order decides what each holds.
fn employees_sample(out: &mut impl Write, scale: u64) -> io::Result<()> {
    let mut numbers = Numbers(0xe3b1);
    out.write_all(EMPLOYEES.as_bytes())?;
    let people = scale * 5000;
    departments(out)?;
    employees(out, &mut numbers, people)?;
    dept_emp(out, &mut numbers, people)?;
    titles(out, &mut numbers, people)?;
    salaries(out, &mut numbers, people)?;
    documents(out, &mut numbers, scale * 600, people)?;
    visits(out, &mut numbers, scale * 3000, people)?;
    small_tables(out, &mut numbers)
}

fn departments(out: &mut impl Write) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "departments");
    for (index, name) in DEPARTMENTS.iter().enumerate() {
        inserts.row(&format!("'d{:03}','{name}'", index + 1))?;
    }
    inserts.flush()
}

fn employees(out: &mut impl Write, numbers: &mut Numbers, people: u64) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "employees");
    for id in 1..=people {
        let (birth, hire) = (numbers.date(1950, 20), numbers.date(1985, 16));
        inserts.row(&format!(
            "{},'{birth}','{}','{}','{}','{hire}'",
            10_000 + id,
            numbers.pick(&FIRST_NAMES),
            numbers.pick(&LAST_NAMES),
            numbers.pick(&["M", "F"])
        ))?;
    }
    inserts.flush()
}

fn dept_emp(out: &mut impl Write, numbers: &mut Numbers, people: u64) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "dept_emp");
    for id in 1..=people {
        let department = numbers.below(9);
        for more in 0..=u64::from(id % 10 == 0) {
            inserts.row(&format!(
                "{},'d{:03}','{}','9999-01-01'",
                10_000 + id,
                1 + (department + more) % 9,
                numbers.date(1985, 16)
            ))?;
        }
    }
    inserts.flush()
}

fn titles(out: &mut impl Write, numbers: &mut Numbers, people: u64) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "titles");
    for id in 1..=people {
        for step in 0..=(id % 2) {
            let end = if step == 0 {
                "NULL".to_owned()
            } else {
                format!("'{}'", numbers.date(1995, 6))
            };
            inserts.row(&format!(
                "{},'{}','{}',{end}",
                10_000 + id,
                TITLES[((id + step) % 7) as usize],
                numbers.date(1985, 10)
            ))?;
        }
    }
    inserts.flush()
}

fn salaries(out: &mut impl Write, numbers: &mut Numbers, people: u64) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "salaries");
    for id in 1..=people {
        for year in 0..5 + id % 9 {
            inserts.row(&format!(
                "{},{},'{}-06-26','{}-06-26'",
                10_000 + id,
                38_000 + numbers.below(90_000),
                1986 + year,
                1987 + year
            ))?;
        }
    }
    inserts.flush()
}

fn documents(
    out: &mut impl Write,
    numbers: &mut Numbers,
    count: u64,
    people: u64,
) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "documents");
    for id in 1..=count {
        let mut body = String::new();
        while body.len() < 300 + (id % 1200) as usize {
            body.push_str(numbers.pick(&WORDS));
            body.push(' ');
        }
        let digest: String = (0..4).fold(String::from("0x"), |text, _| {
            text + &format!("{:016x}", numbers.next())
        });
        inserts.row(&format!(
            "{id},{},'{} {id}','{body}',{digest},{}.{:02},{}e-3,'{} 12:{:02}:{:02}'",
            10_001 + numbers.below(people),
            numbers.pick(&WORDS),
            numbers.below(1_000_000),
            numbers.below(100),
            numbers.below(100_000_000),
            numbers.date(2001, 20),
            numbers.below(60),
            numbers.below(60)
        ))?;
    }
    inserts.flush()
}

fn visits(out: &mut impl Write, numbers: &mut Numbers, count: u64, people: u64) -> io::Result<()> {
    let mut inserts = Inserts::new(out, "visits");
    for id in 1..=count {
        inserts.row(&format!(
            "{id},{},'/catalogue/{}/{}','{} {:02}:{:02}:{:02}',{},{},'agent {}'",
            10_001 + numbers.below(people),
            numbers.pick(&TITLES),
            numbers.below(50_000),
            numbers.date(2015, 10),
            numbers.below(24),
            numbers.below(60),
            numbers.below(60),
            200 + numbers.below(4) * 100,
            numbers.below(4_000_000),
            numbers.below(400)
        ))?;
    }
    inserts.flush()
}

fn small_tables(out: &mut impl Write, numbers: &mut Numbers) -> io::Result<()> {
    for table in 0..100 {
        let name = format!("small_{table:03}");
        writeln!(
            out,
            "CREATE TABLE {name} (id int NOT NULL, name varchar(30) DEFAULT NULL, PRIMARY KEY (id), KEY name (name));"
        )?;
        let mut inserts = Inserts::new(out, &name);
        for id in 0..50 + table * 5 {
            inserts.row(&format!("{id},'{}'", numbers.pick(&FIRST_NAMES)))?;
        }
        inserts.flush()?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    writeln!(
        out,
        "SET NAMES utf8mb4, foreign_key_checks = 0, time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO';"
    )?;
    match (
        arguments.first().map(String::as_str),
        arguments.get(1).and_then(|text| text.parse().ok()),
    ) {
        (Some("sysbench"), Some(rows)) => sysbench(&mut out, rows)?,
        (Some("employees"), Some(scale)) => employees_sample(&mut out, scale)?,
        _ => {
            eprintln!("usage: bench-data sysbench ROWS | employees SCALE");
            std::process::exit(2);
        }
    }
    out.flush()
}
