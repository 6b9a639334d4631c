//! The prompts in which reasoning is sent.

use std::{sync::Arc, time::Duration};

use test_providers::signing::{Say, SigningProvider};
use tokio::time::Instant;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, Message, Reply, Retention, TurnInput,
    dialect::DialectName,
    error::DialectPlace,
    refusal::Remedy,
    store::{Cuts, Origin, Seq},
};
use tower_chat_history_test::{FaultStore, Op};

use super::{Talk, answers, asks, question, result};

#[tokio::test(start_paused = true)]
async fn a_turn_under_an_earlier_cut_is_repaired_and_the_stored_cut_stays() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    talk.call(question(), &answers()).await;
    talk.call(question(), &asks()).await;
    talk.cut_elsewhere(1).await;
    // The provider cannot verify what it signed before.
    talk.provider = SigningProvider::new("two");
    let mut input = TurnInput::new(talk.id.clone(), [result()]);
    input.request.tools = Some(talk.tools.to_owned());
    let head = input.request.digest();
    let mut turn = talk.engine.begin(input).await.unwrap();
    let sent = turn.context().len();
    talk.provider.reply(head, turn.context(), &answers()).unwrap_err();
    assert!(turn.remedy(&Remedy::WithoutEncrypted, "400").await);
    assert!(!turn.remedy(&Remedy::WithoutEncrypted, "400").await, "a turn is repaired once");
    assert_eq!(turn.input(), [result()]);
    assert!(turn.context().len() <= sent);
    let reply = talk.provider.reply(head, turn.context(), &answers()).unwrap();
    let report = turn.commit(Reply::of(reply)).await.unwrap();
    assert!(report.remedies == [Remedy::WithoutEncrypted]);
    let cut = Cuts::read(&talk.window().await.compaction.unwrap()).unwrap().cut;
    assert_eq!((cut.window_start, cut.covers_to, cut.encrypted_from), (Seq::new(1), Seq::new(1), Seq::new(3)));
    assert!(talk.call(question(), &answers()).await.remedies.is_empty());
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_sent_and_stored_with_its_provenance() {
    let mut talk = Talk::new(HistoryOptions::new().origin(Origin::unknown().provider("one")));
    for _ in 0..5 {
        talk.call(question(), &asks()).await;
        let report = talk.call(result(), &answers()).await;
        assert_eq!((report.reasoning_left_out, report.head_changed), (0, false));
    }
    assert_eq!(talk.provider.counts().missing, 0);
    let window = talk.window().await;
    let of = |at: usize| window.exchanges[at].exchange.provenance.clone().unwrap();
    assert_eq!((of(0).origin.provider.as_deref(), window.exchanges[0].exchange.reply_len), (Some("one"), 2));
    let [first, last] = [0, 9].map(|at| of(at).digests);
    assert!(first.head == last.head && first.prompt != last.prompt);
}

#[tokio::test(start_paused = true)]
async fn reasoning_under_another_head_is_left_out_and_reported() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    talk.tools = "one more tool";
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.reasoning_left_out, report.head_changed), (1, true));
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.reasoning_left_out, report.head_changed), (1, false), "only the oldest was made without it");
}

#[tokio::test(start_paused = true)]
async fn a_turn_continues_under_the_cut_that_it_began_with() {
    let mut talk = Talk::new(HistoryOptions::new());
    for _ in 0..3 {
        talk.call(question(), &answers()).await;
    }
    talk.call(question(), &asks()).await;
    talk.cut_elsewhere(3).await;
    let before = talk.provider.counts().missing;
    let report = talk.call(result(), &answers()).await;
    assert_eq!((report.reasoning_left_out, talk.provider.counts().missing - before), (0, 0));
    assert_eq!(report.messages_sent, 3 * 3 + 3 + 1, "the whole log, and the result");
    let report = talk.call(question(), &answers()).await;
    assert_eq!(report.reasoning_left_out, 2, "the next turn has the new cut");
    assert_eq!(
        report.messages_sent,
        2 + 4 + 1,
        "the summary and a reply, the last turn without its reasoning, the question"
    );
}

/// The exchanges of such a turn's window that the stored cut leaves out are read after the load.
#[tokio::test(start_paused = true)]
async fn a_read_for_the_cut_that_a_turn_began_with_ends_after_the_store_timeout() {
    let mut talk = Talk::new(HistoryOptions::new());
    for _ in 0..3 {
        talk.call(question(), &answers()).await;
    }
    talk.call(question(), &asks()).await;
    talk.cut_elsewhere(3).await;

    let timeout = Duration::from_secs(7);
    let store = FaultStore::new(Arc::clone(&talk.store));
    talk.engine = Engine::with_options(store.clone(), HistoryOptions::new().store_timeout(timeout));
    let held = store.hold(Op::Read);
    let begun = Instant::now();
    let error = talk.try_call(result(), &answers()).await.unwrap_err();
    assert!(matches!(error, HistoryError::Load(_)), "{error}");
    assert_eq!((error.kind(), begun.elapsed(), store.calls(Op::Read)), ("unavailable", timeout, 1));

    held.release();
    assert_eq!(talk.call(result(), &answers()).await.messages_sent, 3 * 3 + 3 + 1, "the whole log, and the result");
}

#[tokio::test(start_paused = true)]
async fn a_call_in_another_dialect_is_refused() {
    let mut talk = Talk::new(HistoryOptions::new());
    talk.call(question(), &answers()).await;
    let error = talk.engine.begin(TurnInput::new(talk.id.clone(), [Message::user("u")])).await.unwrap_err();
    let HistoryError::OtherDialect(error) = error else { panic!("{error}") };
    assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST));
    let names = (error.found.unwrap(), error.called);
    assert_eq!((names.0.as_str(), names.1), ("test/signing", DialectName::CHAT_COMPLETIONS));
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_pruned_log_keeps_reasoning_whose_prompt_it_has() {
    let one = HistoryOptions::new().origin(Origin::unknown().provider("one"));
    let mut talk = Talk::with(|store| Engine::with_options(store, one));
    talk.call(question(), &answers()).await;
    talk.call(question(), &answers()).await;
    // The third reply is made after the prune, the second one before it.
    talk.store.conversation(&talk.id).keep_last_turns(1).await.unwrap();
    talk.call(question(), &answers()).await;
    let copy = ConversationId::new(["acme", "copy"]).unwrap();
    let window = talk.window().await;
    talk.store.conversation(&talk.id).fork(window.revision.next(), &copy).await.unwrap();
    talk.id = copy;
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.messages_sent, report.reasoning_left_out), (3 + 3 - 1 + 1, 1), "only that of the second reply");
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_pruned_log_keeps_reasoning_that_is_not_bound_to_its_prompt() {
    let one = HistoryOptions::new().origin(Origin::unknown().provider("one"));
    let mut talk = Talk::with(|store| Engine::with_retention(store, one, Retention::LastTurns(1)));
    for _ in 0..3 {
        talk.call(question(), &[Say::Sealed("hm".into()), Say::Text("so".into())]).await;
    }
    let copy = ConversationId::new(["acme", "copy"]).unwrap();
    let window = talk.window().await;
    talk.store.conversation(&talk.id).fork(window.revision.next(), &copy).await.unwrap();
    talk.id = copy;
    let report = talk.call(question(), &answers()).await;
    assert_eq!((report.messages_sent, report.reasoning_left_out), (4, 0));
}
