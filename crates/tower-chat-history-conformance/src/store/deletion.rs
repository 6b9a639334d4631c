//! Deletions, calls after them, and first turns of conversations that were deleted since their load.

use std::sync::Arc;

use super::support::*;

/// A deleted conversation is absent: its log, every profile, every exchange id. Deleting a conversation that does not
/// exist, or no longer exists, succeeds.
pub async fn a_deleted_conversation_is_absent(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.delete().await;
    let log = chat.add_turns(3).await;
    let small = profile("small");
    chat.cut(NONE, summary_to(1, "secret")).await;
    chat.compact_as(&small, NONE, summary_to(2, "secret")).await.unwrap();
    let known = chat.now().await.known();

    chat.delete().await;
    for chat in [chat.reopened(fixture).await, chat] {
        chat.assert_absent().await;
        let asked = Load::new().exchange(log[0].exchange.id.clone());
        for load in [asked, Load::new().profile(small.clone()), Load::new().known(known.clone())] {
            assert!(chat.load(load).await.is_absent());
        }
        chat.delete().await;
    }
}

/// A conversation that is created again has a new incarnation, starts at position 0, and has no compaction and no used
/// exchange ids.
pub async fn a_recreated_conversation_starts_from_the_beginning(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let old = chat.add_turns(3).await;
    chat.cut(NONE, summary_to(2, "of the old one")).await;
    let ended = chat.incarnation().await;

    chat.delete().await;
    let asked = Load::new().exchange(old[0].exchange.id.clone());
    assert!(chat.load(asked).await.is_absent());
    let again = chat.append(Expect::Absent, (*old[2].exchange).clone()).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::FIRST, false));
    assert_ne!(again.revision.incarnation(), ended);

    let first = Recorded::new(Seq::FIRST, Arc::clone(&old[2].exchange));
    let log = [first, chat.add((*old[0].exchange).clone()).await];
    assert_eq!(chat.now().await.compaction, None);
    chat.assert_log(&log).await;
}

/// Calls that name an ended incarnation are refused.
async fn assert_ended(chat: &Chat, ended: Revision, version: CompactionVersion) {
    for replaces in [NONE, version] {
        let cut = compact(replaces, summary_to(2, "the first life"));
        assert_gone(chat.compact_in(ended.incarnation(), cut.clone()).await);
        for expect in [Expect::AnyIn(ended.incarnation()), Expect::Exactly(ended)] {
            assert_gone(chat.append(expect, turn_of("late")).await);
            assert_gone(chat.submit(Append::new(expect, turn_of("late")).compact(cut.clone())).await);
        }
    }
}

/// Creates two incarnations with the same number of exchanges and the same compaction version, so that only the
/// incarnation differs. Returns the revision at which the first one ended.
async fn second_life(chat: &Chat) -> Revision {
    chat.add_turns(4).await;
    chat.cut(NONE, window_from(1)).await;
    let ended = chat.revision().await;
    chat.delete().await;
    chat.add_turns(4).await;
    chat.cut(NONE, summary_to(1, "the second life")).await;
    ended
}

/// Calls begun before a deletion are refused after it, and restore nothing. They change nothing in the next
/// incarnation, whatever version they name, and no state is known from before.
pub async fn late_calls_do_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let version = chat.cut(NONE, window_from(1)).await.version;
    let known = chat.now().await;
    chat.delete().await;
    assert_ended(&chat, known.revision, version).await;
    chat.assert_absent().await;

    let ended = second_life(&chat).await;
    let window = chat.now().await;
    let log = chat.log().await;
    assert_ne!(window.revision.incarnation(), ended.incarnation());
    assert_eq!(window.revision.version(), ended.version());
    assert_eq!(chat.window(Load::new().known(known.known())).await, window);

    assert_ended(&chat, ended, window.compaction_version()).await;
    assert_eq!((chat.now().await, chat.log().await), (window.clone(), log));
    chat.assert_unchanged(&window).await;
}

/// A truncation of an ended incarnation removes nothing of the next one, neither a part of the log nor all of it.
pub async fn a_late_truncation_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let ended = second_life(&chat).await;
    let before = (chat.now().await, chat.log().await);
    for len in [0, 2, 4] {
        assert_gone(chat.truncate(ended, len).await);
    }
    assert_eq!((chat.now().await, chat.log().await), before);
    chat.assert_unchanged(&before.0).await;
}

/// A prune of an ended incarnation removes nothing of the next one, whatever happens to derived data.
pub async fn a_late_prune_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let ended = second_life(&chat).await.incarnation();
    let before = (chat.now().await, chat.log().await);
    for derived in [Derived::Keep, Derived::Erase] {
        assert_gone(chat.store.pruning().prune(&chat.id, ended, PruneTo::LastTurns(1), derived).await);
    }
    assert_eq!((chat.now().await, chat.log().await), before);
    chat.assert_unchanged(&before.0).await;
}

/// Deleting while appends and compactions are in flight leaves nothing, and none of them restores it.
pub async fn deleting_during_appends_is_final(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    // The deletion comes a little later each time.
    for wait in 0..6 {
        let before = chat.add_turns(3).await;
        let incarnation = chat.incarnation().await;
        let appends = join_all(handles.iter().cycle().take(9).map(|chat| async move {
            for n in 0..3 {
                match chat.append(Expect::AnyIn(incarnation), turn_of(&n.to_string())).await {
                    Ok(appended) => {
                        assert_eq!(appended.revision.incarnation(), incarnation);
                        assert!(appended.seq.get() >= 3, "{appended:?}");
                    }
                    refused => assert_gone(refused),
                }
                pause(1).await;
            }
        }));
        let compacting = async {
            match handles[0].compact_in(incarnation, compact(NONE, window_from(1))).await {
                Ok(outcome) => drop(stored(Some(outcome))),
                refused => assert_gone(refused),
            }
        };
        let reading = async {
            for _ in 0..10 {
                if let Loaded::Window(window) = handles[2].load(Load::new()).await {
                    // The compaction may already be stored.
                    let start = usize::from(window.compaction.is_some());
                    assert!(window.exchanges.starts_with(&before[start..]), "a part of the log: {window:?}");
                }
                pause(1).await;
            }
        };
        let deleting = async {
            pause(wait).await;
            handles[1].delete().await;
        };
        join(join(appends, compacting), join(reading, deleting)).await;

        chat.assert_absent().await;
        assert_gone(chat.append(Expect::AnyIn(incarnation), turn_of("late")).await);
        let log = [chat.add(turn_of("anew")).await];
        assert_eq!(log[0].seq, Seq::FIRST);
        chat.assert_log(&log).await;
        assert_eq!(chat.compaction().await, None);
        chat.delete().await;
    }
}

/// Racing deletions succeed, and a racing first turn leaves a whole conversation or none.
pub async fn deleting_during_first_turns_leaves_whole_conversations(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    for wait in 0..5 {
        let creating = join_all(handles.iter().map(|chat| async move {
            let appended = chat.append(Expect::AnyOrCreate, turn_of("first")).await.unwrap();
            assert!(appended.seq <= Seq::new(2), "{appended:?}");
        }));
        let deleting = join_all(handles.iter().map(|chat| async move {
            pause(wait).await;
            chat.delete().await;
        }));
        join(creating, deleting).await;

        // Reading checks that there is no gap.
        let log = chat.log().await;
        assert!(log.len() <= 3, "{log:?}");
        match chat.load(Load::new()).await {
            Loaded::Absent(_) => assert_eq!(log, []),
            loaded => assert_eq!(window(loaded).exchanges, log),
        }
        chat.delete().await;
    }
}

// First turns of conversations that were deleted since their load.

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
    // An erasure of all conversations may have been recorded in the meantime.
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
