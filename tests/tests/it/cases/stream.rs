//! Streams: read to the end, dropped, interrupted, stalled.

use std::time::Duration;

use async_openai::error::OpenAIError;
use futures_util::{StreamExt as _, poll};
use tests::{
    CallKind, Chat, Storage, exchanges, log, over_every_store, prompts, read_to_finish, reply_text, user_call,
};
use tower_chat_history::{
    ConversationId, HistoryOptions, Policies,
    policy::{DetachLimits, OnInterruption},
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::{ApiFailure, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    is_read_to_its_end,
    is_dropped_after_its_last_finish_reason,
    is_no_longer_read_after_its_last_finish_reason,
    is_dropped_before_and_discarded,
    is_dropped_before_and_its_text_is_kept,
    is_dropped_before_and_read_to_its_end,
    is_interrupted_and_discarded,
    is_interrupted_and_its_text_is_kept,
    stalls,
    is_dropped_when_too_many_streams_are_detached,
}

const TURN: [&str; 2] = ["user: u", "assistant: abc"];

/// A text in several chunks: one with the role, three with text, one with the finish reason.
fn abc() -> Reply {
    Reply::text("abc").chunk_chars(1)
}

fn on_interruption(storage: &Storage, policy: OnInterruption, reply: Reply) -> (Chat, ConversationId) {
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(policy));
    (Chat::with_options(storage, [reply, Reply::text("next")], options), storage.conversation())
}

async fn is_read_to_its_end(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [abc()]), storage.conversation());
    let held = storage.store.hold(Op::Append);
    let mut stream = chat.stream(user_call(&id, "u")).await.unwrap();
    let chunks = read_to_finish(&mut stream).await;
    assert_eq!(
        (chunks.len(), reply_text(&chunks).as_str()),
        (5, "abc"),
        "every chunk arrives at once, although the save is held"
    );
    let mut end = stream.next();
    for _ in 0..9 {
        assert!(poll!(&mut end).is_pending(), "the end waits for the save");
        tokio::task::yield_now().await;
    }
    held.release();
    assert!(end.await.is_none());
    assert_eq!(log(&storage.store, &id).await, TURN);
}

async fn is_dropped_after_its_last_finish_reason(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [abc(), Reply::text("next")]), storage.conversation());
    let mut stream = chat.stream(user_call(&id, "u")).await.unwrap();
    read_to_finish(&mut stream).await;
    drop(stream);
    chat.ask(CallKind::Stream, &id, "u1").await.unwrap();
    assert_eq!(prompts(&chat.llm)[1], [&TURN[..], &["user: u1"]].concat());
}

async fn is_no_longer_read_after_its_last_finish_reason(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [abc(), Reply::text("next")]), storage.conversation());
    let mut kept = chat.stream(user_call(&id, "u")).await.unwrap();
    read_to_finish(&mut kept).await;
    chat.ask(CallKind::Unary, &id, "u1").await.unwrap();
    assert_eq!(prompts(&chat.llm)[1], [&TURN[..], &["user: u1"]].concat());
    assert!(kept.next().await.is_none());
    assert_eq!(log(&storage.store, &id).await.len(), 4, "once");
}

/// Reads three chunks, with the text "ab", and drops the rest. Returns the outcome.
async fn dropped(chat: &Chat, id: &ConversationId) -> TurnOutcome {
    let (call, report) = user_call(id, "u").with_report();
    let stream = chat.stream(call).await.unwrap();
    let chunks: Vec<_> = stream.take(3).map(Result::unwrap).collect().await;
    assert_eq!(reply_text(&chunks), "ab");
    chat.engine().drain(Duration::from_secs(5)).await.unwrap();
    report.await.unwrap().outcome.clone()
}

async fn is_dropped_before_and_discarded(storage: Storage) {
    let (chat, id) = on_interruption(&storage, OnInterruption::Discard, abc());
    assert!(matches!(dropped(&chat, &id).await, TurnOutcome::NotStored(NotStored::Interrupted)));
    assert!(log(&storage.store, &id).await.is_empty());
}

async fn is_dropped_before_and_its_text_is_kept(storage: Storage) {
    let (chat, id) = on_interruption(&storage, OnInterruption::KeepText, abc());
    assert!(matches!(dropped(&chat, &id).await, TurnOutcome::Stored { .. }));
    let stored = exchanges(&storage.store, &id).await;
    assert_eq!(tests::prompt(&stored[0].exchange.messages), ["user: u", "assistant: ab"]);
    assert!(stored[0].exchange.incomplete && stored[0].exchange.finish_reason.is_none());

    // Incomplete tool calls are not stored.
    let reply = Reply::text("ab").chunk_chars(1).with_calls([("x", "f", "{\"a\":1}")]);
    let (chat, id) = on_interruption(&storage, OnInterruption::KeepText, reply);
    let stream = chat.stream(user_call(&id, "u")).await.unwrap();
    stream.take(5).for_each(|_| std::future::ready(())).await;
    chat.engine().drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: ab"]);
    chat.ask(CallKind::Stream, &id, "u1").await.unwrap();
}

async fn is_dropped_before_and_read_to_its_end(storage: Storage) {
    let (chat, id) = on_interruption(&storage, OnInterruption::Detach, abc());
    assert!(matches!(dropped(&chat, &id).await, TurnOutcome::Stored { .. }));
    assert_eq!(log(&storage.store, &id).await, TURN);
}

/// Replies that are interrupted after "ab", and the number of items that the caller gets.
fn breaking() -> [(Reply, usize); 4] {
    let failure = || ApiFailure::new(500, "overloaded");
    [
        (abc().end_after(3), 3),
        (abc().abort_after(3), 4),
        (abc().error_after(3, failure()), 4),
        // The stream continues to its finish reason after the error, but the text in place of the error is
        // missing.
        (abc().passing_error_after(3, failure()), 6),
    ]
}

async fn read_broken(chat: &Chat, id: &ConversationId) -> (Vec<Result<tests::Chunk, OpenAIError>>, TurnOutcome) {
    let (call, report) = user_call(id, "u").with_report();
    let items = chat.stream(call).await.unwrap().collect().await;
    (items, report.await.unwrap().outcome.clone())
}

async fn is_interrupted_and_discarded(storage: Storage) {
    for policy in [OnInterruption::Discard, OnInterruption::Detach] {
        for (reply, expected) in breaking() {
            let (chat, id) = on_interruption(&storage, policy, reply);
            let (items, outcome) = read_broken(&chat, &id).await;
            assert_eq!(items.len(), expected, "all items are passed on");
            assert_eq!(items.iter().filter(|item| item.is_err()).count(), usize::from(expected > 3));
            assert!(matches!(outcome, TurnOutcome::NotStored(NotStored::Interrupted)), "{outcome:?}");
            assert!(log(&storage.store, &id).await.is_empty());
            chat.ask(CallKind::Stream, &id, "u1").await.unwrap();
            assert_eq!(prompts(&chat.llm)[1], ["user: u1"]);
        }
    }
}

async fn is_interrupted_and_its_text_is_kept(storage: Storage) {
    for (reply, expected) in breaking() {
        let (chat, id) = on_interruption(&storage, OnInterruption::KeepText, reply);
        let (items, outcome) = read_broken(&chat, &id).await;
        assert_eq!(items.len(), expected);
        assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{outcome:?}");
        let stored = exchanges(&storage.store, &id).await;
        assert!(stored[0].exchange.incomplete);
        let kept = if expected == 6 { "assistant: abc" } else { "assistant: ab" };
        assert_eq!(tests::prompt(&stored[0].exchange.messages), ["user: u", kept]);
    }
}

async fn stalls(storage: Storage) {
    let slow = abc().chunk_delay(Duration::from_secs(100));
    let options = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(30));
    let chat = Chat::with_options(&storage, [slow, Reply::text("next")], options);
    let id = storage.conversation();
    let (items, outcome) = read_broken(&chat, &id).await;
    let Some(Err(OpenAIError::StreamError(error))) = items.last() else { panic!("{items:?}") };
    assert!(error.to_string().contains("the stream yielded no item within 30000 ms"), "{error}");
    assert!(matches!(outcome, TurnOutcome::NotStored(NotStored::Stalled)), "{outcome:?}");
    assert!(log(&storage.store, &id).await.is_empty());
    chat.ask(CallKind::Stream, &id, "u1").await.unwrap();
}

async fn is_dropped_when_too_many_streams_are_detached(storage: Storage) {
    let limits = DetachLimits::new().max_per_conversation(0);
    let policies = Policies::new().on_interruption(OnInterruption::Detach).detach_limits(limits);
    let options = HistoryOptions::new().policies(policies);
    let chat = Chat::with_options(&storage, [abc()], options);
    let id = storage.conversation();
    assert!(matches!(dropped(&chat, &id).await, TurnOutcome::NotStored(NotStored::DetachLimit)));
    assert!(log(&storage.store, &id).await.is_empty());
}
