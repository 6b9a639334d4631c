//! The stored cut: under concurrent cuts, truncation, fork and prune, and in other engines.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tower_chat_history::{
    ConversationId, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore,
    refusal::Remedy,
    store::{Cut, Cuts, Derived, Load, Loaded, Profile, Prune as _, PruneTo, Seq, Summary, Window},
};
use tower_chat_history_test::{Fault, FaultStore, Op, responses::Say};

use super::{super::support::id, Talk, is_bound};

async fn window(store: &MemoryStore) -> Window {
    match store.load(&id(), Load::new()).await.unwrap() {
        Loaded::Window(window) => window,
        other => panic!("{other:?}"),
    }
}

/// Stores a compaction as another process does.
async fn cut_elsewhere(store: &MemoryStore, cut: Cut) {
    let window = window(store).await;
    let compact = Cuts::new(cut).compact(Profile::default(), window.compaction_version()).unwrap();
    store.compact(&id(), window.revision.incarnation(), compact).await.unwrap();
}

/// Returns a repaired conversation with three exchanges, of which the last one is readable.
async fn repaired() -> Talk<MemoryStore> {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    talk.ok(1).await;
    talk.provider.rotate_key();
    talk.ok(2).await;
    talk
}

#[tokio::test]
async fn another_engine_leaves_the_items_out() {
    let talk = repaired().await;
    let other = Talk::with(Arc::clone(&talk.store), talk.provider.clone(), HistoryOptions::new());
    other.ok(1).await;
    assert_eq!(talk.provider.refused(), 1);
}

#[tokio::test]
async fn each_key_is_repaired_once() {
    let talk = repaired().await;
    for turns in 3..6 {
        talk.provider.rotate_key();
        talk.ok(2).await;
        assert_eq!(talk.encrypted_from().await, Seq::new(turns));
        talk.ok(1).await;
        talk.store.conversation(&id()).truncate(Seq::new(turns + 1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_cut_that_another_process_stored_in_the_meantime_is_merged() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    talk.ok(1).await;
    talk.provider.rotate_key();
    let store = Arc::clone(&talk.store);
    talk.provider.before_next(move || {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let mut cut = Cut::window_from(Seq::new(1));
            cut.set_summary(Summary::new("before"), Seq::new(1));
            cut_elsewhere(&store, cut).await;
        })
    });
    talk.ok(2).await;
    talk.engine.drain(Duration::from_secs(60)).await.unwrap();
    let cut = talk.cut().await.unwrap();
    assert_eq!((cut.window_start, cut.covers_to, cut.encrypted_from), (Seq::new(1), Seq::new(1), Seq::new(2)));
    talk.ok(1).await;
}

/// Returns a conversation after a repaired turn, during which another process stored a compaction. `faults` sets what
/// the store does with the next compaction.
async fn overtaken(faults: impl FnOnce(&FaultStore<MemoryStore>)) -> Talk<FaultStore<MemoryStore>> {
    let store = MemoryStore::new();
    let talk = Talk::new(Arc::new(FaultStore::new(store.clone())));
    talk.ok(1).await;
    talk.ok(1).await;
    talk.provider.rotate_key();
    talk.provider
        .before_next(move || Box::pin(async move { cut_elsewhere(&store, Cut::window_from(Seq::new(1))).await }));
    faults(&talk.store);
    let begun = Instant::now();
    talk.ok(2).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "the reply does not wait for the cut");
    assert_eq!((talk.engine.pending_saves(), talk.log().await.len()), (0, 3), "the exchange is stored");
    talk
}

#[tokio::test(start_paused = true)]
async fn the_next_call_waits_for_the_cut_of_a_repaired_one() {
    let talk = overtaken(|store| store.fail(Op::Compact, 2, Fault::Unavailable)).await;
    assert_eq!(talk.encrypted_from().await, Seq::FIRST);
    let begun = Instant::now();
    talk.ok(1).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(150), "the pauses between the attempts");
    assert_eq!((talk.encrypted_from().await, talk.provider.refused()), (Seq::new(2), 1));
}

#[tokio::test(start_paused = true)]
async fn the_next_call_waits_at_most_for_the_store_timeout_and_is_repaired_itself() {
    let talk = overtaken(|store| store.delay(Op::Compact, Duration::from_secs(3_600))).await;
    let begun = Instant::now();
    talk.ok(2).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert_eq!(talk.provider.refused(), 2);
    talk.engine.drain(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(talk.encrypted_from().await, Seq::new(3));
    talk.ok(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_others_overtake_again_and_again_is_given_up() {
    let talk = overtaken(|store| store.delay(Op::Compact, Duration::from_millis(10))).await;
    let store = talk.store.get_ref().clone();
    let others = tokio::spawn(async move {
        for number in 0.. {
            let mut cut = Cut::window_from(Seq::new(1));
            cut.set_summary(Summary::new(format!("s{number}")), Seq::new(1));
            cut_elsewhere(&store, cut).await;
            sleep(Duration::from_millis(1)).await;
        }
    });
    talk.engine.drain(Duration::from_secs(60)).await.unwrap();
    others.abort();
    assert!(others.await.is_err());
    assert_eq!((talk.store.calls(Op::Compact), talk.encrypted_from().await), (9, Seq::FIRST));
    talk.ok(2).await;
    assert_eq!(talk.encrypted_from().await, Seq::new(3));
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_cannot_be_stored_is_given_up_after_the_attempts_of_a_save() {
    let talk = overtaken(|store| store.fail(Op::Compact, usize::MAX, Fault::Unavailable)).await;
    let error = talk.engine.drain(Duration::from_millis(1)).await.unwrap_err();
    assert_eq!((error.repairs, error.saves), (1, 0));
    talk.engine.drain(Duration::from_secs(1)).await.unwrap();
    assert_eq!((talk.store.calls(Op::Compact), talk.encrypted_from().await), (3, Seq::FIRST));
    talk.store.mend();
    let begun = Instant::now();
    talk.ok(2).await;
    assert_eq!((begun.elapsed(), talk.encrypted_from().await), (Duration::ZERO, Seq::new(3)));
    talk.ok(1).await;
}

#[tokio::test]
async fn a_truncation_keeps_what_the_provider_cannot_read_left_out() {
    let talk = repaired().await;
    talk.store.conversation(&id()).truncate(Seq::new(1)).await.unwrap();
    assert_eq!(talk.encrypted_from().await, Seq::new(1));
    assert!(!is_bound(&talk.ok(1).await));
    assert!(is_bound(&talk.ok(1).await), "the exchange at the removed position is readable");
}

#[tokio::test]
async fn an_erasing_prune_keeps_what_the_provider_cannot_read_left_out() {
    let talk = repaired().await;
    let mut cut = talk.cut().await.unwrap();
    (cut.window_start, cut.rounds_start) = (Seq::new(2), Seq::new(2));
    cut.set_summary(Summary::new("before"), Seq::new(2));
    cut_elsewhere(&talk.store, cut).await;
    let incarnation = window(&talk.store).await.revision.incarnation();
    talk.store.prune(&id(), incarnation, PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    let cut = talk.cut().await.unwrap();
    assert_eq!((cut.window_start, cut.encrypted_from, cut.summary), (Seq::FIRST, Seq::new(2), None));
    talk.ok(1).await;
}

#[tokio::test]
async fn a_fork_keeps_what_the_provider_cannot_read_left_out() {
    let talk = repaired().await;
    let copy = ConversationId::new(["acme", "copy"]).unwrap();
    talk.store.conversation(&id()).fork(Seq::new(2), &copy).await.unwrap();
    talk.store.delete(&id()).await.unwrap();
    let forked = talk.store.conversation(&copy).fork(Seq::new(2), &id()).await.unwrap();
    assert_eq!((forked, talk.encrypted_from().await), (2, Seq::new(2)));
    assert!(!is_bound(&talk.ok(1).await));
    assert!(is_bound(&talk.ok(1).await), "the exchange after the fork is readable");
}

#[tokio::test]
async fn without_a_compaction_item_the_items_before_it_are_sent_again() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    let (status, _) = talk.ask(vec![Say::Compaction, Say::text("so")], false).await;
    assert_eq!(status, 200);
    assert!(!talk.ok(1).await.contains("rs_000001"), "the compaction stands for the first exchange");
    talk.provider.rotate_key();
    let sent = talk.ok(2).await;
    assert_eq!((sent.matches("and?").count(), sent.contains("compaction")), (4, false), "{sent}");
}

#[tokio::test]
async fn a_call_that_stores_nothing_is_repaired_each_time() {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    talk.provider.rotate_key();
    for _ in 0..2 {
        assert_eq!(talk.dont_store(vec![Say::text("so")]).await.0, 200);
        assert!(talk.report().remedies == [Remedy::WithoutEncrypted]);
        assert_eq!((talk.log().await.len(), talk.cut().await), (1, None));
    }
}
