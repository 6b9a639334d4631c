//! The body of a request: its messages, and the place of the window among them.

use std::ops::Range;

use bytes::Bytes;
use tower_chat_history_core::{
    Message,
    json::{Object, range, raw_entries},
};

use super::marks::Marks;
use crate::{
    adapt::RequestMessages,
    dialect::AnthropicMessages,
    engine::{InputMode, RequestInfo},
    http::{
        error::CallError,
        splice::{Splice, gap},
        wire::OpenedBody,
    },
};

/// Finds the messages, and the other fields that count for a budget or that spans report.
pub(super) fn open(
    bytes: Bytes,
    mode: InputMode,
    few_shot_messages: usize,
    marks_history: bool,
) -> Result<OpenedBody, CallError> {
    let text = CallError::text(&bytes)?;
    let body = Object::parse(text).map_err(CallError::body)?;
    let array = messages(text, &body)?;
    let elements = raw_entries(array).ok_or_else(|| CallError::body_at(text, range(text, array).start))?;
    let array = range(text, array);
    let ranges: Vec<Range<usize>> = elements.iter().map(|element| range(text, element.get())).collect();
    let messages = elements.iter().enumerate().map(|(position, &element)| {
        let message = Message::in_dialect_raw(&AnthropicMessages, element.to_owned());
        message.map_err(|source| CallError::Message { position, source })
    });
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let mut messages = RequestMessages::split(messages, few_shot_messages, mode);

    let resent = messages.transcript_range();
    let gap = gap(&array, &ranges, &resent);
    let limit = body.get("max_tokens").filter(|_| body.number("max_tokens").is_some()).map(|json| range(text, json));
    let marks = Marks::around(&body, &elements[..resent.start], &elements[resent.end..]).placing(marks_history);
    let info = info(&body);
    messages.head.splice(..0, instructions(text, &body)?);
    let splice = Splice::new(bytes, gap)?.reply_limit(limit)?.write_window(move |window| marks.fit(window));
    Ok(OpenedBody { info, ..OpenedBody::new(splice, messages) })
}

/// Returns the list of messages. The field must occur exactly once, because it is unknown which of two lists is meant.
fn messages<'a>(text: &str, body: &Object<'a>) -> Result<&'a str, CallError> {
    let mut lists = body.members().iter().filter(|member| member.name == "messages").map(|member| member.value.get());
    let list = lists.next().ok_or_else(|| CallError::no_list(text))?;
    match lists.next() {
        Some(second) => Err(CallError::body_at(text, range(text, second).start)),
        None => Ok(list),
    }
}

/// Returns the caller's instructions as a message of the head. Nothing is sent of it, because the body has them.
fn instructions(text: &str, body: &Object<'_>) -> Result<Option<Message>, CallError> {
    let Some(system) = body.get("system") else { return Ok(None) };
    let json = format!(r#"{{"role":"system","content":{system}}}"#);
    let message = Message::in_dialect(&AnthropicMessages, json);
    message.map(Some).map_err(|_| CallError::body_at(text, range(text, system).start))
}

fn info(body: &Object<'_>) -> RequestInfo {
    let mut info = RequestInfo::new();
    info.model = body.string("model");
    info.tools = body.get("tools").map(str::to_owned);
    let format = body.object("output_config").and_then(|config| config.get("format"));
    info.response_format = format.or(body.get("output_format")).map(str::to_owned);
    info.max_output = body.number("max_tokens").map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    let thinking = body.object("thinking");
    // The API refuses a limit that is not larger than the budget of the thinking.
    info.max_output_is_fixed = thinking.as_ref().is_some_and(|thinking| thinking.get("budget_tokens").is_some());
    info.thinks_with_budget =
        thinking.as_ref().is_some_and(|thinking| thinking.text("type").as_deref() == Some("enabled"));
    let binding = thinking.and_then(|thinking| thinking.object("block_binding"));
    let on_mismatch = binding.and_then(|binding| binding.text("prefix_mismatch_behavior"));
    info.may_drop_reasoning = on_mismatch.as_deref() == Some("drop_block");
    info.temperature = body.finite("temperature");
    info.top_p = body.finite("top_p");
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::Prompt;

    fn read(body: &str, mode: InputMode) -> OpenedBody {
        open(Bytes::copy_from_slice(body.as_bytes()), mode, 0, false).unwrap()
    }

    fn sent(body: &str, prompt: Prompt<'_>) -> String {
        let splice = read(body, InputMode::Transcript).splice;
        let bytes = splice.with(prompt).unwrap_or_else(|| splice.into_original());
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn message(json: &str) -> Message {
        Message::in_dialect(&AnthropicMessages, json).unwrap()
    }

    #[test]
    fn instructions_and_tools_are_the_head() {
        let body = r#"{"system":[{"type":"text","text":"S"}],"tools":[{"name":"t"}],"model":"m","temperature":0.7,
            "top_p":1e-1,"max_tokens":99,"output_config":{"effort":"high","format":{"type":"json_schema"}},
            "messages":[{"role":"user","content":"u"}],"stream":true}"#;
        let OpenedBody { messages, info, choices, .. } = read(body, InputMode::New);
        assert_eq!(messages.head[0].json(), r#"{"role":"system","content":[{"type":"text","text":"S"}]}"#);
        assert_eq!((messages.head.len(), messages.input.len(), choices), (1, 1, 1));
        assert_eq!((info.model.as_deref(), info.tools.as_deref()), (Some("m"), Some(r#"[{"name":"t"}]"#)));
        assert_eq!(info.response_format.as_deref(), Some(r#"{"type":"json_schema"}"#));
        assert_eq!((info.max_output, info.temperature, info.top_p), (Some(99), Some(0.7), Some(0.1)));
        let none = read(r#"{"system":null,"tools":null,"messages":[],"max_tokens":"9"}"#, InputMode::New);
        assert_eq!((none.messages.head.len(), none.info.tools, none.info.max_output), (0, None, None));
    }

    #[test]
    fn the_window_replaces_the_transcript() {
        let u = r#"{"role":"user","content":"u0"}"#;
        let a = r#"{"role":"assistant","content":[]}"#;
        let r = r#"{"role":"user","content":[ 1 ]}"#;
        let next = r#"{"role":"user","content":"u1"}"#;
        let body = format!(r#"{{"messages":[{u} , {a} , {r} , {next} ],"system":"s"}}"#);
        let OpenedBody { messages, .. } = read(&body, InputMode::Transcript);
        assert_eq!((messages.head.len(), messages.transcript.len(), messages.input.len()), (1, 2, 2));
        let window = [message(u), message(next)];
        assert_eq!(sent(&body, Prompt::new(&window)), body.replace(&format!("{u} , {a} , "), &format!("{u},{next},")));
        assert_eq!(sent(&body, Prompt::new(&[])), body.replace(&format!("{u} , {a} , "), ""));
    }

    #[test]
    fn few_shot_messages_are_sent_before_the_window() {
        let shots = r#"{"role":"user","content":"x"},{"role":"assistant","content":"y"}"#;
        let body = format!(r#"{{"messages":[{shots},{{"role":"user","content":"u"}}],"system":"s"}}"#);
        let read = open(Bytes::from(body.clone()), InputMode::Transcript, 2, false).unwrap();
        assert_eq!((read.messages.head.len(), read.messages.input.len()), (3, 1));
        let window = [message(r#"{"role":"user","content":"u0"}"#)];
        let sent = read.splice.with(Prompt::new(&window)).unwrap();
        assert_eq!(sent, body.replace(shots, &format!("{shots},{}", window[0].json())));
        let only = open(Bytes::from(format!(r#"{{"messages":[{shots}]}}"#)), InputMode::Transcript, 2, false).unwrap();
        assert!(only.messages.input.is_empty(), "the last example is no reply to continue");
    }

    #[test]
    fn the_limit_of_the_reply_is_lowered_unless_the_thinking_has_a_budget() {
        let mut prompt = Prompt::new(&[]);
        prompt.reply_limit = Some(7);
        let body = r#"{"max_tokens": 900 ,"messages":[],"thinking":{"type":"adaptive"}}"#;
        assert_eq!(sent(body, prompt), body.replace("900", "7"));
        assert!(!read(body, InputMode::New).info.max_output_is_fixed);
        assert!(!read(body, InputMode::New).info.thinks_with_budget);
        let fixed = body.replace(r#""adaptive""#, r#""enabled","budget_tokens":800"#);
        assert!(read(&fixed, InputMode::New).info.max_output_is_fixed);
        assert!(read(&fixed, InputMode::New).info.thinks_with_budget);
        assert_eq!(read(&fixed, InputMode::New).info.max_output, Some(900));
        assert!(!read(body, InputMode::New).info.may_drop_reasoning);
        let drops = r#""adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}"#;
        assert!(read(&body.replace(r#""adaptive""#, drops), InputMode::New).info.may_drop_reasoning);
    }
}
