//! Parses the fields of an input line.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Deserializer, error::Category, value::RawValue};

use super::request::RequestError;

/// The fields of a line. If a field occurs twice, the last one is used.
#[derive(Default)]
pub(crate) struct Line<'a> {
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) messages: Option<&'a RawValue>,
    pub(crate) max_tokens: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Parses the fields. If the line is invalid, returns the fields before the error in addition to the error, so that
    /// the answer can have the id.
    pub(crate) fn read(json: &'a [u8]) -> (Self, Result<(), RequestError>) {
        let mut line = Self::default();
        let mut input = Deserializer::from_slice(json);
        let read = input.deserialize_map(Fields(&mut line)).and_then(|()| input.end());
        let read = read.map_err(|error| match error.classify() {
            Category::Data => RequestError::NotObject,
            Category::Syntax | Category::Eof | Category::Io => RequestError::Syntax { column: error.column() },
        });
        (line, read)
    }
}

struct Fields<'l, 'a>(&'l mut Line<'a>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key_seed(FieldName)? {
            match &*name {
                b"id" => self.0.id = Some(map.next_value()?),
                b"messages" => self.0.messages = Some(map.next_value()?),
                b"max_tokens" => self.0.max_tokens = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A field name as bytes: other fields are ignored, even if their names are not valid Unicode.
struct FieldName;

impl<'a> DeserializeSeed<'a> for FieldName {
    type Value = Cow<'a, [u8]>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'a> Visitor<'a> for FieldName {
    type Value = Cow<'a, [u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_bytes<E>(self, name: &'a [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_vec()))
    }
}
