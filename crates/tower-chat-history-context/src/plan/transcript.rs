//! Callers that resend what they have.

use std::borrow::Cow;

use tower_chat_history_core::{Exchange, Message, Recorded, Seq, Window};

use super::TranscriptError;

/// How many ways of matching a list with a log are followed at once, so that the work grows with the log and not with its square.
const MAX_ALTERNATIVES: usize = 32;

/// Checks that a transcript is the end of the log, as far as that is loaded.
///
/// Messages are compared by role, text and calls, and not by bytes: clients drop fields that their types do not know,
/// and trim texts. A transcript that is longer than what is loaded agrees if the log goes on before that; an empty one
/// always agrees.
///
/// A caller need not have what it may not know of: an exchange whose reply broke off, and results that were stored
/// without a call.
pub fn check(transcript: &[Message], loaded: Option<&Window>) -> Result<(), TranscriptError> {
    // How many of the caller's messages stand before those that were found: one number, and one more for each exchange
    // that the caller may or may not have.
    let mut left = vec![transcript.len()];
    let mut parted: Option<TranscriptError> = None;
    if transcript.is_empty() {
        return Ok(());
    }
    for Recorded { seq, exchange, .. } in loaded.into_iter().flat_map(|window| window.exchanges.iter().rev()) {
        let mut next = Vec::with_capacity(left.len() + 1);
        for end in left {
            if may_be_unknown(exchange) {
                next.push(end);
            }
            match without(&transcript[..end], exchange) {
                Ok(0) => return Ok(()),
                Ok(rest) => next.push(rest),
                Err(position) => {
                    if parted.is_none_or(|parted| position <= parted.position) {
                        parted = Some(TranscriptError { position, seq: Some(*seq) });
                    }
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.len() > MAX_ALTERNATIVES {
            // A caller has all of these exchanges, or none.
            next.drain(MAX_ALTERNATIVES / 2..next.len() - MAX_ALTERNATIVES / 2);
        }
        left = next;
    }
    let Some(rest) = left.first() else { return parted.map_or(Ok(()), Err) };
    if loaded.is_some_and(goes_on_before) {
        return Ok(());
    }
    let before = TranscriptError { position: rest.saturating_sub(1), seq: None };
    Err(parted.filter(|parted| parted.position < before.position).unwrap_or(before))
}

/// How many of the messages stand before those of the exchange, or the position of the last one that is another.
fn without(messages: &[Message], exchange: &Exchange) -> Result<usize, usize> {
    let pairs = messages.iter().enumerate().rev().zip(exchange.messages.iter().rev());
    for ((position, message), logged) in pairs {
        if !says_the_same(message, logged) {
            return Err(position);
        }
    }
    Ok(messages.len().saturating_sub(exchange.messages.len()))
}

fn may_be_unknown(exchange: &Exchange) -> bool {
    exchange.incomplete || exchange.messages.iter().all(Message::is_tool_result)
}

/// Returns whether the log has exchanges before those that were loaded, or had them before it was pruned.
fn goes_on_before(window: &Window) -> bool {
    window.exchanges.first().is_some_and(|first| first.seq > Seq::FIRST)
}

fn says_the_same(one: &Message, other: &Message) -> bool {
    one == other
        || one.role() == other.role()
            && one.tool_call_id() == other.tool_call_id()
            && one.tool_calls() == other.tool_calls()
            && has_same_text(one, other)
}

/// Returns whether two messages have the same text, apart from white space around it or around its parts.
fn has_same_text(one: &Message, other: &Message) -> bool {
    let (ones, others) = (one.texts(), other.texts());
    let said = |texts: &[Cow<'_, str>]| {
        texts.iter().map(|text| trim(text).to_owned()).filter(|text| !text.is_empty()).collect()
    };
    let whole = |texts: &[Cow<'_, str>]| trim(&texts.concat()).to_owned();
    let (a, b): (Vec<String>, Vec<String>) = (said(&ones), said(&others));
    a == b || whole(&ones) == whole(&others)
}

/// The text without what any language's `trim` takes off.
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
        assert_eq!(check(&turn(1), Some(&log)), Ok(()), "what came before may be left out");
        assert_eq!(check(&[], Some(&log)), Ok(()));
        assert_eq!(check(&[], None), Ok(()));
    }

    #[test]
    fn where_they_part_is_said() {
        let log = log(0, &[&turn(0), &turn(1)]);
        let mut edited = [turn(0), turn(1)].concat();
        edited[1] = Message::assistant("other");
        assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 1, seq: Some(Seq::FIRST) }));
        let longer = [turn(9), turn(0), turn(1)].concat();
        assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
        assert_eq!(check(&turn(0), None), Err(TranscriptError { position: 1, seq: None }), "there is no log yet");
    }

    #[test]
    fn only_what_is_loaded_is_compared() {
        let log = log(5, &[&turn(5)]);
        assert_eq!(check(&[turn(4), turn(5)].concat(), Some(&log)), Ok(()));
    }

    #[test]
    fn fields_that_a_client_drops_make_no_difference_and_calls_do() {
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
    fn white_space_around_texts_and_parts_makes_no_difference() {
        let parts = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)).collect();
            Message::from_json(format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(","))).unwrap()
        };
        let same = |one: &Message, other: &Message| says_the_same(one, other) && says_the_same(other, one);
        assert!(same(&Message::assistant(" a b\n\n"), &Message::assistant("a b")));
        assert!(same(&Message::tool("x", "r\n"), &Message::tool("x", "r")));
        assert!(same(&parts(&[" a ", "b "]), &parts(&["a", "b"])));
        assert!(same(&parts(&[" a ", "b "]), &Message::user("a b")));
        assert!(same(&Message::user("\u{feff}a\u{a0}"), &Message::user("a")));
        assert!(!same(&Message::assistant("a  b"), &Message::assistant("a b")), "within it is text");
        assert!(!same(&parts(&["a", "b"]), &parts(&["a", "c"])));
    }

    proptest! {
        /// Whatever list a caller keeps of a conversation in which replies break off and results are stored one by one,
        /// with or without those, it agrees; and with one other text it does not.
        #[test]
        fn a_list_agrees_with_or_without_what_the_caller_may_not_know_of(
            exchanges in prop::collection::vec((0usize..3, any::<bool>()), 1..8),
            other in prop::option::of(any::<prop::sample::Index>()),
            from in any::<prop::sample::Index>(),
        ) {
            let (mut logged, mut list) = (vec![], vec![]);
            for (at, (kind, has)) in exchanges.into_iter().enumerate() {
                // The texts of attempts are alike, as those of repeated calls are.
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
