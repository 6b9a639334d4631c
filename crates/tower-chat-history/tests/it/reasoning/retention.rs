//! A prune waits for turns with bound reasoning.

use std::sync::Arc;

use test_providers::signing::{Say, SigningDialect};
use tower_chat_history::{
    Engine, HistoryOptions, MemoryStore, Message, Reply, Retention, TurnInput, engine::ToolResults, store::Role,
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use super::{Talk, answers, asks, question, result};

fn engine(retention: Retention) -> impl Fn(Arc<MemoryStore>) -> Engine {
    move |store| Engine::with_retention(store, HistoryOptions::new(), retention)
}

/// Returns the position of the log's first exchange, and the number of its exchanges.
async fn first_and_len(talk: &Talk) -> (u64, usize) {
    let window = talk.window().await;
    (window.exchanges[0].seq.get(), window.exchanges.len())
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_the_end_of_a_turn_with_reasoning() {
    for retention in [1, 2, 3].map(Retention::LastTurns) {
        let mut talk = Talk::with(engine(retention));
        for _ in 0..5 {
            // A prune at the end of the turn before has changed the prompt of the turns before the question.
            let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
            for says in [&asks()[..], &[Say::Text("so".into())]] {
                assert_eq!(talk.call(result(), says).await.reasoning_left_out, of_others);
            }
        }
        let Retention::LastTurns(turns) = retention else { unreachable!() };
        assert_eq!(talk.window().await.exchanges.len(), 3 * turns);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prune_by_messages_waits_until_a_long_turn_ends() {
    let mut talk = Talk::with(engine(Retention::LastMessages(4)));
    for turn in 0..3 {
        talk.call(question(), &answers()).await;
        let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
        for _ in 0..40 {
            assert_eq!(talk.call(result(), &asks()).await.reasoning_left_out, of_others);
        }
        talk.call(result(), &[Say::Text("so".into())]).await;
        // The turn is kept whole, although it has more messages.
        assert_eq!(first_and_len(&talk).await, (43 * turn + 1, 42));
    }
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_a_turn_that_another_engine_began() {
    let mut talk = Talk::with(engine(Retention::LastTurns(1)));
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    // This engine has counted nothing.
    talk.engine = engine(Retention::LastTurns(1))(Arc::clone(&talk.store));
    talk.call(result(), &asks()[1..]).await;
    assert_eq!(first_and_len(&talk).await, (0, 3));
    talk.call(result(), &[Say::Text("so".into())]).await;
    assert_eq!(first_and_len(&talk).await, (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_a_turn_whose_reply_was_interrupted() {
    let mut talk = Talk::with(engine(Retention::LastTurns(1)));
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    let turn = talk.engine.begin(TurnInput::new(talk.id.clone(), [result()])).await.unwrap();
    let mut interrupted = Reply::of([Message::compose(&SigningDialect, &Role::Assistant, "s").unwrap()]);
    interrupted.incomplete = true;
    turn.commit(interrupted).await.unwrap();
    assert_eq!(first_and_len(&talk).await, (0, 3));
    // The next question ends the turn.
    talk.call(question(), &answers()).await;
    assert_eq!(first_and_len(&talk).await, (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_prune_waits_for_the_reply_to_results_that_were_stored_alone() {
    let mut talk = Talk::with(engine(Retention::LastTurns(1)));
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    talk.engine.store_results(ToolResults::new(talk.id.clone(), [result()])).await.unwrap();
    assert_eq!(first_and_len(&talk).await, (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_prune_does_not_wait_for_a_turn_without_bound_reasoning() {
    let mut talk = Talk::with(engine(Retention::LastTurns(1)));
    for turn in 0..5 {
        talk.call(question(), &asks()[1..]).await;
        assert_eq!(first_and_len(&talk).await, (turn, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_limited_although_each_turn_is_abandoned() {
    for (is_counted, number, expected) in [(true, 1, 18), (true, 4, 24), (false, 1, 10), (false, 4, 16)] {
        let mut talk = Talk::with(engine(Retention::LastTurns(number)));
        let mut most = 0;
        for _ in 0..50 {
            if !is_counted {
                talk.engine = engine(Retention::LastTurns(number))(Arc::clone(&talk.store));
            }
            talk.call(question(), &asks()).await;
            most = most.max(first_and_len(&talk).await.1);
        }
        assert_eq!(most, expected, "{is_counted} {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prune_leaves_turns_whole_that_two_engines_share() {
    for number in [1, 4, 20, 40] {
        let mut talk = Talk::with(engine(Retention::LastTurns(number)));
        let mut other = engine(Retention::LastTurns(number))(Arc::clone(&talk.store));
        for _ in 0..100 {
            let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
            std::mem::swap(&mut talk.engine, &mut other);
            assert_eq!(talk.call(result(), &[Say::Text("so".into())]).await.reasoning_left_out, of_others);
            std::mem::swap(&mut talk.engine, &mut other);
            assert!(first_and_len(&talk).await.1 <= 2 * (number + number / 4 + 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_a_count_leaves_a_turn_whole_that_goes_on() {
    for number in [1, 4, 40, 100] {
        for turns in [number, number + number / 4] {
            let mut talk = Talk::with(engine(Retention::LastTurns(number)));
            for _ in 0..turns {
                talk.call(question(), &answers()).await;
            }
            let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
            talk.engine = engine(Retention::LastTurns(number))(Arc::clone(&talk.store));
            assert_eq!(talk.call(result(), &asks()).await.reasoning_left_out, of_others);
            assert_eq!(talk.call(result(), &[Say::Text("so".into())]).await.reasoning_left_out, of_others);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_a_count_leaves_a_turn_whole_if_three_engines_share_the_log() {
    let number = 20;
    let mut talk = Talk::with(engine(Retention::LastTurns(number)));
    let engines = [(); 3].map(|()| engine(Retention::LastTurns(number))(Arc::clone(&talk.store)));
    for turn in 0..35 {
        talk.engine = engines[turn % 3].clone();
        talk.call(question(), &answers()).await;
    }
    let stored = first_and_len(&talk).await.1;
    assert!(stored > number + number / 4 + 8, "{stored}");
    talk.engine = engine(Retention::LastTurns(number))(Arc::clone(&talk.store));
    let of_others = talk.call(question(), &asks()).await.reasoning_left_out;
    assert_eq!(talk.call(result(), &answers()).await.reasoning_left_out, of_others);
}

#[tokio::test(start_paused = true)]
async fn a_prune_that_failed_has_not_waited() {
    let mut store = None;
    let mut talk = Talk::with(|memory| {
        let faulty = store.insert(FaultStore::new(memory));
        Engine::with_retention(faulty.clone(), HistoryOptions::new(), Retention::LastTurns(1))
    });
    talk.call(question(), &answers()).await;
    for _ in 1..20 {
        store.as_ref().unwrap().fail(Op::Prune, 1, Fault::Unavailable);
        talk.call(question(), &answers()).await;
    }
    talk.call(question(), &asks()).await;
    assert_eq!(first_and_len(&talk).await, (0, 21), "it waits for the end of the turn");
    talk.call(result(), &answers()).await;
    assert_eq!(first_and_len(&talk).await, (20, 2));
}
