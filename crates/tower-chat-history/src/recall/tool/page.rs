//! The arguments of the tool, and the division of results into pages.

use std::{collections::BTreeSet, fmt, ops::Range};

use serde_json::{Map, Value};
use tower_chat_history_core::{Recorded, Seq, Timestamp};

use crate::recall::{
    search::Hit,
    select::{Around, Place},
    shown::{render_exchange, render_frame, render_message},
    time::span,
};

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

        let from = time(&fields, "from")?;
        let to = time(&fields, "to")?;
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

/// Reads a time, if the argument is there.
fn time(fields: &Map<String, Value>, field: &'static str) -> Result<Option<Range<u64>>, ArgumentsError> {
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(value) => value.as_str().and_then(span).map(Some).ok_or(ArgumentsError::Time { field }),
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").field("times", &self.times).field("page", &self.page).finish_non_exhaustive()
    }
}

/// The most units of a page.
pub(super) const MAX_UNITS: usize = 10;

/// The pages up to the one that is asked for. Results are given to it best first, so all calls divide them alike.
#[derive(Debug)]
pub(super) struct Pager<'a> {
    arguments: &'a Arguments,
    max_bytes: usize,
    /// The messages of this page and the ones before it.
    seen: BTreeSet<Place>,
    /// The page that is being filled.
    pub(super) page: Page,
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// From 1 on.
    pub(super) number: u64,
    pub(super) messages: BTreeSet<Place>,
    /// The exchanges of messages that are too long for a page.
    pub(super) too_long: BTreeSet<Seq>,
    units: usize,
    bytes: usize,
}

impl Page {
    fn new(number: u64) -> Self {
        let bytes = render_frame().len();
        Self { number, messages: BTreeSet::new(), too_long: BTreeSet::new(), units: 0, bytes }
    }

    /// Returns `true` if it shows messages of this exchange.
    pub(super) fn has(&self, seq: Seq) -> bool {
        self.messages.range((seq, 0)..=(seq, u32::MAX)).next().is_some()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.units == 0
    }
}

impl<'a> Pager<'a> {
    pub(super) fn new(arguments: &'a Arguments, max_bytes: usize) -> Self {
        Self { arguments, max_bytes, seen: BTreeSet::new(), page: Page::new(1) }
    }

    /// Adds a result to the page or to the next one. `exchanges` has its exchange and the two next to it. Returns
    /// `true` if the page that is asked for is full, and the result would begin the next one.
    pub(super) fn add(&mut self, hit: &Hit, exchanges: &[Recorded]) -> bool {
        let place = hit.place();
        let included = recorded(exchanges, hit.seq).is_some_and(|found| self.arguments.includes(found.exchange.at));
        if !included || self.seen.contains(&place) {
            return false;
        }
        let Some(around) = Around::of(exchanges, place) else { return false };

        let largest = self.max_bytes.saturating_sub(render_frame().len());
        let units = [around.with_neighbors(), around.alone(), Some(vec![place])];
        let mut units = units.into_iter().flatten().map(|unit| self.new_messages(unit, exchanges));
        let unit = units.find(|unit| Self::bytes(unit, exchanges, &BTreeSet::new()) <= largest);

        let bytes = unit.as_ref().map_or(0, |unit| Self::bytes(unit, exchanges, &self.page.messages));
        if self.page.units >= MAX_UNITS || self.page.bytes + bytes > self.max_bytes {
            if self.page.number >= self.arguments.page {
                return true;
            }
            self.page = Page::new(self.page.number + 1);
        }

        self.page.units += 1;
        self.page.bytes += unit.as_ref().map_or(0, |unit| Self::bytes(unit, exchanges, &self.page.messages));
        self.seen.insert(place);
        match unit {
            Some(unit) => {
                self.seen.extend(&unit);
                self.page.messages.extend(unit);
            }
            None => {
                self.page.too_long.insert(hit.seq);
            }
        }
        false
    }

    /// Returns the messages of a unit that are on no page yet, and of the right time.
    fn new_messages(&self, mut unit: Vec<Place>, exchanges: &[Recorded]) -> Vec<Place> {
        unit.retain(|place| {
            let included = recorded(exchanges, place.0).is_some_and(|found| self.arguments.includes(found.exchange.at));
            included && !self.seen.contains(place)
        });
        unit
    }

    /// Returns the bytes of messages as they are rendered on a page that has others already.
    fn bytes(unit: &[Place], exchanges: &[Recorded], on_page: &BTreeSet<Place>) -> usize {
        let mut bytes = 0;
        for places in unit.chunk_by(|a, b| a.0 == b.0) {
            let seq = places[0].0;
            let Some(found) = recorded(exchanges, seq) else { continue };
            for (_, index) in places {
                let message = usize::try_from(*index).ok().and_then(|index| found.exchange.messages.get(index));
                bytes += message.map_or(0, |message| render_message(message).len());
            }
            if on_page.range((seq, 0)..=(seq, u32::MAX)).next().is_none() {
                bytes += render_exchange(found).len();
            }
        }
        bytes
    }
}

fn recorded(exchanges: &[Recorded], seq: Seq) -> Option<&Recorded> {
    exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok().map(|at| &exchanges[at])
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
