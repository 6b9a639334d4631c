//! Formats of data sets for training: ChatML, as JSON lines and as text, and ShareGPT.

use std::{collections::VecDeque, io::BufRead, mem};

use serde_json::{Value, json};
use tower_chat_history_core::Message;

use super::{
    conversation::{ForeignConversation, ForeignMessage, json_text, message_of},
    records::{MAX_LINE, Records, are_objects},
};
use crate::transfer::import::{ForeignError, Problem};

/// The text before a message in the text form of ChatML.
const START: &str = "<|im_start|>";

/// The text after a message in the text form of ChatML.
const END: &str = "<|im_end|>";

/// The roles of chat messages.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Reads JSON lines of `{"messages": [..]}` with chat messages, as in files for fine-tuning.
///
/// Messages keep all their fields except `weight`, in alphabetical order. The name of a conversation is its field `id`,
/// or the number of its line.
pub fn chat_ml<R: BufRead>(input: R) -> impl Iterator<Item = Result<ForeignConversation, ForeignError>> {
    ChatMl(Records::new(input))
}

#[derive(Debug)]
struct ChatMl<R>(Records<R>);

impl<R: BufRead> Iterator for ChatMl<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, value) = match self.0.next(are_objects)? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };

        let name = name(&value, number);
        Some(match chat_ml_messages(value) {
            Ok(messages) => Ok(ForeignConversation { messages, ..ForeignConversation::new(name, number) }),
            Err(problem) => Err(ForeignError::conversation(number, Some(name), problem)),
        })
    }
}

fn chat_ml_messages(mut value: Value) -> Result<Vec<ForeignMessage>, Problem> {
    let Some(Value::Array(list)) = value.get_mut("messages").map(Value::take) else {
        return Err(Problem::Form("expected a list `messages`"));
    };

    let mut messages = Vec::with_capacity(list.len());
    for (index, mut message) in list.into_iter().enumerate() {
        if let Some(fields) = message.as_object_mut() {
            fields.remove("weight");
        }
        let message = message_of(&message).ok_or(Problem::Message(index))?;
        messages.push(ForeignMessage::new(message));
    }
    Ok(messages)
}

/// Reads objects `{"conversations": [{"from": .., "value": ..}]}`, one in each line or in a list.
///
/// The roles `human`, `gpt`, `system`, `function_call`, `observation` and their usual other names are known. The name
/// of a conversation is its field `id`, or its number.
pub fn share_gpt<R: BufRead>(input: R) -> impl Iterator<Item = Result<ForeignConversation, ForeignError>> {
    ShareGpt(Records::new(input))
}

#[derive(Debug)]
struct ShareGpt<R>(Records<R>);

impl<R: BufRead> Iterator for ShareGpt<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, value) = match self.0.next(are_objects)? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };

        let name = name(&value, number);
        Some(match share_gpt_messages(&value) {
            Ok(messages) => Ok(ForeignConversation { messages, ..ForeignConversation::new(name, number) }),
            Err(problem) => Err(ForeignError::conversation(number, Some(name), problem)),
        })
    }
}

fn share_gpt_messages(value: &Value) -> Result<Vec<ForeignMessage>, Problem> {
    let list = value.get("conversations").or_else(|| value.get("conversation")).and_then(Value::as_array);
    let list = list.ok_or(Problem::Form("expected a list `conversations`"))?;

    let mut messages = Vec::with_capacity(list.len());
    let mut calls = 0;
    for (index, turn) in list.iter().enumerate() {
        let message = message(turn, &mut calls).ok_or(Problem::Message(index))?;
        messages.push(ForeignMessage::new(message));
    }
    Ok(messages)
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
        arguments => json_text(arguments)?,
    };
    let function = json!({ "name": call.get("name")?.as_str()?, "arguments": arguments });
    let calls = json!([{ "id": format!("call_{number}"), "type": "function", "function": function }]);
    message_of(&json!({ "role": "assistant", "content": null, "tool_calls": calls }))
}

/// Returns the `id` of a record, or its number.
fn name(value: &Value, number: u64) -> String {
    match value.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => number.to_string(),
    }
}

/// Reads the text form of ChatML: `<|im_start|>role`, a line break or a space, the text, and `<|im_end|>`.
///
/// A role may have a name: `<|im_start|>user name=Ann`. A name with spaces needs a line break after it. Between
/// messages there may be only white space. A system message after other messages begins the next conversation. The name
/// of a conversation is its number. A conversation with an unknown role is an error, and the next one is read. The
/// reader ends at the first text that has another form, because nothing after it can be understood.
pub fn chat_ml_text<R: BufRead>(input: R) -> impl Iterator<Item = Result<ForeignConversation, ForeignError>> {
    ChatMlText {
        lines: Records::new(input),
        conversation: ForeignConversation::new(String::new(), 1),
        open: None,
        failed: None,
        ready: VecDeque::new(),
        conversations: 0,
        has_ended: false,
    }
}

#[derive(Debug)]
struct ChatMlText<R> {
    lines: Records<R>,
    conversation: ForeignConversation,
    /// The message whose end was not read yet.
    open: Option<OpenMessage>,
    /// The error of the conversation that is being read.
    failed: Option<ForeignError>,
    /// The conversations that were read whole.
    ready: VecDeque<Result<ForeignConversation, ForeignError>>,
    conversations: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct OpenMessage {
    /// `None` if the role is unknown.
    role: Option<&'static str>,
    name: String,
    text: String,
}

impl<R: BufRead> ChatMlText<R> {
    const fn problem(&self, problem: Problem) -> ForeignError {
        ForeignError::conversation(self.lines.number(), None, problem)
    }

    /// Adds a message. If it begins the next conversation, the one before it is ready.
    fn add(&mut self, open: &OpenMessage) -> Result<(), ForeignError> {
        let Some(role) = open.role else {
            let error = self.problem(Problem::Form("expected the role of a chat message after <|im_start|>"));
            self.failed.get_or_insert(error);
            return Ok(());
        };

        let mut json = json!({ "role": role, "content": open.text });
        if let Some(fields) = json.as_object_mut().filter(|_| !open.name.is_empty()) {
            fields.insert("name".into(), open.name.as_str().into());
        }
        let index = self.conversation.messages.len();
        let message = message_of(&json).ok_or_else(|| self.problem(Problem::Message(index)))?;

        let last = self.conversation.messages.last();
        let has_others = self.failed.is_some() || last.is_some_and(|last| !last.message.is_instruction());
        if message.is_instruction() && has_others {
            self.end_conversation();
        }
        self.conversation.messages.push(ForeignMessage::new(message));
        Ok(())
    }

    fn end_conversation(&mut self) {
        let next = ForeignConversation::new(String::new(), self.lines.number());
        let mut conversation = mem::replace(&mut self.conversation, next);
        let failed = self.failed.take();
        if conversation.messages.is_empty() && failed.is_none() {
            return;
        }
        self.conversations += 1;
        conversation.name = self.conversations.to_string();
        self.ready.push_back(failed.map_or(Ok(conversation), Err));
    }

    fn line(&mut self, mut line: &str) -> Result<(), ForeignError> {
        loop {
            let Some(mut open) = self.open.take() else {
                line = line.trim_start();
                if line.is_empty() {
                    return Ok(());
                }
                let start = line.strip_prefix(START);
                let start = start.ok_or_else(|| self.problem(Problem::Form("expected <|im_start|>")))?;
                let (open, rest) = opening(start);
                self.open = Some(open);
                line = rest;
                continue;
            };

            let Some((text, rest)) = line.split_once(END) else {
                open.text.push_str(line);
                if open.text.len() > MAX_LINE {
                    return Err(self.problem(Problem::TooLong { limit: MAX_LINE }));
                }
                self.open = Some(open);
                return Ok(());
            };

            open.text.push_str(text);
            self.add(&open)?;
            line = rest;
        }
    }

    /// Reads until a conversation is ready, or until the end.
    fn read(&mut self) -> Result<(), ForeignError> {
        while self.ready.is_empty() {
            match self.lines.line() {
                Some(line) => self.line(&line?)?,
                None if self.open.is_some() => return Err(self.problem(Problem::Form("expected <|im_end|>"))),
                None => {
                    self.has_ended = true;
                    self.end_conversation();
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Reads a role with its name. Returns the message without its text, and the rest of the line.
fn opening(line: &str) -> (OpenMessage, &str) {
    let (role, mut rest) = line.split_at(word_len(line));
    let role = ROLES.into_iter().find(|known| *known == role);

    let mut name = String::new();
    if let Some(named) = rest.strip_prefix(" name=") {
        // If the text begins on the next line, the rest of this one is the name.
        let end = if named.contains(END) { word_len(named) } else { named.trim_end().len() };
        let (word, after) = named.split_at(end);
        name.push_str(word);
        rest = after;
    }

    let text = ["\r\n", "\n", " "].iter().find_map(|space| rest.strip_prefix(space)).unwrap_or(rest);
    (OpenMessage { role, name, text: String::new() }, text)
}

fn word_len(line: &str) -> usize {
    line.find(|next: char| next.is_whitespace() || next == '<').unwrap_or(line.len())
}

impl<R: BufRead> Iterator for ChatMlText<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.has_ended
            && let Err(error) = self.read()
        {
            self.has_ended = true;
            return Some(Err(error));
        }
        self.ready.pop_front()
    }
}
