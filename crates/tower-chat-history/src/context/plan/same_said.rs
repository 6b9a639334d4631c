//! The comparison of messages that a caller resends with an exchange of another dialect.
//!
//! Such a caller has written the exchange in its own dialect. It has chosen the ids of the calls, and which texts are
//! one message. So only what is said is compared: the texts, the calls and the results, in order.

use std::borrow::Cow;

use tower_chat_history_core::{Exchange, LeftOut, Message, Role, StatedContent, Statement};

use super::same_call::is_same_json;

/// Something that is said.
enum Said<'m> {
    /// A text without its white space.
    Text { is_of_model: bool, text: String },
    /// A call, with its name and arguments.
    Call(Cow<'m, str>, Cow<'m, str>),
    /// The text of a result, without its white space.
    Result(String),
}

/// Matches the end of the messages with those of an exchange in another dialect. Returns the number of messages before
/// it, or the position of the last message that differs.
///
/// Media beside a text, reasoning, and calls of tools that the provider executed are not compared. The list may not
/// have more messages with nothing but media than the exchange. A message that stands for everything before it differs,
/// because the exchange has no such message.
pub(super) fn match_said(messages: &[Message], exchange: &Exchange) -> Result<usize, usize> {
    let mut left: Vec<Said<'_>> = Vec::new();
    for said in exchange.messages.iter().flat_map(said) {
        match (left.last_mut(), said) {
            (Some(Said::Text { is_of_model, text }), Said::Text { is_of_model: same, text: next })
                if *is_of_model == same =>
            {
                text.push_str(&next);
            }
            (_, said) => left.push(said),
        }
    }
    let mut end = messages.len();
    let mut wordless = exchange.messages.iter().filter(|message| is_wordless(message)).count();
    while let Some(message) = messages[..end].last() {
        let has_no_words = is_wordless(message);
        if left.is_empty() && !(has_no_words && wordless > 0) {
            break;
        }
        end -= 1;
        if has_no_words {
            // The model would not see media that the log lacks.
            wordless = wordless.checked_sub(1).ok_or(end)?;
        } else if message.index().restarts || !said(message).iter().rev().all(|said| take(&mut left, said)) {
            return Err(end);
        }
    }
    Ok(end)
}

/// Returns `true` for a message of the user that has only media.
fn is_wordless(message: &Message) -> bool {
    *message.role() == Role::User && message.part_kinds().has_media && said(message).is_empty()
}

/// Removes from the end what is said. Returns `false` if something else is there.
fn take(left: &mut Vec<Said<'_>>, said: &Said<'_>) -> bool {
    let is_whole = match (left.last_mut(), said) {
        (Some(Said::Text { is_of_model, text }), Said::Text { is_of_model: same, text: end })
            if is_of_model == same =>
        {
            if !text.ends_with(end) {
                return false;
            }
            text.truncate(text.len() - end.len());
            text.is_empty()
        }
        (Some(Said::Call(name, arguments)), Said::Call(same, others)) => {
            name == same && (arguments == others || is_same_json(arguments, others))
        }
        (Some(Said::Result(text)), Said::Result(same)) => text == same,
        _ => return false,
    };
    if is_whole {
        left.pop();
    }
    is_whole || matches!(said, Said::Text { .. })
}

fn said(message: &Message) -> Vec<Said<'_>> {
    let Some(dialect) = message.dialect() else { return Vec::new() };
    let statements = dialect.statements(message, &mut LeftOut::default());
    statements.into_iter().filter_map(of_statement).collect()
}

/// Returns what a statement says, or `None` if it has no text.
fn of_statement(statement: Statement<'_>) -> Option<Said<'_>> {
    let (is_of_model, text) = match statement {
        // Formats without instructions in the list have them as texts of the user.
        Statement::Instruction(text) => (false, dense(&text)),
        Statement::User(content) => (false, texts(&content)),
        Statement::Model(text) => (true, dense(&text)),
        Statement::Call(call) => return Some(Said::Call(call.name(), call.arguments())),
        Statement::Result { content, .. } => return Some(Said::Result(texts(&content))),
        _ => return None,
    };
    (!text.is_empty()).then_some(Said::Text { is_of_model, text })
}

fn texts(content: &[StatedContent<'_>]) -> String {
    let text = |content: &StatedContent<'_>| match content {
        StatedContent::Text(text) => dense(text),
        _ => String::new(),
    };
    content.iter().map(text).collect()
}

/// Returns the text without white space. Dialects and callers join texts in different ways.
fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect()
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{AnthropicMessages, ChatCompletions, Dialect, ExchangeId, OpenAiResponses};

    use super::*;

    fn messages(dialect: &'static dyn Dialect, messages: &[&str]) -> Vec<Message> {
        messages.iter().map(|json| Message::in_dialect(dialect, *json).unwrap()).collect()
    }

    fn logged(dialect: &'static dyn Dialect, json: &[&str]) -> Exchange {
        Exchange::new(ExchangeId::generate(), messages(dialect, json))
    }

    const CHAT: [&str; 6] = [
        r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}"#,
        r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"x","type":"custom","custom":{"name":"g.h","input":"a"}}]}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"1"}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"2"}"#,
        r#"{"role":"user","content":"And?"}"#,
        r#"{"role":"assistant","content":"Me.\n\nOnly me."}"#,
    ];

    /// The same in the format of Anthropic, with other ids, and in other messages.
    const MESSAGES: [&str; 5] = [
        r#"{"role":"user","content":"Who?"}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"I "},{"type":"text","text":"look."},{"type":"tool_use","id":"t1","name":"f","input":{"a":1.0}},{"type":"tool_use","id":"t2","name":"g_h","input":{"input":"a"}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"2"}]},{"type":"text","text":"And?"}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Me."}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Only me."}]}"#,
    ];

    #[test]
    fn what_is_said_is_the_same_in_other_dialects() {
        let (chat, anthropic) = (messages(&ChatCompletions, &CHAT), messages(&AnthropicMessages, &MESSAGES));
        assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT)), Ok(0));
        assert_eq!(match_said(&chat, &logged(&AnthropicMessages, &MESSAGES)), Ok(0));
        // The list can begin within the exchange, and have others before it.
        assert_eq!(match_said(&anthropic[3..], &logged(&ChatCompletions, &CHAT)), Ok(0));
        assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT[4..])), Err(2), "its message has results");
        assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT[5..])), Ok(3));
        let items = [
            r#"{"type":"message","role":"assistant","content":"I look."}"#,
            r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{\"a\":1}"}"#,
            r#"{"type":"custom_tool_call","call_id":"b","name":"g_h","input":"a"}"#,
            r#"{"type":"function_call_output","call_id":"a","output":"1"}"#,
            r#"{"type":"custom_tool_call_output","call_id":"b","output":"2"}"#,
        ];
        assert_eq!(match_said(&messages(&OpenAiResponses, &items), &logged(&ChatCompletions, &CHAT[1..4])), Ok(0));
    }

    #[test]
    fn a_question_with_only_an_image_belongs_to_its_exchange() {
        let image =
            r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}"#;
        let (said, answer) = (r#"{"role":"user","content":"Who?"}"#, r#"{"role":"assistant","content":"Me."}"#);
        let in_chat =
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}"#;
        let match_list = |list: &[&str], log: &[&str]| {
            match_said(&messages(&AnthropicMessages, list), &logged(&ChatCompletions, log))
        };
        assert_eq!(match_list(&[said, answer, image, answer], &[in_chat, answer]), Ok(2));
        assert_eq!(match_list(&[said, image, answer], &[said, in_chat, answer]), Ok(0));
        assert_eq!(match_list(&[image, said, answer], &[said, answer]), Ok(1), "it can belong to the exchange before");
        assert_eq!(match_list(&[said, image, answer], &[said, answer]), Err(1), "the log lacks the image");
        assert_eq!(match_list(&[answer], &[in_chat, answer]), Ok(0), "the caller cannot send the image");
    }

    #[test]
    fn another_text_call_or_result_differs() {
        for (at, from, to) in [
            (0, "Who?", "Whom?"),
            (1, r#""name":"f""#, r#""name":"e""#),
            (1, r#""a":1.0"#, r#""a":2"#),
            (1, "look.", "see."),
            (2, r#""content":"1""#, r#""content":"2""#),
            (2, "And?", ""),
            (4, "Only me.", "Only."),
        ] {
            let mut changed = MESSAGES.map(str::to_owned);
            assert!(changed[at].contains(from), "{from}");
            changed[at] = changed[at].replace(from, to);
            let changed = changed.each_ref().map(String::as_str);
            let found = match_said(&messages(&AnthropicMessages, &changed), &logged(&ChatCompletions, &CHAT));
            assert_eq!(found, Err(at), "{from}");
        }
        let found = match_said(&messages(&ChatCompletions, &CHAT[2..]), &logged(&AnthropicMessages, &MESSAGES[3..]));
        assert_eq!(found, Ok(3));
    }

    #[test]
    fn a_message_that_stands_for_those_before_it_differs() {
        let items = [r#"{"type":"compaction","encrypted_content":"c"}"#, r#"{"role":"assistant","content":"a"}"#];
        let said = [r#"{"role":"user","content":"u"}"#, r#"{"role":"assistant","content":"a"}"#];
        assert_eq!(match_said(&messages(&OpenAiResponses, &items), &logged(&ChatCompletions, &said)), Err(0));
    }
}
