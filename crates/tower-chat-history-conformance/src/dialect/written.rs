//! Rules of the elements that a dialect writes.

use tower_chat_history_core::{Bound, CallId, Message, Part, Role};

use super::{
    Samples,
    report::{require, same},
    samples::{parts, text},
};
use crate::clause::{self, Clause};

/// Texts, and ids of calls.
const TEXTS: [&str; 6] =
    ["Hi", "\"quoted\" \\u0041 \\", "\u{0}\n\u{1f}\u{7f}", "\u{e4}\u{2028}\u{1F600}", r#"{"role":"user"}"#, " "];

/// A composed element is read back in its role, and says its text. A system message may become one of the user. A text
/// of white space may say nothing, because some providers refuse it.
pub fn composed_texts_are_read_back(samples: &Samples) {
    let long = "long ".repeat(50_000);
    for role in [Role::User, Role::Assistant, Role::System] {
        for said in TEXTS.into_iter().chain([long.as_str()]) {
            let json = samples.dialect.compose(&role, said);
            same(&samples.dialect.compose(&role, said), &json, &clause::PURE, &json, "the same element");
            let message = samples.read(&json);
            let is_legal = *message.role() == role || role == Role::System && *message.role() == Role::User;
            require(is_legal, &clause::COMPOSE, &json, "the role that was given");
            same(&text(&message).as_str(), &said, &clause::COMPOSE, &json, "the text");
            if !(said.trim().is_empty() && message.is_blank_reply()) {
                require_plain(&message, &clause::COMPOSE);
            }
            require(message.answers().is_empty(), &clause::COMPOSE, &json, "no result");
        }
        samples.read(&samples.dialect.compose(&role, ""));
    }
}

/// The result of an abandoned call answers this call and no other, says something, and closes no call.
pub fn abandoned_calls_get_a_constant_result(samples: &Samples) {
    let mut calls: Vec<CallId> = Vec::new();
    for sample in &samples.elements {
        for call in samples.read(sample).tool_calls() {
            calls.push(call.call_id().clone());
            calls.extend(TEXTS.map(|id| CallId::new(call.call_id().space(), id)));
        }
    }
    for call in &calls {
        let json = samples.dialect.abandoned(call);
        same(&samples.dialect.abandoned(call), &json, &clause::CONSTANT, &json, "the same result");
        let message = samples.read(&json);
        same(&message.answers().to_vec(), &vec![call.clone()], &clause::ABANDONED, &json, "the call");
        same(message.role(), &Role::Tool, &clause::ABANDONED, &json, "the role of results");
        require_plain(&message, &clause::ABANDONED);
        // Some results have a form without text, such as a screenshot.
        let says = |part: &Part<'_>| match part {
            Part::Result { text, .. } | Part::Other { text, .. } => !text.is_empty(),
            Part::Media { .. } => true,
            _ => false,
        };
        require(parts(&message).iter().any(says), &clause::ABANDONED, &json, "a result that says something");
    }
}

/// Requires an element that can be sent anywhere, as it is.
#[track_caller]
fn require_plain(message: &Message, clause: &Clause) {
    let (json, index) = (message.json(), message.index());
    require(index.opens.is_empty(), clause, json, "no call");
    require(index.bound == Bound::NONE, clause, json, "nothing that is bound");
    require(!index.says_nothing, clause, json, "an element that says something");
    require(!index.is_rewritten, clause, json, "an element that is sent as it is");
}
