//! Checks of a prompt in the signing dialect: each text of its window is complete, belongs to the conversation, and is
//! there once. The provider itself checks the structure and the signatures.

use std::collections::HashSet;

use serde_json::{Value, json};
use test_providers::signing::SigningDialect;
use tower_chat_history::{
    Message,
    dialect::{CallId, Dialect as _, Space},
};

use super::super::model::{CONSTANT_REPLIES, SUMMARY, recalled};
use crate::{
    exchange::{Conversation, Name},
    text::{Part, read, read_joined},
};

/// The fields of an element that have a text of its exchange.
const TEXTS: [&str; 4] = ["text", "thinking", "plan", "sealed"];

/// Checks the messages before the input.
///
/// # Errors
///
/// Returns a description of the first strange message.
pub(super) fn check(window: &[Message], conversation: Conversation) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (position, message) in window.iter().enumerate() {
        let is_right = is_of(message, conversation, &mut seen).unwrap_or_default();
        if !is_right {
            let bytes = message.bytes();
            return Err(format!("message {position} is damaged, foreign or repeated: {bytes} bytes"));
        }
    }
    Ok(())
}

/// Returns an outline of a prompt: the role of each message, with the calls that it opens and those that it answers.
pub(super) fn outline(prompt: &[Message]) -> String {
    let line = |message: &Message| {
        let id = |call: &CallId| format!("{}/{}", call.space().0, call.as_str());
        let opens = message.tool_calls().iter().map(|call| format!(" calls {}", id(call.call_id())));
        let answers = message.answers().iter().map(|call| format!(" answers {}", id(call)));
        let about: String = opens.chain(answers).collect();
        let bound = if message.bound().can_be_removed() { " bound" } else { "" };
        format!("[{}{about}{bound}]", message.role())
    };
    prompt.iter().map(line).collect::<Vec<_>>().join(" ")
}

/// Returns true if all texts of a message belong to the conversation, and were not seen before.
fn is_of(message: &Message, conversation: Conversation, seen: &mut HashSet<(Name, Part)>) -> Option<bool> {
    let element: Value = serde_json::from_str(message.json()).ok()?;
    let from = element.get("from")?.as_str()?;
    if !["user", "model"].contains(&from) {
        return Some(["elsewhere", "?"].contains(&from) && element.get("level").is_some_and(Value::is_f64));
    }
    if is_constant_reply(&element) {
        return Some(true);
    }
    let results = element.get("results").and_then(Value::as_array).into_iter().flatten();
    let mut is_new = |text: &str| {
        read(text).is_some_and(|(task, part)| task.conversation == conversation && seen.insert((task.name, part)))
    };
    let mut are_right = true;
    for result in results {
        are_right &= is_abandoned(result) || is_new(result.get("text")?.as_str()?);
    }
    for text in TEXTS.into_iter().filter_map(|name| element.get(name)) {
        let text = text.as_str()?;
        are_right &= is_new(text)
            || from == "user"
                && (recalled(text).is_some_and(|lines| are_of(lines, conversation))
                    || text.contains(&format!("{SUMMARY}{conversation}:")));
    }
    Some(are_right)
}

/// Returns true for a constant reply, which stands before a question.
fn is_constant_reply(element: &Value) -> bool {
    CONSTANT_REPLIES.iter().any(|text| *element == json!({"from": "model", "text": text}))
}

/// Returns true for the result of a call that was abandoned.
fn is_abandoned(result: &Value) -> bool {
    let space = if result["kind"] == "g" { Space(1) } else { Space::DEFAULT };
    let abandoned = SigningDialect.abandoned(&CallId::new(space, result["to"].as_str().unwrap_or_default()));
    serde_json::from_str(&abandoned).is_ok_and(|abandoned: Value| abandoned["results"][0] == *result)
}

/// Returns true if all recalled messages belong to the conversation, and are complete.
fn are_of(lines: &str, conversation: Conversation) -> bool {
    let is_right = |message: &Value| {
        let text = message.get("text").and_then(Value::as_str);
        let texts = text.map(|text| read_joined(text).unwrap_or_default());
        let has_calls = message.get("calls").is_some();
        let are_of = |texts: Vec<_>| !texts.is_empty() && texts.iter().all(|(task, _)| is_in(task, conversation));
        texts.map_or(has_calls, are_of)
    };
    lines.lines().all(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["messages"].as_array().is_some_and(|messages| !messages.is_empty() && messages.iter().all(is_right))
    })
}

fn is_in(task: &crate::exchange::Task, conversation: Conversation) -> bool {
    task.conversation == conversation
}

#[cfg(test)]
mod tests {
    use tower_chat_history::Role;

    use super::*;
    use crate::{
        exchange::{Kind, Task},
        signed,
    };

    fn user(text: &str) -> Message {
        Message::compose(&SigningDialect, &Role::User, text).unwrap()
    }

    fn asked(conversation: Conversation, number: u32, kind: Kind) -> Vec<Message> {
        signed::input(Task { name: Name { worker: 1, number }, conversation, kind }).unwrap()
    }

    #[test]
    fn windows_of_the_conversation_are_accepted() {
        let mut window = vec![user("Before this: A summary of c1: up to w1-2")];
        window.extend(asked(1, 3, Kind::Plain));
        window.extend(asked(1, 4, Kind::Result));
        let abandoned = SigningDialect.abandoned(&CallId::new(Space(1), "call-w1-9-0"));
        window.push(Message::in_dialect(&SigningDialect, abandoned).unwrap());
        for text in CONSTANT_REPLIES {
            window.push(Message::compose(&SigningDialect, &Role::Assistant, text).unwrap());
        }
        let text = asked(1, 5, Kind::Result).iter().flat_map(|message| message.texts()).collect::<Vec<_>>().join("\n");
        let lines = json!({"position": 0, "messages": [{"role": "user", "text": text}]});
        window.push(user(&format!("<earlier_messages note=\"x\">\n{lines}\n</earlier_messages>")));
        assert_eq!(check(&window, 1), Ok(()));
        assert!(check(&window, 3).unwrap_err().starts_with("message 0"), "of another conversation");
        assert!(check(&window[window.len() - 1..], 3).is_err(), "recalled messages of another conversation");
    }

    #[test]
    fn strange_messages_are_found() {
        let question = asked(1, 3, Kind::Plain);
        let damaged = question[0].json().replacen("plain", "plaim", 1);
        let twice = [question.clone(), question.clone()].concat();
        assert!(check(&question, 1).is_ok() && check(&twice, 1).unwrap_err().starts_with("message 1"));
        assert!(check(&[Message::in_dialect(&SigningDialect, damaged).unwrap()], 1).is_err());
        assert!(check(&[user("A summary of c11: up to w1-2")], 1).is_err());
        assert!(check(&[user("hello")], 1).is_err());
        let reply = Message::compose(&SigningDialect, &Role::Assistant, "A summary of c1: x").unwrap();
        assert!(check(&[reply], 1).is_err(), "only the user's messages have summaries");
        assert!(check(&[user("[no reply]")], 1).is_err(), "only replies are constant");
    }
}
