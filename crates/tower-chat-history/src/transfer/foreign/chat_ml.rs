//! ChatML: lines with lists of chat messages, and the text form.

use std::{collections::VecDeque, io::BufRead, mem};

use serde_json::Value;

use super::{
    conversation::{ForeignConversation, ForeignMessage},
    json,
    records::{MAX_LINE, Records, are_objects},
};
use crate::transfer::problem::{ForeignError, Problem};

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

/// The roles of chat messages.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Reads the text form of ChatML: `<|im_start|>role`, a line break or a space, the text, and `<|im_end|>`.
///
/// A role may have a name: `<|im_start|>user name=Ann`. A name with spaces needs a line break after it. Between
/// messages there may be only white space. A system message after other messages begins the next conversation. The name
/// of a conversation is its number. A conversation with an unknown role is an error, and the next one is read. The
/// reader ends at the first text that has another form, because nothing after it can be understood.
#[derive(Debug)]
pub struct ChatMlText<R> {
    lines: Records<R>,
    conversation: ForeignConversation,
    /// The message whose end was not read yet.
    open: Option<Open>,
    /// The error of the conversation that is being read.
    failed: Option<ForeignError>,
    /// The conversations that were read whole.
    ready: VecDeque<Result<ForeignConversation, ForeignError>>,
    conversations: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct Open {
    /// `None` if the role is unknown.
    role: Option<&'static str>,
    name: String,
    text: String,
}

impl<R: BufRead> ChatMlText<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self {
            lines: Records::new(input),
            conversation: ForeignConversation::new(String::new(), 1),
            open: None,
            failed: None,
            ready: VecDeque::new(),
            conversations: 0,
            has_ended: false,
        }
    }

    const fn problem(&self, problem: Problem) -> ForeignError {
        ForeignError::conversation(self.lines.number(), None, problem)
    }

    /// Adds a message. If it begins the next conversation, the one before it is ready.
    fn add(&mut self, open: &Open) -> Result<(), ForeignError> {
        let Some(role) = open.role else {
            let error = self.problem(Problem::Form("expected the role of a chat message after <|im_start|>"));
            self.failed.get_or_insert(error);
            return Ok(());
        };
        let mut json = serde_json::json!({ "role": role, "content": open.text });
        if let Some(fields) = json.as_object_mut().filter(|_| !open.name.is_empty()) {
            fields.insert("name".into(), open.name.as_str().into());
        }
        let index = self.conversation.messages.len();
        let message = json::message(&json).ok_or_else(|| self.problem(Problem::Message(index)))?;
        let last = self.conversation.messages.last();
        let has_others = self.failed.is_some() || last.is_some_and(|last| !last.message.is_instruction());
        if message.is_instruction() && has_others {
            self.end_conversation();
        }
        self.conversation.push(ForeignMessage::new(message));
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
                let (open, rest) = opened(start);
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
fn opened(line: &str) -> (Open, &str) {
    let word = |line: &str| line.find(|next: char| next.is_whitespace() || next == '<').unwrap_or(line.len());
    let (role, mut rest) = line.split_at(word(line));
    let role = ROLES.into_iter().find(|known| *known == role);
    let mut name = String::new();
    if let Some(named) = rest.strip_prefix(" name=") {
        // If the text begins on the next line, the rest of this one is the name.
        let end = if named.contains(END) { word(named) } else { named.trim_end().len() };
        let (word, after) = named.split_at(end);
        name.push_str(word);
        rest = after;
    }
    let text = ["\r\n", "\n", " "].iter().find_map(|space| rest.strip_prefix(space)).unwrap_or(rest);
    (Open { role, name, text: String::new() }, text)
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
