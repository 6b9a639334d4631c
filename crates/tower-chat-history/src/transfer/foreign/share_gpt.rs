//! ShareGPT: lists of `from` and `value`.

use std::io::BufRead;

use serde_json::{Value, json};
use tower_chat_history_core::Message;

use super::{
    chat_ml::name,
    conversation::{ForeignConversation, ForeignMessage},
    json::{message as message_of, text as text_of},
    records::{Records, are_objects},
};
use crate::transfer::problem::{ForeignError, Problem};

/// Reads objects `{"conversations": [{"from": .., "value": ..}]}`, one in each line or in a list.
///
/// The roles `human`, `gpt`, `system`, `function_call`, `observation` and their usual other names are known. The name
/// of a conversation is its field `id`, or its number.
#[derive(Debug)]
pub struct ShareGpt<R>(Records<R>);

impl<R: BufRead> ShareGpt<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self(Records::new(input))
    }
}

impl<R: BufRead> Iterator for ShareGpt<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(are_objects)?;
        Some(record.and_then(|(number, value)| conversation(number, &value)))
    }
}

fn conversation(number: u64, value: &Value) -> Result<ForeignConversation, ForeignError> {
    let name = name(value, number);
    let failed = |problem| ForeignError::conversation(number, Some(name.clone()), problem);
    let list = value.get("conversations").or_else(|| value.get("conversation")).and_then(Value::as_array);
    let list = list.ok_or_else(|| failed(Problem::Form("expected a list `conversations`")))?;
    let mut conversation = ForeignConversation::new(name.clone(), number);
    let mut calls = 0;
    for (index, turn) in list.iter().enumerate() {
        let message = message(turn, &mut calls).ok_or_else(|| failed(Problem::Message(index)))?;
        conversation.push(ForeignMessage::new(message));
    }
    Ok(conversation)
}

fn message(turn: &Value, calls: &mut u64) -> Option<Message> {
    let from = turn.get("from").or_else(|| turn.get("role"))?.as_str()?;
    let value = turn.get("value").or_else(|| turn.get("content"))?.as_str()?;
    Some(match from {
        "human" | "user" => Message::user(value),
        "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard" => Message::assistant(value),
        "system" => Message::system(value),
        "function_call" => {
            *calls += 1;
            call(value, *calls)?
        }
        // It answers the call before it.
        "observation" | "tool" | "function_response" => Message::tool(format!("call_{calls}"), value),
        _ => return None,
    })
}

fn call(value: &str, number: u64) -> Option<Message> {
    let call: Value = serde_json::from_str(value).ok()?;
    let arguments = match call.get("arguments")? {
        Value::String(arguments) => arguments.clone(),
        arguments => text_of(arguments)?,
    };
    let function = json!({ "name": call.get("name")?.as_str()?, "arguments": arguments });
    let calls = json!([{ "id": format!("call_{number}"), "type": "function", "function": function }]);
    message_of(&json!({ "role": "assistant", "content": null, "tool_calls": calls }))
}
