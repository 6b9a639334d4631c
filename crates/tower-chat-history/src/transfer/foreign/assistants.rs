//! Threads of OpenAI's Assistants API.

use std::{io::BufRead, iter::Peekable};

use serde_json::{Value, json};
use tower_chat_history_core::Timestamp;

use super::{
    conversation::{ForeignConversation, ForeignMessage, message_of},
    records::Records,
};
use crate::transfer::import::{ForeignError, Problem};

/// Reads lists of the messages of threads, as the API returned them: objects with a list `data` or `messages`, or lists
/// of messages, one in each line or in a file.
///
/// Pages of one thread must follow each other. The order of the messages may be newest first or oldest first. If all
/// of them have the same second, newest first is assumed, because this is the order of the API. The name of a
/// conversation is the id of its thread. Texts and the URLs of images are kept. Annotations, and files of which a
/// message has only the id, are left out.
pub fn assistants_threads<R: BufRead>(input: R) -> impl Iterator<Item = Result<ForeignConversation, ForeignError>> {
    AssistantsThreads(Pages(Records::new(input)).peekable())
}

#[derive(Debug)]
struct AssistantsThreads<R: BufRead>(Peekable<Pages<R>>);

impl<R: BufRead> Iterator for AssistantsThreads<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut conversation = match self.0.next()? {
            Ok(conversation) => conversation,
            Err(error) => return Some(Err(error)),
        };

        while let Some(Ok(page)) = self.0.next_if(|page| page.as_ref().is_ok_and(|page| page.name == conversation.name))
        {
            conversation.messages.extend(page.messages);
            conversation.left_out += page.left_out;
        }

        let first = conversation.messages.first().and_then(|message| message.at);
        let last = conversation.messages.last().and_then(|message| message.at);
        if first.is_some() && first >= last {
            conversation.messages.reverse();
        }
        Some(Ok(conversation))
    }
}

#[derive(Debug)]
struct Pages<R>(Records<R>);

impl<R: BufRead> Iterator for Pages<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A list of messages is one value, and a list of pages is several.
        let record = self.0.next(|values| !values.is_empty() && values.iter().all(|value| list(value).is_some()))?;
        Some(record.and_then(|(number, value)| page(number, &value)))
    }
}

/// Returns the messages of a page.
fn list(value: &Value) -> Option<&Vec<Value>> {
    let inner = value.get("messages").filter(|messages| messages.is_object()).unwrap_or(value);
    inner.get("data").or_else(|| inner.get("messages")).unwrap_or(inner).as_array()
}

fn page(number: u64, value: &Value) -> Result<ForeignConversation, ForeignError> {
    let Some(messages) = list(value) else {
        let problem = Problem::Form("expected a list `data` or `messages`");
        return Err(ForeignError::conversation(number, None, problem));
    };

    let mut page = ForeignConversation::new(name(value, messages).unwrap_or_else(|| number.to_string()), number);
    for (index, message) in messages.iter().enumerate() {
        let Some(message) = read(message, &mut page.left_out) else {
            return Err(ForeignError::conversation(number, None, Problem::Message(index)));
        };
        page.messages.push(message);
    }
    Ok(page)
}

/// Returns the id of the thread: that in the first message, or else that of the page.
fn name(page: &Value, messages: &[Value]) -> Option<String> {
    let in_message = messages.first().and_then(|message| message.get("thread_id"));
    let own = page.get("thread").and_then(|thread| thread.get("id")).or_else(|| page.get("id"));
    in_message.and_then(Value::as_str).or_else(|| own?.as_str()).map(String::from)
}

fn read(message: &Value, left_out: &mut u64) -> Option<ForeignMessage> {
    let role = message.get("role")?.as_str()?;
    let content = match message.get("content")? {
        Value::String(text) => json!(text),
        Value::Array(parts) => content(parts, left_out)?,
        _ => return None,
    };

    let at = message.get("created_at").and_then(Value::as_u64);
    let at = at.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1_000)));

    let message = message_of(&json!({ "role": role, "content": content }))?;
    Some(ForeignMessage::new(message).at(at))
}

/// Returns the content as a text, if it is one text, or as a list of parts.
fn content(parts: &[Value], left_out: &mut u64) -> Option<Value> {
    let mut kept = Vec::new();
    for part in parts {
        match part.get("type").and_then(Value::as_str)? {
            "text" => {
                let text = part.get("text")?;
                let text = text.get("value").unwrap_or(text).as_str()?;
                kept.push(json!({ "type": "text", "text": text }));
            }
            "image_url" => kept.push(json!({ "type": "image_url", "image_url": part.get("image_url")? })),
            _ => *left_out += 1,
        }
    }
    Some(match &*kept {
        [] => json!(""),
        [one] if one.get("text").is_some() => one["text"].clone(),
        _ => Value::Array(kept),
    })
}
