//! Putting the window into a body, without changing other bytes.
//!
//! # Decisions
//!
//! - **Stored JSON is spliced into the request's body.** No other byte changes, except for a lowered reply limit, a
//!   text `input` of the Responses API, which becomes an item of the list, and cache marks of Anthropic's messages. So
//!   no field of a provider is lost.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use bytes::Bytes;
use tower_chat_history_core::Message;

use super::CallError;
use crate::adapt::Prompt;

/// Writes the messages of a window.
type Write = Arc<dyn Fn(&[Message]) -> Vec<Cow<'_, str>> + Send + Sync>;

/// The body of a request, and the places in it that history changes. All other bytes stay the same.
#[derive(Clone)]
pub struct Splice {
    bytes: Bytes,
    gap: Gap,
    reply_limit: Option<Range<usize>>,
    insertions: Vec<(usize, &'static str)>,
    /// The ranges of the messages of the head.
    head: Vec<Range<usize>>,
    /// The position in the body's object at which a list of tools can be inserted.
    tools: Option<usize>,
    write: Option<Write>,
}

/// The place of the window in a body: the bytes between the head and the input, which the window replaces.
///
/// For the list `[H,T,I]` of a head, a transcript and an input, the range is that of `,T,`, and `before`, `after` and
/// `empty` are commas.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The range of the bytes that the window replaces.
    pub range: Range<usize>,
    /// The text before the window: a comma, if the list has elements before it.
    pub before: &'static str,
    /// The text after the window: a comma, if the list has elements after it.
    pub after: &'static str,
    /// The text in place of an empty window. `None` if the bytes then stay as they are, because there is nothing to
    /// replace.
    pub empty: Option<&'static str>,
}

/// Returns the place of the window in a list of messages: between the head and the input, where the transcript is.
pub(crate) fn gap(array: &Range<usize>, messages: &[Range<usize>], resent: &Range<usize>) -> Gap {
    let head = messages[..resent.start].last();
    let input = messages.get(resent.end);
    let start = head.map_or(array.start + 1, |last| last.end);
    let end = input.map_or(array.end - 1, |first| first.start);

    let before = if head.is_some() { "," } else { "" };
    let after = if input.is_some() { "," } else { "" };
    let between = if head.is_some() && input.is_some() { "," } else { "" };
    let empty = (!resent.is_empty()).then_some(between);
    Gap { range: start..end, before, after, empty }
}

impl Splice {
    /// Creates a splice of this body.
    ///
    /// # Errors
    ///
    /// Returns an error if the range of the gap is not within the body.
    pub fn new(bytes: Bytes, gap: Gap) -> Result<Self, CallError> {
        Self { bytes, gap, reply_limit: None, insertions: Vec::new(), head: Vec::new(), tools: None, write: None }
            .checked()
    }

    /// Sets the range of the number that limits the reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is not within the body, or overlaps another place.
    pub fn reply_limit(mut self, range: Option<Range<usize>>) -> Result<Self, CallError> {
        self.reply_limit = range;
        self.checked()
    }

    /// Adds a text that is inserted at this position if the gap changes, such as the end of a list that the body has no
    /// list for.
    ///
    /// # Errors
    ///
    /// Returns an error if the position is not within the body, or is within another place.
    pub fn insert(mut self, position: usize, text: &'static str) -> Result<Self, CallError> {
        self.insertions.push((position, text));
        self.checked()
    }

    /// Sets the ranges of the messages before the gap, so that they can be left out, and the position after the bracket
    /// that opens the body's object, if the body has no tools.
    ///
    /// # Errors
    ///
    /// Returns an error if a place is not within the body, or is after the gap.
    pub fn head(mut self, messages: Vec<Range<usize>>, tools: Option<usize>) -> Result<Self, CallError> {
        let places = messages.iter().cloned().chain(tools.map(|at| at..at));
        let mut free = 0;
        for place in messages.iter().cloned() {
            if place.start < free || place.end < place.start || place.end > self.gap.range.start {
                return Err(CallError::Splice { place, length: self.bytes.len() });
            }
            free = place.end;
        }
        if let Some(place) = places.into_iter().find(|place| place.end > self.bytes.len()) {
            return Err(CallError::Splice { place, length: self.bytes.len() });
        }
        self.head = messages;
        self.tools = tools;
        Ok(self)
    }

    /// Checks that all places are within the body and apart from each other.
    fn checked(self) -> Result<Self, CallError> {
        let insertions = self.insertions.iter().map(|(at, _)| *at..*at);
        let mut places: Vec<Range<usize>> = insertions.chain(self.reply_limit.clone()).collect();
        places.push(self.gap.range.clone());
        places.sort_by_key(|place| (place.start, place.end));

        let mut free = 0;
        let length = self.bytes.len();
        for place in places {
            if place.start < free || place.end < place.start || place.end > length {
                return Err(CallError::Splice { place, length });
            }
            free = place.end;
        }
        Ok(self)
    }

    /// Sets the function that returns the JSON of each message of the window. By default, messages are sent as they are
    /// stored.
    #[must_use]
    pub fn write_window(mut self, write: impl Fn(&[Message]) -> Vec<Cow<'_, str>> + Send + Sync + 'static) -> Self {
        self.write = Some(Arc::new(write));
        self
    }

    /// Returns the body with the window of a prompt. If the prompt and the body have a limit of the reply, the limit is
    /// replaced, too. Returns `None` if no byte changes.
    #[must_use]
    pub fn with(&self, prompt: Prompt<'_>) -> Option<Bytes> {
        let mut changes = Vec::new();
        let skipped = prompt.left_out_of_head.min(self.head.len());
        if let Some(first) = self.head.first().filter(|_| skipped > 0) {
            let end = self.head.get(skipped).map_or(self.gap.range.start, |next| next.start);
            changes.push((first.start..end, Text::new("")));
        }
        let tools = prompt.stub_tool.map(|tool| format!(r#""tools":[{tool}],"#)).unwrap_or_default();
        if let Some(at) = self.tools.filter(|_| !tools.is_empty()) {
            changes.push((at..at, Text::new(&tools)));
        }

        let is_first = skipped > 0 && skipped == self.head.len();
        if let Some(between) = self.between(prompt.window, is_first) {
            changes.push((self.gap.range.clone(), between));
            changes.extend(self.insertions.iter().map(|(at, text)| (*at..*at, Text::new(text))));
        }

        let limit = self.reply_limit.clone().zip(prompt.reply_limit);
        let limit = limit.map(|(range, tokens)| (range, tokens.to_string()));
        if let Some((range, tokens)) = &limit {
            changes.push((range.clone(), Text::new(tokens)));
        }
        if changes.is_empty() {
            return None;
        }

        changes.sort_by_key(|(range, _)| (range.start, range.end));
        let added: usize = changes.iter().map(|(_, text)| text.len()).sum();
        let mut body = Vec::with_capacity(self.bytes.len() + added);
        let mut at = 0;
        for (range, text) in changes {
            body.extend_from_slice(&self.bytes[at..range.start]);
            text.write(&mut body);
            at = range.end;
        }
        body.extend_from_slice(&self.bytes[at..]);
        Some(body.into())
    }

    /// Returns the body as the caller sent it.
    #[must_use]
    pub fn into_original(self) -> Bytes {
        self.bytes
    }

    /// Returns the text that takes the place of the gap, or `None` if its bytes do not change. If the window is first,
    /// no message is before it.
    fn between<'a>(&'a self, window: &'a [Message], is_first: bool) -> Option<Text<'a>> {
        let Gap { before, after, empty, .. } = self.gap;
        let before = if is_first { "" } else { before };
        if window.is_empty() {
            return empty.map(Text::new);
        }
        let list = match &self.write {
            Some(write) => write(window),
            None => window.iter().map(|message| Cow::Borrowed(message.json())).collect(),
        };
        Some(Text { before, list, after })
    }
}

/// A text that is written into a body.
struct Text<'a> {
    before: &'a str,
    /// The elements of a list, which get commas between them.
    list: Vec<Cow<'a, str>>,
    after: &'a str,
}

impl<'a> Text<'a> {
    const fn new(text: &'a str) -> Self {
        Self { before: text, list: Vec::new(), after: "" }
    }

    fn len(&self) -> usize {
        let commas = self.list.len().saturating_sub(1);
        self.before.len() + self.list.iter().map(|json| json.len()).sum::<usize>() + commas + self.after.len()
    }

    fn write(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(self.before.as_bytes());
        for (position, json) in self.list.iter().enumerate() {
            if position > 0 {
                body.push(b',');
            }
            body.extend_from_slice(json.as_bytes());
        }
        body.extend_from_slice(self.after.as_bytes());
    }
}

// Not derived, because the body has text.
impl fmt::Debug for Splice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Splice").field("bytes", &self.bytes.len()).field("gap", &self.gap).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(splice: &Splice, window: &[Message]) -> String {
        let bytes = splice.with(Prompt::new(window)).unwrap_or_else(|| splice.bytes.clone());
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_text_can_become_a_list() {
        let body = r#"{"input":"hi","n":1}"#;
        let window = [Message::user("u"), Message::assistant("a")];
        let gap = Gap { range: 9..9, before: "[", after: r#",{"role":"user","content":"#, empty: None };
        let splice = Splice::new(Bytes::from(body), gap).unwrap().insert(13, "}]").unwrap();
        let list = format!(r#"[{},{},{{"role":"user","content":"hi"}}]"#, window[0].json(), window[1].json());
        assert_eq!(spliced(&splice, &window), format!(r#"{{"input":{list},"n":1}}"#));
        assert_eq!(splice.with(Prompt::new(&[])), None);
        assert_eq!(splice.into_original(), body);
    }

    /// Returns the place that is refused, and the length of the body.
    fn fault(error: CallError) -> (Range<usize>, usize) {
        match error {
            CallError::Splice { place, length } => (place, length),
            error => panic!("{error}"),
        }
    }

    #[test]
    fn the_beginning_of_the_head_can_be_left_out_and_a_tool_added() {
        let body = r#"{"messages":[{"a":1}, {"b":2},{"c":3}]}"#;
        let head = || vec![13..20, 22..29];
        let gap = Gap { range: 29..30, before: ",", after: ",", empty: None };
        let splice = Splice::new(Bytes::from(body), gap).unwrap().head(head(), Some(1)).unwrap();
        let window = [Message::user("u")];
        let with = |left_out_of_head, stub_tool| {
            let prompt = Prompt { left_out_of_head, stub_tool, ..Prompt::new(&window) };
            String::from_utf8(splice.with(prompt).unwrap().to_vec()).unwrap()
        };
        let u = window[0].json();
        assert_eq!(with(0, None), format!(r#"{{"messages":[{{"a":1}}, {{"b":2}},{u},{{"c":3}}]}}"#));
        assert_eq!(with(1, None), format!(r#"{{"messages":[{{"b":2}},{u},{{"c":3}}]}}"#));
        assert_eq!(with(2, None), format!(r#"{{"messages":[{u},{{"c":3}}]}}"#));
        assert_eq!(with(9, Some("{}")), format!(r#"{{"tools":[{{}}],"messages":[{u},{{"c":3}}]}}"#));
        let splice =
            Splice::new(Bytes::from(body), Gap { range: 29..30, before: ",", after: ",", empty: None }).unwrap();
        let too_long = Range { start: 22, end: 31 };
        for (head, tools) in [(vec![too_long], None), (vec![22..29, 13..20], None), (head(), Some(99))] {
            assert!(splice.clone().head(head, tools).is_err());
        }
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)] // One of the faults.
    fn places_outside_of_the_body_and_overlapping_ones_are_refused() {
        let gap = |range| Gap { range, before: "", after: "", empty: Some("") };
        let new = |range| Splice::new(Bytes::from("0123456789"), gap(range));
        for range in [0..11, 11..11, 4..3, usize::MAX..usize::MAX] {
            assert_eq!(fault(new(range.clone()).err().unwrap()), (range, 10));
        }
        let error = new(4..11).err().unwrap();
        assert!(error.to_string().ends_with("bytes 4 to 11 of 10"), "{error}");
        for range in [2..4, 4..4, 5..7, 9..11, 0..9] {
            let error = new(3..6).unwrap().reply_limit(Some(range.clone())).err().unwrap();
            let later = if (range.start, range.end) < (3, 6) { 3..6 } else { range };
            assert_eq!(fault(error), (later, 10));
        }
        for position in [4, 5, 11] {
            let error = new(3..6).unwrap().insert(position, "x").err().unwrap();
            assert_eq!(fault(error), (position..position, 10));
        }
        let splice = new(3..6).unwrap().reply_limit(Some(6..8)).unwrap();
        let splice = splice.insert(3, "a").unwrap().insert(6, "b").unwrap().insert(10, "c").unwrap();
        let mut prompt = Prompt::new(&[]);
        prompt.reply_limit = Some(1);
        assert_eq!(splice.with(prompt).unwrap(), "012ab189c");
    }
}
