//! The table of readers as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};

use super::{ReaderRow, Readers};

/// The rows are added to those of the table. The names are those of the settings.
impl<'de> Deserialize<'de> for Readers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut readers = Self::new();
        for (name, row) in BTreeMap::<String, ReaderRow>::deserialize(deserializer)? {
            if row.providers.is_empty() && row.hosts.is_empty() && row.models.is_empty() {
                return Err(D::Error::custom("a reader without `providers`, `hosts` and `models`"));
            }
            readers = readers.with(ReaderRow { name: name.into(), ..row });
        }
        Ok(readers)
    }
}
