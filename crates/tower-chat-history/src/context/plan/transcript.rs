//! The check of transcripts, which callers resend.

use tower_chat_history_core::{Dialect, Exchange, Message, Recorded, Seq};

use super::{
    TranscriptError,
    same_message::{is_blank, is_same, is_silent},
    same_said::match_said,
};

/// The largest number of alternatives that are followed at the same time when a list is matched with a log. With this
/// limit, the work grows linearly with the log and not with its square.
const MAX_ALTERNATIVES: usize = 32;

/// Checks that a transcript is the end of the log, as far as the log is loaded.
///
/// Messages are compared by speaker, text, calls and results, not by bytes, because clients drop fields that their
/// types do not know, trim texts, and write arguments of calls in their own spelling. Of other parts, such as
/// reasoning, only the kinds are compared, and only in elements that have nothing else. The transcript may lack such an
/// element of a reply, because clients drop what they do not know. The log may not lack it, because the prompt would
/// lack it, too. Blank elements are skipped on both sides. A transcript may be longer than the loaded part if the log
/// has earlier exchanges. An empty transcript always agrees.
///
/// The exchanges are compared as they are stored. Of an exchange in another dialect, only what is said is compared: the
/// caller has chosen the ids of its calls, and which texts are one message.
///
/// A transcript may lack exchanges that the caller possibly does not know: those whose reply broke off, and those with
/// only tool results, which were stored without a model call.
pub fn check(transcript: &[Message], loaded: Option<&[Recorded]>) -> Result<(), TranscriptError> {
    let Some(first) = transcript.iter().position(|message| !is_blank(message)) else { return Ok(()) };
    // As long as a message is left, one is left that is not blank: the first.
    let messages = &transcript[first..];
    // The alternatives. Each is the number of the caller's messages that are not matched yet. Each exchange that the
    // caller may lack adds one alternative.
    let mut left = vec![messages.len()];
    let mut mismatch: Option<TranscriptError> = None;
    let dialect = messages.iter().find_map(Message::dialect).map(Dialect::name);
    for Recorded { seq, exchange, .. } in loaded.into_iter().flatten().rev() {
        let is_other = dialect.is_some_and(|name| name != exchange.dialect.as_str());
        let mut next = Vec::with_capacity(left.len() + 1);
        for end in left {
            if may_be_unknown(exchange) {
                next.push(end);
            }
            let messages = &messages[..end];
            let matched =
                if is_other { match_said(messages, exchange) } else { match_exchange(messages, &exchange.messages) };
            match matched {
                Ok(0) => return Ok(()),
                Ok(rest) => next.push(rest),
                Err(position) => {
                    let position = first + position;
                    if mismatch.is_none_or(|mismatch| position <= mismatch.position) {
                        mismatch = Some(TranscriptError { position, seq: Some(*seq) });
                    }
                }
            }
        }
        if next.len() > 1 {
            // Alternatives that differ only in blank messages are the same.
            next.iter_mut().for_each(|end| *end = without_blank_end(&messages[..*end]));
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
    let position = first + without_blank_end(&messages[..*rest]).saturating_sub(1);
    let before = TranscriptError { position, seq: None };
    Err(mismatch.filter(|mismatch| mismatch.position < before.position).unwrap_or(before))
}

/// Matches the end of the messages with those of an exchange. Returns the number of messages before it, or the position
/// of the last message that differs.
///
/// Nearly all messages are equal to the logged ones. They are compared byte by byte, and only the parts of others are
/// read.
fn match_exchange(mut messages: &[Message], mut logged: &[Message]) -> Result<usize, usize> {
    while let ([earlier @ .., message], [earlier_logged @ .., last]) = (messages, logged) {
        if message == last {
            (messages, logged) = (earlier, earlier_logged);
        } else if is_blank(message) {
            messages = earlier;
        } else if is_same(message, last) {
            (messages, logged) = (earlier, earlier_logged);
        } else if is_silent(last) {
            logged = earlier_logged;
        } else {
            return Err(earlier.len());
        }
    }
    Ok(messages.len())
}

/// Returns the number of messages without the blank ones at the end.
fn without_blank_end(messages: &[Message]) -> usize {
    messages.iter().rposition(|message| !is_blank(message)).map_or(0, |last| last + 1)
}

/// Returns `true` if the caller may not know the exchange.
fn may_be_unknown(exchange: &Exchange) -> bool {
    exchange.incomplete || exchange.messages.iter().all(Message::is_tool_result)
}

/// Returns `true` if the log has exchanges before those that were loaded, or had them before it was pruned.
fn has_earlier_exchanges(loaded: &[Recorded]) -> bool {
    loaded.first().is_some_and(|first| first.seq > Seq::FIRST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_providers::signing::SigningDialect;
    use tower_chat_history_core::{AnthropicMessages, ExchangeId, OpenAiResponses};

    use super::*;
    use crate::context::view::tests::calls;

    fn log(first: u64, exchanges: &[&[Message]]) -> Vec<Recorded> {
        let recorded = (first..).zip(exchanges).map(|(seq, messages)| {
            Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages.to_vec()))
        });
        recorded.collect()
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

    #[test]
    fn arguments_in_another_spelling_are_the_same() {
        let message = |json: &str| Message::in_dialect(&AnthropicMessages, json).unwrap();
        let call = |input: &str| {
            let call = format!(r#"{{"type":"tool_use","id":"x","name":"f","input":{input}}}"#);
            message(&format!(r#"{{"role":"assistant","content":[{call}]}}"#))
        };
        let user = || message(r#"{"role":"user","content":"u"}"#);
        let log = log(0, &[&[user(), call(r#"{"location": "SF"}"#)]]);
        assert_eq!(check(&[user(), call(r#"{"location":"SF"}"#)], Some(&log)), Ok(()));
        let error = TranscriptError { position: 1, seq: Some(Seq::FIRST) };
        assert_eq!(check(&[user(), call(r#"{"location":"LA"}"#)], Some(&log)), Err(error));
    }

    fn element(json: &str) -> Message {
        Message::in_dialect(&SigningDialect, json).unwrap()
    }

    /// A turn with reasoning, calls of one id in two spaces, and a reply of two elements.
    fn signed_turn() -> [Vec<Message>; 2] {
        let asked = [
            r#"{"from":"user","text":"Which is warmer?"}"#,
            r#"{"from":"model","thinking":"hm","signature":"00"}"#,
            r#"{"from":"model","call":{"id":"x","kind":"f","name":"weather","input":"Oslo"}}"#,
            r#"{"from":"model","call":{"id":"x","kind":"g","name":"weather","input":"Rome"}}"#,
        ];
        let answered = [
            r#"{"from":"user","results":[{"to":"x","kind":"f","text":"-3"},{"to":"x","kind":"g","text":"20"}]}"#,
            r#"{"from":"model","sealed":"00","by":"one"}"#,
            r#"{"from":"model","thinking":"hm","signature":"00","text":"Rome."}"#,
            r#"{"from":"model","text":"By far."}"#,
        ];
        [asked.map(element).to_vec(), answered.map(element).to_vec()]
    }

    #[test]
    fn other_dialects_are_compared_by_their_parts_without_reasoning() {
        let [asked, answered] = signed_turn();
        let log = log(0, &[&asked, &answered]);
        let all = [asked, answered].concat();
        assert_eq!(check(&all, Some(&log)), Ok(()));
        let unbound: Vec<Message> = all.iter().filter_map(|message| message.unbound().cloned()).collect();
        assert_eq!(unbound.len(), 6);
        assert_eq!(check(&unbound, Some(&log)), Ok(()));
        let marked = |at: usize, json: &str| {
            let mut marked = unbound.clone();
            marked[at] = element(json);
            check(&marked, Some(&log))
        };
        assert_eq!(marked(5, r#"{"from":"model","mark":1,"text":" By far.\n"}"#), Ok(()));
        for (at, seq, json) in [
            (5, 1, r#"{"from":"model","text":"Not by far."}"#),
            (5, 1, r#"{"from":"user","text":"By far."}"#),
            (
                3,
                1,
                r#"{"from":"user","results":[{"to":"x","kind":"f","text":"20"},{"to":"x","kind":"g","text":"-3"}]}"#,
            ),
            (
                3,
                1,
                r#"{"from":"user","results":[{"to":"x","kind":"f","text":"-32"},{"to":"x","kind":"g","text":"0"}]}"#,
            ),
            (
                3,
                1,
                r#"{"from":"user","results":[{"to":"x","kind":"g","text":"-3"},{"to":"x","kind":"f","text":"20"}]}"#,
            ),
            (2, 0, r#"{"from":"model","call":{"id":"x","kind":"f","name":"weather","input":"Rome"}}"#),
            (0, 0, r#"{"from":"user","text":"Which is colder?"}"#),
        ] {
            let error = TranscriptError { position: at, seq: Some(Seq::new(seq)) };
            assert_eq!(marked(at, json), Err(error), "{json}");
        }
    }

    #[test]
    fn a_transcript_may_lack_silent_elements_and_have_blank_ones() {
        let silent = |data: &str| element(&format!(r#"{{"from":"model","sealed":"{data}","by":"one"}}"#));
        let said = |text: &str| element(&format!(r#"{{"from":"model","text":"{text}"}}"#));
        let asked = |text: &str| element(&format!(r#"{{"from":"user","text":"{text}"}}"#));
        let first = [asked("1"), silent("00"), said("a"), silent("11")];
        let second = [asked("2"), silent("22"), silent("00"), said("b")];
        let log = log(0, &[&first, &second]);
        for transcript in [
            vec![said(" "), asked("1"), said("a"), said(""), asked("2"), said("b"), said(" ")],
            vec![asked("1"), silent("11"), said("a"), asked("2"), silent("00"), said("b")],
            vec![silent("11"), asked("2"), silent("22"), said("b")],
            vec![said(" ")],
        ] {
            assert_eq!(check(&transcript, Some(&log)), Ok(()), "{transcript:?}");
        }
        for (at, seq, transcript) in [
            (2, 0, vec![asked("1"), said("c"), silent("11"), silent("00"), asked("2"), said("b")]),
            (3, 1, vec![asked("1"), said("a"), said("b"), silent("33")]),
            (0, 1, vec![silent("33"), silent("22"), silent("00"), said("b")]),
        ] {
            let error = TranscriptError { position: at, seq: Some(Seq::new(seq)) };
            assert_eq!(check(&transcript, Some(&log)), Err(error), "{transcript:?}");
        }
        let absent = TranscriptError { position: 0, seq: None };
        assert_eq!(check(&[silent("33")], None), Err(absent), "the model would not get it");
    }

    #[test]
    fn a_compaction_that_the_log_lacks_is_an_error() {
        let item = |json: &str| Message::in_dialect(&OpenAiResponses, json).unwrap();
        let compaction = || item(r#"{"type":"compaction","encrypted_content":"c"}"#);
        let reasoning = || item(r#"{"type":"reasoning","id":"r","summary":[],"encrypted_content":"e"}"#);
        let [user, said] = [r#"{"role":"user","content":"u"}"#, r#"{"role":"assistant","content":"a"}"#].map(item);
        let log = log(0, &[&[user.clone(), reasoning(), said.clone()]]);
        let error = |position, seq| Err(TranscriptError { position, seq });
        assert_eq!(check(&[compaction()], None), error(0, None));
        assert_eq!(check(&[compaction()], Some(&log)), error(0, Some(Seq::FIRST)));
        assert_eq!(check(&[user.clone(), compaction(), said.clone()], Some(&log)), error(1, Some(Seq::FIRST)));
        assert_eq!(check(&[user, said], Some(&log)), Ok(()));
    }

    #[test]
    fn positions_of_errors_count_the_elements_that_are_skipped() {
        let [asked, answered] = signed_turn();
        let log = log(0, &[&asked, &answered]);
        let mut edited = [asked, answered].concat();
        edited[7] = element(r#"{"from":"model","text":"Other."}"#);
        assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 7, seq: Some(Seq::new(1)) }));
        let longer =
            [element(r#"{"from":"user","text":"Hi"}"#), element(r#"{"from":"model","sealed":"00","by":"one"}"#)];
        let [asked, answered] = signed_turn();
        let longer = [longer.to_vec(), asked, answered].concat();
        assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
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
            list.drain(..from.index(list.len() + 1));
            prop_assert_eq!(check(&list, Some(&logged)), Ok(()));
            if let Some(other) = other.filter(|_| !list.is_empty()) {
                let at = other.index(list.len());
                list[at] = Message::assistant("another");
                prop_assert!(check(&list, Some(&logged)).is_err());
            }
        }
    }
}
