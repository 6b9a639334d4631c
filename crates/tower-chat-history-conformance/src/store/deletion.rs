//! Deletions, and calls after them.

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
