//! Pruning through the conversation handle: `keep_last_turns`, `keep_last_messages` and `prune`, and the handle's
//! other methods on a pruned log.

use tower_chat_history_core::{Derived, HistoryStoreExt, Message, PruneTo, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::PRUNE;

/// The handle keeps the last turns. If there is no conversation, there is nothing to remove.
pub async fn a_conversation_keeps_its_last_turns(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let conversation = prunable.store.conversation(&prunable.chat.id);
    assert_eq!(conversation.keep_last_turns(1).await.must("there is nothing to do", &CLAUSE), 0);
    let nothing = conversation.prune(PruneTo::LastTurns(1), Derived::Erase).await;
    assert_eq!(nothing.must("there is nothing to do", &CLAUSE), None);
    prunable.chat.assert_absent().await;
    let log = prunable.chat.add_turns(5).await;
    for (turns, removed) in [(5, 0), (3, 2), (3, 0), (0, 2)] {
        assert_eq!(conversation.keep_last_turns(turns).await.must("the store can be written", &CLAUSE), removed);
    }
    assert_eq!(conversation.exchanges().await.must("the log can be read", &CLAUSE), log[4..]);
}

/// The handle keeps the last messages, in whole turns.
pub async fn a_conversation_keeps_its_last_messages(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let conversation = prunable.store.conversation(&prunable.chat.id);
    let log = prunable.chat.add_turns(5).await;
    for (messages, removed) in [(10, 0), (7, 2), (6, 0), (1, 2)] {
        assert_eq!(conversation.keep_last_messages(messages).await.must("the store can be written", &CLAUSE), removed);
    }
    assert_eq!(conversation.exchanges().await.must("the log can be read", &CLAUSE), log[4..]);
}

/// The handle's messages are the remaining ones, even if the log is larger than a page of the store.
pub async fn the_messages_are_the_remaining_ones(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let text = "x".repeat(600_000);
    for n in 0..10 {
        prunable.chat.add(turn_of(&format!("{n} {text}"))).await;
    }
    let conversation = prunable.store.conversation(&prunable.chat.id);
    let pruned = conversation.prune(PruneTo::From(Seq::new(1)), Derived::Keep).await;
    assert_eq!(pruned.must("the store can be written", &CLAUSE).map(|pruned| pruned.removed), Some(1));
    let messages = conversation.messages().await.must("the log can be read", &CLAUSE);
    assert_eq!(messages.len(), 18);
    assert!(messages[0].text().starts_with("1 "), "{:?} first", messages[0].text());
}

/// A fork of a pruned log has the remaining exchanges, from position 0 on.
pub async fn a_pruned_log_is_forked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let removed = chat.add(call_of("a call that is removed")).await;
    chat.add_turns(1).await;
    let call = chat.add(call_of("what is it?")).await;
    chat.add(result_for(call.seq)).await;
    chat.add(result_for(removed.seq)).await;
    prunable.keep(PruneTo::From(Seq::new(1))).await;
    let conversation = chat.store.conversation(&chat.id);
    for (at, copied) in [(0, 0), (1, 0), (3, 2), (u64::MAX, 4)] {
        let copy = chat.other();
        let forked = conversation.fork(Seq::new(at), &copy.id).await.must("the copy does not exist yet", &CLAUSE);
        assert_eq!(forked, copied);
        let log = if copied == 0 { Vec::new() } else { copy.log().await };
        assert_eq!(log.len(), copied);
        for (at, recorded) in log.iter().enumerate() {
            assert_eq!(recorded.seq, Seq::new(at as u64));
            assert_eq!(recorded.exchange.opens_turn(), at < 2);
        }
        if copied == 4 {
            assert_eq!(log[2].exchange.continues, Some(Seq::new(1)), "it continues the copied call");
            assert!(log[3].is_moved(), "{:?}", log[3]);
        }
    }
}

/// An import continues after the remaining exchanges, and continues their open turn.
pub async fn a_pruned_log_is_imported_into(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(3).await;
    let call = chat.add(call_of("what is it?")).await;
    let conversation = prunable.store.conversation(&chat.id);
    conversation.keep_last_turns(1).await.must("the store can be written", &CLAUSE);
    let messages = [Message::tool("call-1", "42"), Message::assistant("It is 42.")];
    assert_eq!(conversation.import(messages).await.must("there is no other writer", &CLAUSE), 1);
    let log = chat.log().await;
    assert_eq!((log[1].seq, log[1].exchange.continues), (Seq::new(4), Some(call.seq)));
}
