//! Calls that wait for a summary.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower::{Service as _, ServiceBuilder, ServiceExt as _, limit::GlobalConcurrencyLimitLayer, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, InConversation, MemoryStore, Message, Reply,
    adapt::Custom,
    summary::{ServiceSummarizer, Summaries, SummarizeWhen},
};

use super::support::{Facts, id, options, turn};

/// With turns five seconds apart and a summarizer that takes two seconds, no turn waits.
#[tokio::test(start_paused = true)]
async fn no_turn_waits_if_there_is_time_between_turns() {
    let facts = Facts::new().taking(Duration::from_secs(2));
    let engine = Engine::with_options(MemoryStore::new(), options(Summaries::new(facts.clone())));
    for number in 0..200 {
        let before = Instant::now();
        let (_, report) = turn(&engine, &format!("question {number}")).await;
        assert_eq!(before.elapsed(), Duration::ZERO, "turn {number}");
        assert!(report.summary.is_none());
        sleep(Duration::from_secs(5)).await;
    }
    assert!(facts.calls() > 20, "{}", facts.calls());
}

/// If turns follow each other at once, none waits longer than the summary takes.
#[tokio::test(start_paused = true)]
async fn consecutive_turns_wait_no_longer_than_the_summary_takes() {
    let facts = Facts::new().taking(Duration::from_secs(2));
    let engine = Engine::with_options(MemoryStore::new(), options(Summaries::new(facts.clone())));
    let mut waited = 0;
    for number in 0..200 {
        let before = Instant::now();
        let (_, report) = turn(&engine, &format!("question {number}")).await;
        assert!(before.elapsed() <= Duration::from_secs(2), "turn {number} waited {:?}", before.elapsed());
        waited += usize::from(report.summary.as_ref().is_some_and(|summary| summary.waited_for));
    }
    assert!(waited > 10 && waited < 100, "{waited}");
}

/// A model and its summarizer that share a limit of one concurrent call do not wait for each other.
#[tokio::test(start_paused = true)]
async fn a_shared_limit_of_one_does_not_deadlock() {
    for when in [SummarizeWhen::BeforeCall, SummarizeWhen::AfterReply { percent: 90 }, SummarizeWhen::BeforeEveryCall] {
        let limit = GlobalConcurrencyLimitLayer::new(1);
        let model = service_fn(|_: Vec<Message>| async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(Message::assistant("a".repeat(80)))
        });
        let summarizing = service_fn(|_: Vec<Message>| async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(Message::assistant("short"))
        });
        let summarizer = ServiceSummarizer::new(
            ServiceBuilder::new().layer(limit.clone()).service(summarizing),
            |messages: Vec<Message>, _| messages,
            |reply: &Message| Reply::new(reply.clone()),
        );
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|reply: &Message| reply.clone());
        let options = options(Summaries::new(summarizer).when(when));
        let mut chat = ServiceBuilder::new()
            .layer(ChatHistoryLayer::with_options(MemoryStore::new(), adapter, options))
            .layer(limit)
            .service(model);
        let all = async {
            for number in 0..30 {
                let request = vec![Message::user(format!("{number} {}", "u".repeat(80)))];
                chat.ready().await.unwrap().call(InConversation::new(id(), request)).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(600), all)
            .await
            .unwrap_or_else(|_| unreachable!("deadlock: {when:?}"));
    }
}
