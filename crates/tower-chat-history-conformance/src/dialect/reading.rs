//! Rules of the name, of the index, and of the parts of an element.

use tower_chat_history_core::{
    Bound, CallId, Closes, DialectName, Expressed, Index, LeftOut, Message, Origin, Part, PartKinds, Role, ToolCall,
};

use super::{Samples, hostile, parts};

/// The name is legal, and the same in each call.
pub fn the_name_is_legal_and_constant(samples: &Samples) {
    let name = samples.dialect.name();
    assert!(DialectName::try_from(name.to_owned()).is_ok(), "{name}");
    assert_eq!(samples.dialect.name(), name);
}

/// All samples are read. Among them are a text of the user, a text of the model, a call and a result, so that the other
/// rules test something.
pub fn the_samples_have_every_role(samples: &Samples) {
    let messages: Vec<Message> = samples.elements.iter().map(|sample| samples.read(sample)).collect();
    let of_user = messages.iter().any(|message| *message.role() == Role::User);
    assert!(of_user, "the samples lack an element of the user");
    let without_calls = messages.iter().any(|message| message.is_reply() && message.tool_calls().is_empty());
    assert!(without_calls, "the samples lack an element of a reply without calls");
    let with_call = messages.iter().any(|message| !message.tool_calls().is_empty());
    assert!(with_call, "the samples lack an element with a call");
    let with_result = messages.iter().any(|message| !message.answers().is_empty());
    assert!(with_result, "the samples lack an element with a result");
    assert!(!samples.unknown.is_empty(), "the samples lack an element of an unknown kind");
}

/// Elements of unknown kinds are read, and have neither calls nor results.
pub fn elements_of_unknown_kinds_are_read(samples: &Samples) {
    for sample in &samples.unknown {
        let message = samples.read(sample);
        assert!(matches!(message.role(), Role::Other(_)), "its role is not `Other`: {sample}");
        assert_eq!(message.tool_calls().len(), 0, "{sample}");
        assert_eq!(message.answers().len(), 0, "{sample}");
        assert!(!message.is_blank(), "it says nothing: {sample}");
    }
}

/// The index is the same in each call. Only the model calls and reasons, only others answer, and an element of results
/// closes no call.
pub fn the_index_is_that_of_one_role(samples: &Samples) {
    for message in samples.messages() {
        let json = message.json();
        let index = message.index();
        let mut again = samples.dialect.index(json).unwrap_or_else(|error| panic!("{error}: {json}"));
        // A message with a lone surrogate is rewritten in every dialect, which is not the dialect's concern.
        again.is_rewritten |= index.is_rewritten;
        assert_eq!(again, *index, "{json}");

        let is_reply = index.role == Role::Assistant;
        assert!(is_reply || index.opens.is_empty(), "calls only in replies: {json}");
        assert!(is_reply || !index.bound.can_be_removed(), "reasoning only in replies: {json}");
        assert!(is_reply || !index.restarts, "compactions only in replies: {json}");
        assert!(!is_reply || index.answers.is_empty(), "no results in replies: {json}");
        let is_of_server = !index.server_calls.is_empty() || !index.server_results.is_empty();
        assert!(is_reply || !is_of_server, "calls of the server only in replies: {json}");
        let is_open = index.role != Role::Tool || index.closes == Closes::Never;
        assert!(is_open, "results close nothing: {json}");
    }
}

/// An element has the same index if it is written with other white space and with escapes.
pub fn the_index_does_not_depend_on_the_spelling(samples: &Samples) {
    for sample in samples.all() {
        let expected = properties(&samples.read(sample));
        for spelled in hostile::spelled(sample) {
            assert_eq!(properties(&samples.read(&spelled)), expected, "{spelled}");
        }
    }
}

/// An element is read if a value is nested deeply, and has the same index as with less nesting. No method fails.
pub fn the_index_does_not_depend_on_the_depth(samples: &Samples) {
    for (deep, shallow) in samples.all().flat_map(|sample| hostile::deep(sample)) {
        let shallow = Message::in_dialect(samples.dialect, shallow).ok();
        let message = Message::in_dialect(samples.dialect, deep.as_str()).ok();
        assert_eq!(message.as_ref().map(properties), shallow.as_ref().map(properties), "{deep}");

        let Some(message) = message else { continue };
        message.parts(&mut |_| {});
        let _ = (message.sendable(), message.unbound(), message.digest(), message.answering(&[]));
        let statements = samples.dialect.statements(&message, &mut LeftOut::default());
        let _ = samples.dialect.express(&statements, &mut Expressed::new(&Origin::UNKNOWN));
        let _ = (message.cleared(&|_| true, ""), message.settled(&[], &[]));
    }
}

/// The properties of an index that do not depend on the spelling.
type Properties = (Role, Vec<CallId>, Vec<CallId>, Closes, Bound, [bool; 3]);

fn properties(message: &Message) -> Properties {
    let index = message.index();
    let calls = index.opens.iter().map(|call| call.call_id().clone());
    let Index { role, answers, closes, bound, is_blank, is_rewritten, restarts, .. } = index;
    (role.clone(), calls.collect(), answers.to_vec(), *closes, *bound, [*is_blank, *is_rewritten, *restarts])
}

/// The parts are the same in each call.
pub fn parts_are_constant(samples: &Samples) {
    for message in samples.messages() {
        assert_eq!(parts(&message), parts(&message), "{}", message.json());
    }
}

/// The calls in the parts are those of the index, in order. Each result in the parts is that of a call that the element
/// answers, in order.
pub fn parts_have_the_calls_and_results_of_the_index(samples: &Samples) {
    for message in samples.messages() {
        let parts = parts(&message);
        let mut calls: Vec<ToolCall> = Vec::new();
        for part in &parts {
            if let Part::Call(call) = part {
                calls.push(ToolCall::clone(call));
            }
        }
        assert_eq!(calls, message.tool_calls(), "{}", message.json());

        let mut answers = message.answers().iter().peekable();
        let mut newest = None;
        for part in &parts {
            let Part::Result { call, .. } = part else { continue };
            // A result can be several parts.
            if newest != Some(*call) || answers.peek() == Some(call) {
                newest = answers.find(|answer| answer == call);
            }
            assert!(newest.is_some(), "results in another order: {}", message.json());
        }
    }
}

/// The kinds of parts in the index are those of the parts.
pub fn part_kinds_of_the_index_are_those_of_the_parts(samples: &Samples) {
    for message in samples.messages() {
        let Some(kinds) = message.index().part_kinds else { continue };
        let mut expected = PartKinds::default();
        parts(&message).iter().for_each(|part| expected.add(part));
        assert_eq!(kinds, expected, "{}", message.json());
    }
}

/// An element that says nothing has no call, no result, and no text except white space.
pub fn an_element_that_says_nothing_has_nothing_to_say(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.is_blank()) {
        let is_said = parts(message).iter().any(|part| match part {
            Part::Text(text) | Part::Refusal(text) => !text.trim().is_empty(),
            Part::Call(_) | Part::Result { .. } => true,
            _ => false,
        });
        let is_empty = message.tool_calls().is_empty() && message.answers().is_empty();
        assert!(is_empty && !is_said, "it says something: {}", message.json());
    }
}
