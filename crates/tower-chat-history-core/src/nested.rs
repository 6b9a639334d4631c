//! JSON with many levels of nested lists and objects.
//!
//! JSON text may have any number of levels: messages are read without recursion and stored as they are. A [`Value`] is
//! different. A `Value` is written, cloned and dropped by recursion, so one with about ten thousand levels overflows
//! the stack, and the process ends. `serde_json` reads at most 127 levels into a `Value`, but a program can build more.
//! This crate therefore refuses a `Value` with more than [`MAX_LEVELS`] before anything recurses deeper, and drops it
//! with [`dismantle`].

use std::io;

use serde::Serialize;
use serde_json::{
    Serializer, Value,
    ser::{CompactFormatter, Formatter},
};

/// The maximum number of levels of lists and objects in a value: 128. A number has no level, `[]` has one.
pub const MAX_LEVELS: usize = 128;

/// Returns `true` if a value has more than [`MAX_LEVELS`] levels.
///
/// This recurses at most [`MAX_LEVELS`] times, and visits each element at most once.
///
/// ```
/// use serde_json::{Value, json};
/// use tower_chat_history_core::nested::is_too_deep;
///
/// let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]));
/// assert!(!is_too_deep(&nested(128)));
/// assert!(is_too_deep(&nested(129)));
/// ```
#[must_use]
pub fn is_too_deep(value: &Value) -> bool {
    has_more_levels(value, MAX_LEVELS)
}

fn has_more_levels(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(elements) => levels == 0 || elements.iter().any(|value| has_more_levels(value, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|value| has_more_levels(value, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Drops a value of any number of levels without recursion. The usual drop of a deeply nested value overflows the
/// stack.
pub fn dismantle(value: Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(elements) => left.extend(elements),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Returns the JSON of a value, as `serde_json::to_string` writes it.
///
/// # Errors
///
/// Returns an error if the value cannot be written as JSON. If it has more than [`MAX_LEVELS`] levels, the error is
/// of [category](serde_json::Error::classify) `Io`: the bound is checked during writing, before any deeper
/// recursion.
pub fn to_string(value: &(impl Serialize + ?Sized)) -> Result<String, serde_json::Error> {
    let mut json = Vec::with_capacity(512);
    to_writer(&mut json, value)?;
    String::from_utf8(json).map_err(|error| serde_json::Error::io(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Writes the JSON of a value, as `serde_json::to_writer` does.
///
/// # Errors
///
/// The same as [`to_string`], and an error if the writer fails. Some of the JSON may have been written then.
pub fn to_writer(writer: impl io::Write, value: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(writer, Bounded { levels: 0 }))
}

/// Writes compact JSON, and fails if it would have too many levels.
struct Bounded {
    levels: usize,
}

impl Bounded {
    fn enter(&mut self) -> io::Result<()> {
        if self.levels == MAX_LEVELS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the value has more than 128 levels of lists and objects",
            ));
        }
        self.levels += 1;
        Ok(())
    }
}

impl Formatter for Bounded {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        CompactFormatter.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.levels -= 1;
        CompactFormatter.end_array(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.levels -= 1;
        CompactFormatter.end_object(writer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        let around = |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner, "b": []}) };
        (0..levels).fold(json!(1), around)
    }

    fn levels(value: &Value) -> usize {
        match value {
            Value::Array(elements) => 1 + elements.iter().map(levels).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
            _ => 0,
        }
    }

    #[test]
    fn values_of_128_levels_are_accepted_and_deeper_ones_are_refused() {
        for value in [nested(MAX_LEVELS), json!([1, nested(MAX_LEVELS - 1), {}])] {
            assert!(!is_too_deep(&value));
            assert_eq!(to_string(&value).unwrap(), value.to_string());
        }
        let inside = json!([[1], {"a": nested(MAX_LEVELS)}]);
        for value in [nested(MAX_LEVELS + 1), json!([1, nested(MAX_LEVELS), {}]), inside] {
            assert!(is_too_deep(&value));
            assert!(to_string(&value).unwrap_err().is_io());
            dismantle(value);
        }
    }

    proptest! {
        #[test]
        fn levels_are_counted_correctly(lists in prop::collection::vec((0_usize..140, 0_usize..3), 0..4)) {
            let list = lists.iter().map(|(levels, beside)| json!([vec![0; *beside], nested(*levels)]));
            let value: Value = list.collect();
            prop_assert_eq!(is_too_deep(&value), levels(&value) > MAX_LEVELS);
            prop_assert_eq!(to_string(&value).is_err(), levels(&value) > MAX_LEVELS);
        }
    }
}
