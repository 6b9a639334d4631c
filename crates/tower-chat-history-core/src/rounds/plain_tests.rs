//! Tests of `push_plain`, which adds most messages, against `push_any`, which adds messages of any kind.

use proptest::prelude::*;

use super::*;
use crate::message::{AnthropicMessages, OpenAiResponses};

/// Returns the messages of each dialect, of every kind that the fold distinguishes.
fn messages() -> [Vec<Message>; 3] {
    let chat = [
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
        r#"{"role":"assistant","content":"a","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}]}"#,
    ];
    let anthropic = [
        r#"{"role":"user","content":"u"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
        r#"{"role":"assistant","content":[]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"u"}]}"#,
        r#"{"role":"system","content":"s"}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"}]}"#,
        r#"{"role":"assistant","content":[{"type":"compaction","content":"c"}]}"#,
    ];
    let responses = [
        r#"{"role":"user","content":"u"}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}"#,
        r#"{"type":"reasoning","summary":[]}"#,
        r#"{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}"#,
        r#"{"type":"function_call_output","call_id":"x","output":"1"}"#,
        r#"{"type":"unknown"}"#,
        r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"a"}]}"#,
        r#"{"type":"compaction","encrypted_content":"e"}"#,
    ];
    [
        chat.map(|json| Message::from_json(json).unwrap()).into(),
        anthropic.map(|json| Message::in_dialect(&AnthropicMessages, json).unwrap()).into(),
        responses.map(|json| Message::in_dialect(&OpenAiResponses, json).unwrap()).into(),
    ]
}

proptest! {
    #[test]
    fn a_plain_message_has_the_outcome_of_a_message_of_any_kind(
        messages in prop::sample::select(Vec::from(messages())),
        log in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let log: Vec<Message> = log.iter().map(|index| index.get(&messages).clone()).collect();
        let (mut rounds, mut without_plain) = (Rounds::default(), Rounds::default());
        for (message, rest) in with_rest(&log) {
            prop_assert_eq!(rounds.push(message, rest), without_plain.push_any(message, rest));
            prop_assert_eq!(format!("{rounds:?}"), format!("{without_plain:?}"));
        }
    }
}
