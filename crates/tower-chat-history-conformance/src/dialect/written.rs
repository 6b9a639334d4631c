//! Rules of the elements that a dialect writes.

use tower_chat_history_core::{Bound, CallId, Message, Part, Role};

use super::{Samples, parts};

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
            assert_eq!(samples.dialect.compose(&role, said), json, "{json}");
            let message = samples.read(&json);
            let is_legal = *message.role() == role || role == Role::System && *message.role() == Role::User;
            assert!(is_legal, "another role: {json}");
            assert_eq!(text(&message), said, "{json}");
            if !(said.trim().is_empty() && message.is_blank()) {
                assert_plain(&message);
            }
            assert!(message.answers().is_empty(), "a result: {json}");
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
        assert_eq!(samples.dialect.abandoned(call), json, "{json}");
        let message = samples.read(&json);
        assert_eq!(message.answers(), std::slice::from_ref(call), "{json}");
        assert_eq!(message.role(), &Role::Tool, "{json}");
        assert_plain(&message);
        // Some results have a form without text, such as a screenshot.
        let is_said = parts(&message).iter().any(|part| match part {
            Part::Result { text, .. } | Part::Other { text, .. } => !text.is_empty(),
            Part::Media { .. } => true,
            _ => false,
        });
        assert!(is_said, "it says nothing: {json}");
    }
}

/// Asserts an element that can be sent anywhere, as it is.
#[track_caller]
fn assert_plain(message: &Message) {
    let json = message.json();
    let index = message.index();
    assert!(index.opens.is_empty(), "a call: {json}");
    assert_eq!(index.bound, Bound::NONE, "{json}");
    assert!(!index.is_blank, "it says nothing: {json}");
    assert!(!index.is_rewritten, "it is rewritten: {json}");
}

fn text(message: &Message) -> String {
    let mut said = String::new();
    for part in parts(message) {
        if let Part::Text(text) = part {
            said.push_str(&text);
        }
    }
    said
}
