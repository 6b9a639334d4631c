//! Calls that the provider executes itself, and whose results are in a later reply.
//!
//! A provider that [paused](tower_chat_history_core::Exchange::is_paused), or that waits for other results, makes such
//! a result at the beginning of the next reply. It refuses a call without its result, and a result without its call.
//!
//! A call stays as long as only replies and results follow it, because its result can still come. Otherwise it is left
//! out, and so is a result that comes later.

use std::collections::HashMap;

use tower_chat_history_core::{CallId, Message};

use crate::context::bridge::{NO_REPLY, constant_reply, is_question, waits_for_reply};

/// The calls and results of a list of messages that are left out, and those that stay.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    /// The messages of which something is left out, in order.
    pub(crate) changes: Vec<Change>,
    /// The index of a message with a call, and that of the message with its result.
    pub(crate) links: Vec<(usize, usize)>,
}

/// A message of which something is left out.
#[derive(Debug)]
pub(crate) struct Change {
    /// The index of the message.
    pub(crate) at: usize,
    /// The rest of the message, if there is any.
    pub(crate) left: Option<Message>,
}

impl Settlement {
    /// Finds the calls and results in these messages. If `continues`, more replies and results follow.
    pub(crate) fn of<'m>(messages: impl IntoIterator<Item = &'m Message>, continues: bool) -> Self {
        let mut found = Found::default();
        let mut open = ServerCalls::default();
        for (at, message) in messages.into_iter().enumerate() {
            let index = message.index();
            if message.is_reply() {
                if !index.server_calls.is_empty() || !index.server_results.is_empty() {
                    open.add(at, message, &mut found);
                }
            } else if !message.is_tool_result() {
                open.end(&mut found);
            }
        }
        if !continues {
            open.end(&mut found);
        }
        found.settled()
    }
}

/// The messages with calls or results, in order, and the links between them.
#[derive(Default)]
struct Found<'m> {
    messages: Vec<Pending<'m>>,
    links: Vec<(usize, usize)>,
}

/// A message with calls or results.
struct Pending<'m> {
    at: usize,
    message: &'m Message,
    /// For each call, `true` if it stays.
    calls: Vec<bool>,
    /// For each result, `true` if it stays.
    results: Vec<bool>,
}

/// The calls of the current turn of the model that have no result yet: the index of their message among those that were
/// found, and their own index.
#[derive(Default)]
struct ServerCalls<'m> {
    by_id: HashMap<&'m CallId, Vec<(usize, usize)>>,
}

impl<'m> ServerCalls<'m> {
    fn add(&mut self, at: usize, message: &'m Message, found: &mut Found<'m>) {
        let index = message.index();

        let mut results = Vec::with_capacity(index.server_results.len());
        for id in &index.server_results {
            let call = self.by_id.get_mut(id).and_then(Vec::pop);
            results.push(call.is_some());
            found.links.extend(call.map(|(asked, _)| (found.messages[asked].at, at)));
        }

        let position = found.messages.len();
        for (call, id) in index.server_calls.iter().enumerate() {
            self.by_id.entry(id).or_default().push((position, call));
        }
        found.messages.push(Pending { at, message, calls: vec![true; index.server_calls.len()], results });
    }

    /// Leaves out the calls that have no result.
    fn end(&mut self, found: &mut Found<'m>) {
        // Most turns have none, and draining an empty map takes as long as the rest of the search.
        if self.by_id.is_empty() {
            return;
        }
        for (position, call) in self.by_id.drain().flat_map(|(_, calls)| calls) {
            found.messages[position].calls[call] = false;
        }
    }
}

impl Found<'_> {
    fn settled(self) -> Settlement {
        let mut changes = Vec::new();
        for Pending { at, message, calls, results } in self.messages {
            if calls.iter().chain(&results).all(|stays| *stays) {
                continue;
            }
            let index = message.index();
            let left = message.settled(&kept(&index.server_calls, &calls), &kept(&index.server_results, &results));
            changes.push(Change { at, left });
        }
        Settlement { changes, links: self.links }
    }
}

fn kept(ids: &[CallId], stay: &[bool]) -> Vec<CallId> {
    ids.iter().zip(stay).filter(|(_, stays)| **stays).map(|(id, _)| id.clone()).collect()
}

/// Returns the messages without the calls and results that are left out. If `continues`, more replies and results
/// follow.
pub(crate) fn settled(messages: Vec<Message>, continues: bool) -> Vec<Message> {
    let Settlement { changes, .. } = Settlement::of(&messages, continues);
    if changes.is_empty() {
        return messages;
    }

    let mut changes = changes.into_iter().peekable();
    let mut left: Vec<Option<Message>> = Vec::with_capacity(messages.len());
    for (at, message) in messages.into_iter().enumerate() {
        let change = changes.next_if(|change| change.at == at);
        left.push(change.map_or(Some(message), |change| change.left));
    }

    let mut is_before_reply = false;
    for message in left.iter_mut().rev() {
        message.take_if(|message| needs_reply(message) && !is_before_reply);
        is_before_reply = message.as_ref().map_or(is_before_reply, Message::is_reply);
    }
    without_gaps(left)
}

/// Returns the messages that are left. A constant reply stands in place of those that are left out between two
/// questions.
fn without_gaps(messages: Vec<Option<Message>>) -> Vec<Message> {
    let mut left: Vec<Message> = Vec::with_capacity(messages.len());
    let mut is_gap = false;
    for message in messages {
        let Some(message) = message else {
            is_gap = true;
            continue;
        };
        if is_gap && is_question(&message) {
            let last = left.last().filter(|last| waits_for_reply(last));
            left.extend(last.and_then(|last| constant_reply(last, NO_REPLY)));
        }
        is_gap = false;
        left.push(message);
    }
    left
}

/// Returns `true` for an instruction that is left out with the reply after it.
pub(crate) fn needs_reply(message: &Message) -> bool {
    message.is_instruction() && message.bound().to_next
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::AnthropicMessages;

    use super::*;

    const USER: &str = r#"{"role":"user","content":"u"}"#;
    const RESULT: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
    const CALL: &str = r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#;
    const TEXT: &str = r#"{"type":"text","text":"so"}"#;
    const THINKING: &str = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;

    fn server(id: &str) -> String {
        format!(r#"{{"type":"server_tool_use","id":"{id}","name":"web_search","input":{{}}}}"#)
    }

    fn found(id: &str) -> String {
        format!(r#"{{"type":"web_search_tool_result","tool_use_id":"{id}","content":[]}}"#)
    }

    fn reply(blocks: &[&str]) -> String {
        format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))
    }

    fn message(json: &str) -> Message {
        Message::in_dialect(&AnthropicMessages, json).unwrap()
    }

    /// Asserts what is left of these messages if more follows, and if the next message is a question.
    fn check(messages: &[&str], continued: &[&str], ended: &[&str]) {
        for (continues, expected) in [(true, continued), (false, ended)] {
            let left = settled(messages.iter().map(|json| message(json)).collect(), continues);
            let left: Vec<&str> = left.iter().map(Message::json).collect();
            assert_eq!(left, expected, "continues: {continues}");
        }
    }

    #[test]
    fn the_call_of_a_paused_reply_stays_until_something_else_than_a_reply_follows() {
        let (paused, text) = (reply(&[TEXT, &server("s")]), reply(&[TEXT]));
        check(&[USER, &paused], &[USER, &paused], &[USER, &text]);
        check(&[USER, &paused, USER], &[USER, &text, USER], &[USER, &text, USER]);
        let only = reply(&[THINKING, &server("s")]);
        check(&[USER, &only], &[USER, &only], &[USER]);
    }

    #[test]
    fn a_result_in_the_next_reply_keeps_its_call() {
        let (paused, resumed) = (reply(&[&server("s"), &server("t")]), reply(&[&found("s"), TEXT]));
        let (left, all) = (reply(&[&server("s")]), [USER, &*paused, &*resumed]);
        check(&all, &all, &[USER, &left, &resumed]);
        let both = reply(&[&found("t"), &found("s"), TEXT]);
        check(&[USER, &paused, &both], &[USER, &paused, &both], &[USER, &paused, &both]);
    }

    #[test]
    fn a_call_next_to_one_of_the_program_waits_for_the_reply_to_its_results() {
        let (asked, resumed) = (reply(&[&server("s"), CALL]), reply(&[&found("s"), TEXT]));
        let all = [USER, &*asked, RESULT, &*resumed, USER];
        check(&all, &all, &all);
        check(&all[..3], &all[..3], &[USER, &reply(&[CALL]), RESULT]);
        let text = reply(&[TEXT]);
        check(
            &[USER, &asked, RESULT, USER, &resumed],
            &[USER, &reply(&[CALL]), RESULT, USER, &text],
            &[USER, &reply(&[CALL]), RESULT, USER, &text],
        );
    }

    #[test]
    fn thinking_after_a_call_that_is_left_out_is_left_out() {
        let paused = reply(&[THINKING, TEXT, &server("s"), THINKING, TEXT]);
        check(&[&paused], &[&paused], &[&reply(&[THINKING, TEXT, TEXT])]);
    }

    #[test]
    fn each_of_two_calls_with_the_same_id_needs_a_result() {
        let twice = reply(&[&server("s"), &server("s")]);
        let once = reply(&[&server("s")]);
        check(&[&twice, &reply(&[&found("s")])], &[&twice, &reply(&[&found("s")])], &[&once, &reply(&[&found("s")])]);
    }
}
