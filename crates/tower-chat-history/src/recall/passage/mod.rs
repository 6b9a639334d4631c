//! Passages: the documents of a search.

mod split;
mod text;

use std::borrow::Cow;

use tower_chat_history_core::{Exchange, Message};

pub use self::text::is_recallable;
pub(crate) use self::text::{ends, name_of, only_text_of, text_of};
use self::text::{is_result, without_escapes};
use crate::recall::analyzer::{Analyzer, Term};

/// The most passages of a message, from each of its ends.
const MAX_OF_TEXT: usize = 64;
/// The most passages of a tool's result or of a call's arguments, from each end.
const MAX_OF_RESULT: usize = 4;
/// The most bytes of a text that are read for a passage that is counted in the limits above.
const BYTES_OF_PASSAGE: usize = 4096;
/// The most terms of a passage. Only hostile text has more.
const MAX_TERMS: usize = 1024;
/// The most terms of a participant's name, which each passage of the message has.
const MAX_NAME_TERMS: usize = 16;

/// A part of a message that is found by itself: a document of the search, and the unit that is embedded.
///
/// A message is split at about 160 terms. Its calls have passages of their own, of name and arguments. Long tool
/// results are searched at both ends only. An exchange has at most [128](Self::MAX_OF_EXCHANGE) passages, the first ones:
/// messages after them are not found. Each [recallable](is_recallable) message within the first 128 passages has at
/// least one, even if that has no terms, because passages score for their neighbors too.
#[derive(Clone, PartialEq, Eq)]
pub struct Passage {
    /// The message, by its place in its exchange.
    pub message: u32,
    /// The text.
    pub text: String,
}

impl Passage {
    /// The most passages of an exchange.
    pub const MAX_OF_EXCHANGE: usize = 128;

    /// Returns the passages of an exchange, in order: the first [128](Self::MAX_OF_EXCHANGE).
    #[must_use]
    pub fn of(exchange: &Exchange) -> Vec<Self> {
        Passages::of(exchange).flatten().collect()
    }

    /// Returns the terms of the passage and of its speaker's name. `exchange` is the one the passage is
    /// [of](Self::of).
    #[must_use]
    pub fn terms(&self, exchange: &Exchange, analyzer: &Analyzer) -> Vec<Term> {
        let message = usize::try_from(self.message).ok().and_then(|index| exchange.messages.get(index));
        let name = message.and_then(Message::name).unwrap_or_default();
        let mut terms = analyzer.terms_within(name, MAX_NAME_TERMS);
        terms.extend(analyzer.terms_within(&self.text, MAX_TERMS - MAX_NAME_TERMS));
        terms
    }
}

/// The passages of an exchange, one message at a time, so that a caller can pause in between.
#[derive(Debug)]
pub(crate) struct Passages<'a> {
    messages: &'a [Message],
    next: u32,
    /// The number of passages that the exchange may still have.
    left: usize,
}

impl<'a> Passages<'a> {
    /// Begins with the first message.
    pub(crate) fn of(exchange: &'a Exchange) -> Self {
        Self { messages: &exchange.messages, next: 0, left: Passage::MAX_OF_EXCHANGE }
    }
}

impl Iterator for Passages<'_> {
    /// The passages of the next message.
    type Item = Vec<Passage>;

    fn next(&mut self) -> Option<Vec<Passage>> {
        let (message, rest) = self.messages.split_first().filter(|_| self.left > 0)?;
        let index = self.next;
        (self.messages, self.next) = (rest, index.saturating_add(1));
        let mut texts = texts_of(message, self.left);
        texts.truncate(self.left);
        self.left -= texts.len();
        Some(texts.into_iter().map(|text| Passage { message: index, text }).collect())
    }
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passage").field("message", &self.message).field("bytes", &self.text.len()).finish()
    }
}

/// Returns the texts of a message's passages. Calls after the first `limit` passages are not read.
fn texts_of(message: &Message, limit: usize) -> Vec<String> {
    if !is_recallable(message) {
        return Vec::new();
    }
    let text = text_of(message);
    let mut texts = Vec::new();
    if is_result(message) {
        split_ends(&text, MAX_OF_RESULT, without_escapes, &mut texts);
    } else {
        split_ends(&text, MAX_OF_TEXT, as_it_is, &mut texts);
    }
    for call in message.tool_calls() {
        if texts.len() >= limit {
            break;
        }
        let (from, arguments) = (texts.len(), call.arguments());
        split_ends(arguments, MAX_OF_RESULT, without_escapes, &mut texts);
        match texts.get_mut(from) {
            Some(first) => *first = format!("{} {first}", call.name()),
            None => texts.push(call.name().to_owned()),
        }
    }
    if texts.is_empty() {
        texts.push(String::new());
    }
    texts
}

fn as_it_is(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// Adds at most `limit` passages of each end of a text. Reads a bounded part of it.
fn split_ends(text: &str, limit: usize, plain: fn(&str) -> Cow<'_, str>, texts: &mut Vec<String>) {
    let (head, tail) = ends(text, limit.saturating_mul(BYTES_OF_PASSAGE));
    let owned = |text: &str| -> Vec<String> {
        let plain = plain(text);
        split::passages(&plain).filter(|passage| !passage.trim().is_empty()).map(str::to_owned).collect()
    };
    let (mut first, mut last) = (owned(head), owned(tail));
    if tail.is_empty() {
        last = first.split_off(first.len().min(limit));
    }
    first.truncate(limit);
    texts.append(&mut first);
    let skipped = last.len().saturating_sub(limit);
    texts.extend(last.into_iter().skip(skipped));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::ExchangeId;

    use super::*;

    fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
        Exchange::new(ExchangeId::generate(), messages)
    }

    fn texts(message: Message) -> Vec<String> {
        Passage::of(&exchange([message])).into_iter().map(|passage| passage.text).collect()
    }

    #[test]
    fn calls_have_passages_of_their_own() {
        let json = r#"{"role":"assistant","content":"Let me look.","tool_calls":[
            {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"M\\u00fcnchen\"}"}},
            {"id":"b","type":"function","function":{"name":"time","arguments":""}}]}"#;
        let texts = texts(Message::from_json(json).unwrap());
        assert_eq!(texts, ["Let me look.", "weather {\"city\":\"München\"}", "time"]);
    }

    #[test]
    fn long_results_are_searched_at_both_ends() {
        let result: String = (0..20_000).map(|number| format!("row{number} ")).collect();
        let texts = texts(Message::tool("a", &result));
        assert_eq!(texts.len(), 8);
        assert!(texts[0].starts_with("row0 ") && texts[7].ends_with("row19999 "));
        let middle = super::texts_of(&Message::user("word ".repeat(1000)), usize::MAX);
        assert_eq!(middle.len(), 4, "shorter ones are whole");
    }

    #[test]
    fn an_exchange_has_a_bounded_number_of_passages() {
        let messages = (0..300).map(|number| Message::user(format!("message {number}")));
        let passages = Passage::of(&exchange(messages));
        assert_eq!(passages.len(), Passage::MAX_OF_EXCHANGE);
        assert_eq!(passages.last().map(|passage| passage.message), Some(127));
    }

    #[test]
    fn calls_after_the_last_passage_are_not_read() {
        let call = |number: usize| {
            let function = serde_json::json!({"name": format!("find{number}"), "arguments": "word ".repeat(2000)});
            serde_json::json!({"id": "a", "type": "function", "function": function})
        };
        let calls: Vec<serde_json::Value> = (0..200).map(call).collect();
        let json = serde_json::json!({"role": "assistant", "content": null, "tool_calls": calls}).to_string();
        let message = Message::from_json(json).unwrap();
        let (some, all) = (super::texts_of(&message, 10), super::texts_of(&message, usize::MAX));
        assert_eq!((some.len(), all.len()), (14, 1400), "a call has 7 passages");
        assert_eq!(some, all[..14]);
    }

    #[test]
    fn each_passage_has_the_name() {
        let message = Message::user("word ".repeat(500)).with_field("name", "\"Caroline\"").unwrap();
        let (exchange, analyzer) = (exchange([Message::system("rules"), message]), Analyzer::default());
        let passages = Passage::of(&exchange);
        assert_eq!(passages.iter().map(|passage| passage.message).collect::<Vec<_>>(), [1, 1]);
        let name = analyzer.terms("Caroline")[0];
        assert!(passages.iter().all(|passage| passage.terms(&exchange, &analyzer)[0] == name));
    }

    proptest! {
        #[test]
        fn a_message_has_bounded_passages(word in "\\PC{0,12}", times in 0_usize..3000, tool in any::<bool>()) {
            let text = word.repeat(times);
            let message = if tool { Message::tool("a", &text) } else { Message::user(&text) };
            let recallable = is_recallable(&message);
            let texts = texts(message);
            prop_assert_eq!(recallable, !texts.is_empty());
            let most = 2 * if tool { MAX_OF_RESULT } else { MAX_OF_TEXT };
            prop_assert!(texts.len() <= most);
        }
    }
}
