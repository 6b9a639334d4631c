//! Recorded conversations.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Deserializer, Value};
use tower_chat_history::{BoxError, Message, Role};

/// A recorded conversation, as a list of calls.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) calls: Vec<Call>,
}

/// One call: its input and the model's reply.
#[derive(Debug)]
pub(crate) struct Call {
    /// The system and developer messages so far.
    pub(crate) head: Vec<Message>,
    /// The messages since the previous reply. If there are none, the recording has two replies in succession.
    pub(crate) input: Vec<Message>,
    pub(crate) reply: Message,
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(default)]
    id: Value,
    messages: Option<Vec<Message>>,
}

impl Recording {
    /// Reads the conversations from these files, or from stdin if there are none.
    pub(crate) fn read_all(files: &[PathBuf]) -> Result<Vec<Self>, BoxError> {
        let mut recordings = Vec::new();
        for path in files {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            read(BufReader::new(file), path, &mut recordings)?;
        }
        if files.is_empty() {
            read(io::stdin().lock(), Path::new("stdin"), &mut recordings)?;
        }
        Ok(recordings)
    }

    /// Splits a list of messages into calls. Messages after the last reply were never answered and are left out.
    pub(crate) fn new(id: String, messages: impl IntoIterator<Item = Message>) -> Self {
        let (mut head, mut input, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for message in messages {
            if message.is_instruction() {
                head.push(message);
            } else if *message.role() == Role::Assistant {
                calls.push(Call { head: head.clone(), input: std::mem::take(&mut input), reply: message });
            } else {
                input.push(message);
            }
        }
        Self { id, calls }
    }

    /// Returns the head of the first call.
    pub(crate) fn head(&self) -> &[Message] {
        self.calls.first().map_or(&[], |call| &call.head)
    }
}

fn read(input: impl Read, path: &Path, recordings: &mut Vec<Recording>) -> Result<(), BoxError> {
    let (path, mut others) = (path.display(), 0);
    for conversation in Deserializer::from_reader(input).into_iter() {
        // Only the position is shown, because the text is private.
        let Conversation { id, messages } = conversation.map_err(|error| {
            format!("{path}: invalid conversation at line {} column {}", error.line(), error.column())
        })?;
        let Some(messages) = messages else {
            others += 1;
            continue;
        };
        let id = match id {
            Value::String(id) => id,
            Value::Null => (recordings.len() + 1).to_string(),
            other => other.to_string(),
        };
        recordings.push(Recording::new(id, messages));
    }
    if others > 0 {
        eprintln!("replay: {path}: skipped {others} objects without messages");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_a_call_with_the_messages_before_it() {
        let [s, t] = ["s", "t"].map(Message::system);
        let [a, b] = ["a", "b"].map(Message::user);
        let [x, y] = ["x", "y"].map(Message::assistant);
        let messages = [&s, &a, &b, &x, &y, &t, &a, &x, &b].map(Message::clone);
        let calls = Recording::new("1".to_owned(), messages).calls;
        let calls: Vec<_> = calls.into_iter().map(|call| (call.head, call.input, call.reply)).collect();
        assert_eq!(
            calls,
            [(vec![s.clone()], vec![a.clone(), b], x.clone()), (vec![s.clone()], vec![], y), (vec![s, t], vec![a], x)]
        );
    }
}
