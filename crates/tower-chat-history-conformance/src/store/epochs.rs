//! First turns of conversations that were deleted since their load.

use super::support::*;

/// The ends of ids, of which the first is deleted. The first turns of the others are not concerned.
const NEIGHBORS: [&[&str]; 9] =
    [&["a", "b"], &["a"], &["a", "b", "c"], &["a", "b-2"], &["a", "B"], &["a/b"], &["a", "b0"], &["a-b"], &["b"]];

/// Asserts that first turns from this epoch are refused.
pub(super) async fn assert_refused(chat: &Chat, epoch: Epoch) {
    for expect in FIRST_TURN {
        assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
    }
}

/// Asserts that a load returns an epoch after this one, with which a first turn is stored.
pub(super) async fn assert_later(chat: &Chat, before: Epoch) {
    assert!(chat.epoch().await > before, "an erasure begins another epoch than {before:?}");
    must_land(async || landed(chat.append_since(chat.epoch().await, Expect::Absent, turn_of("first")).await)).await;
}

/// Returns conversations with similar ids, none of which exists, and their epochs. The first one is to be removed.
pub(super) async fn neighbors(store: &Chat) -> Vec<(Chat, Epoch)> {
    let base = unused_id();
    let mut neighbors = Vec::new();
    for parts in NEIGHBORS {
        let chat = store.with_id(below(&base, parts));
        let epoch = chat.epoch().await;
        neighbors.push((chat, epoch));
    }
    neighbors
}

/// Appends the first turns of all but the removed conversation, for [`must_land`].
pub(super) async fn others_land(neighbors: &[(Chat, Epoch)]) -> Option<()> {
    let (removed, epoch) = &neighbors[0];
    assert_refused(removed, *epoch).await;
    for (chat, epoch) in &neighbors[1..] {
        landed(chat.append_since(*epoch, Expect::Absent, turn_of("first")).await)?;
    }
    Some(())
}

/// A first turn is stored if nothing was deleted since its load, through any handle, and one that names no epoch is
/// stored, too.
pub async fn a_first_turn_is_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for expect in FIRST_TURN {
        let one = chat.other();
        let other = one.reopened(fixture).await;
        let first = must_land(async || landed(other.append_since(one.epoch().await, expect, turn_of("first")).await));
        assert_eq!((first.await.seq, one.log().await.len()), (Seq::FIRST, 1));

        one.delete().await;
        one.append(expect, turn_of("first")).await.unwrap();
    }
}

/// A first turn is refused if its conversation was deleted since its load, even if it did not exist then, or if another
/// call created it before the deletion, or again after it.
pub async fn a_deletion_refuses_first_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    for turns in [0, 2] {
        let epoch = chat.epoch().await;
        other.add_turns(turns).await;
        other.delete().await;
        for chat in [&chat, &other] {
            assert_refused(chat, epoch).await;
            chat.assert_absent().await;
        }

        let log = other.add_turns(2).await;
        let revision = chat.revision().await;
        assert_refused(&chat, epoch).await;
        for expect in [Expect::Exactly(revision), Expect::AnyIn(revision.incarnation())] {
            assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
        }
        assert_eq!((chat.log().await, chat.revision().await), (log, revision));
        chat.delete().await;
    }
}

/// Another call that created the conversation does not refuse a first turn: what it expects does.
pub async fn a_creation_is_not_a_deletion(fixture: &dyn Fixture) {
    let store = Chat::new(fixture).await;
    must_land(async || {
        let chat = store.other();
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
        Some(())
    })
    .await;
}

/// A deletion does not refuse the first turns of conversations with similar ids, also not of those whose id is a
/// beginning of the deleted one or begins with it.
pub async fn first_turns_of_others_are_stored(fixture: &dyn Fixture) {
    let store = Chat::new(fixture).await;
    must_land(async || {
        let neighbors = neighbors(&store).await;
        neighbors[0].0.delete().await;
        others_land(&neighbors).await
    })
    .await;
}

/// A repeat is recognized before the deletion is.
pub async fn a_repeat_is_still_a_repeat(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let epoch = chat.epoch().await;
    chat.add_turns(1).await;
    chat.delete().await;
    let again = turn_of("again");
    chat.add(again.clone()).await;
    for expect in FIRST_TURN {
        let repeated = chat.append_since(epoch, expect, again.clone()).await.unwrap();
        assert_eq!(repeated, Appended::duplicate(chat.revision().await, Seq::FIRST));
    }
}

/// A first turn that was stored is deleted with its conversation, and its repeat is refused.
pub async fn a_repeat_of_a_deleted_first_turn_is_refused(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let epoch = chat.epoch().await;
    let first = turn_of("first");
    // All conversations may have been barred in the meantime.
    let _ = landed(chat.append_since(epoch, Expect::Absent, first.clone()).await);
    chat.delete().await;
    assert_gone(chat.append_since(epoch, Expect::Absent, first).await);
    chat.assert_absent().await;
}

/// A load after the deletion returns a newer epoch, with which a first turn is stored.
pub async fn a_later_load_has_a_newer_epoch(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for handle in chat.handles(fixture, 3).await {
        let before = chat.epoch().await;
        handle.delete().await;
        assert!(handle.epoch().await > before);
        assert_later(&chat, before).await;
        handle.delete().await;
    }
}

/// An epoch that the store has not reached is of another store, or of data that was restored since. It is refused.
pub async fn an_epoch_of_the_future_is_refused(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    assert_refused(&chat, Epoch::new(chat.epoch().await.get() + 1_000_000_000)).await;
    chat.assert_absent().await;
}

/// Whatever first turns are in flight: after the deletion, there is no conversation.
pub async fn a_deletion_during_first_turns_is_final(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    for wait in 0..6 {
        let epoch = chat.epoch().await;
        let creating = join_all(handles.iter().enumerate().map(|(n, chat)| async move {
            pause(n).await;
            let _ = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await);
        }));
        let deleting = async {
            pause(wait).await;
            chat.delete().await;
        };
        join(creating, deleting).await;
        chat.assert_absent().await;
    }
}
