//! Preparations: the turns after which they run, one at a time for each conversation, and their failures.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tower_chat_history::{
    ConversationId, Engine, HistoryOptions, Message, Reply, Retention, TurnInput,
    recall::RecallOptions,
    store::Seq,
    summary::{Summaries, SummarizeWhen},
};

use super::support::{Answer, Chat, Preparation, ScriptedRecall, answer, budget, id, options, question};
use crate::summaries::support::Facts;

fn nothing() -> ScriptedRecall {
    ScriptedRecall::new(|_, _| Answer::Nothing)
}

async fn drain(chat: &Chat) {
    chat.engine.drain(Duration::from_secs(100)).await.unwrap();
}

/// Returns the start of the window, or the log's first position.
async fn start(chat: &Chat) -> Seq {
    chat.window().await.compaction.map(|compaction| compaction.window_start).unwrap_or_default()
}

#[tokio::test]
async fn a_turn_that_moved_the_window_prepares_searches_and_others_do_not() {
    let chat = Chat::new(nothing());
    let mut expected = Vec::new();
    let mut before = Seq::FIRST;
    for number in 0..40 {
        let (_, report) = chat.turn("question").await;
        drain(&chat).await;
        let now = start(&chat).await;
        if now > before {
            expected.push((report.revision().unwrap(), now));
        }
        before = now;
        assert_eq!(chat.recall.prepared(), expected, "turn {number}");
    }
    assert!(expected.len() > 3);
}

#[tokio::test]
async fn a_conversation_within_its_window_is_never_prepared() {
    let chat = Chat::new(ScriptedRecall::new(|_, _| Answer::Unprepared(1_000)));
    for _ in 0..5 {
        chat.turn("question").await;
        drain(&chat).await;
    }
    assert!(chat.recall.prepared().is_empty());
}

#[tokio::test]
async fn unprepared_exchanges_are_prepared_although_the_window_did_not_move() {
    for (unprepared, prepared) in [(0, 0), (1, 1), (1_000, 1)] {
        let chat = Chat::new(ScriptedRecall::after_fillers(move |_, _| Answer::Unprepared(unprepared)));
        chat.until_moved().await;
        drain(&chat).await;
        let before = chat.recall.prepared().len();
        let (_, report) = chat.turn("question").await;
        drain(&chat).await;
        assert_eq!(chat.recall.prepared().len() - before, prepared, "{unprepared}");
        if prepared > 0 {
            assert_eq!(chat.recall.prepared().last(), Some(&(report.revision().unwrap(), start(&chat).await)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_that_takes_too_long_is_followed_by_a_preparation() {
    let chat = Chat::new(ScriptedRecall::after_fillers(|_, _| Answer::Late(Duration::from_secs(9))));
    chat.until_moved().await;
    drain(&chat).await;
    let before = chat.recall.prepared().len();
    chat.turn("question").await;
    drain(&chat).await;
    assert_eq!(chat.recall.prepared().len() - before, 1, "the unprepared part may be too long to search");
}

#[tokio::test]
async fn a_call_that_is_not_stored_prepares_nothing() {
    let chat = Chat::new(ScriptedRecall::new(|_, _| Answer::Unprepared(1_000)));
    chat.until_moved().await;
    drain(&chat).await;
    let before = chat.recall.prepared().len();
    chat.begin([question("q")]).await.fail("model");
    let options = tower_chat_history::CallOptions::new().dont_store();
    let turn = chat.engine.begin(TurnInput::new(id(), [question("q")]).options(options)).await.unwrap();
    turn.commit(Reply::new(answer())).await.unwrap();
    drain(&chat).await;
    assert_eq!(chat.recall.prepared().len(), before);
}

#[tokio::test]
async fn the_turn_after_a_background_summary_moved_the_window_prepares_searches() {
    let recall = nothing();
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::AfterReply { percent: 70 }).max_tokens(60);
    let chat = Chat::with_options(recall.clone(), options(&recall).summaries(summaries));
    chat.turn("question").await;
    let (mut moved, mut known) = (0, Seq::FIRST);
    for _ in 0..40 {
        let before = start(&chat).await;
        let prepared = chat.recall.prepared().len();
        let (_, report) = chat.turn("question").await;
        drain(&chat).await;
        // The summary of the turn before moved the window, and this turn is the first one that sees it.
        let new = before > known || report.tokens.unwrap().compacted;
        assert_eq!(chat.recall.prepared().len() - prepared, usize::from(new));
        moved += usize::from(new);
        known = known.max(before);
    }
    assert!(moved > 3, "{moved}");
}

#[tokio::test]
async fn a_turn_whose_own_summary_moved_the_window_prepares_searches() {
    for when in [SummarizeWhen::BeforeCall, SummarizeWhen::BeforeEveryCall] {
        let recall = nothing();
        let summaries = Summaries::new(Facts::new()).when(when).max_tokens(60);
        let chat = Chat::with_options(recall.clone(), options(&recall).summaries(summaries));
        let (mut before, mut moved) = (Seq::FIRST, 0);
        for number in 0..20 {
            let prepared = chat.recall.prepared().len();
            chat.turn("question").await;
            drain(&chat).await;
            let now = start(&chat).await;
            assert_eq!(chat.recall.prepared().len() - prepared, usize::from(now > before), "{when:?}, turn {number}");
            moved += usize::from(now > before);
            before = now;
        }
        assert!(moved > 2, "{moved}");
    }
}

#[tokio::test]
async fn the_turn_after_another_process_moved_the_window_prepares_searches() {
    let chat = Chat::new(nothing());
    for _ in 0..4 {
        chat.turn("question").await;
    }
    chat.cut(Seq::new(2)).await;
    chat.turn("question").await;
    drain(&chat).await;
    assert_eq!(chat.recall.prepared().iter().map(|(_, before)| before.get()).collect::<Vec<_>>(), [2]);
    chat.turn("question").await;
    drain(&chat).await;
    assert_eq!(chat.recall.prepared().len(), 1);
}

#[tokio::test]
async fn the_turn_after_a_preparation_that_failed_or_has_work_left_prepares_again() {
    for (preparation, again) in [(Preparation::HasMore, 1), (Preparation::Fails, 1), (Preparation::Ends, 0)] {
        let chat = Chat::new(nothing().preparing(preparation.clone()));
        chat.until_moved().await;
        drain(&chat).await;
        let before = chat.recall.prepared().len();
        chat.turn("question").await;
        drain(&chat).await;
        assert_eq!(chat.recall.prepared().len(), before + again, "{preparation:?}");
    }
}

#[tokio::test]
async fn one_preparation_runs_at_a_time_and_drain_waits_for_it() {
    let permits = Arc::new(Semaphore::new(0));
    let recall =
        ScriptedRecall::new(|_, _| Answer::Unprepared(1_000)).preparing(Preparation::Waits(Arc::clone(&permits)));
    let chat = Chat::new(recall);
    chat.until_moved().await;
    for _ in 0..5 {
        chat.turn("question").await;
        tokio::task::yield_now().await;
    }
    assert_eq!((chat.recall.prepared().len(), chat.recall.most_preparing()), (1, 1));
    let error = chat.engine.drain(Duration::from_millis(10)).await.unwrap_err();
    assert_eq!((error.saves, error.streams, error.summaries, error.preparations), (0, 0, 0, 1));
    permits.add_permits(1);
    drain(&chat).await;
    chat.turn("question").await;
    permits.add_permits(1);
    drain(&chat).await;
    assert_eq!((chat.recall.prepared().len(), chat.recall.most_preparing()), (2, 1));
}

#[tokio::test]
async fn preparations_of_different_conversations_run_at_the_same_time() {
    let permits = Arc::new(Semaphore::new(0));
    let recall = nothing().preparing(Preparation::Waits(Arc::clone(&permits)));
    let engine = Engine::with_options(tower_chat_history::MemoryStore::new(), options(&recall));
    for name in ["a", "b", "c"] {
        let id = ConversationId::new(["recall", name]).unwrap();
        for _ in 0..12 {
            let turn = engine.begin(TurnInput::new(id.clone(), [question("q")])).await.unwrap();
            turn.commit(Reply::new(answer())).await.unwrap();
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((recall.prepared().len(), recall.most_preparing()), (3, 3));
    permits.add_permits(3);
    engine.drain(Duration::from_secs(100)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_preparation_that_fails_panics_or_hangs_harms_no_turn_and_is_tried_again() {
    let hangs = Preparation::Waits(Arc::new(Semaphore::new(0)));
    for preparation in [Preparation::Fails, Preparation::Panics, hangs] {
        let recall = ScriptedRecall::new(|_, _| Answer::Unprepared(1_000)).preparing(preparation.clone());
        let chat = Chat::new(recall);
        chat.until_moved().await;
        // The timeout of a preparation is 60 seconds.
        drain(&chat).await;
        let before = chat.recall.prepared().len();
        for number in 1..4 {
            let (_, report) = chat.turn("question").await;
            assert!(report.revision().is_some());
            drain(&chat).await;
            assert_eq!(chat.recall.prepared().len(), before + number, "{preparation:?}");
        }
    }
}

#[tokio::test]
async fn a_pruned_log_within_its_window_is_not_prepared() {
    let recall = ScriptedRecall::new(|_, _| Answer::Unprepared(1_000));
    let store = tower_chat_history::MemoryStore::new();
    let options: HistoryOptions = options(&recall);
    let engine = Engine::with_retention(store, options.context(budget()), Retention::LastTurns(3));
    for _ in 0..30 {
        let turn = engine.begin(TurnInput::new(id(), [question("q")])).await.unwrap();
        turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
        engine.drain(Duration::from_secs(1)).await.unwrap();
    }
    assert!(recall.prepared().is_empty() && recall.searches().is_empty());
}

/// Runs turns of another conversation until its window moves.
async fn moved_elsewhere(chat: &Chat, name: &str) {
    let other = ConversationId::new(["tests", name]).unwrap();
    for _ in 0..40 {
        let turn = chat.engine.begin(TurnInput::new(other.clone(), [question("filler")])).await.unwrap();
        if turn.commit(Reply::new(answer())).await.unwrap().tokens.unwrap().compacted {
            return;
        }
    }
    panic!("the window did not move");
}

fn prepared_of(chat: &Chat, id: &ConversationId) -> usize {
    chat.recall.prepared_conversations().iter().filter(|prepared| *prepared == id).count()
}

#[tokio::test]
async fn preparations_of_all_conversations_are_limited_and_later_turns_make_the_others() {
    let permits = Arc::new(Semaphore::new(0));
    let recall = nothing().preparing(Preparation::Waits(Arc::clone(&permits)));
    let few = RecallOptions::new(recall.clone()).max_preparations(2);
    let chat = Chat::with_options(recall, HistoryOptions::new().context(budget()).recall(few));
    for name in ["a", "b", "c", "d"] {
        moved_elsewhere(&chat, name).await;
        tokio::task::yield_now().await;
    }
    assert_eq!((chat.recall.prepared().len(), chat.recall.most_preparing()), (2, 2));
    permits.add_permits(100);
    drain(&chat).await;
    assert_eq!(chat.recall.prepared().len(), 2, "the others wait for a turn of their own");
    for name in ["c", "d"] {
        let other = ConversationId::new(["tests", name]).unwrap();
        assert_eq!(prepared_of(&chat, &other), 0);
        let turn = chat.engine.begin(TurnInput::new(other.clone(), [question("again")])).await.unwrap();
        turn.commit(Reply::new(answer())).await.unwrap();
        drain(&chat).await;
        assert_eq!(prepared_of(&chat, &other), 1);
    }
}
