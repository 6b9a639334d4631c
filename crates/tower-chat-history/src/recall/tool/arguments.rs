//! The arguments of the tool.

use std::{fmt, ops::Range};

use serde_json::Value;
use tower_chat_history_core::Timestamp;

use super::time::span;

/// The arguments of a call.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) query: String,
    /// The times, in milliseconds since the Unix epoch.
    times: Option<Range<u64>>,
    /// From 1 on.
    pub(super) page: u64,
}

/// The error for arguments that cannot be used. Its text is written for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// The arguments are not a JSON object.
    #[error("The arguments must be a JSON object, such as {{\"query\": \"name of the dog\"}}.")]
    NotAnObject,
    /// There is no query.
    #[error("The argument \"query\" is missing. It must be a string with the words to search for.")]
    NoQuery,
    /// The query has no words that can be searched for.
    #[error("The argument \"query\" has only words that are too common. Use words that the messages may contain.")]
    NoWords,
    /// A time cannot be read.
    #[error(
        "The argument \"{field}\" must be a time such as \"2026-05-08T13:56:00Z\", or a date such as \"2026-05-08\"."
    )]
    Time {
        /// The name of the argument.
        field: &'static str,
    },
    /// The times are in the wrong order.
    #[error("The time \"from\" must be before the time \"to\".")]
    Order,
    /// The page is not a number from 1 on.
    #[error("The argument \"page\" must be a whole number from 1 on.")]
    Page,
}

impl Arguments {
    /// Reads the arguments of a call, which are a JSON object. Unknown ones are ignored, and `null` counts as missing.
    pub(super) fn parse(json: &str) -> Result<Self, ArgumentsError> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(json) else { return Err(ArgumentsError::NotAnObject) };
        fields.retain(|_, value| !value.is_null());
        let Some(Value::String(query)) = fields.remove("query") else { return Err(ArgumentsError::NoQuery) };
        let time = |field: &'static str| match fields.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(value) => value.as_str().and_then(span).map(Some).ok_or(ArgumentsError::Time { field }),
        };
        let (from, to) = (time("from")?, time("to")?);
        let times = match (from, to) {
            (None, None) => None,
            (from, to) => Some(from.map_or(0, |from| from.start)..to.map_or(u64::MAX, |to| to.end)),
        };
        if times.as_ref().is_some_and(Range::is_empty) {
            return Err(ArgumentsError::Order);
        }
        let page = match fields.get("page") {
            None => 1,
            Some(page) => page.as_u64().filter(|page| *page > 0).ok_or(ArgumentsError::Page)?,
        };
        Ok(Self { query, times, page })
    }

    /// Returns `true` if only exchanges of certain times are searched for.
    pub(super) const fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// Returns `true` if an exchange of this time is searched for.
    pub(super) fn includes(&self, at: Timestamp) -> bool {
        self.times.as_ref().is_none_or(|times| times.contains(&at.as_unix_millis()))
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").field("times", &self.times).field("page", &self.page).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let page = |json: &str| Arguments::parse(json).map(|arguments| arguments.page);
        assert_eq!(page(r#"{"query":"dog"}"#), Ok(1));
        assert_eq!(page(r#"{"query":"dog","page":3,"from":null,"to":"","other":[]}"#), Ok(3));
        for (json, error) in [
            ("", ArgumentsError::NotAnObject),
            ("[]", ArgumentsError::NotAnObject),
            ("{\"query\":", ArgumentsError::NotAnObject),
            ("{}", ArgumentsError::NoQuery),
            (r#"{"query":7}"#, ArgumentsError::NoQuery),
            (r#"{"query":"a","page":0}"#, ArgumentsError::Page),
            (r#"{"query":"a","page":1.5}"#, ArgumentsError::Page),
            (r#"{"query":"a","page":"2"}"#, ArgumentsError::Page),
            (r#"{"query":"a","from":"soon"}"#, ArgumentsError::Time { field: "from" }),
            (r#"{"query":"a","to":3}"#, ArgumentsError::Time { field: "to" }),
            (r#"{"query":"a","from":"2026-05-08","to":"2026-05-07"}"#, ArgumentsError::Order),
        ] {
            assert_eq!(page(json), Err(error), "{json}");
        }
    }

    #[test]
    fn times_include_their_last_day() {
        let arguments = Arguments::parse(r#"{"query":"a","from":"1970-01-02","to":"1970-01-02"}"#).unwrap();
        let includes = [86_399_999, 86_400_000, 172_799_999, 172_800_000]
            .map(|millis| arguments.includes(Timestamp::from_unix_millis(millis)));
        assert_eq!(includes, [false, true, true, false]);
    }
}
