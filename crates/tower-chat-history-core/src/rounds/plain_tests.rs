//! The short way of plain messages.

use proptest::prelude::*;

use super::*;
use crate::message::{AnthropicMessages, OpenAiResponses};

/// The messages of one dialect, of every kind that the fold distinguishes.
fn messages(dialect: usize) -> Vec<Message> {
    let (anthropic, responses) = (&AnthropicMessages, &OpenAiResponses);
    let of = |json: &[&str]| json.iter().map(|json| Message::from_json(*json).unwrap()).collect();
    match dialect {
        0 => of(&[
            r#"{"role":"user","content":"u"}"#,
            r#"{"role":"system","content":"s"}"#,
            r#"{"role":"narrator","content":"n"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            r#"{"role":"assistant","content":""}"#,
            r#"{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"f"}},{"id":"y","function":{"name":"f"}}]}"#,
            r#"{"role":"assistant","content":"a","tool_calls":[{"id":""}]}"#,
            r#"{"role":"tool","tool_call_id":"x","content":"1"}"#,
            r#"{"role":"tool","tool_call_id":"y","content":"2"}"#,
            r#"{"role":"tool","content":"3"}"#,
        ]),
        1 => [
            r#"{"role":"user","content":"u"}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"assistant","content":[]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"u"}]}"#,
            r#"{"role":"system","content":"s"}"#,
        ]
        .map(|json| Message::in_dialect(anthropic, json).unwrap())
        .into(),
        _ => [
            r#"{"role":"user","content":"u"}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}"#,
            r#"{"type":"reasoning","summary":[]}"#,
            r#"{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}"#,
            r#"{"type":"function_call_output","call_id":"x","output":"1"}"#,
            r#"{"type":"unknown"}"#,
        ]
        .map(|json| Message::in_dialect(responses, json).unwrap())
        .into(),
    }
}

proptest! {
    #[test]
    fn the_short_way_has_the_same_outcome(
        dialect in 0..3_usize,
        log in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let messages = messages(dialect);
        let log: Vec<Message> = log.iter().map(|index| index.get(&messages).clone()).collect();
        let (mut short, mut long) = (Rounds::default(), Rounds::default());
        for (message, rest) in with_rest(&log) {
            prop_assert_eq!(short.push(message, rest), long.push_any(message, rest));
            prop_assert_eq!(format!("{short:?}"), format!("{long:?}"));
        }
    }
}
