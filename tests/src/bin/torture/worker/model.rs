//! The model of the test, for chat completions. It answers each question with the matching reply, and checks every
//! prompt.

use ::tests::ABANDONED;
use serde_json::{Value, json};
use tower_chat_history::Message;
use tower_chat_history_test::{Replies, Reply};

use super::Output;
use crate::{
    exchange::Conversation,
    intact,
    text::{Part, read},
};

/// The start of a summary. The number of its conversation follows.
pub(super) const SUMMARY: &str = "A summary of c";

/// The constant replies, which stand before questions.
pub(super) const CONSTANT_REPLIES: [&str; 2] = ["[no reply]", "Understood."];

/// Returns the replies of the model. The mock refuses prompts that break the chat rules. These rules also
/// report a violation if a text of the prompt is damaged or belongs to another conversation.
pub(super) fn replies(output: Output) -> Replies {
    Replies::rules(move |prompt| match answer(prompt) {
        Ok(reply) => reply,
        Err(what) => {
            // If the parent has ended, the violation is lost.
            drop(output.violation(what));
            Reply::text("?")
        }
    })
}

fn answer(prompt: &[Message]) -> Result<Reply, String> {
    let (question, before) = prompt.split_last().ok_or("an empty prompt")?;
    let Some((task, Part::Asked)) = intact::text(question).as_deref().and_then(read) else {
        return Err("a prompt does not end with a question".into());
    };
    let strange = before.iter().find(|message| !is_of(message, task.conversation));
    if let Some(strange) = strange {
        let (role, bytes) = (strange.role(), strange.bytes());
        return Err(format!("the prompt of {} has a damaged or foreign message: {role}, {bytes} bytes", task.name));
    }
    let text = task.text(Part::Answered);
    Ok(if task.kind.calls() {
        Reply::calls([(task.name.call_id(), "look".to_owned(), json!({ "text": text }).to_string())])
    } else {
        Reply::text(text)
    })
}

/// Returns true if a message belongs to the conversation.
fn is_of(message: &Message, conversation: Conversation) -> bool {
    let text = intact::text(message).unwrap_or_default();
    if let Some(lines) = recalled(&text) {
        return are_of(lines, conversation);
    }
    if text.contains("<conversation_summary-") {
        return text.contains(&format!("{SUMMARY}{conversation}:"));
    }
    let is_abandoned = message.is_tool_result() && text == ABANDONED;
    let is_constant = message.is_reply() && CONSTANT_REPLIES.contains(&&*text);
    is_abandoned || is_constant || read(&text).is_some_and(|(task, _)| task.conversation == conversation)
}

/// Returns the lines of recalled messages: all between the first one and the last one.
pub(super) fn recalled(text: &str) -> Option<&str> {
    let (_, lines) = text.strip_prefix("<earlier_messages")?.split_once('\n')?;
    lines.strip_suffix("\n</earlier_messages>")
}

/// Returns true if all recalled messages belong to the conversation, and are complete.
fn are_of(lines: &str, conversation: Conversation) -> bool {
    let is_of = |text: &str| read(text).is_some_and(|(task, _)| task.conversation == conversation);
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_right = |message: &Value| {
        let text = message.get("text").and_then(Value::as_str);
        let calls = list(message, "calls");
        let of_call = |call: &Value| {
            let parsed = call["arguments"].as_str().and_then(|json| serde_json::from_str::<Value>(json).ok());
            parsed.is_some_and(|parsed| parsed["text"].as_str().is_some_and(is_of))
        };
        (text.is_some() || !calls.is_empty()) && text.is_none_or(is_of) && calls.iter().all(of_call)
    };
    lines.lines().all(|line| {
        let messages = serde_json::from_str(line).map(|line: Value| list(&line, "messages")).unwrap_or_default();
        !messages.is_empty() && messages.iter().all(is_right)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Kind, Name, Task};

    fn asked(conversation: Conversation, number: u32) -> Message {
        let name = Name { worker: 1, number };
        Message::user(Task { name, conversation, kind: Kind::Plain }.text(Part::Asked))
    }

    #[test]
    fn prompts_with_foreign_messages_are_rejected() {
        assert!(answer(&[asked(1, 0), asked(1, 1)]).is_ok());
        let summary =
            |text: &str| Message::user(format!("<conversation_summary-1>\n{text}\n</conversation_summary-1>"));
        assert!(answer(&[summary("A summary of c1: some"), asked(1, 1)]).is_ok());
        assert!(answer(&[summary("A summary of c11: some"), asked(1, 1)]).is_err());
        let recalled = |conversation, cut: usize| {
            let text = asked(conversation, 0).text().into_owned();
            let line = json!({"position": 0, "messages": [{"role": "user", "text": text[cut..]}]});
            Message::user(format!("<earlier_messages note=\"x\">\n{line}\n</earlier_messages>"))
        };
        assert!(answer(&[recalled(1, 0), asked(1, 1)]).is_ok());
        assert!(answer(&[recalled(2, 0), asked(1, 1)]).is_err());
        assert!(answer(&[recalled(1, 1), asked(1, 1)]).is_err());
        assert!(answer(&[asked(2, 0), asked(1, 1)]).is_err());
        assert!(answer(&[Message::user("c1 hello"), asked(1, 1)]).is_err());
        assert!(answer(&[asked(1, 1), Message::user("hello")]).is_err());
    }
}
