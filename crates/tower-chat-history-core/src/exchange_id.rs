//! The ids of exchanges, which make appends idempotent.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of an exchange within its conversation. Appending an exchange whose id is already in the log stores
/// nothing.
///
/// If a caller may repeat a request, it must use the same id each time, such as an `Idempotency-Key` or the message id
/// of its client. Other callers use a [generated](Self::generate) id. An id has 1 to 128 bytes of visible ASCII, so it
/// fits into a header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExchangeId(Arc<str>);

impl ExchangeId {
    /// The maximum length of an id, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Creates an id from the caller's text.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is empty, longer than [`MAX_LEN`](Self::MAX_LEN) bytes, or contains anything but
    /// visible ASCII.
    pub fn new(id: impl AsRef<str>) -> Result<Self, ExchangeIdError> {
        let id = id.as_ref();
        let legal = !id.is_empty() && id.len() <= Self::MAX_LEN && id.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(id.into())) } else { Err(ExchangeIdError { len: id.len() }) }
    }

    /// Creates a random id of 32 hexadecimal digits.
    ///
    /// The random numbers come from a generator in the process, which the operating system seeds. A copy of the process
    /// that `fork` makes, and that does not start another program, would create the same ids and [incarnations] as the
    /// original. Do not use this library in such a process.
    ///
    /// [incarnations]: crate::Incarnation::random
    #[must_use]
    pub fn generate() -> Self {
        let mut buffer = Uuid::encode_buffer();
        Self(Arc::from(&*Uuid::new_v4().as_simple().encode_lower(&mut buffer)))
    }

    /// Returns the id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ExchangeId {
    type Err = ExchangeIdError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::new(id)
    }
}

impl TryFrom<String> for ExchangeId {
    type Error = ExchangeIdError;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::new(id)
    }
}

impl From<ExchangeId> for String {
    fn from(id: ExchangeId) -> Self {
        id.0.as_ref().into()
    }
}

/// The error for an invalid exchange id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid exchange id: expected 1 to {max} bytes of visible ASCII, got {len} bytes", max = ExchangeId::MAX_LEN)]
pub struct ExchangeIdError {
    len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_ids_that_do_not_fit_a_header() {
        for wrong in ["", "a b", "ä", "a\n", &"x".repeat(129)] {
            assert!(ExchangeId::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(ExchangeId::new("x".repeat(128)).is_ok());
    }

    #[test]
    fn generated_ids_are_legal_and_differ() {
        let (a, b) = (ExchangeId::generate(), ExchangeId::generate());
        assert_ne!(a, b);
        assert_eq!(ExchangeId::new(a.as_str()), Ok(a));
    }
}
