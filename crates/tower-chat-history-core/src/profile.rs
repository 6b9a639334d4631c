//! Names for separate views of one conversation.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidValue;

/// The name under which compactions are stored and loaded. A conversation has at most one compaction per profile.
/// Models with different context windows use different profiles of one conversation.
///
/// A name has 1 to 64 bytes of visible ASCII. The default is `default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Profile(Arc<str>);

impl Profile {
    /// The maximum length of a name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Creates a profile with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty, longer than [`MAX_LEN`](Self::MAX_LEN) bytes, or contains anything
    /// but visible ASCII.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidValue> {
        let name = name.as_ref();
        let legal = !name.is_empty() && name.len() <= Self::MAX_LEN && name.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(name.into())) } else { Err(InvalidValue::Profile { len: name.len(), max: Self::MAX_LEN }) }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Profile {
    type Err = InvalidValue;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl TryFrom<String> for Profile {
    type Error = InvalidValue;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl From<Profile> for String {
    fn from(profile: Profile) -> Self {
        profile.0.as_ref().into()
    }
}
