//! ChatML: lines with lists of chat messages, and the text form.

use std::{io::BufRead, mem};

use serde_json::Value;

use super::{
    conversation::{ForeignConversation, ForeignMessage},
    json,
    records::{MAX_LINE, Records, are_objects},
};
use crate::problem::{ForeignError, Problem};

/// Reads JSON lines of `{"messages": [..]}` with chat messages, as in files for fine-tuning.
///
/// Messages keep all their fields except `weight`, in alphabetical order. The name of a conversation is its field `id`,
/// or the number of its line.
#[derive(Debug)]
pub struct ChatMl<R>(Records<R>);

impl<R: BufRead> ChatMl<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self(Records::new(input))
    }
}

impl<R: BufRead> Iterator for ChatMl<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(are_objects)?;
        Some(record.and_then(|(number, value)| conversation(number, value)))
    }
}

fn conversation(number: u64, mut value: Value) -> Result<ForeignConversation, ForeignError> {
    let name = name(&value, number);
    let failed = |problem| ForeignError::conversation(number, Some(name.clone()), problem);
    let Some(Value::Array(messages)) = value.get_mut("messages").map(Value::take) else {
        return Err(failed(Problem::Form("expected a list `messages`")));
    };
    let mut conversation = ForeignConversation::new(name.clone(), number);
    for (index, mut message) in messages.into_iter().enumerate() {
        if let Some(fields) = message.as_object_mut() {
            fields.remove("weight");
        }
        let message = json::message(&message).ok_or_else(|| failed(Problem::Message(index)))?;
        conversation.push(ForeignMessage::new(message));
    }
    Ok(conversation)
}

/// Returns the `id` of a record, or its number.
pub(super) fn name(value: &Value, number: u64) -> String {
    match value.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => number.to_string(),
    }
}

const START: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// Reads the text form of ChatML: `<|im_start|>role`, a line break, the text, and `<|im_end|>`.
///
/// A system message after other messages begins the next conversation. The name of a conversation is its number.
#[derive(Debug)]
pub struct ChatMlText<R> {
    lines: Records<R>,
    conversation: ForeignConversation,
    /// The role and the text of the message whose end was not read yet.
    open: Option<(String, String)>,
    conversations: u64,
    has_ended: bool,
}

impl<R: BufRead> ChatMlText<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        let conversation = ForeignConversation::new(String::new(), 1);
        Self { lines: Records::new(input), conversation, open: None, conversations: 0, has_ended: false }
    }

    fn problem(&mut self, problem: Problem) -> ForeignError {
        // The rest cannot be understood, because the roles are not known.
        self.has_ended = true;
        ForeignError::conversation(self.lines.number(), None, problem)
    }

    /// Adds a message. Returns the conversation before it, if it begins the next one.
    fn add(&mut self, role: &str, text: &str) -> Result<Option<ForeignConversation>, ForeignError> {
        let (role, name) = role.split_once(" name=").unwrap_or((role, ""));
        let mut json = serde_json::json!({ "role": role.trim(), "content": text });
        if let Some(fields) = json.as_object_mut().filter(|_| !name.is_empty()) {
            fields.insert("name".into(), name.trim().into());
        }
        let index = self.conversation.messages.len();
        let message = json::message(&json).ok_or_else(|| self.problem(Problem::Message(index)))?;
        let is_next = message.is_instruction()
            && self.conversation.messages.last().is_some_and(|last| !last.message.is_instruction());
        let before = if is_next { self.take() } else { None };
        self.conversation.push(ForeignMessage::new(message));
        Ok(before)
    }

    fn take(&mut self) -> Option<ForeignConversation> {
        let next = ForeignConversation::new(String::new(), self.lines.number());
        let mut conversation = mem::replace(&mut self.conversation, next);
        if conversation.messages.is_empty() {
            return None;
        }
        self.conversations += 1;
        conversation.name = self.conversations.to_string();
        Some(conversation)
    }

    /// Reads a line. Returns a conversation if the line ends one.
    fn line(&mut self, line: &str) -> Result<Option<ForeignConversation>, ForeignError> {
        let Some((role, mut text)) = self.open.take() else {
            let line = line.trim();
            return match line.strip_prefix(START) {
                _ if line.is_empty() => Ok(None),
                None => Err(self.problem(Problem::Form("expected <|im_start|>"))),
                Some(role) => {
                    // Some writers put the text into the same line.
                    match role.split_once(END) {
                        Some((role, _)) => self.add(role, ""),
                        None => {
                            self.open = Some((role.to_owned(), String::new()));
                            Ok(None)
                        }
                    }
                }
            };
        };
        if let Some((rest, _)) = line.split_once(END) {
            text.push_str(rest);
            return self.add(&role, &text);
        }
        text.push_str(line);
        if text.len() > MAX_LINE {
            return Err(self.problem(Problem::TooLong { limit: MAX_LINE }));
        }
        self.open = Some((role, text));
        Ok(None)
    }
}

impl<R: BufRead> Iterator for ChatMlText<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            let read = match self.lines.line() {
                Some(line) => line.and_then(|line| self.line(&line)),
                None if self.open.is_some() => Err(self.problem(Problem::Form("expected <|im_end|>"))),
                None => {
                    self.has_ended = true;
                    Ok(self.take())
                }
            };
            match read {
                Ok(None) => {}
                Ok(Some(conversation)) => return Some(Ok(conversation)),
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
