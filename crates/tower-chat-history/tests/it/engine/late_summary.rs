//! A summary is stored with its call's exchange, and another exchange is stored in between.

use std::time::Duration;

use tower_chat_history::{
    ContextBudget, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Reply, TurnInput,
    store::{Cut, Cuts, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::{FixedSummarizer, conversation, summarizing_options, turn, window};

fn call(id: &str) -> Message {
    Message::from_json(format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
    ))
    .unwrap()
}

/// The window cannot start at the results that were stored first, so it starts at the next question. The
/// summary is kept.
#[tokio::test(start_paused = true)]
async fn a_summary_is_stored_if_results_are_stored_before_its_exchange() {
    for rounds in 1..4 {
        let store = MemoryStore::new();
        let summaries = Summaries::new(FixedSummarizer::default()).least_room(1).max_tokens(50);
        let budget = ContextBudget::tokens(4_000).reply_reserve(10);
        let options = HistoryOptions::new().context(budget);
        let options = options.summaries(summaries.when(SummarizeWhen::BeforeEveryCall));
        let (with, without) = (Engine::with_options(store.clone(), options), Engine::new(store.clone()));
        for _ in 0..3 {
            turn(&without, "c").await;
        }
        let begin = async |engine: &Engine, message: Message| {
            engine.begin(TurnInput::new(conversation("c"), [message])).await.unwrap()
        };
        begin(&without, Message::user("u")).await.commit(Reply::new(call("x0"))).await.unwrap();
        let late = begin(&without, Message::tool("x0", "r")).await;
        let question = begin(&with, Message::user("another question")).await;
        assert_eq!(question.context().len(), 3, "the summary, the reply to it, and the question");
        let mut late = late.commit(Reply::new(if rounds == 1 { Message::assistant("a") } else { call("x1") }));
        for round in 1..rounds {
            late.await.unwrap();
            let last = round + 1 == rounds;
            let results = begin(&without, Message::tool(format!("x{round}"), "r")).await;
            let reply = if last { Message::assistant("a") } else { call(&format!("x{}", round + 1)) };
            late = results.commit(Reply::new(reply));
        }
        late.await.unwrap();
        let report = question.commit(Reply::new(Message::assistant("a"))).await.unwrap();
        assert_eq!(report.outcome.kind(), "stored");

        let cut = stored_cut(&store).await;
        assert_eq!(cut.summary.as_ref().map(|summary| summary.text.as_str()), Some("s"), "{rounds} rounds");
        assert_eq!((cut.covers_to, cut.window_start), (Seq::new(4), Seq::new(4 + rounds)), "{rounds} rounds");

        // The next summary covers the results.
        begin(&with, Message::user("and now?")).await.commit(Reply::new(Message::assistant("a"))).await.unwrap();
        let cut = stored_cut(&store).await;
        assert_eq!(cut.covers_to, Seq::new(5 + rounds));
    }
}

/// Two calls overlap, and each has its summary. The call that began first stores its summary first, and it
/// covers less.
#[tokio::test(start_paused = true)]
async fn the_overlapping_summary_that_covers_more_is_kept() {
    for reversed in [false, true] {
        let store = MemoryStore::new();
        let summaries = Summaries::new(FixedSummarizer::default()).least_room(1).max_tokens(50);
        let options = HistoryOptions::new().context(ContextBudget::tokens(4_000).reply_reserve(10));
        let options = options.summaries(summaries.when(SummarizeWhen::BeforeEveryCall));
        let (with, without) = (Engine::with_options(store.clone(), options), Engine::new(store.clone()));
        turn(&without, "c").await;
        turn(&without, "c").await;
        let begin = async || with.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
        let first = begin().await;
        turn(&without, "c").await;
        let mut calls = vec![first, begin().await];
        if reversed {
            calls.reverse();
        }
        for call in calls {
            assert_eq!(call.context().len(), 3, "the summary, the reply to it, and the question");
            let report = call.commit(Reply::new(Message::assistant("a"))).await.unwrap();
            assert_eq!(report.outcome.kind(), "stored");
        }
        let cut = stored_cut(&store).await;
        assert_eq!((cut.covers_to, cut.window_start), (Seq::new(3), Seq::new(3)), "reversed: {reversed}");
    }
}

/// The log no longer has the position that the exchange could have got. Its first attempt was refused, so it is not in
/// the log.
#[tokio::test(start_paused = true)]
async fn an_exchange_with_a_summary_is_stored_after_another_exchange_and_a_prune() {
    let store = MemoryStore::new();
    let summaries = Summaries::new(FixedSummarizer::default()).least_room(1).max_tokens(50);
    let options = HistoryOptions::new().context(ContextBudget::tokens(4_000).reply_reserve(10));
    let options = options.summaries(summaries.when(SummarizeWhen::BeforeEveryCall));
    let with = Engine::with_options(store.clone(), options);
    let without = Engine::new(store.clone());
    turn(&without, "c").await;
    turn(&without, "c").await;
    let begun = with.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    turn(&without, "c").await;
    turn(&without, "c").await;
    store.conversation(&conversation("c")).keep_last_turns(1).await.unwrap();
    let report = begun.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    assert_eq!(report.outcome.kind(), "stored");
}

#[tokio::test(start_paused = true)]
async fn a_completed_summary_does_not_block_the_next_one() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), summarizing_options());
    let mut covered = Vec::new();
    for number in 0..30 {
        turn(&engine, "c").await;
        if number % 5 == 4 {
            engine.drain(Duration::from_secs(1)).await.unwrap();
            covered.push(stored_cut(&store).await.covers_to);
        }
    }
    assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{covered:?}");
}

async fn stored_cut(store: &MemoryStore) -> Cut {
    let stored = window(store, "c").await.compaction;
    stored.map(|stored| Cuts::read(&stored).unwrap().cut).unwrap_or_default()
}
