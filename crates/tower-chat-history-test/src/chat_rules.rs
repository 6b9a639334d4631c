//! The rules that providers hold a prompt to.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Message, Role};

#[cfg(any(feature = "openai", feature = "server"))]
use crate::ApiFailure;

/// Checks a prompt against the rules of the chat format, as the strictest providers do.
///
/// - There is at least one message.
/// - A tool result answers a call of the assistant message right before it (or before results next to it), each call once.
/// - Every call is answered directly after its message, before anything else is said; parallel calls in any order.
/// - `tool_calls` is an array that is not empty, of objects with an id: a text that is not empty, as in each tool
///   result.
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
/// The first violation, from the beginning of the prompt.
pub fn check_chat_rules(messages: &[Message]) -> Result<(), RuleViolation> {
    if messages.is_empty() {
        return Err(RuleViolation::Empty);
    }
    // The position of the last assistant message with calls, and the ids of those that are not answered yet.
    let mut asked = 0;
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
        unanswered(asked, &open)?;
        if *message.role() == Role::Assistant {
            check_calls(position, message)?;
            if message.is_blank_reply() {
                return Err(RuleViolation::BlankReply { position });
            }
        }
        asked = position;
        open.extend(message.tool_calls().iter().map(tower_chat_history_core::ToolCall::id));
    }
    unanswered(asked, &open)
}

/// Looks at the JSON itself, since the message's index leaves out what is no call.
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

/// What is wrong with a prompt. Positions are those of messages, from 0. The texts are OpenAI's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleViolation {
    /// There is no message.
    #[error(
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )]
    Empty,
    /// A tool result whose call is not in the assistant message before it, or was answered already.
    #[error("Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message.")]
    OrphanResult {
        /// Where the result stands.
        position: usize,
        /// The call it names.
        id: String,
    },
    /// Calls that are not answered directly after their message.
    #[error(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    )]
    UnansweredCalls {
        /// Where the assistant message stands.
        position: usize,
        /// The calls without a result.
        ids: Vec<String>,
    },
    /// An assistant message with an empty list of calls.
    #[error(
        "Invalid 'messages[{position}].tool_calls': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyToolCalls {
        /// Where the message stands.
        position: usize,
    },
    /// The calls of an assistant message are no array.
    #[error("Invalid type for 'messages[{position}].tool_calls': expected an array of objects.")]
    CallsNotArray {
        /// Where the message stands.
        position: usize,
    },
    /// A call without an id, or with one that is no text or empty; or an entry that is no object.
    #[error("Missing required parameter: 'messages[{position}].tool_calls[{call}].id'.")]
    MissingCallId {
        /// Where the message stands.
        position: usize,
        /// Which of its calls, from 0.
        call: usize,
    },
    /// A tool result that does not say which call it answers.
    #[error("Missing required parameter: 'messages[{position}].tool_call_id'.")]
    MissingResultId {
        /// Where the result stands.
        position: usize,
    },
    /// An assistant message that says nothing and calls nothing.
    #[error("Invalid value for 'messages[{position}].content': expected a string, got null.")]
    BlankReply {
        /// Where the message stands.
        position: usize,
    },
}

#[cfg(any(feature = "openai", feature = "server"))]
impl From<RuleViolation> for ApiFailure {
    /// The error that OpenAI answers: status 400.
    fn from(violation: RuleViolation) -> Self {
        let failure = Self::new(400, violation.to_string());
        match violation {
            RuleViolation::Empty => failure.param("messages").code("empty_array"),
            RuleViolation::OrphanResult { position, .. } => {
                failure.param(format!("messages.[{position}].tool_call_id"))
            }
            RuleViolation::UnansweredCalls { position, .. } => failure.param(format!("messages.[{position}].role")),
            RuleViolation::EmptyToolCalls { position } => {
                failure.param(format!("messages[{position}].tool_calls")).code("empty_array")
            }
            RuleViolation::CallsNotArray { position } => {
                failure.param(format!("messages[{position}].tool_calls")).code("invalid_type")
            }
            RuleViolation::MissingCallId { position, call } => {
                let param = format!("messages[{position}].tool_calls[{call}].id");
                failure.param(param).code("missing_required_parameter")
            }
            RuleViolation::MissingResultId { position } => {
                failure.param(format!("messages[{position}].tool_call_id")).code("missing_required_parameter")
            }
            RuleViolation::BlankReply { position } => failure.param(format!("messages.[{position}].content")),
        }
    }
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
    fn parallel_calls_are_answered_in_any_order_and_ids_may_come_back() {
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
    fn a_result_needs_its_open_call_right_before() {
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
    fn replies_say_something_and_lists_are_not_empty() {
        assert_eq!(check_chat_rules(&[]), Err(RuleViolation::Empty));
        assert_eq!(check_chat_rules(&[calls(&[])]), Err(RuleViolation::EmptyToolCalls { position: 0 }));
        let blank = Message::from_json(r#"{"role":"assistant","content":null}"#).unwrap();
        assert_eq!(check_chat_rules(&[Message::user("u"), blank]), Err(RuleViolation::BlankReply { position: 1 }));
        let refusal = Message::from_json(r#"{"role":"assistant","refusal":"no"}"#).unwrap();
        assert_eq!(check_chat_rules(&[refusal]), Ok(()));
    }
}
