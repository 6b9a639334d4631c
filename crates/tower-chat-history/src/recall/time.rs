//! Times as they are shown to a model, and as a model writes them.

use std::ops::Range;

use tower_chat_history_core::Timestamp;

const MINUTE: i64 = 60_000;
const DAY: i64 = 1440 * MINUTE;

/// Returns a time in UTC to the minute, as RFC 3339 and ISO 8601 write it: `2026-05-08T13:56Z`.
pub(crate) fn minute(at: Timestamp) -> String {
    let minutes = at.as_unix_millis() / 60_000;
    let minute = minutes % 1440;
    let (year, month, day) = civil(minutes / 1440);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}Z", minute / 60, minute % 60)
}

/// Returns the date of the day that is this many days after 1970-01-01, in the Gregorian calendar.
///
/// It counts in eras of 400 years from 0000-03-01, so that a leap day ends a year.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

/// Reads a time of RFC 3339 as the milliseconds since the Unix epoch that it stands for: a whole second, or less with
/// a fraction. Seconds, the time of day and the offset may be missing. Then it stands for the whole minute or day, in
/// UTC. So a time that [was shown](crate::recall::render) includes the message that it was shown for.
pub(crate) fn span(text: &str) -> Option<Range<u64>> {
    let (date, rest) = text.trim().split_at_checked(10)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let month_days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }

    let midnight = days_from_civil(year, month, day) * DAY;
    if rest.is_empty() {
        return Some(since_epoch(midnight)..since_epoch(midnight + DAY));
    }

    let (time, offset) = split_offset(rest.strip_prefix(['T', 't', ' '])?)?;
    let (time, fraction) = time.split_once('.').map_or((time, None), |(time, fraction)| (time, Some(fraction)));
    let (hour, minute, second) = match (numbers(time, ':', [2, 2, 2]), numbers(time, ':', [2, 2])) {
        (Some([hour, minute, second]), _) => (hour, minute, Some(second)),
        (None, Some([hour, minute])) if fraction.is_none() => (hour, minute, None),
        _ => return None,
    };
    // A leap second counts as the one after it.
    if hour > 23 || minute > 59 || second.is_some_and(|second| second > 60) {
        return None;
    }

    let start = midnight + (hour * 60 + minute - offset) * MINUTE + second.unwrap_or_default() * 1000;
    let (millis, length) = match (fraction, second) {
        (Some(fraction), _) => (millis_of(fraction)?, 1),
        (None, Some(_)) => (0, 1000),
        (None, None) => (0, MINUTE),
    };
    Some(since_epoch(start + millis)..since_epoch(start + millis + length))
}

/// Splits off the offset, in minutes.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, offset) = time.split_at_checked(at)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let [hours, minutes] = numbers(offset.get(1..)?, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some((time, sign * (hours * 60 + minutes)))
}

/// Reads numbers with these counts of digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Returns the milliseconds of the digits after a point.
fn millis_of(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || fraction.len() > 18 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
///
/// It counts in eras of 400 years from 0000-03-01, so that a leap day ends a year.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn since_epoch(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_shown_to_the_minute() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00Z"),
            (951_782_399, "2000-02-28T23:59Z"),
            (951_782_400, "2000-02-29T00:00Z"),
            (951_868_800, "2000-03-01T00:00Z"),
            (1_778_248_599, "2026-05-08T13:56Z"),
            (4_107_542_399, "2100-02-28T23:59Z"),
            (4_107_542_400, "2100-03-01T00:00Z"),
        ] {
            assert_eq!(minute(Timestamp::from_unix_millis(seconds * 1000)), text);
        }
        assert!(minute(Timestamp::from_unix_millis(u64::MAX)).ends_with('Z'));
    }

    #[test]
    fn times_stand_for_all_that_they_leave_open() {
        let day = 1_778_198_400_000;
        let at = day + (13 * 60 + 56) * 60_000;
        for (text, start, length) in [
            ("2026-05-08", day, 86_400_000),
            ("2026-05-08T13:56Z", at, 60_000),
            ("2026-05-08T13:56", at, 60_000),
            ("2026-05-08 15:56:00+02:00", at, 1000),
            ("2026-05-08t08:26:07.25-05:30", at + 7250, 1),
            ("1970-01-01", 0, 86_400_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000, 1000),
            ("0000-01-01", 0, 0),
        ] {
            assert_eq!(span(text), Some(start..start + length), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "2026-05-00",
            "2026-5-8",
            "2026-05-08T",
            "2026-05-08T24:00Z",
            "2026-05-08T13:56:61Z",
            "2026-05-08T13:56.5Z",
            "2026-05-08T13:56:01.Z",
            "2026-05-08T13:56+25:00",
            "2026-05-08T13Z",
            "+026-05-08",
            "2026-05-0ü",
        ] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9TZ:.+ é-]{0,30}|\\PC{0,30}") {
            if let Some(span) = span(&text) {
                prop_assert!(span.start <= span.end);
            }
        }
    }
}
