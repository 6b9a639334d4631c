//! Reading values that have a range or a unit, for `#[serde(deserialize_with = "…")]`.
//!
//! An error names what is expected, so [`read`](super::read) keeps its text.
//!
//! ```
//! use serde::Deserialize;
//! use tower_chat_history_core::config::{field, read};
//!
//! #[derive(Debug, Deserialize)]
//! struct Settings {
//!     #[serde(deserialize_with = "field::number::<_, _, 1, 64>")]
//!     readers: usize,
//! }
//!
//! let error = read::<Settings, _>(serde_json::json!({"readers": 65})).unwrap_err();
//! assert_eq!(error.to_string(), "readers: expected a number from 1 to 64");
//! ```

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

/// Reads a number from `MIN` to `MAX`.
///
/// # Errors
///
/// Returns an error for other numbers, and for values that are no numbers.
pub fn number<'de, D, T, const MIN: u64, const MAX: u64>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + TryInto<u64>,
{
    let number = T::deserialize(deserializer)?;
    match number.try_into() {
        Ok(value) if (MIN..=MAX).contains(&value) => Ok(number),
        _ => Err(out_of_range(MIN, MAX)),
    }
}

/// Reads a number of at least 1.
///
/// # Errors
///
/// Returns an error for 0, and for values that are no numbers.
pub fn positive<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + TryInto<u64>,
{
    number::<D, T, 1, { u64::MAX }>(deserializer)
}

/// Reads a number of at least 1 for an option that has no number by default.
///
/// # Errors
///
/// Returns an error for 0, and for values that are no numbers.
pub fn some_positive<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + TryInto<u64>,
{
    positive(deserializer).map(Some)
}

/// Reads a duration of `MIN` to `MAX` milliseconds.
///
/// # Errors
///
/// Returns an error for other numbers, and for values that are no numbers.
pub fn millis<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    number::<D, u64, MIN, MAX>(deserializer).map(Duration::from_millis)
}

/// Reads a duration of at least one millisecond.
///
/// # Errors
///
/// Returns an error for 0, and for values that are no numbers.
pub fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    positive(deserializer).map(Duration::from_millis)
}

/// Reads a duration of at least one millisecond, or the text `none`.
///
/// # Errors
///
/// Returns an error for 0, and for other values.
pub fn timeout_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match deserializer.deserialize_any(NumberOrNone)? {
        Some(0) => Err(out_of_range(1, u64::MAX)),
        number => Ok(number.map(Duration::from_millis)),
    }
}

struct NumberOrNone;

impl Visitor<'_> for NumberOrNone {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or the text `none`")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    // Some formats have signed integers only.
    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        u64::try_from(number).map(Some).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == "none" { Ok(None) } else { Err(E::invalid_value(Unexpected::Other("text"), &self)) }
    }
}

fn out_of_range<E: Error>(min: u64, max: u64) -> E {
    let expected =
        if max == u64::MAX { format!("a number of at least {min}") } else { format!("a number from {min} to {max}") };
    E::invalid_value(Unexpected::Other("number"), &expected.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::read, *};

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Settings {
        #[serde(deserialize_with = "number::<_, _, 2, 100>")]
        percent: u8,
        #[serde(deserialize_with = "some_positive")]
        bytes: Option<usize>,
        #[serde(deserialize_with = "millis::<_, 0, 1_000>")]
        wait_ms: Duration,
        #[serde(deserialize_with = "timeout_or_none")]
        timeout_ms: Option<Duration>,
    }

    #[test]
    fn numbers_in_range_are_read() {
        let settings: Settings = read(json!({"percent": 2, "bytes": 1, "wait_ms": 0, "timeout_ms": 1_000})).unwrap();
        let timeout_ms = Some(Duration::from_secs(1));
        assert_eq!(settings, Settings { percent: 2, bytes: Some(1), wait_ms: Duration::ZERO, timeout_ms });
        assert_eq!(read::<Settings, _>(json!({"timeout_ms": "none"})).unwrap(), Settings::default());
    }

    #[test]
    fn a_number_out_of_range_is_an_error_with_the_range() {
        let cases: [(Value, &str); 7] = [
            (json!({"percent": 1}), "percent: expected a number from 2 to 100"),
            (json!({"percent": 256}), "percent: expected u8"),
            (json!({"bytes": 0}), "bytes: expected a number of at least 1"),
            (json!({"wait_ms": 1_001}), "wait_ms: expected a number from 0 to 1000"),
            (json!({"timeout_ms": 0}), "timeout_ms: expected a number of at least 1"),
            (json!({"timeout_ms": -1}), "timeout_ms: expected a number, or the text `none`"),
            (json!({"timeout_ms": "never"}), "timeout_ms: expected a number, or the text `none`"),
        ];
        for (settings, error) in cases {
            assert_eq!(read::<Settings, _>(settings).unwrap_err().to_string(), error);
        }
    }
}
