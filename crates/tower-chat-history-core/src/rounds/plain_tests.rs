//! Tests of the fast path for exchanges that only say something, against the code for all kinds.

use proptest::prelude::*;

use super::*;
use crate::{
    exchange::ExchangeId,
    message::{AnthropicMessages, OpenAiResponses},
};

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
    fn a_plain_exchange_has_the_outcome_of_an_exchange_of_any_kind(
        messages in prop::sample::select(Vec::from(messages())),
        log in prop::collection::vec(
            (
                prop::collection::vec(any::<prop::sample::Index>(), 0..4),
                prop::sample::select(vec![None, Some("stop"), Some("pause_turn")]),
                prop::bool::weighted(0.1),
                prop::bool::weighted(0.2),
                prop::option::weighted(0.1, 0..5_usize),
            ),
            1..6,
        ),
    ) {
        let (mut rounds, mut without_plain) = (Rounds::default(), Rounds::default());
        for (at, (indexes, finish_reason, incomplete, continues, reply_len)) in (0..).zip(log) {
            let messages = indexes.iter().map(|index| index.get(&messages).clone());
            let mut exchange = Exchange::new(ExchangeId::generate(), messages);
            exchange.finish_reason = finish_reason.map(str::to_owned);
            exchange.incomplete = incomplete;
            exchange.reply_len = reply_len.unwrap_or(exchange.reply_len);
            exchange.continues = (at > 0 && continues).then(|| Seq::new(at - 1));
            let recorded = Recorded::new(Seq::new(at), exchange);
            if !rounds.push_plain_exchange(&recorded) {
                rounds.push_exchange(&recorded);
            }
            without_plain.push_exchange(&recorded);
            prop_assert_eq!(format!("{rounds:?}"), format!("{without_plain:?}"));
        }
    }
}

#[test]
fn only_exchanges_that_say_something_after_a_settled_log_are_plain() {
    let chat = |json: &str| Message::from_json(json).unwrap();
    let call = chat(r#"{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"f"}}]}"#);
    let (question, reply) = (Message::user("q"), Message::assistant("a"));
    let unread = Message::unread(r#"{"role":"user"}"#.into());
    let recorded = |messages: &[&Message]| {
        let messages = messages.iter().copied().cloned();
        Recorded::new(Seq::FIRST, Exchange::new(ExchangeId::generate(), messages))
    };
    let is_plain = |before: &[&Message], messages: &[&Message]| {
        let mut rounds = Rounds::default();
        rounds.push_exchange(&recorded(before));
        rounds.push_plain_exchange(&recorded(messages))
    };
    let answered = [&call, &Message::tool("x", "r"), &reply];
    for before in [&[][..], &[&question, &reply], &answered] {
        assert!(is_plain(before, &[&question, &reply]) && is_plain(before, &[]));
    }
    assert!(!is_plain(&[&call], &[&question, &reply]), "a call is open");
    for messages in [&[&question, &call][..], &[&question, &Message::assistant("")], &[&unread]] {
        assert!(!is_plain(&[], messages));
    }
    let mut paused =
        recorded(&[&Message::in_dialect(&AnthropicMessages, r#"{"role":"assistant","content":"a"}"#).unwrap()]);
    std::sync::Arc::make_mut(&mut paused.exchange).finish_reason = Some("pause_turn".into());
    assert!(!Rounds::default().push_plain_exchange(&paused));
}
