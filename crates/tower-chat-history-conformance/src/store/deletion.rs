//! Deletions, and calls after them.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, Cut, Expect, KnownState, Load, Loaded, Profile, Recorded, Seq,
    StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::DELETION;

const NONE: CompactionVersion = CompactionVersion::NONE;

/// A deleted conversation is absent: its log, every profile, every exchange id.
pub async fn a_deleted_conversation_is_absent(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETED;
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let small = profile("small");
    chat.cut(NONE, summary_to(1, "secret")).await;
    chat.compact_as(&small, NONE, summary_to(2, "secret")).await.must("the cut is legal", &CLAUSE);
    let known = chat.window(Load::new()).await.known();
    chat.delete().await;
    for chat in [chat.reopened(fixture).await, chat] {
        chat.assert_absent().await;
        let asked = Load::new().exchange(log[0].exchange.id.clone());
        for load in [asked, Load::new().profile(small.clone()), Load::new().known(known.clone())] {
            assert_eq!(chat.load(load).await.is_absent(), true);
        }
    }
}

/// Deleting a conversation that does not exist, or no longer exists, succeeds.
pub async fn deleting_twice_is_no_error(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.delete().await;
    chat.add_turns(1).await;
    chat.delete().await;
    chat.delete().await;
    chat.assert_absent().await;
}

/// Deleting removes only one conversation.
pub async fn deleting_spares_other_conversations(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LOSSLESS;
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    chat.add_turns(2).await;
    let log = other.add_turns(2).await;
    let compaction = other.cut(NONE, summary_to(1, "kept")).await;
    chat.delete().await;
    let window = other.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(compaction), &log[1..]));
    assert_eq!(other.log().await, log);
}

/// Calls begun before a deletion are refused after it, and restore nothing.
pub async fn calls_in_flight_are_refused(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let revision = chat.revision().await;
    chat.delete().await;
    assert_gone(chat.append(Expect::AnyIn(revision.incarnation()), turn_of("late")).await);
    assert_gone(chat.append(Expect::Exactly(revision), turn_of("late")).await);
    let compact = Compact::new(Profile::default(), NONE, Cut::window_from(Seq::new(1)));
    assert_gone(chat.store.compact(&chat.id, revision.incarnation(), compact).await);
    chat.assert_absent().await;
}

/// A conversation that is created again has a new incarnation, starts at position 0, and has no compaction and no used
/// exchange ids.
pub async fn a_recreated_conversation_starts_from_the_beginning(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let exchanges = [turn_of("a"), turn_of("b"), turn_of("c")];
    for exchange in &exchanges {
        chat.add(exchange.clone()).await;
    }
    chat.cut(NONE, summary_to(2, "of the old one")).await;
    let old = chat.window(Load::new()).await.known();
    chat.delete().await;
    let asked = Load::new().exchange(exchanges[0].id.clone());
    assert_eq!(chat.load(asked).await.is_absent(), true);
    let again = chat.append(Expect::Absent, exchanges[2].clone()).await.must("nothing is there", &CLAUSE);
    assert_eq!((again.seq, again.duplicate), (Seq::FIRST, false));
    assert_ne!(again.revision.incarnation(), old.revision.incarnation());
    let log = [Recorded::new(Seq::FIRST, exchanges[2].clone()), chat.add(exchanges[0].clone()).await];
    let window = chat.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (None, log.as_slice()));
    assert_eq!(chat.log().await, log);
}

/// A known state of a deleted conversation is not accepted for the new one, even though the numbers are the same.
pub async fn an_ended_incarnation_is_not_known(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let exchanges = [turn_of("a"), turn_of("b")];
    let mut known: Option<KnownState> = None;
    for _ in 0..2 {
        for exchange in &exchanges {
            chat.add(exchange.clone()).await;
        }
        chat.cut(NONE, Cut::window_from(Seq::new(1))).await;
        if let Some(known) = known {
            let window = chat.window(Load::new().known(known.clone())).await;
            assert_eq!(window.exchanges.len(), 1);
            assert_ne!(window.revision, known.revision);
        }
        known = Some(chat.window(Load::new()).await.known());
        chat.delete().await;
    }
}

/// Calls for an ended incarnation change nothing in the new one.
pub async fn an_ended_incarnation_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let dead = chat.revision().await;
    chat.delete().await;
    let log = chat.add_turns(2).await;
    assert_gone(chat.append(Expect::Exactly(dead), turn_of("late")).await);
    assert_gone(chat.append(Expect::AnyIn(dead.incarnation()), turn_of("late")).await);
    let compact = Compact::new(Profile::default(), NONE, Cut::window_from(Seq::new(1)));
    assert_gone(chat.store.compact(&chat.id, dead.incarnation(), compact).await);
    let window = chat.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges), (None, log));
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
                        assert!(appended.seq.get() >= 3, "the position {}, in a new log", appended.seq);
                    }
                    Err(StoreError::Gone) => {}
                    Err(other) => unexpected!("the append to be stored, or the refusal `Gone`", other),
                }
                pause().await;
            }
        }));
        let compact = Compact::new(Profile::default(), NONE, Cut::window_from(Seq::new(1)));
        let compacting = async {
            match handles[0].store.compact(&chat.id, incarnation, compact).await {
                Ok(CompactOutcome::Stored(_)) | Err(StoreError::Gone) => {}
                other => unexpected!("the compaction to be stored, or the refusal `Gone`", other),
            }
        };
        let reading = async {
            for _ in 0..10 {
                match handles[2].load(Load::new()).await {
                    Loaded::Absent(_) => {}
                    loaded => {
                        // The compaction may already be stored.
                        let window = window(loaded);
                        let start = usize::from(window.compaction.is_some());
                        assert!(window.exchanges.starts_with(&before[start..]), "{window:?}, a part of the log");
                    }
                }
                pause().await;
            }
        };
        let deleting = async {
            for _ in 0..wait {
                pause().await;
            }
            handles[1].delete().await;
        };
        join(join(appends, compacting), join(reading, deleting)).await;
        chat.assert_absent().await;
        assert_gone(chat.append(Expect::AnyIn(incarnation), turn_of("late")).await);
        assert_eq!(chat.add(turn_of("anew")).await.seq, Seq::FIRST);
        let window = chat.window(Load::new()).await;
        assert_eq!((window.compaction, window.exchanges.len()), (None, 1), "something was left over");
        chat.delete().await;
    }
}

/// Racing deletions succeed, and a racing first turn leaves a whole conversation or none.
pub async fn deleting_during_first_turns_leaves_whole_conversations(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    for wait in 0..5 {
        let creating = join_all(handles.iter().map(|chat| async move {
            let appended = chat.append(Expect::AnyOrCreate, turn_of("first")).await.must("it expects nothing", &CLAUSE);
            assert!(appended.seq <= Seq::new(2), "{appended:?}, in a log of three appends");
        }));
        let deleting = join_all(handles.iter().map(|chat| async move {
            for _ in 0..wait {
                pause().await;
            }
            chat.delete().await;
        }));
        join(creating, deleting).await;
        // Reading checks that there is no gap.
        let log = chat.log().await;
        assert!(log.len() <= 3, "{log:?}, after three appends");
        match chat.load(Load::new()).await {
            Loaded::Absent(_) => assert!(log.is_empty(), "{log:?}, of an absent conversation"),
            loaded => assert_eq!(window(loaded).exchanges, log),
        }
        chat.delete().await;
    }
}
