//! A span, as received.

use std::{collections::BTreeMap, ops::Index};

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value::Value as Any},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use serde_json::Value;

/// Attributes by name. Integers and floats are different values.
pub(crate) type Attributes = BTreeMap<String, Value>;

/// A received span.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    /// Unix time in nanoseconds.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    pub(crate) is_error: bool,
    pub(crate) events: Vec<Event>,
}

/// An event on a span.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
}

impl ReceivedSpan {
    /// Returns true if the span has this attribute.
    pub(crate) fn has(&self, attribute: &str) -> bool {
        self.attributes.contains_key(attribute)
    }

    /// Asserts that attributes have these values, with these types. Null means that the attribute is missing.
    #[track_caller]
    pub(crate) fn assert_attributes<const N: usize>(&self, attributes: [(&str, Value); N]) {
        for (name, value) in attributes {
            assert_eq!(self[name], value, "{name} of {self:#?}");
        }
    }
}

/// Returns an attribute, or null if it is missing.
impl Index<&str> for ReceivedSpan {
    type Output = Value;

    fn index(&self, attribute: &str) -> &Value {
        self.attributes.get(attribute).unwrap_or(&Value::Null)
    }
}

impl From<Span> for ReceivedSpan {
    fn from(span: Span) -> Self {
        let status = span.status.as_ref().map(|status| (status.code(), status.message.clone())).unwrap_or_default();
        assert_eq!(status.1, "", "the error is an attribute, not the description of the status");
        Self {
            kind: span.kind(),
            name: span.name,
            id: span.span_id,
            parent: span.parent_span_id,
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            attributes: attributes(span.attributes),
            is_error: status.0 == StatusCode::Error,
            events: span
                .events
                .into_iter()
                .map(|event| Event { name: event.name, attributes: attributes(event.attributes) })
                .collect(),
        }
    }
}

fn attributes(list: Vec<KeyValue>) -> Attributes {
    let number = list.len();
    let attributes: Attributes =
        list.into_iter().map(|attribute| (attribute.key, value(attribute.value.unwrap_or_default()))).collect();
    assert_eq!(attributes.len(), number, "no attribute comes twice: {attributes:?}");
    attributes
}

fn value(any: AnyValue) -> Value {
    match any.value {
        None => Value::Null,
        Some(Any::StringValue(text)) => text.into(),
        Some(Any::BoolValue(is)) => is.into(),
        Some(Any::IntValue(number)) => number.into(),
        Some(Any::DoubleValue(number)) => number.into(),
        Some(Any::ArrayValue(list)) => list.values.into_iter().map(value).collect(),
        Some(other) => panic!("unexpected type of an attribute: {other:?}"),
    }
}
