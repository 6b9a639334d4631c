//! Passages: the documents of a search, and the texts of messages.

use std::{borrow::Cow, fmt};

use tower_chat_history_core::{Exchange, Message, Part, Role};

use super::analyzer::{Analyzer, Term, is_unspaced};

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
pub(crate) struct Passage {
    /// The message, by its place in its exchange.
    pub(crate) message: u32,
    /// The text.
    pub(crate) text: String,
}

impl Passage {
    /// The most passages of an exchange.
    pub(crate) const MAX_OF_EXCHANGE: usize = 128;

    /// Returns the passages of an exchange, in order: the first [128](Self::MAX_OF_EXCHANGE).
    pub(crate) fn of(exchange: &Exchange) -> Vec<Self> {
        Passages::of(exchange).flatten().collect()
    }

    /// Returns the terms of the passage and of its speaker's name. `exchange` is the one the passage is
    /// [of](Self::of).
    pub(crate) fn terms(&self, exchange: &Exchange, analyzer: &Analyzer) -> Vec<Term> {
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
        if self.left == 0 {
            return None;
        }
        let (message, rest) = self.messages.split_first()?;
        let index = self.next;
        self.messages = rest;
        self.next = index.saturating_add(1);

        let mut texts = texts_of(message, self.left);
        texts.truncate(self.left);
        self.left -= texts.len();
        Some(texts.into_iter().map(|text| Passage { message: index, text }).collect())
    }
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let from = texts.len();
        split_ends(call.arguments(), MAX_OF_RESULT, without_escapes, &mut texts);
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
    let mut first = split_text(&plain(head));
    let mut last = split_text(&plain(tail));
    if tail.is_empty() {
        last = first.split_off(first.len().min(limit));
    }

    first.truncate(limit);
    texts.append(&mut first);

    let skipped = last.len().saturating_sub(limit);
    texts.extend(last.into_iter().skip(skipped));
}

/// Returns the passages of a text that have more than white space.
fn split_text(text: &str) -> Vec<String> {
    passages(text).filter(|passage| !passage.trim().is_empty()).map(str::to_owned).collect()
}

/// The words of a passage. About half of them are stop words, so about 160 terms are left.
const WORDS: usize = 300;
/// A passage ends at a sentence if it has at least this many words by then.
const SENTENCE: usize = WORDS / 2;
/// This many characters count as a word, so that text without spaces is split too.
const WORD_CHARS: usize = 16;

/// Splits a text into passages of at most 300 words, at the end of a sentence if there is one in the second half,
/// else between words. Passages join to the text.
fn passages(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (passage, after) = rest.split_at(first_end(rest));
        rest = after;
        Some(passage)
    })
}

/// Returns the end of the first passage. It is not 0 unless the text is empty.
fn first_end(text: &str) -> usize {
    let mut words = 0;
    let mut word_chars = 0;
    let mut sentence = None;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let space = c.is_whitespace();
        let starts = !space && (previous.is_whitespace() || is_unspaced(c));
        if words >= SENTENCE && ends_sentence(previous) && (space || is_unspaced(c)) {
            sentence = Some(at);
        }

        word_chars = if starts || space { 0 } else { word_chars + 1 };
        if starts || word_chars == WORD_CHARS {
            if words == WORDS {
                return sentence.unwrap_or(at);
            }
            words += 1;
            word_chars = 0;
        }
        previous = c;
    }
    text.len()
}

const fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '\n' | '…' | '。' | '！' | '？' | '।' | '؟')
}

/// Returns `true` if a message can be found and shown again: it is not an instruction, and it has text or calls.
#[must_use]
pub fn is_recallable(message: &Message) -> bool {
    !message.is_instruction()
        && (!message.tool_calls().is_empty() || message.texts().iter().any(|text| !text.trim().is_empty()))
}

/// Returns `true` for the results of tools.
fn is_result(message: &Message) -> bool {
    matches!(message.role(), Role::Tool | Role::Function)
}

/// Returns the text of a message, with those of its results. Its parts are separated by line feeds.
pub(crate) fn text_of(message: &Message) -> String {
    message.texts().join("\n")
}

/// Returns the name of the participant.
pub(crate) fn name_of(message: &Message) -> Option<&str> {
    let mut found = None;
    message.parts(&mut |part| {
        if let Part::Name(name) = part {
            found = Some(name);
        }
    });
    found
}

/// Returns the text of a message that has one text and nothing else, apart from a name.
pub(crate) fn only_text_of(message: &Message) -> Option<Cow<'_, str>> {
    let mut only = None;
    let mut has_more = false;
    message.parts(&mut |part| match part {
        Part::Text(text) | Part::Result { text, .. } if only.is_none() => only = Some(text),
        Part::Name(_) => {}
        _ => has_more = true,
    });
    only.filter(|_| !has_more)
}

/// Returns a text without the escapes of JSON strings, because arguments and results are often JSON: `\u00e4` becomes
/// its character, all other escapes become spaces. It reads any text, JSON or not.
fn without_escapes(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('\\') else { return Cow::Borrowed(text) };
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut next = Some(first);
    while let Some(at) = next {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let units = escaped_units(rest);
        if units.is_empty() {
            plain.push(' ');
            // The backslash and the character after it.
            rest = rest.char_indices().nth(2).map_or("", |(end, _)| &rest[end..]);
        } else {
            plain.extend(char::decode_utf16(units.iter().copied()).map(|c| c.unwrap_or(' ')));
            rest = &rest[units.len() * 6..];
        }
        next = rest.find('\\');
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the code units of the escapes `\uXXXX` that the text begins with, at most 64.
fn escaped_units(text: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut rest = text;
    while units.len() < 64
        && let Some((escape, after)) = rest.split_at_checked(6)
        && let Some(digits) = escape.strip_prefix("\\u")
        && let Ok(unit) = u16::from_str_radix(digits, 16)
    {
        units.push(unit);
        rest = after;
    }
    units
}

/// Returns the beginning and the end of a text, each of at most this many bytes. The end is empty if the beginning is
/// all of it.
pub(crate) fn ends(text: &str, bytes: usize) -> (&str, &str) {
    if text.len() <= bytes.saturating_mul(2) {
        return (text, "");
    }

    let mut head = bytes;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - bytes;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    (&text[..head], &text[tail..])
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
        let some = super::texts_of(&message, 10);
        let all = super::texts_of(&message, usize::MAX);
        assert_eq!((some.len(), all.len()), (14, 1400), "a call has 7 passages");
        assert_eq!(some, all[..14]);
    }

    #[test]
    fn each_passage_has_the_name() {
        let message = Message::user("word ".repeat(500)).with_field("name", "\"Caroline\"").unwrap();
        let exchange = exchange([Message::system("rules"), message]);
        let analyzer = Analyzer::default();
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

    #[test]
    fn passages_end_at_sentences() {
        let text = format!("{}end. {}", "word ".repeat(199), "more ".repeat(250));
        let lens: Vec<usize> = passages(&text).map(|passage| passage.split_whitespace().count()).collect();
        assert_eq!(lens, [200, 250]);
        let lens: Vec<usize> = passages(&"word ".repeat(650)).map(|p| p.split_whitespace().count()).collect();
        assert_eq!(lens, [300, 300, 50]);
    }

    #[test]
    fn text_without_spaces_is_split() {
        assert_eq!(passages(&"x".repeat(100_000)).map(str::len).max(), Some(WORDS * WORD_CHARS));
        assert_eq!(passages(&"天".repeat(1000)).map(|passage| passage.chars().count()).max(), Some(300));
    }

    proptest! {
        #[test]
        fn passages_join_to_the_text(pieces in prop::collection::vec("(\\PC{0,9}|[a-z]{1,9}|[.!?] |天{1,40})", 0..900)) {
            let text = pieces.join(" ");
            let split: Vec<&str> = passages(&text).collect();
            prop_assert_eq!(&split.concat(), &text);
            for passage in split {
                prop_assert!(!passage.is_empty());
                prop_assert!(passage.chars().count() <= (WORDS + 1) * WORD_CHARS * 2, "{}", passage.chars().count());
            }
        }
    }

    #[test]
    fn escapes_become_characters_or_spaces() {
        for (text, plain) in [
            (r#"{"a":"M\u00fcnchen\nnow"}"#, r#"{"a":"München now"}"#),
            (r"\ud83d\ude00 \ud83d x", "\u{1F600}   x"),
            (r"C:\temp\", "C: emp "),
            ("plain", "plain"),
            (r"\u12", " 12"),
        ] {
            assert_eq!(without_escapes(text), plain);
        }
    }

    #[test]
    fn instructions_and_empty_messages_are_not_recalled() {
        assert!(is_recallable(&Message::user("x")));
        for message in [Message::system("x"), Message::developer("x"), Message::assistant(" \n")] {
            assert!(!is_recallable(&message));
        }
    }

    proptest! {
        #[test]
        fn any_text_loses_its_escapes(text in "[\\\\u0-9a-fdé\"]{0,60}") {
            prop_assert!(!without_escapes(&text).contains('\\') || text.contains("\\u005c"));
        }

        #[test]
        fn ends_are_of_the_text(text in "\\PC{0,60}", bytes in 0_usize..80) {
            let (head, tail) = ends(&text, bytes);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= text.len());
        }
    }
}
