//! First turns of conversations that were deleted since their load.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{Appended, ConversationId, Epoch, Expect, Recorded, Seq, StoreError};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::SINCE;

/// The expectations of first turns.
const FIRST_TURN: [Expect; 2] = [Expect::Absent, Expect::AnyOrCreate];

/// Returns ids of which the first is deleted. The others are not, and their first turns are not concerned.
fn neighbors() -> Vec<ConversationId> {
    let base = unused_id([]);
    let base: Vec<_> = base.parts().collect();
    let ends: [&[&str]; 9] =
        [&["a", "b"], &["a"], &["a", "b", "c"], &["a", "b-2"], &["a", "B"], &["a/b"], &["a", "b0"], &["a-b"], &["b"]];
    let below = |end: &&[&str]| {
        let parts = base.iter().map(AsRef::as_ref).chain(end.iter().copied());
        ConversationId::new(parts).expect("the parts are legal")
    };
    ends.iter().map(below).collect()
}

/// A first turn is stored if nothing was deleted since its load, through any handle.
pub async fn a_first_turn_is_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for expect in FIRST_TURN {
        let (one, other) = (chat.other(), chat.reopened(fixture).await);
        let other = other.with_id(one.id.clone());
        let first = must_land(async || landed(other.append_since(one.epoch().await, expect, turn_of("first")).await));
        assert_eq!((first.await.seq, one.log().await.len()), (Seq::FIRST, 1));
    }
}

/// A first turn is refused if its conversation was deleted since its load, even if it did not exist then.
pub async fn a_deletion_of_nothing_refuses_first_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    for expect in FIRST_TURN {
        let epoch = chat.epoch().await;
        other.delete().await;
        for chat in [&chat, &other] {
            assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
            chat.assert_absent().await;
        }
    }
}

/// A first turn is refused if another call created the conversation and it was deleted.
pub async fn a_deletion_refuses_first_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    for expect in FIRST_TURN {
        let epoch = chat.epoch().await;
        other.add_turns(2).await;
        other.delete().await;
        assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
        chat.assert_absent().await;
    }
}

/// A first turn is refused even if the conversation was created again after the deletion.
pub async fn a_new_life_refuses_first_turns_from_before(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    let epoch = chat.epoch().await;
    other.add_turns(1).await;
    other.delete().await;
    let log = other.add_turns(2).await;
    let revision = chat.revision().await;
    let expectations = [Expect::Exactly(revision), Expect::AnyIn(revision.incarnation())];
    for expect in FIRST_TURN.into_iter().chain(expectations) {
        assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
    }
    assert_eq!((chat.log().await, chat.revision().await), (log, revision));
}

/// Another call that created the conversation does not refuse a first turn: what it expects does.
pub async fn a_creation_is_not_a_deletion(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = must_land(async || {
        let chat = chat.other();
        let epoch = chat.epoch().await;
        let mut log = chat.add_turns(1).await;
        let second = turn_of("second");
        let appended = landed(chat.append_since(epoch, Expect::AnyOrCreate, second.clone()).await)?;
        log.push(Recorded::new(appended.seq, second));
        let conflict = chat.append_since(epoch, Expect::Absent, turn_of("late")).await;
        if !matches!(conflict, Err(StoreError::Gone)) {
            assert_conflict(conflict, chat.revision().await);
        }
        assert_eq!(chat.log().await, log);
        Some(log)
    });
    assert_eq!(log.await.len(), 2);
}

/// A deletion does not refuse the first turns of conversations with similar ids, also not of those whose id is a
/// beginning of the deleted one or begins with it.
pub async fn first_turns_of_others_are_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    must_land(async || {
        let chats: Vec<Chat> = neighbors().into_iter().map(|id| chat.with_id(id)).collect();
        let epochs = join_all(chats.iter().map(Chat::epoch)).await;
        chats[0].delete().await;
        assert_gone(chats[0].append_since(epochs[0], Expect::Absent, turn_of("late")).await);
        for (chat, epoch) in chats.iter().zip(epochs).skip(1) {
            landed(chat.append_since(epoch, Expect::Absent, turn_of("first")).await)?;
        }
        Some(())
    })
    .await;
}

/// A repeat is recognized before the deletion is.
pub async fn a_repeat_is_still_a_repeat(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::APPEND;
    let chat = Chat::new(fixture).await;
    let epoch = chat.epoch().await;
    chat.add_turns(1).await;
    chat.delete().await;
    let again = turn_of("again");
    chat.add(again.clone()).await;
    for expect in FIRST_TURN {
        let repeated = chat.append_since(epoch, expect, again.clone()).await.must("a repeat is no error", &CLAUSE);
        assert_eq!(repeated, Appended::duplicate(chat.revision().await, Seq::FIRST));
    }
}

/// A first turn that was stored is deleted with its conversation, and its repeat is refused.
pub async fn a_repeat_of_a_deleted_first_turn_is_refused(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let (epoch, first) = (chat.epoch().await, turn_of("first"));
    // All conversations may have been barred in the meantime.
    let _ = landed(chat.append_since(epoch, Expect::Absent, first.clone()).await);
    chat.delete().await;
    assert_gone(chat.append_since(epoch, Expect::Absent, first).await);
    chat.assert_absent().await;
}

/// An append that names no epoch creates the conversation.
pub async fn an_append_without_an_epoch_is_not_refused(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ANY_OR_CREATE;
    let chat = Chat::new(fixture).await;
    for expect in FIRST_TURN {
        chat.epoch().await;
        chat.delete().await;
        chat.append(expect, turn_of("first")).await.must("it names no epoch", &CLAUSE);
        chat.delete().await;
    }
}

/// A load after the deletion returns a newer epoch, with which a first turn is stored.
pub async fn a_later_load_has_a_newer_epoch(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::EPOCH;
    let chat = Chat::new(fixture).await;
    for handle in chat.handles(fixture, 3).await {
        let before = chat.epoch().await;
        handle.delete().await;
        for chat in [&chat, &handle] {
            let epoch = chat.epoch().await;
            assert!(epoch > before, "{epoch:?}, after a deletion since {before:?}");
        }
        must_land(async || {
            let epoch = chat.epoch().await;
            landed(handle.append_since(epoch, Expect::Absent, turn_of("first")).await)
        })
        .await;
        handle.delete().await;
    }
}

/// An epoch that the store has not reached is of another store, or of data that was restored since. It is refused.
pub async fn an_epoch_of_the_future_is_refused(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let future = Epoch::new(chat.epoch().await.get() + 1_000_000_000);
    for expect in FIRST_TURN {
        assert_gone(chat.append_since(future, expect, turn_of("late")).await);
    }
    chat.assert_absent().await;
}

/// Whatever first turns are in flight: after the deletion, there is no conversation.
pub async fn a_deletion_during_first_turns_is_final(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    for wait in 0..6 {
        let epoch = chat.epoch().await;
        let creating = join_all(handles.iter().enumerate().map(|(n, chat)| async move {
            for _ in 0..n {
                pause().await;
            }
            let _ = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await);
        }));
        let deleting = async {
            for _ in 0..wait {
                pause().await;
            }
            chat.delete().await;
        };
        join(creating, deleting).await;
        chat.assert_absent().await;
    }
}

/// Deletions are remembered after the storage is opened again.
pub async fn epochs_persist(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DURABLE;
    let chat = Chat::new(fixture).await;
    let (id, epoch) = (chat.id.clone(), chat.epoch().await);
    chat.delete().await;
    drop(chat);
    let chat = Chat::new(fixture).await.with_id(id);
    assert_gone(chat.append_since(epoch, Expect::Absent, turn_of("late")).await);
    let later = chat.epoch().await;
    assert!(later > epoch, "{later:?}, after a deletion since {epoch:?}");
}
