//! Rules of the name and of the index.

use tower_chat_history_core::{Bound, CallId, Closes, DialectName, Expressed, Index, LeftOut, Message, Origin, Role};

use super::{
    Samples, hostile,
    report::{fail, require, same},
};
use crate::clause;

/// The name is legal, and the same in each call.
pub fn the_name_is_legal_and_constant(samples: &Samples) {
    let name = samples.dialect.name();
    require(DialectName::try_from(name.to_owned()).is_ok(), &clause::DIALECT_NAME, name, "a legal name");
    same(&samples.dialect.name(), &name, &clause::DIALECT_NAME, name, "the same name");
}

/// All samples are read. Among them are a text of the user, a text of the model, a call and a result, so that the other
/// rules test something.
pub fn the_samples_have_every_role(samples: &Samples) {
    let messages: Vec<Message> = samples.elements.iter().map(|sample| samples.read(sample)).collect();
    let has = |kind: fn(&Message) -> bool, name: &str| {
        require(messages.iter().any(kind), &clause::ROLES, "all samples together", name);
    };
    has(|message| *message.role() == Role::User, "an element of the user");
    has(|message| message.is_reply() && message.tool_calls().is_empty(), "an element of a reply without calls");
    has(|message| !message.tool_calls().is_empty(), "an element with a call");
    has(|message| !message.answers().is_empty(), "an element with a result");
    require(
        !samples.unknown.is_empty(),
        &clause::UNKNOWN_KIND,
        "all samples together",
        "an element of an unknown kind",
    );
}

/// Elements of unknown kinds are read, and have neither calls nor results.
pub fn elements_of_unknown_kinds_are_read(samples: &Samples) {
    for sample in &samples.unknown {
        let message = samples.read(sample);
        require(matches!(message.role(), Role::Other(_)), &clause::UNKNOWN_KIND, sample, "the role `Other`");
        same(&message.tool_calls().len(), &0, &clause::UNKNOWN_KIND, sample, "the number of calls");
        same(&message.answers().len(), &0, &clause::UNKNOWN_KIND, sample, "the number of results");
        require(!message.is_blank_reply(), &clause::UNKNOWN_KIND, sample, "an element that says something");
    }
}

/// The index is the same in each call. Only the model calls and reasons, only others answer, and an element of results
/// closes no call.
pub fn the_index_is_that_of_one_role(samples: &Samples) {
    for message in samples.messages() {
        let (json, index) = (message.json(), message.index());
        match samples.dialect.index(json) {
            Ok(again) => same(&again, index, &clause::PURE, json, "the same index"),
            Err(error) => fail(&clause::PURE, json, "the same index", &error.to_string()),
        }
        let is_reply = index.role == Role::Assistant;
        require(is_reply || index.opens.is_empty(), &clause::ROLES, json, "calls only in replies");
        require(is_reply || !index.bound.can_be_removed(), &clause::ROLES, json, "reasoning only in replies");
        require(is_reply || !index.restarts, &clause::ROLES, json, "compactions only in replies");
        require(!is_reply || index.answers.is_empty(), &clause::ROLES, json, "no results in replies");
        let is_of_server = !index.server_calls.is_empty() || !index.server_results.is_empty();
        require(is_reply || !is_of_server, &clause::ROLES, json, "calls of the server only in replies");
        let is_open = index.role != Role::Tool || index.closes == Closes::Never;
        require(is_open, &clause::ROLES, json, "an element of results that closes nothing");
    }
}

/// An element has the same index if it is written with other white space and with escapes.
pub fn the_index_does_not_depend_on_the_spelling(samples: &Samples) {
    for sample in samples.all() {
        let expected = properties(samples.read(sample).index());
        for spelled in hostile::spelled(sample) {
            let found = properties(samples.read(&spelled).index());
            same(&found, &expected, &clause::SPELLING, &spelled, "the index of the sample");
        }
    }
}

/// An element is read if a value is nested deeply, and has the same index as with less nesting. No method fails.
pub fn the_index_does_not_depend_on_the_depth(samples: &Samples) {
    for (deep, shallow) in samples.all().flat_map(|sample| hostile::deep(sample)) {
        let shallow = Message::in_dialect(samples.dialect, shallow).ok();
        let deep_one = Message::in_dialect(samples.dialect, deep.as_str()).ok();
        let index = |message: &Option<Message>| message.as_ref().map(|message| properties(message.index()));
        same(&index(&deep_one), &index(&shallow), &clause::SPELLING, &deep, "the index with less nesting");
        let Some(message) = deep_one else { continue };
        message.parts(&mut |_| {});
        let _ = (message.sendable(), message.unbound(), message.digest(), message.answering(&[]));
        let statements = samples.dialect.statements(&message, &mut LeftOut::default());
        let _ = samples.dialect.express(&statements, &mut Expressed::new(&Origin::UNKNOWN));
        let _ = (message.cleared(&|_| true, ""), message.settled(&[], &[]));
    }
}

/// The properties of an index that do not depend on the spelling.
type Properties = (Role, Vec<CallId>, Vec<CallId>, Closes, Bound, [bool; 3]);

fn properties(index: &Index) -> Properties {
    let calls = index.opens.iter().map(|call| call.call_id().clone());
    let Index { role, answers, closes, bound, says_nothing, is_rewritten, restarts, .. } = index;
    (role.clone(), calls.collect(), answers.to_vec(), *closes, *bound, [*says_nothing, *is_rewritten, *restarts])
}
