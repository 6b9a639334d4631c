//! Streams that are read to their end without their callers, within limits.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, sleep};
use tower_chat_history::{
    ConversationId, Engine, HistoryOptions, MemoryStore, Message, Policies, TurnInput,
    policy::{DetachLimits, OnInterruption},
    report::{NotStored, TurnOutcome},
};

use super::{
    conversation,
    support::{Piece, PieceFold, Reports},
};

fn engine(reports: &Reports, limits: DetachLimits) -> Engine {
    let options =
        HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach).detach_limits(limits));
    Engine::with_options(MemoryStore::new(), options.on_turn(reports.hook()))
}

/// Drops a stream that ends after this time, or never.
async fn drop_stream(engine: &Engine, conversation: ConversationId, ends_after: Option<Duration>) {
    let turn = engine.begin(TurnInput::new(conversation, [Message::user("u")])).await.unwrap();
    let rest = stream::once(async move {
        match ends_after {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
        Ok::<_, &str>(Piece::Finish)
    });
    drop(turn.record_stream(stream::iter([Ok(Piece::Text("a"))]).chain(rest), PieceFold::default(), |_| "stalled"));
}

fn kinds(reports: &Reports) -> Vec<&'static str> {
    reports.all().iter().map(|report| report.outcome.kind()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_endless_detached_stream_is_dropped_and_drain_returns() {
    let reports = Reports::default();
    let engine = engine(&reports, DetachLimits::default());
    drop_stream(&engine, conversation("c"), None).await;
    let begun = Instant::now();
    engine.drain(Duration::from_secs(100_000)).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 600);
    assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::DetachLimit)));
}

#[tokio::test(start_paused = true)]
async fn one_conversation_does_not_use_up_all_detached_streams() {
    let reports = Reports::default();
    let engine = engine(&reports, DetachLimits::new().max_streams(5).max_per_conversation(3));
    for _ in 0..10 {
        drop_stream(&engine, conversation("greedy"), Some(Duration::from_secs(1))).await;
    }
    assert_eq!(kinds(&reports), ["detach_limit"; 7], "reported at once");
    drop_stream(&engine, conversation("other"), Some(Duration::from_secs(1))).await;
    drop_stream(&engine, conversation("third"), Some(Duration::from_secs(1))).await;
    assert_eq!(reports.all().len(), 7);
    drop_stream(&engine, conversation("fourth"), Some(Duration::from_secs(1))).await;
    assert_eq!(kinds(&reports), ["detach_limit"; 8], "all slots are taken");

    engine.drain(Duration::from_secs(10)).await.unwrap();
    assert_eq!(kinds(&reports)[8..], ["stored"; 5]);
    drop_stream(&engine, conversation("greedy"), Some(Duration::ZERO)).await;
    engine.drain(Duration::from_secs(10)).await.unwrap();
    assert_eq!(kinds(&reports)[13], "stored", "ended streams free their slots");
}

#[tokio::test(start_paused = true)]
async fn without_a_time_limit_a_detached_stream_is_read_to_its_end() {
    let reports = Reports::default();
    let engine = engine(&reports, DetachLimits::new().timeout(None));
    drop_stream(&engine, conversation("c"), Some(Duration::from_secs(100_000))).await;
    engine.drain(Duration::from_secs(200_000)).await.unwrap();
    assert_eq!(kinds(&reports), ["stored"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_detached_streams_discards() {
    let reports = Reports::default();
    let engine = engine(&reports, DetachLimits::new().max_streams(0));
    drop_stream(&engine, conversation("c"), Some(Duration::ZERO)).await;
    assert_eq!(kinds(&reports), ["detach_limit"]);
}
