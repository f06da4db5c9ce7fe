//! Parses sizes, counts and times: `16M`, `1GiB`, `64k`, `250000`, `90s`, `2h`.

use std::time::Duration;

/// Upper limit for a time, in seconds: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

/// Parses a number of bytes. `K`, `M`, `G`, `T`, optionally with `iB`, are powers of 1024, as in
/// the servers' option files; `kB`, `MB`, `GB`, `TB` are powers of 1000. Case does not matter. A
/// fraction is allowed with a unit.
///
/// # Errors
/// A sentence fragment for clap to show.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        other => {
            return Err(format!(
                "unknown unit `{other}`; use K, M, G, KiB, MiB, GiB, kB, MB or GB"
            ));
        }
    };
    let whole = || {
        number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor))
    };
    let fraction = || {
        let value = number.parse::<f64>().ok()? * factor as f64;
        (number.contains('.') && factor > 1 && value < u64::MAX as f64).then_some(value as u64)
    };
    whole()
        .or_else(fraction)
        .ok_or_else(|| format!("`{text}` is not a size; write for example 16M or 1GiB"))
}

/// Parses a count above zero, with `_` allowed between digits.
///
/// # Errors
/// A sentence fragment for clap to show.
pub fn parse_count(text: &str) -> Result<u64, String> {
    match text.replace('_', "").parse::<u64>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// Parses a time above zero: seconds, or a number with `s`, `m` (or `min`), `h`, `d`.
///
/// # Errors
/// A sentence fragment for clap to show.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let factor = match unit.trim() {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        other => return Err(format!("unknown unit `{other}`; use s, m, h or d")),
    };
    match number.parse::<f64>().map(|number| number * factor) {
        Ok(seconds) if seconds > 0.0 && seconds <= LONGEST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "`{text}` is not a time; write for example 90s, 10m or 2h"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [
            ("90", 90.0),
            ("90s", 90.0),
            ("10m", 600.0),
            ("1.5h", 5400.0),
            ("1d", 86_400.0),
        ] {
            assert_eq!(
                parse_time(text),
                Ok(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for bad in ["", "0", "-1", "m", "1w", "1e9d", "9999d", "1..5m"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_that_people_write() {
        assert_eq!(parse_bytes("16M"), Ok(16 << 20));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("64k"), Ok(64 << 10));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("2MB"), Ok(2_000_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
    }

    #[test]
    fn sizes_that_are_none() {
        for bad in ["", "M", "-1", "1.5", "1..5M", "1X", "99999999999T", "1e9"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(parse_count("50_000"), Ok(50_000));
        assert!(parse_count("0").is_err());
        assert!(parse_count("x").is_err());
    }
}
