//! The provenance of replies, which is stored with their exchange.

use tower_chat_history_core::{
    Cut, Digest, Exchange, Expect, HistoryStoreExt, Load, Loaded, Origin, PromptDigests, Provenance, PruneTo, Recorded,
    Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::RECALLED;

/// Returns an exchange with a provenance that depends on the text.
pub(super) fn made_after(text: &str) -> Exchange {
    let mut exchange = turn_of(text);
    let mut cut = Cut::window_from(Seq::new(3));
    (cut.reasoning_from, cut.encrypted_from) = (Seq::new(u64::from(u32::MAX)), Seq::new(4));
    let origin = Origin::unknown().provider("ä \u{0} \"\\").route("").account(text).model("m");
    let [head, prompt] = [text, "prompt"].map(|text| Digest::of(text.as_bytes()));
    let provenance = Provenance::new(u32::MAX, cut.positions(), origin).digests(Some(PromptDigests::new(head, prompt)));
    exchange.provenance = Some(Box::new(provenance.made_at(Some(Seq::new(u64::from(u32::MAX))))));
    exchange
}

/// A provenance is returned unchanged by load, by read, by the lookup of an exchange id, and through other handles.
pub async fn a_provenance_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = vec![chat.add(made_after("first")).await];
    log.push(chat.add(turn_of("has none")).await);
    log.push(chat.add(made_after("third")).await);
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        let asked = Load::new().exchange(log[2].exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[2].clone()));
    }
}

/// A repeated append changes the provenance as little as anything else.
pub async fn a_repeat_does_not_change_a_provenance(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IDEMPOTENT;
    let chat = Chat::new(fixture).await;
    let log = [chat.add(made_after("first")).await, chat.add(turn_of("second")).await];
    for (recorded, other) in log.iter().zip([None, made_after("other").provenance]) {
        let mut repeat = (*recorded.exchange).clone();
        repeat.provenance = other;
        let repeated = chat.append(Expect::AnyOrCreate, repeat).await.must("a repeat is no error", &CLAUSE);
        assert_eq!((repeated.duplicate, repeated.seq), (true, recorded.seq));
    }
    assert_eq!(chat.log().await, log);
}

/// The provenances of a deleted conversation do not return in a new one with the same id.
pub async fn provenances_are_deleted(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETED;
    let chat = Chat::new(fixture).await;
    chat.add(made_after("before")).await;
    chat.delete().await;
    let log = [chat.add(turn_of("after")).await];
    assert_eq!(chat.log().await, log);
}

/// A truncation removes the provenances of the removed exchanges only.
pub async fn a_truncation_removes_provenances_with_their_exchange(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE;
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = Vec::new();
    for text in ["stays", "goes", "goes too"] {
        log.push(chat.add(made_after(text)).await);
    }
    edit.keep(1).await;
    log.truncate(1);
    log.push(chat.add(turn_of("new")).await);
    log.push(chat.add(made_after("new too")).await);
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// A prune that erases derived data removes all provenances, because they are made from the removed text. One that
/// keeps derived data keeps them.
pub async fn an_erasure_removes_provenances(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_DERIVED;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(2).await;
    let mut log = vec![chat.add(made_after("first")).await, chat.add(made_after("second")).await];
    prunable.keep(PruneTo::From(Seq::new(1))).await;
    assert_eq!(chat.log().await[1..], log);
    prunable.forget(PruneTo::From(Seq::new(2))).await;
    for recorded in &mut log {
        let mut without = (*recorded.exchange).clone();
        without.provenance = None;
        *recorded = Recorded::new(recorded.seq, without);
    }
    for chat in [chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
    }
    let asked = Load::new().exchange(log[1].exchange.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[1].clone()));
}

/// A fork of a whole log has the provenances.
pub async fn provenances_are_forked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let chat = Chat::new(fixture).await;
    let log = [chat.add(made_after("first")).await, chat.add(made_after("second")).await];
    let copy = chat.other();
    chat.store.conversation(&chat.id).fork(Seq::new(2), &copy.id).await.must("the copy does not exist yet", &CLAUSE);
    let of = |log: &[Recorded]| -> Vec<_> { log.iter().map(|recorded| recorded.exchange.provenance.clone()).collect() };
    assert_eq!(of(&copy.log().await), of(&log));
}

/// A fork of a pruned log has the provenances, with positions that are counted from the first copied exchange.
pub async fn provenances_of_a_pruned_log_are_forked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(1).await;
    chat.add(made_after("second")).await;
    prunable.keep(PruneTo::From(Seq::new(1))).await;
    let copy = chat.other();
    chat.store.conversation(&chat.id).fork(Seq::new(2), &copy.id).await.must("the copy does not exist yet", &CLAUSE);
    let mut cut = Cut::window_from(Seq::new(2));
    let last = Seq::new(u64::from(u32::MAX) - 1);
    (cut.reasoning_from, cut.encrypted_from) = (last, Seq::new(3));
    let mut expected = made_after("second").provenance.must("it was set", &CLAUSE);
    (expected.cut, expected.made_at) = (cut.positions(), Some(last));
    let copied: Vec<_> = copy.log().await.into_iter().map(|recorded| recorded.exchange.provenance.clone()).collect();
    assert_eq!(copied, [Some(expected)]);
}
