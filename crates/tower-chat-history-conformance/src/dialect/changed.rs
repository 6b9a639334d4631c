//! Rules of changed elements.

use std::collections::HashSet;

use tower_chat_history_core::{CallId, Message, Origin, Part, Role};

use super::{
    Samples,
    report::{require, same},
    samples::{parts, said},
};
use crate::clause::{self, Clause};

/// Without some of its results, an element has the other ones, and everything else that it says. `None` is returned
/// only if nothing is left. All results can be given: the element then has all of them, unless its dialect has only
/// elements with one result and nothing else.
pub fn answering_keeps_the_given_results(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| !message.answers().is_empty()) {
        let (json, answers) = (message.json(), message.answers());
        for kept in selections(answers) {
            let json_of = |message: &Message| samples.dialect.answering(message, &kept);
            let Some(changed) = json_of(message) else {
                let has_one = answers.len() == 1 && message.is_tool_result();
                let is_empty = kept.is_empty() && message.is_tool_result();
                require(is_empty || has_one, &clause::ANSWERING, json, &format!("an element with {kept:?}"));
                continue;
            };
            let left = samples.read(&changed);
            same(&left.answers().to_vec(), &kept, &clause::ANSWERING, json, "the results that were given");
            same(&said(&left), &said(message), &clause::ANSWERING, json, "everything but results");
            require(!left.is_blank_reply(), &clause::ANSWERING, json, "`None`, because nothing is left");
            let role = if kept.is_empty() { &Role::User } else { message.role() };
            same(left.role(), role, &clause::ANSWERING, json, "the role");
            if kept == answers {
                same(&parts(&left), &parts(message), &clause::ANSWERING, json, "all parts");
            }
            same(&json_of(message), &Some(changed.clone()), &clause::PURE, json, "the same element");
            same(&json_of(&left), &Some(changed), &clause::ANSWERING, json, "no further change");
        }
    }
}

/// Returns all, none, and each half of the calls, and each one of them. At most eight are given alone.
fn selections(answers: &[CallId]) -> Vec<Vec<CallId>> {
    let (first, second) = answers.split_at(answers.len() / 2);
    let mut selections = vec![answers.to_vec(), Vec::new()];
    if answers.len() > 1 {
        selections.push(first.to_vec());
        // Of several results of one call, the first ones are kept, so that the order of a later part can differ.
        let is_repeated = |call: &CallId| first.contains(call);
        selections.extend((!second.iter().any(is_repeated)).then(|| second.to_vec()));
        selections.extend(answers.iter().take(8).map(|call| vec![call.clone()]));
    }
    selections
}

/// A cleared result has the placeholder as its text. Everything else stays. Without a result to clear, `None` is
/// returned. A result without text may stay as it is, or get a smaller form without text.
pub fn cleared_results_have_the_placeholder(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        same(
            &samples.dialect.cleared(&message, &|_| false, "-"),
            &None,
            &clause::CLEARED_NONE,
            json,
            "nothing to clear",
        );
        if message.answers().is_empty() {
            same(
                &samples.dialect.cleared(&message, &|_| true, "-"),
                &None,
                &clause::CLEARED_NONE,
                json,
                "nothing to clear",
            );
        }
        for (call, placeholder) in
            message.answers().iter().zip(["-", "\"[cleared]\"\u{0}\u{1F600}", " "].into_iter().cycle())
        {
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
    let change = |message: &Message| samples.dialect.cleared(message, clears, placeholder);
    let has_text = |message: &Message, id: &CallId| {
        parts(message).iter().any(|part| matches!(part, Part::Result { call, .. } if *call == id))
    };
    let Some(changed) = change(message) else {
        let is_text = message.answers().iter().filter(|call| clears(call)).any(|call| has_text(message, call));
        require(!is_text, &clause::CLEARED, json, "a cleared result");
        return;
    };
    let cleared = samples.read(&changed);
    same(&cleared.answers().to_vec(), &message.answers().to_vec(), &clause::CLEARED, json, "the same calls");
    same(cleared.role(), message.role(), &clause::CLEARED, json, "the role");
    same(&said(&cleared), &said(message), &clause::CLEARED, json, "everything but results");
    let results = |message: &Message, of_cleared: bool| -> Vec<(CallId, String)> {
        let result = |part| match part {
            Part::Result { call, text } if clears(call) == of_cleared => Some((call.clone(), text.into_owned())),
            _ => None,
        };
        parts(message).into_iter().filter_map(result).collect()
    };
    same(&results(&cleared, false), &results(message, false), &clause::CLEARED, json, "the other results");
    let is_text = |call: &CallId| has_text(message, call) || has_text(&cleared, call);
    let expected = message.answers().iter().filter(|call| clears(call) && is_text(call));
    let expected: Vec<_> = expected.map(|call| (call.clone(), placeholder.to_owned())).collect();
    same(&results(&cleared, true), &expected, &clause::CLEARED, json, "the placeholder");
    same(&change(&cleared), &Some(changed), &clause::CLEARED, json, "no further change");
}

/// Without what is bound, an element has the same calls, results and texts, and nothing that is bound. `None` is
/// returned only if nothing is left.
pub fn unbound_elements_keep_calls_results_and_texts(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.bound().can_be_removed()) {
        let json = message.json();
        let changed = samples.dialect.unbound(message);
        same(&samples.dialect.unbound(message), &changed, &clause::PURE, json, "the same element");
        let Some(changed) = changed else {
            let is_text = |part: &Part<'_>| matches!(part, Part::Text(text) if !text.trim().is_empty());
            let has_text = parts(message).iter().any(is_text);
            let is_empty = message.tool_calls().is_empty() && message.answers().is_empty() && !has_text;
            require(is_empty, &clause::UNBOUND, json, "an element with the calls and texts");
            continue;
        };
        let unbound = samples.read(&changed);
        require(!unbound.bound().can_be_removed(), &clause::UNBOUND, json, "nothing that is bound");
        require(!unbound.is_blank_reply(), &clause::UNBOUND, json, "`None`, because nothing is left");
        same_sayings(&unbound, message, &clause::UNBOUND);
        same(&unbound.unbound().map(Message::json), &Some(unbound.json()), &clause::UNBOUND, json, "no further change");
    }
}

/// Without what is bound to its prompt, an element has the same calls, results and texts, and nothing that is bound to
/// a prompt. It has everything that it also has without what is bound to its origin.
pub fn elements_unbound_from_their_prompt_keep_what_is_bound_to_their_origin(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.bound().to_prefix) {
        let json = message.json();
        let changed = samples.dialect.unbound_from_prompt(message);
        same(&samples.dialect.unbound_from_prompt(message), &changed, &clause::PURE, json, "the same element");
        let without_all = samples.dialect.unbound(message);
        let restarts = |message: &Message| message.index().restarts;
        let Some(changed) = changed else {
            require(!restarts(message), &clause::UNBOUND_FROM_PROMPT, json, "what stands for everything before it");
            same(&without_all, &None, &clause::UNBOUND_FROM_PROMPT, json, "what is left without all that is bound");
            continue;
        };
        let unbound = samples.read(&changed);
        require(!unbound.bound().to_prefix, &clause::UNBOUND_FROM_PROMPT, json, "nothing that is bound to a prompt");
        same(&restarts(&unbound), &restarts(message), &clause::UNBOUND_FROM_PROMPT, json, "what it stands for");
        require(!unbound.is_blank_reply(), &clause::UNBOUND_FROM_PROMPT, json, "`None`, because nothing is left");
        same_sayings(&unbound, message, &clause::UNBOUND_FROM_PROMPT);
        let left = unbound.unbound().map(|message| message.json().to_owned());
        same(&left, &without_all, &clause::UNBOUND_FROM_PROMPT, json, "what is left without all that is bound");
    }
}

/// Without some of its server calls and server results, an element has the other ones, and everything that it says.
/// `None` is returned only if nothing is left.
pub fn settled_elements_have_the_given_calls_and_results_of_the_server(samples: &Samples) {
    for message in samples.messages() {
        let (json, index) = (message.json(), message.index());
        let (calls, results) = (&index.server_calls, &index.server_results);
        if calls.is_empty() && results.is_empty() {
            continue;
        }
        for (calls, results) in [(&calls[..], &results[..]), (&calls[..], &[]), (&[], &results[..]), (&[], &[])] {
            let settled = samples.dialect.settled(&message, calls, results);
            same(&samples.dialect.settled(&message, calls, results), &settled, &clause::PURE, json, "the same element");
            let Some(settled) = settled else {
                let is_text = |part: &Part<'_>| matches!(part, Part::Text(text) if !text.trim().is_empty());
                let says = !message.tool_calls().is_empty() || parts(&message).iter().any(is_text);
                require(!says && calls.is_empty() && results.is_empty(), &clause::SETTLED, json, "an element");
                continue;
            };
            let left = samples.read(&settled);
            same(&left.index().server_calls.to_vec(), &calls.to_vec(), &clause::SETTLED, json, "the calls");
            same(&left.index().server_results.to_vec(), &results.to_vec(), &clause::SETTLED, json, "the results");
            require(!left.is_blank_reply(), &clause::SETTLED, json, "`None`, because nothing is left");
            same_sayings(&left, &message, &clause::SETTLED);
        }
    }
}

/// In the form that providers accept, an element has the same calls, results and texts, and is not changed again.
pub fn sendable_elements_are_not_rewritten_again(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.index().is_rewritten) {
        let json = message.json();
        let changed = samples.dialect.sendable(message);
        same(&samples.dialect.sendable(message), &changed, &clause::PURE, json, "the same element");
        let sendable = samples.read(&changed);
        require(!sendable.index().is_rewritten, &clause::SENDABLE, json, "an element that is sent as it is");
        same(
            &sendable.is_blank_reply(),
            &message.is_blank_reply(),
            &clause::SENDABLE,
            json,
            "an element that says as much",
        );
        same(&sendable.bound(), &message.bound(), &clause::SENDABLE, json, "what is bound");
        same_sayings(&sendable, message, &clause::SENDABLE);
        same(&samples.dialect.sendable(&sendable), &changed, &clause::SENDABLE, json, "no further change");
    }
}

/// Requires the same role, calls, results and texts. Texts of white space do not count.
#[track_caller]
fn same_sayings(found: &Message, expected: &Message, clause: &Clause) {
    let texts = |message: &Message| -> Vec<String> {
        let text = |part| match part {
            Part::Text(text) if !text.trim().is_empty() => Some(text.into_owned()),
            _ => None,
        };
        parts(message).into_iter().filter_map(text).collect()
    };
    let json = expected.json();
    same(found.role(), expected.role(), clause, json, "the role");
    same(&found.tool_calls().to_vec(), &expected.tool_calls().to_vec(), clause, json, "the calls");
    same(&found.answers().to_vec(), &expected.answers().to_vec(), clause, json, "the results");
    same(&texts(found), &texts(expected), clause, json, "the texts");
}

/// A digest is the same in each call. Different texts, and results of different calls, have different digests.
pub fn digests_are_constant_and_tell_texts_apart(samples: &Samples) {
    let dialect = samples.dialect;
    for message in samples.messages() {
        let (json, digest) = (message.json(), message.digest());
        same(&dialect.digest(json), &digest, &clause::PURE, json, "the same digest");
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
        require(digests.insert(dialect.digest(json)), &clause::DIGEST, json, "a digest of its own");
    }
}

/// Reasoning can be read by its own origin.
pub fn an_origin_reads_its_own_reasoning(samples: &Samples) {
    let known = Origin::unknown().provider("acme").route("eu").account("a").model("m");
    for origin in [Origin::unknown(), known] {
        require(samples.dialect.reads(&origin, &origin), &clause::READS, &format!("{origin:?}"), "true");
    }
}
