//! Rules of changed elements.

use std::{borrow::Cow, collections::HashSet};

use tower_chat_history_core::{CallId, Message, Origin, Part, Role, json};

use super::{Samples, parts, said, texts};

/// Without some of its results, an element has the other ones, and everything else that it says. `None` is returned
/// only if nothing is left. All results can be given: the element then has all of them, unless its dialect has only
/// elements with one result and nothing else.
pub fn answering_keeps_the_given_results(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| !message.answers().is_empty()) {
        let json = message.json();
        let answers = message.answers();
        for kept in selections(answers) {
            let Some(changed) = samples.dialect.answering(message, &kept) else {
                let has_one = answers.len() == 1 && message.is_tool_result();
                let is_empty = kept.is_empty() && message.is_tool_result();
                assert!(is_empty || has_one, "{kept:?} are left: {json}");
                continue;
            };

            let left = samples.read(&changed);
            assert_eq!(left.answers(), kept, "{json}");
            assert_eq!(said(&left), said(message), "{json}");
            assert!(!left.is_blank(), "nothing is left: {json}");
            let role = if kept.is_empty() { &Role::User } else { message.role() };
            assert_eq!(left.role(), role, "{json}");
            if kept == answers {
                assert_eq!(parts(&left), parts(message), "{json}");
            }
            assert_eq!(samples.dialect.answering(message, &kept), Some(changed.clone()), "{json}");
            assert_eq!(samples.dialect.answering(&left, &kept), Some(changed), "{json}");
        }
    }
}

/// Returns all, none, and each half of the calls, and each one of them. At most eight are given alone.
fn selections(answers: &[CallId]) -> Vec<Vec<CallId>> {
    let (first, second) = answers.split_at(answers.len() / 2);
    let mut selections = vec![answers.to_vec(), Vec::new()];
    if answers.len() < 2 {
        return selections;
    }

    selections.push(first.to_vec());
    // Of several results of one call, the first ones are kept, so that the order of a later part can differ.
    if !second.iter().any(|call| first.contains(call)) {
        selections.push(second.to_vec());
    }
    selections.extend(answers.iter().take(8).map(|call| vec![call.clone()]));
    selections
}

/// A cleared result has the placeholder as its text. Everything else stays. Without a result to clear, `None` is
/// returned. A result without text may stay as it is, or get a smaller form without text.
pub fn cleared_results_have_the_placeholder(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        assert_eq!(samples.dialect.cleared(&message, &|_| false, "-"), None, "{json}");
        if message.answers().is_empty() {
            assert_eq!(samples.dialect.cleared(&message, &|_| true, "-"), None, "{json}");
        }
        let placeholders = ["-", "\"[cleared]\"\u{0}\u{1F600}", " "];
        for (call, placeholder) in message.answers().iter().zip(placeholders.into_iter().cycle()) {
            check_cleared(samples, &message, &|id| id == call, placeholder);
            check_cleared(samples, &message, &|id| id != call || message.answers().len() == 1, placeholder);
        }
    }
}

fn check_cleared(samples: &Samples, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) {
    let json = message.json();
    if !message.answers().iter().any(clears) {
        return;
    }
    let Some(changed) = samples.dialect.cleared(message, clears, placeholder) else {
        let is_text = message.answers().iter().filter(|call| clears(call)).any(|call| has_text(message, call));
        assert!(!is_text, "a result has text: {json}");
        return;
    };

    let cleared = samples.read(&changed);
    assert_eq!(cleared.answers(), message.answers(), "{json}");
    assert_eq!(cleared.role(), message.role(), "{json}");
    assert_eq!(said(&cleared), said(message), "{json}");
    assert_eq!(results(&cleared, &|call| !clears(call)), results(message, &|call| !clears(call)), "{json}");

    let mut expected = Vec::new();
    for call in message.answers().iter().filter(|call| clears(call)) {
        if has_text(message, call) || has_text(&cleared, call) {
            expected.push((call.clone(), placeholder.to_owned()));
        }
    }
    assert_eq!(results(&cleared, clears), expected, "{json}");
    assert_eq!(samples.dialect.cleared(&cleared, clears, placeholder), Some(changed), "{json}");
}

/// Returns `true` if the result of this call has text.
fn has_text(message: &Message, id: &CallId) -> bool {
    parts(message).iter().any(|part| matches!(part, Part::Result { call, .. } if *call == id))
}

/// Returns the texts of the results of these calls.
fn results(message: &Message, is_of: &dyn Fn(&CallId) -> bool) -> Vec<(CallId, String)> {
    let mut results = Vec::new();
    for part in parts(message) {
        if let Part::Result { call, text } = part
            && is_of(call)
        {
            results.push((call.clone(), text.into_owned()));
        }
    }
    results
}

/// Without what is bound, an element has the same calls, results and texts, and nothing that is bound. `None` is
/// returned only if nothing is left.
pub fn unbound_elements_keep_calls_results_and_texts(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.bound().can_be_removed()) {
        let json = message.json();
        let changed = samples.dialect.unbound(message);
        assert_eq!(samples.dialect.unbound(message), changed, "{json}");
        let Some(changed) = changed else {
            let is_empty = message.tool_calls().is_empty() && message.answers().is_empty();
            assert!(is_empty && texts(message).is_empty(), "something is left: {json}");
            continue;
        };

        let unbound = samples.read(&changed);
        assert!(!unbound.bound().can_be_removed(), "it is bound: {json}");
        assert!(!unbound.is_blank(), "nothing is left: {json}");
        same_sayings(&unbound, message);
        assert_eq!(unbound.unbound().map(Message::json), Some(unbound.json()), "{json}");
    }
}

/// Without what is bound to its prompt, an element has the same calls, results and texts, and nothing that is bound to
/// a prompt. It has everything that it also has without what is bound to its origin.
pub fn elements_unbound_from_their_prompt_keep_what_is_bound_to_their_origin(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.bound().to_prefix) {
        let json = message.json();
        let changed = samples.dialect.unbound_from_prompt(message);
        assert_eq!(samples.dialect.unbound_from_prompt(message), changed, "{json}");
        let without_all = samples.dialect.unbound(message);
        let restarts = message.index().restarts;
        let Some(changed) = changed else {
            assert!(!restarts, "it stands for everything before it: {json}");
            assert_eq!(without_all, None, "{json}");
            continue;
        };

        let unbound = samples.read(&changed);
        assert!(!unbound.bound().to_prefix, "it is bound to a prompt: {json}");
        assert_eq!(unbound.index().restarts, restarts, "{json}");
        assert!(!unbound.is_blank(), "nothing is left: {json}");
        same_sayings(&unbound, message);
        let left = unbound.unbound().map(|message| message.json().to_owned());
        assert_eq!(left, without_all, "{json}");
    }
}

/// Without some of its server calls and server results, an element has the other ones, and everything that it says.
/// `None` is returned only if nothing is left.
pub fn settled_elements_have_the_given_calls_and_results_of_the_server(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        let calls = &message.index().server_calls[..];
        let results = &message.index().server_results[..];
        if calls.is_empty() && results.is_empty() {
            continue;
        }

        for (calls, results) in [(calls, results), (calls, &[]), (&[], results), (&[], &[])] {
            let settled = samples.dialect.settled(&message, calls, results);
            assert_eq!(samples.dialect.settled(&message, calls, results), settled, "{json}");
            let Some(settled) = settled else {
                let is_empty = message.tool_calls().is_empty() && calls.is_empty() && results.is_empty();
                assert!(is_empty && texts(&message).is_empty(), "something is left: {json}");
                continue;
            };

            let left = samples.read(&settled);
            assert_eq!(&left.index().server_calls[..], calls, "{json}");
            assert_eq!(&left.index().server_results[..], results, "{json}");
            assert!(!left.is_blank(), "nothing is left: {json}");
            same_sayings(&left, &message);
        }
    }
}

/// In the form that providers accept, an element has the same calls, results and texts, and is not changed again. The
/// arguments of its calls may be an [object](tower_chat_history_core::ToolCall::arguments_object) in place of other
/// texts.
pub fn sendable_elements_are_not_rewritten_again(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.index().is_rewritten) {
        let json = message.json();
        let changed = message.sendable().json().to_owned();
        assert_eq!(message.sendable().json(), changed, "{json}");
        let sendable = samples.read(&changed);
        let readable = json::without_lone_surrogates(json).map(|json| samples.read(&json));
        let message = readable.as_ref().unwrap_or(message);
        assert!(!sendable.index().is_rewritten, "it is rewritten again: {json}");
        assert_eq!(sendable.is_blank(), message.is_blank(), "{json}");
        assert_eq!(sendable.bound(), message.bound(), "{json}");
        assert_eq!(calls(&sendable), calls(message), "{json}");
        same_words(&sendable, message);
        assert_eq!(sendable.sendable().json(), changed, "{json}");
    }
}

/// Returns the calls of a message. Arguments are compared as the objects that are sent.
fn calls(message: &Message) -> Vec<(&CallId, &str, Cow<'_, str>)> {
    let calls = message.tool_calls().iter();
    calls.map(|call| (call.call_id(), call.name(), call.arguments_object())).collect()
}

/// Asserts the same role, calls, results and texts. Texts of white space do not count.
#[track_caller]
fn same_sayings(found: &Message, expected: &Message) {
    assert_eq!(calls(found), calls(expected), "{}", expected.json());
    same_words(found, expected);
}

/// Asserts the same role, results and texts. Texts of white space do not count.
#[track_caller]
fn same_words(found: &Message, expected: &Message) {
    let json = expected.json();
    assert_eq!(found.role(), expected.role(), "{json}");
    assert_eq!(found.answers(), expected.answers(), "{json}");
    assert_eq!(texts(found), texts(expected), "{json}");
}

/// A digest is the same in each call. Different texts, and results of different calls, have different digests.
pub fn digests_are_constant_and_tell_texts_apart(samples: &Samples) {
    let dialect = samples.dialect;
    for message in samples.messages() {
        assert_eq!(dialect.digest(message.json()), message.digest(), "{}", message.json());
    }
    let mut written = Vec::new();
    for role in [Role::User, Role::Assistant] {
        written.extend(["a", "b", "a b"].map(|text| dialect.compose(&role, text)));
    }
    for sample in &samples.elements {
        written.extend(samples.read(sample).tool_calls().iter().map(|call| dialect.abandoned(call.call_id())));
    }
    written.sort_unstable();
    written.dedup();
    let mut digests = HashSet::new();
    for json in &written {
        assert!(digests.insert(dialect.digest(json)), "another element has this digest: {json}");
    }
}

/// Reasoning can be read by its own origin.
pub fn an_origin_reads_its_own_reasoning(samples: &Samples) {
    let known = Origin::unknown().provider("acme").route("eu").account("a").model("m");
    for origin in [Origin::unknown(), known] {
        assert!(samples.dialect.reads(&origin, &origin), "{origin:?}");
    }
}
