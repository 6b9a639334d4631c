//! Editing through the conversation handle: `truncate`, `take_last` and `fork`.

use tower_chat_history_core::{
    CompactionVersion, Expect, ForkError, HistoryStoreExt, Load, Message, Recorded, Seq, Timestamp, TokenCounts, Usage,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::HANDLE;

/// The handle truncates the current log. If there is no conversation, there is nothing to remove.
pub async fn a_conversation_is_truncated(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let conversation = edit.store.conversation(&edit.chat.id);
    let nothing = conversation.truncate(Seq::FIRST).await.must("there is nothing to do", &CLAUSE);
    assert_eq!((nothing.revision, nothing.removed), (None, 0));
    let log = edit.chat.add_turns(4).await;
    let truncated = conversation.truncate(Seq::new(1)).await.must("there is no other writer", &CLAUSE);
    assert_eq!((truncated.revision, truncated.removed), (Some(edit.chat.revision().await), 3));
    assert_eq!(conversation.exchanges().await.must("the log can be read", &CLAUSE), log[..1]);
    conversation.truncate(Seq::FIRST).await.must("there is no other writer", &CLAUSE);
    edit.chat.assert_absent().await;
}

/// Exchanges can be taken one by one up to the first, also within a turn and with a compaction. Then there is none
/// left.
pub async fn the_last_exchange_is_taken(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = chat.add_turns(2).await;
    log.push(chat.add(call_of("what is it?")).await);
    log.push(chat.add(result_for(Seq::new(2))).await);
    chat.cut(CompactionVersion::NONE, summary_to(2, "before")).await;
    let conversation = edit.store.conversation(&chat.id);
    while let Some(last) = log.pop() {
        let taken = conversation.take_last().await.must("there is no other writer", &CLAUSE);
        assert_eq!(taken, Some(last));
        assert_eq!(chat.log().await, log);
    }
    assert_eq!(conversation.take_last().await.must("there is nothing to do", &CLAUSE), None);
    chat.assert_absent().await;
}

/// A taken exchange can be appended again, under its own id and with another reply.
pub async fn a_reply_is_generated_again(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let log = chat.add_turns(2).await;
    let taken = edit.store.conversation(&chat.id).take_last().await.must("there is no other writer", &CLAUSE);
    let mut exchange = (*taken.must("there are two", &CLAUSE).exchange).clone();
    exchange.messages.pop();
    exchange.messages.push(Message::assistant("another reply"));
    let again =
        chat.append(Expect::Exactly(chat.revision().await), exchange.clone()).await.must("its id is free", &CLAUSE);
    assert_eq!((again.seq, again.duplicate), (Seq::new(1), false));
    assert_eq!(chat.log().await, [log[0].clone(), Recorded::new(Seq::new(1), exchange)]);
}

/// A fork has the same exchanges with all their fields, and no compaction. Both conversations continue independently.
pub async fn a_fork_has_the_same_exchanges(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let chat = Chat::new(fixture).await;
    chat.add(call_of("what is it?")).await;
    chat.add(turn_of("between")).await;
    let mut continuation = result_for(Seq::FIRST);
    continuation.at = Timestamp::from_unix_millis(1);
    continuation.tokens = Some(TokenCounts { counter: "c".into(), counts: vec![1, 2] });
    (continuation.model, continuation.finish_reason) = (Some("m".into()), Some("stop".into()));
    (continuation.usage, continuation.incomplete) = (Some(Usage::new(3, 4)), true);
    chat.add(continuation).await;
    chat.add_turns(2).await;
    chat.cut(CompactionVersion::NONE, summary_to(1, "before")).await;
    let (before, log) = (chat.window(Load::new()).await, chat.log().await);
    for (at, copied) in [(3, 3), (5, 5), (u64::MAX, 5), (1, 1)] {
        let copy = chat.other();
        let forked = chat.store.conversation(&chat.id).fork(Seq::new(at), &copy.id).await;
        assert_eq!(forked.must("the copy does not exist yet", &CLAUSE), copied);
        assert_eq!(copy.log().await, log[..copied]);
        let window = copy.window(Load::new()).await;
        assert_eq!((window.compaction, window.exchanges.as_slice()), (None, &log[..copied]));
        assert_ne!(window.revision.incarnation(), before.revision.incarnation());
        copy.add(turn_of("another way")).await;
    }
    assert_eq!((chat.window(Load::new()).await, chat.log().await), (before, log));
}

/// A log larger than a page of the store is copied as a whole.
pub async fn a_large_log_is_forked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let (chat, text) = (Chat::new(fixture).await, "x".repeat(600_000));
    for n in 0..10 {
        chat.add(turn_of(&format!("{n} {text}"))).await;
    }
    let copy = chat.other();
    let forked = chat.store.conversation(&chat.id).fork(Seq::new(9), &copy.id).await;
    assert_eq!(forked.must("the copy does not exist yet", &CLAUSE), 9);
    assert_eq!(copy.log().await, chat.log().await[..9]);
}

/// If there is nothing to copy, no conversation is created.
pub async fn a_fork_of_nothing_creates_nothing(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let (chat, copy) = (Chat::new(fixture).await, unused_id([]));
    let conversation = chat.store.conversation(&chat.id);
    assert_eq!(conversation.fork(Seq::new(3), &copy).await.must("there is nothing to do", &CLAUSE), 0);
    chat.add_turns(1).await;
    assert_eq!(conversation.fork(Seq::FIRST, &copy).await.must("there is nothing to do", &CLAUSE), 0);
    chat.with_id(copy).assert_absent().await;
}

/// A fork into an existing conversation is refused, even into itself or an earlier fork. The existing one is not
/// changed.
pub async fn a_fork_does_not_change_existing_conversations(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let (other, earlier) = (chat.other(), chat.other());
    other.add_turns(1).await;
    let conversation = chat.store.conversation(&chat.id);
    conversation.fork(Seq::new(1), &earlier.id).await.must("it does not exist yet", &CLAUSE);
    for existing in [&other, &earlier, &chat] {
        let before = existing.window(Load::new()).await;
        for at in [0, 2] {
            let refused = conversation.fork(Seq::new(at), &existing.id).await;
            assert!(matches!(refused, Err(ForkError::Exists)), "{refused:?}");
        }
        assert_eq!(existing.window(Load::new()).await, before);
    }
}
