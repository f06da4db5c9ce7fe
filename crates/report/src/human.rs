//! Formats numbers for people. All output uses these functions, so that a figure looks the same
//! everywhere.
//!
//! Bytes use powers of 1024 and say so (`MiB`, `GiB`). Rows and other counts use powers of 1000,
//! with commas between groups of three digits. Times look like `1.2 s`, `2:07` or `1:02:07`.

use std::time::Duration;

/// Bytes with a unit: `0 B`, `999 B`, `1.50 KiB`, `12.3 MiB`, `604 MiB`, `1.25 GiB`.
///
/// Three significant digits from KiB upwards: a fourth changes too fast to read.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 would print as 1000: switch to the next unit before that.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A part of a total, in the unit of the total: `248/576 MiB`, `0.03/1.25 GiB`.
pub fn bytes_of(part: u64, whole: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let text = bytes(whole);
    let unit = text.rsplit(' ').next().unwrap_or("B");
    let power = UNITS.iter().position(|name| *name == unit).unwrap_or(0);
    if power == 0 {
        return format!("{part}/{text}");
    }
    let value = part as f64 / (1u64 << (10 * power)) as f64;
    let decimals = text
        .split(' ')
        .next()
        .and_then(|number| number.split_once('.'))
        .map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.decimals$}/{text}")
}

/// Bytes per second: `142 MiB/s`.
pub fn byte_rate(per_second: f64) -> String {
    format!("{}/s", bytes(whole(per_second)))
}

/// A count in full, with grouped digits: `1,500,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A short count: `950`, `12.3k`, `1.50M`, `2.00G`.
pub fn short_count(value: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if value < 1000 {
        return value.to_string();
    }
    let mut scaled = value as f64 / 1000.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{}{}", three_digits(scaled), UNITS[unit])
}

/// Rows per second: `312k rows/s`.
pub fn row_rate(per_second: f64) -> String {
    format!("{} rows/s", short_count(whole(per_second)))
}

/// A count with its noun: `1 table`, `2 tables`. The plural is the singular plus an s.
pub fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value))
}

/// A measured time: `0.04 s`, `1.2 s`, `59.9 s`; from a minute on as [`clock`].
pub fn seconds(time: Duration) -> String {
    let value = time.as_secs_f64();
    if value < 0.995 {
        format!("{value:.2} s")
    } else if value < 59.95 {
        format!("{value:.1} s")
    } else {
        clock(time)
    }
}

/// An elapsed or remaining time: `0:07`, `2:07`, `1:02:07`, `3d 01:02:07`.
pub fn clock(time: Duration) -> String {
    let total = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    let (days, hours, minutes, seconds) = (
        total / 86_400,
        total / 3600 % 24,
        total / 60 % 60,
        total % 60,
    );
    if days > 0 {
        format!("{days}d {hours:02}:{minutes:02}:{seconds:02}")
    } else if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A fraction as a percentage, rounded down: `0%`, `1%` … `99%`, `100%`. It never shows 100 before
/// everything is done.
pub fn percent(fraction: f64) -> String {
    let whole_percent = (fraction.clamp(0.0, 1.0) * 100.0).floor() as u64;
    format!("{whole_percent}%")
}

/// A ratio: `4.3×`, and without decimals from ten on.
pub fn ratio(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}×")
    } else {
        format!("{value:.0}×")
    }
}

/// Formats a value below 1000 with three significant digits.
fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Rounds a rate. One that is negative or not finite counts as zero.
fn whole(value: f64) -> u64 {
    if value.is_finite() && value > 0.0 {
        value.round() as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_three_digits_and_name_the_unit() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (16 << 20, "16.0 MiB"),
            (604_000_000, "576 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(byte_rate(148_897_792.0), "142 MiB/s");
        assert_eq!(bytes_of(248 << 20, 576 << 20), "248/576 MiB");
        assert_eq!(bytes_of(32 << 20, 5 << 28), "0.03/1.25 GiB");
        assert_eq!(bytes_of(7, 900), "7/900 B");
        assert_eq!(byte_rate(f64::NAN), "0 B/s");
        assert_eq!(byte_rate(-1.0), "0 B/s");
    }

    #[test]
    fn counts_are_grouped_or_short() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_500_000), "1,500,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(short_count(999), "999");
        assert_eq!(short_count(1_000), "1.00k");
        assert_eq!(short_count(312_400), "312k");
        assert_eq!(short_count(999_999), "1.00M");
        assert_eq!(counted(1, "table"), "1 table");
        assert_eq!(counted(0, "warning"), "0 warnings");
        assert_eq!(row_rate(312_400.4), "312k rows/s");
    }

    #[test]
    fn times() {
        let ms = Duration::from_millis;
        assert_eq!(seconds(ms(40)), "0.04 s");
        assert_eq!(seconds(ms(994)), "0.99 s");
        assert_eq!(seconds(ms(1_200)), "1.2 s");
        assert_eq!(seconds(ms(59_949)), "59.9 s");
        assert_eq!(seconds(ms(59_950)), "1:00");
        assert_eq!(clock(ms(127_000)), "2:07");
        assert_eq!(clock(ms(3_727_000)), "1:02:07");
        assert_eq!(clock(ms(262_927_000)), "3d 01:02:07");
    }

    #[test]
    fn a_percentage_is_whole_only_at_the_end() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.999_99), "99%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(f64::NAN), "0%");
        assert_eq!(percent(7.0), "100%");
    }
}
