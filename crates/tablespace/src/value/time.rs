//! Dates and times (`sql-common/my_time.c`). Only the usual spelling is taken, and only dates that
//! every server accepts; a zero date depends on the session.

/// A day of the calendar.
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| value * 10 + u64::from(digit - b'0'))
    })
}

/// `YYYY-MM-DD`, a day that exists.
fn day(text: &[u8]) -> Option<Date> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else {
        return None;
    };
    let year = digits(&[y0, y1, y2, y3])?;
    let (month, day) = (digits(&[m0, m1])?, digits(&[d0, d1])?);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    ((1..=last).contains(&day) && year > 0).then_some(Date { year, month, day })
}

/// The digits of a second: none, or up to six after a point.
fn after_point(text: &[u8]) -> Option<&[u8]> {
    match text {
        [] => Some(text),
        [b'.', digits @ ..] => (1..=6).contains(&digits.len()).then_some(digits),
        _ => None,
    }
}

/// `HH:MM:SS` of a day, as bits, and the digits after a point.
fn clock(text: &[u8]) -> Option<(u64, &[u8])> {
    let (time, fraction) = text.split_at_checked(8)?;
    let [h0, h1, b':', m0, m1, b':', s0, s1] = *time else {
        return None;
    };
    let (hour, minute, second) = (digits(&[h0, h1])?, digits(&[m0, m1])?, digits(&[s0, s1])?);
    let fraction = after_point(fraction)?;
    (hour < 24 && minute < 60 && second < 60)
        .then_some((hour << 12 | minute << 6 | second, fraction))
}

/// Digits of a second as a number, as a column with so many of them stores it. More digits would be
/// rounded.
fn part(text: &[u8], fraction: usize) -> Option<u64> {
    let (text, more) = text.split_at(text.len().min(fraction));
    if more.iter().any(|digit| *digit != b'0') {
        return None;
    }
    let value = digits(text)? * 10_u64.pow((fraction - text.len()) as u32);
    // Two digits a byte.
    Some(if fraction % 2 == 1 { value * 10 } else { value })
}

fn put(value: u64, bytes: usize, fraction: u64, digits: usize, out: &mut Vec<u8>) {
    super::number::whole(value, bytes, out);
    super::number::whole(fraction, digits.div_ceil(2), out);
}

/// A year of four digits.
pub fn year(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let year = (text.len() == 4).then(|| digits(text))??;
    match year {
        0 => out.push(0),
        1901..=2155 => out.push((year - 1900) as u8),
        _ => return None,
    }
    Some(())
}

/// A date: five bits for the day, four for the month, the rest for the year. Zero dates are left to
/// the server.
pub fn date(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let Date { year, month, day } = day(text)?;
    // The sign bit is flipped.
    put(1 << 23 | year << 9 | month << 5 | day, 3, 0, 0, out);
    Some(())
}

/// A date and time (`TIME_to_longlong_datetime_packed`, `my_datetime_packed_to_binary`).
pub fn date_time(text: &[u8], fraction: usize, out: &mut Vec<u8>) -> Option<()> {
    let (Date { year, month, day }, time, second) = moment(text)?;
    let second = part(second, fraction)?;
    let days = (year * 13 + month) << 5 | day;
    put(1 << 39 | days << 17 | time, 5, second, fraction, out);
    Some(())
}

fn moment(text: &[u8]) -> Option<(Date, u64, &[u8])> {
    let (date, time) = text.split_at_checked(10)?;
    let (time, second) = match time {
        [] => (0, [].as_slice()),
        [b' ', time @ ..] => clock(time)?,
        _ => return None,
    };
    Some((day(date)?, time, second))
}

/// A time in UTC: seconds since 1970, up to 2038.
pub fn timestamp(text: &[u8], fraction: usize, out: &mut Vec<u8>) -> Option<()> {
    let (Date { year, month, day }, time, second) = moment(text)?;
    let second = part(second, fraction)?;
    // Days since 1970 in the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    let (hour, minute) = (time >> 12, time >> 6 & 63);
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + (time & 63);
    // 0 means a zero date.
    (1..=i32::MAX as u64).contains(&seconds).then_some(())?;
    put(seconds, 4, second, fraction, out);
    Some(())
}

/// 838:59:59.
const LAST: u64 = 838 * 4096 + 59 * 64 + 59;

/// A time, perhaps negative, of up to 838 hours (`my_time_packed_to_binary`).
pub fn time(text: &[u8], fraction: usize, out: &mut Vec<u8>) -> Option<()> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let colon = memchr::memchr(b':', text)?;
    let hour = match colon {
        2 | 3 => digits(&text[..colon])?,
        _ => return None,
    };
    let mut rest = *b"00:00:00";
    rest[2..].copy_from_slice(text.get(colon..colon + 6)?);
    let (time, _) = clock(&rest)?;
    let second = part(after_point(&text[colon + 6..])?, fraction)?;
    let time = hour << 12 | time;
    // The last hour's last second has no part.
    if hour > 838 || negative && time == 0 && second == 0 {
        return None;
    }
    if time == LAST && second > 0 {
        return None;
    }
    let bits = 8 * fraction.div_ceil(2);
    let packed = time << bits | second;
    let zero = 1_u64 << (23 + bits);
    let packed = if negative {
        zero - packed
    } else {
        zero + packed
    };
    super::number::whole(packed, 3 + bits / 8, out);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str, put: fn(&[u8], &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn days() {
        assert_eq!(stored("2024-02-29", date), Some(vec![0x8f, 0xd0, 0x5d]));
        for other in [
            "2023-02-29",
            "0000-00-00",
            "2024-1-1",
            "2024-13-01",
            "2024/01/01",
            "",
        ] {
            assert_eq!(stored(other, date), None, "{other}");
        }
        assert_eq!(stored("1901", year), Some(vec![1]));
        assert_eq!(stored("0000", year), Some(vec![0]));
        assert_eq!(stored("1900", year), None);
        assert_eq!(stored("70", year), None);
    }

    #[test]
    fn times_since_1970() {
        let whole = |text: &str| {
            let bytes = stored(text, |text, out| timestamp(text, 0, out))?;
            Some(u32::from_be_bytes(bytes.try_into().unwrap()))
        };
        assert_eq!(whole("1970-01-01 00:00:01"), Some(1));
        assert_eq!(whole("2000-02-29 12:00:00"), Some(951_825_600));
        assert_eq!(whole("2038-01-19 03:14:07"), Some(i32::MAX as u32));
        assert_eq!(whole("2038-01-19 03:14:08"), None);
        assert_eq!(whole("1970-01-01 00:00:00"), None);
        assert_eq!(whole("1969-12-31 23:59:59"), None);
    }

    #[test]
    fn parts_of_a_second() {
        let put = |text: &[u8], out: &mut Vec<u8>| date_time(text, 3, out);
        let bytes = stored("2024-01-01 00:00:00.123", put).unwrap();
        assert_eq!(bytes[5..], 1230_u16.to_be_bytes());
        assert_eq!(stored("2024-01-01 00:00:00.1230", put).unwrap(), bytes);
        for other in [
            "2024-01-01 00:00:00.1234",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:00:00.1230000",
        ] {
            assert_eq!(stored(other, put), None, "{other}");
        }
        assert_eq!(stored("2024-01-01T00:00:00", put), None);
        assert_eq!(stored("2024-01-01 24:00:00", put), None);
    }

    /// The examples of `my_time_packed_to_binary`.
    #[test]
    fn negative_times() {
        let put = |text: &[u8], out: &mut Vec<u8>| time(text, 2, out);
        assert_eq!(stored("00:00:00.00", put), Some(vec![0x80, 0, 0, 0]));
        assert_eq!(
            stored("-00:00:00.01", put),
            Some(vec![0x7f, 0xff, 0xff, 0xff])
        );
        assert_eq!(stored("-00:00:01.00", put), Some(vec![0x7f, 0xff, 0xff, 0]));
        assert_eq!(
            stored("-00:00:01.01", put),
            Some(vec![0x7f, 0xff, 0xfe, 0xff])
        );
        assert!(stored("838:59:59", put).is_some());
        for other in [
            "838:59:59.01",
            "839:00:00",
            "1:00:00",
            "-00:00:00",
            "00:60:00",
        ] {
            assert_eq!(stored(other, put), None, "{other}");
        }
    }
}
