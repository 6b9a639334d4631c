//! Messages that were shown again, which are stored with their exchange.

use tower_chat_history_core::{
    Citation, ConversationId, Exchange, Expect, HistoryStoreExt, Load, Loaded, PruneTo, Recalled, Recorded, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::RECALLED;

/// Returns an exchange whose recalled messages cite these positions.
pub(super) fn recalling<const N: usize>(text: &str, cited: [u64; N]) -> Exchange {
    let mut exchange = turn_of(text);
    let citations = cited.into_iter().zip(1..).map(|(seq, end)| Citation::new(Seq::new(seq), 0..end));
    exchange.recalled =
        Some(Recalled::new(format!("<recalled> for {text}: \u{0} \"ä\" \\ 👩‍👩‍👧\r\n"), citations.collect()));
    exchange
}

/// Returns an exchange whose recalled messages cite a position of another conversation, and one of the same log.
fn recalling_other(text: &str) -> Exchange {
    let mut exchange = recalling(text, [0]);
    if let (Some(recalled), Ok(other)) = (&mut exchange.recalled, ConversationId::new(["other/1", text])) {
        recalled.citations.insert(0, Citation::new(Seq::new(7), 2..3).of(other));
    }
    exchange
}

/// Recalled messages are returned byte for byte by load, by read, by the lookup of an exchange id, and through other
/// handles. So are their citations and their size.
pub async fn recalled_messages_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let mut exchange = recalling("asks", [0, 1]);
    if let Some(recalled) = &mut exchange.recalled {
        recalled.tokens = Some(u32::MAX);
        recalled.citations.push(Citation::new(Seq::new(1), 7..u32::MAX));
    }
    log.push(chat.add(exchange.clone()).await);
    log.push(chat.add(recalling("cites nothing", [])).await);
    log.push(chat.add(recalling_other("cites another")).await);
    log.push(chat.add(turn_of("recalls nothing")).await);
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        let asked = Load::new().exchange(exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[2].clone()));
    }
}

/// Large recalled messages are returned unchanged, also those of the exchange that creates the conversation.
pub async fn large_recalled_messages_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = [chat.add(recalling(&"long ".repeat(100_000), [])).await, chat.add(recalling("short", [0])).await];
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// A repeated append changes the recalled messages as little as anything else.
pub async fn a_repeat_does_not_change_recalled_messages(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IDEMPOTENT;
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    let log = [chat.add(recalling("first", [0])).await, chat.add(turn_of("second")).await];
    for (recorded, other) in log.iter().zip([None, recalling("other", [0]).recalled]) {
        let mut repeat = (*recorded.exchange).clone();
        repeat.recalled = other;
        let repeated = chat.append(Expect::AnyOrCreate, repeat).await.must("a repeat is no error", &CLAUSE);
        assert_eq!((repeated.duplicate, repeated.seq), (true, recorded.seq));
    }
    assert_eq!(chat.log().await[1..], log);
}

/// Recalled messages do not count against a load limit.
pub async fn recalled_messages_do_not_count(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIMIT;
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for _ in 0..3 {
        log.push(chat.add(recalling("the same", [])).await);
    }
    let bytes = log[0].exchange.bytes();
    assert_eq!(chat.window(limit(4, 2 * bytes)).await.exchanges, log[1..]);
}

/// Recalled messages of a deleted conversation do not return in a new one with the same id.
pub async fn recalled_messages_are_deleted(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETED;
    let chat = Chat::new(fixture).await;
    chat.add(recalling("before", [])).await;
    chat.delete().await;
    let log = [chat.add(turn_of("after")).await];
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// A truncation removes the recalled messages of the removed exchanges only.
pub async fn a_truncation_removes_recalled_messages_with_their_exchange(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE;
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = chat.add_turns(1).await;
    for text in ["stays", "goes", "goes too"] {
        log.push(chat.add(recalling(text, [0])).await);
    }
    edit.keep(2).await;
    log.truncate(2);
    // The next exchanges get the positions of the removed ones.
    log.push(chat.add(turn_of("new")).await);
    log.push(chat.add(recalling("new too", [1])).await);
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// A prune that erases derived data removes recalled messages that cite a removed exchange. The exchange stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_removed_exchanges(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_DERIVED;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(3).await;
    let cited: [&[u64]; 5] = [&[2], &[0, 2], &[2, 1], &[], &[3]];
    let mut log = Vec::new();
    for cited in cited {
        let mut exchange = recalling("cites", []);
        let citations = cited.iter().map(|seq| Citation::new(Seq::new(*seq), 0..1)).collect();
        exchange.recalled = Some(Recalled::new(format!("{cited:?}"), citations));
        log.push(chat.add(exchange).await);
    }
    prunable.forget(PruneTo::From(Seq::new(2))).await;
    for at in [1, 2] {
        let mut without = (*log[at].exchange).clone();
        without.recalled = None;
        log[at] = Recorded::new(log[at].seq, without);
    }
    for chat in [chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await[1..], log);
        assert_eq!(chat.window(Load::new()).await.exchanges[1..], log);
    }
    let asked = Load::new().exchange(log[1].exchange.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[1].clone()));
}

/// A prune that erases derived data removes recalled messages that cite another conversation, also if the log was never
/// pruned and no exchange is removed. Then it begins a new incarnation, and what cites the remaining log stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_other_conversations(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_DERIVED;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let mut log = chat.add_turns(2).await;
    log.push(chat.add(recalling("cites its own log", [0, 1])).await);
    let before = chat.revision().await;
    prunable.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!((chat.revision().await, chat.log().await), (before, log.clone()), "nothing is to be erased");

    for text in ["cites another", "cites another, too"] {
        log.push(chat.add(recalling_other(text)).await);
    }
    log.push(chat.add(turn_of("recalls nothing")).await);
    prunable.keep(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.log().await, log);
    prunable.forget(PruneTo::From(Seq::FIRST)).await;
    for recorded in &mut log[3..5] {
        let mut without = (*recorded.exchange).clone();
        without.recalled = None;
        *recorded = Recorded::new(recorded.seq, without);
    }
    for chat in [chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
    }
    let after = chat.revision().await;
    assert_ne!(after.incarnation(), before.incarnation());
    prunable.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.revision().await, after, "nothing is left to be erased");

    log.push(chat.add(recalling_other("again")).await);
    prunable.forget(PruneTo::From(Seq::new(1))).await;
    let kept: Vec<bool> = chat.log().await.iter().map(|recorded| recorded.exchange.recalled.is_some()).collect();
    assert_eq!(kept, [false; 6], "position 0 is cited, or another conversation");
}

/// A prune that keeps derived data keeps all recalled messages of the remaining exchanges. A later one that erases
/// derived data removes those that cite exchanges of the first prune.
pub async fn a_prune_keeps_recalled_messages_until_derived_data_is_erased(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_COMPACTIONS;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(3).await;
    let log = [chat.add(recalling("cites a pruned one", [1])).await];
    prunable.keep(PruneTo::LastTurns(1)).await;
    assert_eq!(chat.log().await, log);
    prunable.forget(PruneTo::LastTurns(1)).await;
    assert!(chat.log().await[0].exchange.recalled.is_none(), "recalled messages that cite a pruned exchange");
}

/// A fork has the recalled messages, with the positions of the copied log. Those that cite a pruned exchange are left
/// out, and citations of other conversations stay.
pub async fn recalled_messages_are_forked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(3).await;
    let mut foreign = recalling_other("cites another");
    if let Some(recalled) = &mut foreign.recalled {
        recalled.citations.truncate(1);
    }
    let log = [
        chat.add(recalling("cites", [2])).await,
        chat.add(recalling("cites a pruned one", [1, 2])).await,
        chat.add(foreign).await,
    ];
    prunable.keep(PruneTo::From(Seq::new(2))).await;
    let copy = chat.other();
    chat.store.conversation(&chat.id).fork(Seq::new(9), &copy.id).await.must("the copy does not exist yet", &CLAUSE);
    let copied: Vec<_> = copy.log().await.into_iter().map(|recorded| recorded.exchange.recalled.clone()).collect();
    let mut expected = log[0].exchange.recalled.clone();
    if let Some(recalled) = &mut expected {
        recalled.citations[0].seq = Seq::FIRST;
    }
    assert_eq!(copied, [None, expected, None, None], "what cites pruned exchanges or others is not copied");
}
