//! The rules that providers check prompts against.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Message, Role};

/// Checks a prompt against the rules of the chat format, as the strictest providers do.
///
/// - There is at least one message.
/// - A tool result answers a call of the last assistant message before it, and only tool results are between the two.
///   Each call is answered once.
/// - Every call is answered before the next other message. Parallel calls may be answered in any order.
/// - `tool_calls` is a non-empty array of objects with an id. Ids, also those in tool results, are non-empty text.
/// - An assistant message has content, calls, a refusal or audio.
///
/// ```
/// use tower_chat_history_core::Message;
/// use tower_chat_history_test::{RuleViolation, check_chat_rules};
///
/// assert_eq!(check_chat_rules(&[Message::user("Hi!")]), Ok(()));
/// let orphan = [Message::user("Hi!"), Message::tool("call_1", "sunny")];
/// assert_eq!(check_chat_rules(&orphan), Err(RuleViolation::OrphanResult { position: 1, id: "call_1".into() }));
/// ```
///
/// # Errors
///
/// Returns the first violation, from the beginning of the prompt.
pub fn check_chat_rules(messages: &[Message]) -> Result<(), RuleViolation> {
    if messages.is_empty() {
        return Err(RuleViolation::Empty);
    }
    // The position of the last message that is not a tool result, and the ids of its calls without a result.
    let mut calling = 0;
    let mut open: Vec<&str> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        if message.is_tool_result() {
            let id = message.tool_call_id().unwrap_or_default();
            if message.tool_call_id().is_none_or(str::is_empty) {
                return Err(RuleViolation::MissingResultId { position });
            }
            let Some(answered) = open.iter().position(|call| *call == id) else {
                return Err(RuleViolation::OrphanResult { position, id: id.into() });
            };
            open.remove(answered);
            continue;
        }
        unanswered(calling, &open)?;
        if *message.role() == Role::Assistant {
            check_calls(position, message)?;
            if message.is_blank_reply() {
                return Err(RuleViolation::BlankReply { position });
            }
        }
        calling = position;
        open.extend(message.tool_calls().iter().map(tower_chat_history_core::ToolCall::id));
    }
    unanswered(calling, &open)
}

/// Checks the JSON itself, because the message's index omits entries that are not calls.
fn check_calls(position: usize, message: &Message) -> Result<(), RuleViolation> {
    #[derive(Deserialize)]
    struct Calls<'a> {
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let Ok(Calls { tool_calls: Some(calls) }) = serde_json::from_str(message.json()) else { return Ok(()) };
    let calls: Vec<&RawValue> =
        serde_json::from_str(calls.get()).map_err(|_| RuleViolation::CallsNotArray { position })?;
    if calls.is_empty() {
        return Err(RuleViolation::EmptyToolCalls { position });
    }
    let has_id = |call: &&RawValue| {
        serde_json::from_str::<Call<'_>>(call.get())
            .is_ok_and(|call| call.id.get().starts_with('"') && call.id.get() != r#""""#)
    };
    let missing = calls.iter().position(|call| !has_id(call));
    missing.map_or(Ok(()), |call| Err(RuleViolation::MissingCallId { position, call }))
}

fn unanswered(position: usize, open: &[&str]) -> Result<(), RuleViolation> {
    let ids = || open.iter().map(|id| (*id).into()).collect();
    if open.is_empty() { Ok(()) } else { Err(RuleViolation::UnansweredCalls { position, ids: ids() }) }
}

/// A violation of the chat rules. Positions are indexes of messages, counted from 0. The texts of these errors are
/// OpenAI's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleViolation {
    /// The prompt has no message.
    #[error(
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )]
    Empty,
    /// The last assistant message before a tool result does not have its call, or an earlier result has answered the
    /// call.
    #[error("Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message.")]
    OrphanResult {
        /// The position of the result.
        position: usize,
        /// The id of the call that it names.
        id: String,
    },
    /// Calls are not answered directly after their message.
    #[error(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    )]
    UnansweredCalls {
        /// The position of the assistant message.
        position: usize,
        /// The ids of the calls without a result.
        ids: Vec<String>,
    },
    /// An assistant message has an empty list of calls.
    #[error(
        "Invalid 'messages[{position}].tool_calls': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyToolCalls {
        /// The position of the message.
        position: usize,
    },
    /// The calls of an assistant message are not an array.
    #[error("Invalid type for 'messages[{position}].tool_calls': expected an array of objects.")]
    CallsNotArray {
        /// The position of the message.
        position: usize,
    },
    /// A call is not an object, or has no id, or an id that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_calls[{call}].id'.")]
    MissingCallId {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
    },
    /// A tool result has no call id, or one that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_call_id'.")]
    MissingResultId {
        /// The position of the result.
        position: usize,
    },
    /// An assistant message has no content, call, refusal or audio.
    #[error("Invalid value for 'messages[{position}].content': expected a string, got null.")]
    BlankReply {
        /// The position of the message.
        position: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Message {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":""}}}}"#))
            .collect();
        Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(",")))
            .unwrap()
    }

    fn result(id: &str) -> Message {
        Message::tool(id, "done")
    }

    #[test]
    fn parallel_calls_are_answered_in_any_order_and_ids_may_repeat() {
        let prompt = [
            Message::system("s"),
            Message::user("u"),
            calls(&["a", "b"]),
            result("b"),
            result("a"),
            calls(&["a"]),
            result("a"),
            Message::assistant("done"),
        ];
        assert_eq!(check_chat_rules(&prompt), Ok(()));
    }

    #[test]
    fn a_result_follows_its_open_call() {
        let orphan = |position, id: &str| Err(RuleViolation::OrphanResult { position, id: id.into() });
        assert_eq!(check_chat_rules(&[result("a")]), orphan(0, "a"));
        assert_eq!(check_chat_rules(&[calls(&["a"]), result("b")]), orphan(1, "b"));
        assert_eq!(check_chat_rules(&[calls(&["a"]), result("a"), result("a")]), orphan(2, "a"));
        let late = [calls(&["a"]), result("a"), Message::user("u"), result("a")];
        assert_eq!(check_chat_rules(&late), orphan(3, "a"));
    }

    #[test]
    fn every_call_is_answered_before_anything_else() {
        let open = |ids: &[&str]| {
            let ids = ids.iter().map(|&id| id.to_owned()).collect();
            Err(RuleViolation::UnansweredCalls { position: 1, ids })
        };
        let u = || Message::user("u");
        assert_eq!(check_chat_rules(&[u(), calls(&["a", "b"]), result("a")]), open(&["b"]));
        assert_eq!(check_chat_rules(&[u(), calls(&["a", "b"]), u(), result("a"), result("b")]), open(&["a", "b"]));
    }

    #[test]
    fn calls_and_results_have_ids() {
        let of = |json: &str| check_chat_rules(&[Message::from_json(json).unwrap()]);
        let call = r#"{"id":"x","type":"function","function":{"name":"f","arguments":""}}"#;
        for bad in ["null", "{}", r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":7}"#, "\"x\""] {
            let json = format!(r#"{{"role":"assistant","content":"t","tool_calls":[{call},{bad}]}}"#);
            assert_eq!(of(&json), Err(RuleViolation::MissingCallId { position: 0, call: 1 }), "{bad}");
        }
        let odd = r#"{"role":"assistant","content":"t","tool_calls":"odd"}"#;
        assert_eq!(of(odd), Err(RuleViolation::CallsNotArray { position: 0 }));
        assert_eq!(of(r#"{"role":"assistant","content":"t","tool_calls":null}"#), Ok(()));
        for id in ["null", "\"\"", "7"] {
            let json = format!(r#"{{"role":"tool","content":"r","tool_call_id":{id}}}"#);
            assert_eq!(of(&json), Err(RuleViolation::MissingResultId { position: 0 }), "{id}");
        }
    }

    #[test]
    fn blank_replies_and_empty_lists_are_refused() {
        assert_eq!(check_chat_rules(&[]), Err(RuleViolation::Empty));
        assert_eq!(check_chat_rules(&[calls(&[])]), Err(RuleViolation::EmptyToolCalls { position: 0 }));
        let blank = Message::from_json(r#"{"role":"assistant","content":null}"#).unwrap();
        assert_eq!(check_chat_rules(&[Message::user("u"), blank]), Err(RuleViolation::BlankReply { position: 1 }));
        let refusal = Message::from_json(r#"{"role":"assistant","refusal":"no"}"#).unwrap();
        assert_eq!(check_chat_rules(&[refusal]), Ok(()));
    }
}
