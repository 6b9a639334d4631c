//! Times as they are shown.

use tower_chat_history_core::Timestamp;

/// Returns a time in UTC to the minute, as RFC 3339 and ISO 8601 write it: `2026-05-08T13:56Z`.
pub(super) fn minute(at: Timestamp) -> String {
    let minutes = at.as_unix_millis() / 60_000;
    let (days, minute) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}Z", minute / 60, minute % 60)
}

/// Returns the date of the day that is this many days after 1970-01-01, in the Gregorian calendar.
///
/// It counts in eras of 400 years from 0000-03-01, so that a leap day ends a year.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
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
}
