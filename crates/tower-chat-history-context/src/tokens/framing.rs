//! The tokens of a message: those of its text, and those of its other parts.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Content, Message};

use super::{TokenCounter, parts};

/// The tokens that frame each message. Source: OpenAI's cookbook, "How to count tokens with tiktoken".
pub const PER_MESSAGE: u32 = 3;

const PER_ROLE: u32 = 1;
const PER_NAME: u32 = 1;
const PER_CALL: u32 = 3;

pub(super) fn message<C: TokenCounter + ?Sized>(counter: &C, message: &Message) -> u32 {
    let content = match message.content() {
        Content::Text(text) => counter.count_text(&text),
        Content::Parts(parts) => parts.iter().map(|part| parts::part(counter, part)).fold(0, u32::saturating_add),
        Content::Other(json) => counter.count_text(json),
        _ => 0,
    };
    let name = message.name().map_or(0, |name| counter.count_text(name).saturating_add(PER_NAME));
    let calls = message.tool_calls().iter().map(|called| call(counter, called.name(), called.arguments()));
    let rare = if message.has_refusal_audio_or_function_call() { rare_fields(counter, message) } else { 0 };
    [PER_MESSAGE, PER_ROLE, content, name, rare].into_iter().chain(calls).fold(0, u32::saturating_add)
}

/// Returns `true` if a part of the message costs a fixed number of tokens with every counter: an image, audio, a file.
#[must_use]
pub fn has_fixed_cost(message: &Message) -> bool {
    let in_content = match message.content() {
        Content::Parts(parts) => parts.iter().any(|part| parts::fixed_cost(part).is_some()),
        _ => false,
    };
    in_content || (message.has_refusal_audio_or_function_call() && has_audio(message))
}

fn call<C: TokenCounter + ?Sized>(counter: &C, name: &str, arguments: &str) -> u32 {
    PER_CALL.saturating_add(counter.count_text(name)).saturating_add(counter.count_text(arguments))
}

/// Fields that few replies have.
#[derive(Deserialize)]
struct RareFields<'a> {
    refusal: Option<String>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    arguments: String,
}

fn rare_fields<C: TokenCounter + ?Sized>(counter: &C, message: &Message) -> u32 {
    // If one of the fields does not have the form that the format defines, the whole JSON is counted as a text.
    let Ok(RareFields { refusal, audio, function_call }) = serde_json::from_str(message.json()) else {
        return counter.count_text(message.json());
    };
    let refusal = refusal.map_or(0, |text| counter.count_text(&text));
    let audio = audio.map_or(0, |_| parts::AUDIO);
    let called = function_call.map_or(0, |function| call(counter, &function.name, &function.arguments));
    refusal.saturating_add(audio).saturating_add(called)
}

fn has_audio(message: &Message) -> bool {
    serde_json::from_str::<RareFields<'_>>(message.json()).is_ok_and(|fields| fields.audio.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::ByteEstimate;

    fn tokens(json: &str) -> u32 {
        message(&ByteEstimate::new(), &Message::from_json(json).unwrap())
    }

    #[test]
    fn a_message_costs_its_frame_its_role_and_its_text() {
        assert_eq!(tokens(r#"{"role":"user","content":""}"#), 4);
        assert_eq!(tokens(r#"{"role":"user","content":"12345678"}"#), 6);
        assert_eq!(
            tokens(r#"{"role":"user","content":[{"type":"text","text":"12345678"},{"type":"text","text":"1"}]}"#),
            7
        );
        assert_eq!(tokens(r#"{"role":"user","content":"12345678","name":"1234"}"#), 8);
    }

    #[test]
    fn a_call_costs_its_name_and_its_arguments() {
        let calls = r#"[{"id":"x","type":"function","function":{"name":"1234","arguments":"12345678"}},
            {"id":"y","type":"custom","custom":{"name":"1234","input":"no JSON "}}]"#;
        assert_eq!(
            tokens(&format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#)),
            4 + 2 * (3 + 1 + 2)
        );
        let function = r#"{"role":"assistant","function_call":{"name":"1234","arguments":"12345678"}}"#;
        assert_eq!(tokens(function), 4 + 6);
    }

    #[test]
    fn a_result_costs_its_text() {
        assert_eq!(tokens(r#"{"role":"tool","tool_call_id":"a long id","content":"12345678"}"#), 6);
    }

    #[test]
    fn attachments_have_a_fixed_cost_and_texts_do_not() {
        let fixed = |json: &str| has_fixed_cost(&Message::from_json(json).unwrap());
        for json in [
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}"#,
            r#"{"role":"user","content":[{"type":"file","file":{}}]}"#,
            r#"{"role":"assistant","audio":{"id":"x"}}"#,
        ] {
            assert!(fixed(json), "{json}");
        }
        for json in [
            r#"{"role":"user","content":"file"}"#,
            r#"{"role":"user","content":["image",{"type":"text","text":"a"},{"type":"thing"}]}"#,
            r#"{"role":"assistant","refusal":"audio"}"#,
        ] {
            assert!(!fixed(json), "{json}");
        }
    }

    #[test]
    fn refusal_and_audio_count() {
        assert_eq!(tokens(r#"{"role":"assistant","refusal":"12345678"}"#), 6);
        assert_eq!(tokens(r#"{"role":"assistant","audio":{"id":"x"}}"#), 4 + parts::AUDIO);
    }
}
