//! The refusals of readers that accept less than others, with their wordings.

use serde_json::Value;
use tower_chat_history_core::{CallIdForm, Compat, Message, ReasoningField, SystemMessages};

/// A prompt that a reader refuses, because it has something that the reader does not accept. Its text is the wording of
/// a reader with this rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompatViolation {
    /// [`SystemMessages::First`]: a system message is not the first message.
    #[error("System message must be at the beginning.")]
    SystemNotFirst,
    /// [`SystemMessages::Never`]: there is a system message.
    #[error("System role not supported")]
    System,
    /// [`Compat::no_developer`]: there is a developer message.
    #[error(
        "Failed to deserialize the JSON body into the target type: messages[{position}].role: unknown variant \
         `developer`, expected one of `system`, `user`, `assistant`, `tool`"
    )]
    Developer {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::alternates`]: the roles do not alternate.
    #[error("Conversation roles must alternate user/assistant/user/assistant/...")]
    NotAlternating {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::begins_with_user`]: another message is first.
    #[error(
        "A conversation must start with a user message. Try again with a conversation that starts with a user message."
    )]
    NoUserFirst,
    /// [`Compat::text_content`]: a content is a list.
    #[error("messages[{position}].content: invalid type: sequence, expected a string")]
    ContentList {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::plain_fields`] or [`ReasoningField::Refused`]: a field that the reader does not accept.
    #[error(
        "'messages.{position}' : for 'role:{role}' the following must be satisfied[('messages.{position}' : property \
         '{field}' is unsupported)]"
    )]
    Field {
        /// The position of the message.
        position: usize,
        /// The role of the message.
        role: String,
        /// The name of the field.
        field: String,
    },
    /// [`ReasoningField::Required`]: a message with calls has no `reasoning_content`.
    #[error("The `reasoning_content` in the thinking mode must be passed back to the API.")]
    NoReasoning {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::call_ids`]: an id that is too long.
    #[error(
        "Invalid 'messages[{position}].tool_calls[0].id': string too long. Expected a string with maximum length {most}, \
         but got a string with length {length} instead."
    )]
    LongId {
        /// The position of the message.
        position: usize,
        /// The largest length.
        most: usize,
        /// The length of the id.
        length: usize,
    },
    /// [`Compat::call_ids`]: an id with other characters.
    #[error("messages.{position}.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")]
    IdPattern {
        /// The position of the message.
        position: usize,
    },
    /// [`CallIdForm::Alphanumeric9`]: an id of another form.
    #[error("Tool call IDs should be alphanumeric strings with length 9!")]
    IdOf9 {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::calls_need_tools`]: there are calls, and the request has no tools.
    #[error("The toolConfig field must be defined when using toolUse and toolResult content blocks.")]
    NoTools,
    /// [`Compat::single_calls`]: a message has several calls.
    #[error("This model only supports single tool-calls at once!")]
    SeveralCalls {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::media`]: the reader takes no images.
    #[error(
        "Failed to deserialize the JSON body into the target type: messages[{position}]: unknown variant `image_url`, \
         expected `text`"
    )]
    Image {
        /// The position of the message.
        position: usize,
    },
    /// [`Compat::media`]: there are too many images.
    #[error("Too many images provided. This model supports up to {most} images")]
    Images {
        /// The largest number of images.
        most: u32,
    },
}

/// Checks that a reader accepts the messages of a request for chat completions. `has_tools` says if the request has
/// tools.
///
/// The rules are written for tests: they read the JSON of the messages, and share no code with the library that makes
/// prompts. A list of the sources is in the table of readers of `tower-chat-history`.
///
/// # Errors
///
/// Returns the first rule that is broken.
pub fn check_compat(messages: &[Message], has_tools: bool, compat: &Compat) -> Result<(), CompatViolation> {
    let values: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(message.json()).unwrap_or_default()).collect();
    check_places(&values, compat)?;

    let mut images = 0;
    for (position, message) in values.iter().enumerate() {
        let is_list = message["content"].is_array();
        if compat.text_content && is_list {
            return Err(CompatViolation::ContentList { position });
        }
        check_fields(position, message, compat)?;
        check_calls(position, message, has_tools, compat)?;

        let parts = message["content"].as_array().into_iter().flatten();
        let found = parts.filter(|part| part["type"] == "image_url").count();
        images += u32::try_from(found).unwrap_or(u32::MAX);
        match compat.media.images {
            Some(0) if found > 0 => return Err(CompatViolation::Image { position }),
            Some(most) if images > most => return Err(CompatViolation::Images { most }),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the roles of the messages and their order.
fn check_places(messages: &[Value], compat: &Compat) -> Result<(), CompatViolation> {
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
    for (position, role) in roles.iter().enumerate() {
        let is_system = matches!(*role, "system" | "developer");
        match compat.system {
            SystemMessages::First if is_system && position > 0 => return Err(CompatViolation::SystemNotFirst),
            SystemMessages::Never if is_system => return Err(CompatViolation::System),
            _ => {}
        }
        if compat.no_developer && *role == "developer" {
            return Err(CompatViolation::Developer { position });
        }
    }

    let mut expected = ["user", "user"];
    let turns = roles.iter().enumerate().filter(|(_, role)| !matches!(**role, "system" | "developer"));
    for (nth, (position, role)) in turns.enumerate() {
        if nth == 0 && compat.begins_with_user && *role != "user" {
            return Err(CompatViolation::NoUserFirst);
        }
        if compat.alternates && !expected.contains(role) {
            return Err(CompatViolation::NotAlternating { position });
        }
        let has_calls = messages[position]["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        expected = match *role {
            "user" => ["assistant", "assistant"],
            "assistant" if has_calls => ["tool", "tool"],
            "tool" => ["tool", "assistant"],
            _ => ["user", "user"],
        };
    }
    Ok(())
}

fn check_fields(position: usize, message: &Value, compat: &Compat) -> Result<(), CompatViolation> {
    let role = message["role"].as_str().unwrap_or_default();
    let unsupported = |field: &str| CompatViolation::Field { position, role: role.into(), field: field.into() };
    let has_calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let needs_reasoning =
        matches!(compat.reasoning, ReasoningField::Required | ReasoningField::RequiredOfOthers) && has_calls;

    if needs_reasoning && !message["reasoning_content"].is_string() {
        return Err(CompatViolation::NoReasoning { position });
    }
    if compat.reasoning == ReasoningField::Refused && !message["reasoning_content"].is_null() {
        return Err(unsupported("reasoning_content"));
    }
    if !compat.plain_fields {
        return Ok(());
    }

    let known = ["role", "content", "name", "refusal", "audio", "tool_call_id", "tool_calls", "function_call"];
    for (name, value) in message.as_object().into_iter().flatten() {
        let is_accepted =
            known.contains(&name.as_str()) || name == "reasoning" || name == "reasoning_content" && needs_reasoning;
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !is_accepted || is_empty && name != "content" {
            return Err(unsupported(name));
        }
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        for (name, value) in call.as_object().into_iter().flatten() {
            if !["id", "type", "function", "custom"].contains(&name.as_str()) {
                return Err(unsupported(name));
            }
            let inner = value.as_object().into_iter().flatten();
            if let Some((name, _)) =
                inner.into_iter().find(|(name, _)| !["name", "arguments", "input"].contains(&name.as_str()))
            {
                return Err(unsupported(name));
            }
        }
    }
    Ok(())
}

fn check_calls(position: usize, message: &Value, has_tools: bool, compat: &Compat) -> Result<(), CompatViolation> {
    let calls: Vec<&Value> = message["tool_calls"].as_array().into_iter().flatten().collect();
    let ids = calls.iter().map(|call| &call["id"]).chain([&message["tool_call_id"]]);
    for id in ids.filter_map(Value::as_str) {
        check_id(position, id, compat.call_ids)?;
    }
    if compat.calls_need_tools && !has_tools && (!calls.is_empty() || message["role"] == "tool") {
        return Err(CompatViolation::NoTools);
    }
    if compat.single_calls && calls.len() > 1 {
        return Err(CompatViolation::SeveralCalls { position });
    }
    Ok(())
}

fn check_id(position: usize, id: &str, form: CallIdForm) -> Result<(), CompatViolation> {
    let length = id.chars().count();
    let most = match form {
        CallIdForm::AtMost64 | CallIdForm::Plain64 => 64,
        CallIdForm::Plain40 => 40,
        CallIdForm::Alphanumeric9 if length != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric()) => {
            return Err(CompatViolation::IdOf9 { position });
        }
        _ => return Ok(()),
    };
    if length > most {
        return Err(CompatViolation::LongId { position, most, length });
    }
    let is_plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if form != CallIdForm::AtMost64 && !is_plain {
        return Err(CompatViolation::IdPattern { position });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(compat: Compat, messages: &Value) -> Option<String> {
        let messages =
            messages.as_array().unwrap().iter().map(|message| Message::from_json(message.to_string()).unwrap());
        let messages: Vec<Message> = messages.collect();
        assert_eq!(check_compat(&messages, false, &Compat::new()), Ok(()));
        check_compat(&messages, false, &compat).err().map(|violation| violation.to_string())
    }

    #[test]
    fn each_flag_refuses_what_it_is_about_in_the_reader_s_words() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let user = json!({"role": "user", "content": "u"});
        let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("a:1"), call("b")]});
        let reasoning = json!({"role": "assistant", "content": "a", "reasoning_content": "r"});
        let all = Compat::new();
        for (compat, messages, words) in [
            (
                all.system(SystemMessages::First),
                json!([user, {"role": "system", "content": "s"}]),
                "must be at the beginning",
            ),
            (
                all.system(SystemMessages::Never),
                json!([{"role": "system", "content": "s"}]),
                "System role not supported",
            ),
            (all.no_developer(), json!([{"role": "developer", "content": "s"}]), "unknown variant `developer`"),
            (all.alternates(), json!([user, user]), "must alternate"),
            (
                all.alternates(),
                json!([user, calls, {"role": "tool", "tool_call_id": "b", "content": "r"}, user]),
                "must alternate",
            ),
            (all.begins_with_user(), json!([reasoning, user]), "must start with a user message"),
            (all.text_content(), json!([{"role": "user", "content": []}]), "messages[0].content: invalid type"),
            (
                all.plain_fields(),
                json!([user, reasoning]),
                "'messages.1' : property 'reasoning_content' is unsupported",
            ),
            (
                all.plain_fields(),
                json!([{"role": "assistant", "content": "a", "refusal": null}]),
                "'refusal' is unsupported",
            ),
            (all.reasoning(ReasoningField::Required), json!([calls]), "must be passed back"),
            (all.reasoning(ReasoningField::Refused), json!([reasoning]), "'reasoning_content' is unsupported"),
            (all.call_ids(CallIdForm::Plain64), json!([calls]), "should match pattern"),
            (all.call_ids(CallIdForm::Alphanumeric9), json!([calls]), "with length 9!"),
            (
                all.call_ids(CallIdForm::Plain40),
                json!([{"role": "tool", "tool_call_id": "x".repeat(41), "content": "r"}]),
                "maximum length 40",
            ),
            (all.calls_need_tools(), json!([calls]), "toolConfig field must be defined"),
            (all.single_calls(), json!([calls]), "single tool-calls"),
        ] {
            let refused = refused(compat, &messages).unwrap_or_default();
            assert!(refused.contains(words), "{compat:?}: {refused}");
        }
    }
}
