//! The beginning of a window. Some providers refuse a prompt that begins with a reply, or with an instruction that a
//! reply follows.
//!
//! A window begins with a reply if the log was imported with a greeting of the assistant, or if nothing is left of its
//! first question: the question is empty, or a translation has no form for it.

use tower_chat_history_core::{Message, Role};

use crate::context::server_tools::needs_reply;

/// The text of the message that is sent first.
const NO_TEXT: &str = "(no text)";

/// Returns the message that must be sent before the first message of a window. Usually there is none.
pub(crate) fn before(first: Option<&Message>) -> Option<Message> {
    let first = first.filter(|first| first.is_reply() || needs_reply(first))?;
    let dialect = first.dialect().filter(|dialect| dialect.begins_with_user())?;
    Message::compose(dialect, &Role::User, NO_TEXT).ok()
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{AnthropicMessages, ChatCompletions, Dialect};

    use crate::context::View;

    fn view(dialect: &'static dyn Dialect, messages: &[&str]) -> Vec<String> {
        let mut view = View::default();
        view.extend(
            &messages.iter().map(|json| super::Message::in_dialect(dialect, *json).unwrap()).collect::<Vec<_>>(),
        );
        view.into_messages().iter().map(|message| message.json().to_owned()).collect()
    }

    #[test]
    fn a_view_that_begins_with_a_reply_gets_a_message_before_it_where_the_provider_requires_one() {
        const GREETING: &str = r#"{"role":"assistant","content":"Hello!"}"#;
        const SYSTEM: &str = r#"{"role":"system","content":"Be brief."}"#;
        const QUESTION: &str = r#"{"role":"user","content":"Hi"}"#;
        const OPENING: &str = r#"{"role":"user","content":"(no text)"}"#;
        const BLANK: &str = r#"{"role":"user","content":" "}"#;
        assert_eq!(view(&AnthropicMessages, &[GREETING, QUESTION]), [OPENING, GREETING, QUESTION]);
        assert_eq!(view(&AnthropicMessages, &[BLANK, GREETING]), [OPENING, GREETING], "the question is left out");
        assert_eq!(view(&AnthropicMessages, &[SYSTEM, GREETING]), [OPENING, SYSTEM, GREETING]);
        assert_eq!(view(&AnthropicMessages, &[QUESTION, GREETING]), [QUESTION, GREETING]);
        assert_eq!(view(&ChatCompletions, &[GREETING, QUESTION]), [GREETING, QUESTION]);
        assert!(view(&AnthropicMessages, &[]).is_empty());
    }
}
