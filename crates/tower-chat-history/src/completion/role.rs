//! The role of replies.

use std::sync::atomic::{AtomicBool, Ordering};

use tower_chat_history_core::{ChatCompletions, Message, json::Object};

/// Returns a reply with the role `assistant`. Another role is replaced, with a warning. Nothing else changes.
///
/// If a reply were stored with the role `tool`, `user` or `system`, the conversation's next call would treat it as a
/// tool result, a question or an instruction.
///
/// ```
/// use tower_chat_history::{Message, Role, adapt::completion::assistant};
///
/// assert_eq!(assistant(Message::user("Hi")).json(), r#"{"role":"assistant","content":"Hi"}"#);
/// ```
#[must_use]
pub fn assistant(message: Message) -> Message {
    let is_chat = message.dialect().is_some_and(|dialect| dialect.name() == ChatCompletions::NAME);
    if !is_chat || message.is_reply() {
        return message;
    }
    warn_of_role();
    with_role(message.json()).unwrap_or_else(|| Message::assistant(message.text()))
}

/// Returns the message of a response, unchanged if its role is `assistant`.
pub(super) fn message(json: &str) -> Option<Message> {
    match Message::from_json(json) {
        Ok(message) => Some(assistant(message)),
        // Some compatible providers leave out the role, which can only be `assistant`.
        Err(_) => with_role(json),
    }
}

/// Returns the object with the role `assistant`. A missing role is added as the first member.
fn with_role(json: &str) -> Option<Message> {
    let object = Object::read(json)?;
    if object.written("role").is_some() {
        return Message::from_json(object.with("role", r#""assistant""#)).ok();
    }
    let comma = if object.members().is_empty() { "" } else { "," };
    let members = json.trim_ascii_start().strip_prefix('{')?;
    Message::from_json(format!(r#"{{"role":"assistant"{comma}{members}"#)).ok()
}

/// Warns that a provider gave a reply another role than `assistant`. It warns once per process, because such a provider
/// gives each reply this role. The warning does not quote the role, which is text of the provider.
pub fn warn_of_role() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!("a reply has a role other than `assistant`; such replies are stored with the role `assistant`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assistants_message_is_kept_byte_for_byte() {
        let json = r#"{ "content":"\u00e4", "role" : "assistant","x":1.50 }"#;
        assert_eq!(message(json).unwrap().json(), json);
    }

    #[test]
    fn another_role_is_replaced_in_its_place() {
        for role in ["\"user\"", "\"tool\"", "\"system\"", "null", "1"] {
            let json = format!(r#"{{"x":1.50,"role":{role},"content":"a"}}"#);
            assert_eq!(message(&json).unwrap().json(), r#"{"x":1.50,"role":"assistant","content":"a"}"#, "{role}");
        }
    }

    #[test]
    fn a_missing_role_is_added() {
        assert_eq!(message(r#"{"content":"a"}"#).unwrap().json(), r#"{"role":"assistant","content":"a"}"#);
        assert_eq!(message("{}").unwrap().json(), r#"{"role":"assistant"}"#);
        assert_eq!(message("[]"), None);
        assert_eq!(message("\"a\""), None);
    }
}
