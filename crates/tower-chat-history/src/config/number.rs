//! Settings that are numbers.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};
use tower_chat_history_core::config::ConfigError;

/// A number, or the text `none` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // There is nothing else.
pub enum OrNone {
    /// This number.
    Number(u64),
    /// No limit.
    None,
}

impl OrNone {
    pub(super) const fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::None => None,
        }
    }

    pub(super) fn millis(self, path: &str) -> Result<Option<Duration>, ConfigError> {
        self.number().map(|number| millis(number, path)).transpose()
    }
}

impl<'de> Deserialize<'de> for OrNone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrNone;

        impl Visitor<'_> for NumberOrNone {
            type Value = OrNone;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or the text `none`")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<OrNone, E> {
                Ok(OrNone::Number(number))
            }

            // Some formats have signed integers only.
            fn visit_i64<E: Error>(self, number: i64) -> Result<OrNone, E> {
                let unsigned = u64::try_from(number);
                unsigned.map(OrNone::Number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OrNone, E> {
                if text == "none" { Ok(OrNone::None) } else { Err(E::invalid_value(Unexpected::Other("text"), &self)) }
            }
        }

        deserializer.deserialize_any(NumberOrNone)
    }
}

/// Returns a duration of this many milliseconds, at least one.
pub(super) fn millis(number: u64, path: &str) -> Result<Duration, ConfigError> {
    positive(number, path)?;
    Ok(Duration::from_millis(number))
}

/// Checks that a number is not 0.
pub(super) fn positive(number: u64, path: &str) -> Result<(), ConfigError> {
    ConfigError::unless(number > 0, path, "it must be at least 1")
}

/// Returns a number of bytes or things as this platform counts them.
pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
