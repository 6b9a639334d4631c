//! The check of transcripts, which callers resend.

use std::borrow::Cow;

use tower_chat_history_core::{Exchange, Message, Recorded, Seq, Window};

use super::TranscriptError;

/// The largest number of alternatives that are followed at the same time when a list is matched with a log. With this
/// limit, the work grows linearly with the log and not with its square.
const MAX_ALTERNATIVES: usize = 32;

/// Checks that a transcript is the end of the log, as far as the log is loaded.
///
/// Messages are compared by role, text and calls, not by bytes, because clients drop fields that their types do not
/// know, and trim texts. A transcript may be longer than the loaded part if the log has earlier exchanges. An empty
/// transcript always agrees.
///
/// A transcript may lack exchanges that the caller possibly does not know: those whose reply broke off, and those with
/// only tool results, which were stored without a model call.
pub fn check(transcript: &[Message], loaded: Option<&Window>) -> Result<(), TranscriptError> {
    // The alternatives. Each is the number of the caller's messages that are not matched yet. Each exchange that the
    // caller may lack adds one alternative.
    let mut left = vec![transcript.len()];
    let mut mismatch: Option<TranscriptError> = None;
    if transcript.is_empty() {
        return Ok(());
    }
    for Recorded { seq, exchange, .. } in loaded.into_iter().flat_map(|window| window.exchanges.iter().rev()) {
        let mut next = Vec::with_capacity(left.len() + 1);
        for end in left {
            if may_be_unknown(exchange) {
                next.push(end);
            }
            match match_exchange(&transcript[..end], exchange) {
                Ok(0) => return Ok(()),
                Ok(rest) => next.push(rest),
                Err(position) => {
                    if mismatch.is_none_or(|mismatch| position <= mismatch.position) {
                        mismatch = Some(TranscriptError { position, seq: Some(*seq) });
                    }
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.len() > MAX_ALTERNATIVES {
            // The middle is dropped: a caller has either all of these exchanges or none.
            next.drain(MAX_ALTERNATIVES / 2..next.len() - MAX_ALTERNATIVES / 2);
        }
        left = next;
    }
    let Some(rest) = left.first() else { return mismatch.map_or(Ok(()), Err) };
    if loaded.is_some_and(has_earlier_exchanges) {
        return Ok(());
    }
    let before = TranscriptError { position: rest.saturating_sub(1), seq: None };
    Err(mismatch.filter(|mismatch| mismatch.position < before.position).unwrap_or(before))
}

/// Matches the end of the messages with an exchange. Returns the number of messages before it, or the position of the
/// last message that differs.
fn match_exchange(messages: &[Message], exchange: &Exchange) -> Result<usize, usize> {
    let pairs = messages.iter().enumerate().rev().zip(exchange.messages.iter().rev());
    for ((position, message), logged) in pairs {
        if !is_same(message, logged) {
            return Err(position);
        }
    }
    Ok(messages.len().saturating_sub(exchange.messages.len()))
}

/// Returns `true` if the caller may not know the exchange.
fn may_be_unknown(exchange: &Exchange) -> bool {
    exchange.incomplete || exchange.messages.iter().all(Message::is_tool_result)
}

/// Returns `true` if the log has exchanges before those that were loaded, or had them before it was pruned.
fn has_earlier_exchanges(window: &Window) -> bool {
    window.exchanges.first().is_some_and(|first| first.seq > Seq::FIRST)
}

/// Returns `true` if two messages have the same role, text and calls.
fn is_same(one: &Message, other: &Message) -> bool {
    one == other
        || one.role() == other.role()
            && one.answers() == other.answers()
            && one.tool_calls() == other.tool_calls()
            && has_same_text(one, other)
}

/// Returns `true` if two messages have the same text, apart from white space around it or around its parts.
fn has_same_text(one: &Message, other: &Message) -> bool {
    let (ones, others) = (one.texts(), other.texts());
    let trimmed = |texts: &[Cow<'_, str>]| {
        texts.iter().map(|text| trim(text).to_owned()).filter(|text| !text.is_empty()).collect()
    };
    let whole = |texts: &[Cow<'_, str>]| trim(&texts.concat()).to_owned();
    let (a, b): (Vec<String>, Vec<String>) = (trimmed(&ones), trimmed(&others));
    a == b || whole(&ones) == whole(&others)
}

/// Returns the text without the characters that the `trim` function of any language removes.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{1c}'..='\u{1f}'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{ExchangeId, Incarnation, Revision};

    use super::*;
    use crate::view::tests::calls;

    fn log(first: u64, exchanges: &[&[Message]]) -> Window {
        let recorded = (first..).zip(exchanges).map(|(seq, messages)| {
            Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages.to_vec()))
        });
        Window::new(Revision::new(Incarnation::random(), 1), None, recorded.collect(), first > 0)
    }

    fn turn(number: u64) -> [Message; 2] {
        [Message::user(format!("u{number}")), Message::assistant(format!("a{number}"))]
    }

    #[test]
    fn a_transcript_is_the_end_of_the_log() {
        let log = log(0, &[&turn(0), &turn(1)]);
        assert_eq!(check(&[turn(0), turn(1)].concat(), Some(&log)), Ok(()));
        assert_eq!(check(&turn(1), Some(&log)), Ok(()), "earlier messages may be left out");
        assert_eq!(check(&[], Some(&log)), Ok(()));
        assert_eq!(check(&[], None), Ok(()));
    }

    #[test]
    fn the_error_has_the_position_that_differs() {
        let log = log(0, &[&turn(0), &turn(1)]);
        let mut edited = [turn(0), turn(1)].concat();
        edited[1] = Message::assistant("other");
        assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 1, seq: Some(Seq::FIRST) }));
        let longer = [turn(9), turn(0), turn(1)].concat();
        assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
        assert_eq!(check(&turn(0), None), Err(TranscriptError { position: 1, seq: None }), "there is no log yet");
    }

    #[test]
    fn only_loaded_exchanges_are_compared() {
        let log = log(5, &[&turn(5)]);
        assert_eq!(check(&[turn(4), turn(5)].concat(), Some(&log)), Ok(()));
    }

    #[test]
    fn unknown_fields_are_ignored_and_calls_are_compared() {
        let full = Message::from_json(r#"{"content":"a0","role":"assistant","reasoning_content":"r"}"#).unwrap();
        let logged = log(0, &[&[Message::user("u0"), full], &[Message::user("u1"), calls(&["x"])]]);
        assert_eq!(
            check(&[turn(0).to_vec(), vec![Message::user("u1"), calls(&["x"])]].concat(), Some(&logged)),
            Ok(())
        );
        assert_eq!(
            check(&[Message::user("u1"), calls(&["y"])], Some(&logged)),
            Err(TranscriptError { position: 1, seq: Some(Seq::new(1)) })
        );
    }

    #[test]
    fn white_space_around_texts_and_parts_is_ignored() {
        let parts = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)).collect();
            Message::from_json(format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(","))).unwrap()
        };
        let same = |one: &Message, other: &Message| is_same(one, other) && is_same(other, one);
        assert!(same(&Message::assistant(" a b\n\n"), &Message::assistant("a b")));
        assert!(same(&Message::tool("x", "r\n"), &Message::tool("x", "r")));
        assert!(same(&parts(&[" a ", "b "]), &parts(&["a", "b"])));
        assert!(same(&parts(&[" a ", "b "]), &Message::user("a b")));
        assert!(same(&Message::user("\u{feff}a\u{a0}"), &Message::user("a")));
        assert!(!same(&Message::assistant("a  b"), &Message::assistant("a b")), "white space within a text counts");
        assert!(!same(&parts(&["a", "b"]), &parts(&["a", "c"])));
    }

    proptest! {
        /// In these conversations, replies break off and results are stored one by one. A caller's list agrees with or
        /// without such exchanges. It does not agree if one text differs.
        #[test]
        fn a_list_agrees_with_or_without_the_exchanges_that_the_caller_may_not_know(
            exchanges in prop::collection::vec((0usize..3, any::<bool>()), 1..8),
            other in prop::option::of(any::<prop::sample::Index>()),
            from in any::<prop::sample::Index>(),
        ) {
            let (mut logged, mut list) = (vec![], vec![]);
            for (at, (kind, has)) in exchanges.into_iter().enumerate() {
                // All attempts have the same texts, as repeated calls do.
                let mut exchange = match kind {
                    0 => Exchange::new(ExchangeId::generate(), [Message::tool("x", "r")]),
                    1 => Exchange::new(ExchangeId::generate(), turn(0)),
                    _ => Exchange::new(ExchangeId::generate(), turn(at as u64)),
                };
                exchange.incomplete = kind == 1;
                if has || kind == 2 {
                    list.extend(exchange.messages.clone());
                }
                logged.push(Recorded::new(Seq::new(at as u64), exchange));
            }
            let window = Window::new(Revision::new(Incarnation::random(), 1), None, logged, false);
            list.drain(..from.index(list.len() + 1));
            prop_assert_eq!(check(&list, Some(&window)), Ok(()));
            if let Some(other) = other.filter(|_| !list.is_empty()) {
                let at = other.index(list.len());
                list[at] = Message::assistant("another");
                prop_assert!(check(&list, Some(&window)).is_err());
            }
        }
    }
}
