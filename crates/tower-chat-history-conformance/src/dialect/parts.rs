//! Rules of the parts of an element.

use tower_chat_history_core::{Part, PartKinds, ToolCall};

use super::{
    Samples,
    report::{require, same},
    samples::parts,
};
use crate::clause;

/// The parts are the same in each call.
pub fn parts_are_constant(samples: &Samples) {
    for message in samples.messages() {
        same(&parts(&message), &parts(&message), &clause::PURE, message.json(), "the same parts");
    }
}

/// The calls in the parts are those of the index, in order. Each result in the parts is that of a call that the element
/// answers, in order.
pub fn parts_have_the_calls_and_results_of_the_index(samples: &Samples) {
    for message in samples.messages() {
        let parts = parts(&message);
        let call = |part: &Part<'_>| if let Part::Call(call) = part { Some(ToolCall::clone(call)) } else { None };
        let calls: Vec<ToolCall> = parts.iter().filter_map(call).collect();
        same(&calls, &message.tool_calls().to_vec(), &clause::PARTS, message.json(), "the calls of the index");
        let mut answers = message.answers().iter().peekable();
        let mut newest = None;
        for part in &parts {
            let Part::Result { call, .. } = part else { continue };
            // A result can be several parts.
            if newest != Some(*call) || answers.peek() == Some(call) {
                newest = answers.find(|answer| answer == call);
            }
            require(newest.is_some(), &clause::PARTS, message.json(), "the results of the index, in order");
        }
    }
}

/// The kinds of parts in the index are those of the parts.
pub fn part_kinds_of_the_index_are_those_of_the_parts(samples: &Samples) {
    for message in samples.messages() {
        let Some(kinds) = message.index().part_kinds else { continue };
        let mut expected = PartKinds::default();
        parts(&message).iter().for_each(|part| expected.add(part));
        same(&kinds, &expected, &clause::PART_KINDS, message.json(), "the kinds of the parts");
    }
}

/// An element that says nothing has no call, no result, and no text except white space.
pub fn an_element_that_says_nothing_has_nothing_to_say(samples: &Samples) {
    for message in samples.messages().iter().filter(|message| message.is_blank_reply()) {
        let says = |part: &Part<'_>| match part {
            Part::Text(text) | Part::Refusal(text) => !text.trim().is_empty(),
            Part::Call(_) | Part::Result { .. } => true,
            _ => false,
        };
        require(!parts(message).iter().any(says), &clause::SAYS_NOTHING, message.json(), "no text, call or result");
        require(message.tool_calls().is_empty(), &clause::SAYS_NOTHING, message.json(), "no call");
        require(message.answers().is_empty(), &clause::SAYS_NOTHING, message.json(), "no result");
    }
}
