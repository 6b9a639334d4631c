//! The calls of a repaired turn: which requests are sent, what is stored, what is reported.

use std::sync::Arc;

use tower_chat_history::{
    MemoryStore, Message,
    dialect::OpenAiResponses,
    refusal::Remedy,
    report::{Fallback, NotStored, TurnOutcome},
    store::Seq,
};
use tower_chat_history_test::responses::Say;

use super::{Talk, is_bound, items};

#[tokio::test]
async fn a_call_is_repeated_without_encrypted_items_and_later_calls_leave_them_out() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    assert!(is_bound(&talk.ok(1).await));
    assert_eq!(talk.encrypted_from().await, Seq::FIRST);
    talk.provider.rotate_key();
    let repaired = talk.ok(2).await;
    assert!(!is_bound(&repaired), "{repaired}");
    assert_eq!(items(&repaired).len(), 5, "the questions and the answers stay");
    let report = talk.report();
    assert!(
        report.remedies == [Remedy::WithoutEncrypted] && matches!(report.outcome, TurnOutcome::Stored { .. }),
        "{report:?}"
    );
    assert_eq!((report.fallback(), report.reasoning_left_out), (Some(Fallback::WithoutEncrypted), 2));
    assert_eq!(talk.encrypted_from().await, Seq::new(2));
    let log = talk.log().await;
    assert_eq!(log.len(), 3);
    assert!(log.iter().all(|recorded| recorded.exchange.messages.len() == 3), "the log keeps every item");

    // The new reply can be read. The prompts begin with each other again.
    let next = talk.ok(1).await;
    assert!(talk.report().remedies.is_empty());
    let (repaired, next) = (items(&repaired), items(&next));
    assert_eq!(next[..5], repaired[..]);
    assert!(next[5]["encrypted_content"].is_string(), "{next:?}");
    assert_eq!(talk.provider.refused(), 1);
}

#[tokio::test]
async fn a_stream_is_repaired_before_its_first_event() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    talk.provider.rotate_key();
    let (status, events) = talk.ask(vec![Say::reasoning(), Say::text("so")], true).await;
    assert!(status == 200 && events.starts_with("data: "), "{status} {events}");
    assert!(talk.report().remedies == [Remedy::WithoutEncrypted] && talk.report().streamed);
    assert_eq!((talk.log().await.len(), talk.encrypted_from().await), (2, Seq::new(1)));
    talk.ok(1).await;
    assert_eq!(talk.provider.refused(), 1);
}

#[tokio::test]
async fn tool_results_are_repaired_within_their_turn() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    let (status, _) = talk.ask(vec![Say::reasoning(), Say::call("x", "look", "{}")], false).await;
    assert_eq!(status, 200);
    talk.provider.rotate_key();
    let result = r#"{"type":"function_call_output","call_id":"x","output":"r"}"#;
    let (status, body) = talk.send(result, vec![Say::reasoning(), Say::text("so")], false).await;
    assert_eq!(status, 200, "{body}");
    let sent = items(&talk.sent());
    let kinds: Vec<_> = sent.iter().map(|item| item["type"].as_str().unwrap_or("message")).collect();
    assert_eq!(kinds, ["message", "function_call", "function_call_output"]);
    assert_eq!((talk.log().await[1].exchange.continues, talk.encrypted_from().await), (Some(Seq::FIRST), Seq::new(1)));
}

#[tokio::test]
async fn a_second_refusal_is_returned_and_nothing_is_stored() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    talk.provider.rotate_key();
    // The caller's own input is refused, too.
    let unknown = r#"{"type":"item_reference","id":"rs_x"}"#;
    let before = talk.provider.requests().len();
    let (status, body) = talk.send(unknown, vec![Say::text("so")], false).await;
    assert!(status == 404 && body.contains("Item with id 'rs_x' not found"), "{status} {body}");
    assert_eq!(talk.provider.requests().len(), before + 2, "there is no third call");
    let report = talk.report();
    assert!(
        report.remedies == [Remedy::WithoutEncrypted]
            && matches!(report.outcome, TurnOutcome::NotStored(NotStored::CallFailed)),
        "{report:?}"
    );
    assert_eq!((talk.log().await.len(), talk.cut().await), (1, None));
    // The next turn can still be repaired.
    talk.ok(2).await;
}

#[tokio::test]
async fn a_refusal_without_encrypted_items_of_the_log_is_not_repeated() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    let unknown = r#"{"type":"item_reference","id":"rs_x"}"#;
    let (status, body) = talk.send(unknown, vec![Say::text("so")], false).await;
    assert!(status == 404 && body.contains("Item with id 'rs_x' not found"), "{status} {body}");
    assert_eq!(talk.provider.requests().len(), 1);
    assert!(talk.report().remedies.is_empty());
}

#[tokio::test]
async fn an_item_that_the_provider_lost_is_repaired() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    // A reply that was stored without its encrypted content, as with `"store":true`.
    let lost = [
        r#"{"type":"reasoning","id":"rs_0","summary":[]}"#,
        r#"{"type":"message","id":"msg_0","role":"assistant","content":"a"}"#,
    ];
    let mut exchange = (*talk.log().await[0].exchange).clone();
    exchange.id = tower_chat_history::ExchangeId::generate();
    let item = |json| Message::in_dialect(&OpenAiResponses, json).unwrap();
    exchange.messages.splice(1.., lost.map(item));
    talk.append(exchange).await;
    let sent = talk.ok(2).await;
    assert!(!is_bound(&sent), "{sent}");
    let first = talk.provider.requests();
    assert!(first[first.len() - 2].contains("rs_0"), "the item was sent, and refused as not found");
    assert_eq!((talk.encrypted_from().await, talk.provider.refused()), (Seq::new(2), 1));
}
