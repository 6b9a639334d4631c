//! Truncations that remove the whole log, in stores that can truncate. They count as deletions.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{Append, ConversationId, Epoch, Expect, Incarnation, Revision, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::TRUNCATE_TO_NOTHING;

/// The expectations of first turns.
const FIRST_TURN: [Expect; 2] = [Expect::Absent, Expect::AnyOrCreate];

/// Begins a log of two turns at this position.
async fn begin_at(chat: &Chat, first: u64) {
    let append = Append::new(Expect::Absent, turn_of("first")).beginning_at(Seq::new(first));
    chat.store.append(&chat.id, append).await.must("nothing is there", &clause::FIRST);
    chat.add_turns(1).await;
}

/// Asserts that first turns from this epoch are refused.
async fn assert_refused(chat: &Chat, epoch: Epoch) {
    for expect in FIRST_TURN {
        assert_gone(chat.append_since(epoch, expect, turn_of("late")).await);
    }
}

/// First turns whose load came before are refused, wherever the log began, through any handle.
pub async fn a_truncation_to_nothing_refuses_first_turns(fixture: &dyn Fixture) {
    for (first, from) in [(0, 0), (9, 9), (9, 3), (9, 0)] {
        let edit = Editable::new(fixture).await;
        let other = edit.chat.reopened(fixture).await;
        let epoch = other.epoch().await;
        begin_at(&edit.chat, first).await;
        assert_eq!(edit.keep(from).await, None);
        for chat in [&edit.chat, &other] {
            assert_refused(chat, epoch).await;
            chat.assert_absent().await;
        }
    }
}

/// They are refused even if the conversation was created again.
pub async fn a_new_log_refuses_first_turns_from_before(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let epoch = edit.chat.epoch().await;
    edit.chat.add_turns(2).await;
    edit.keep(0).await;
    let log = edit.chat.add_turns(1).await;
    assert_refused(&edit.chat, epoch).await;
    assert_eq!(edit.chat.log().await, log);
}

/// A load after it returns a newer epoch, with which a first turn is stored.
pub async fn a_load_after_it_has_a_newer_epoch(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::EPOCH;
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let before = chat.epoch().await;
    chat.add_turns(1).await;
    edit.keep(0).await;
    let after = chat.epoch().await;
    assert!(after > before, "{after:?}, after a truncation to nothing since {before:?}");
    must_land(async || {
        let epoch = chat.epoch().await;
        landed(chat.append_since(epoch, Expect::Absent, turn_of("first")).await)
    })
    .await;
}

/// A truncation that leaves an exchange, or that removes nothing, is no deletion.
pub async fn a_truncation_to_something_refuses_no_first_turn(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::SINCE;
    for from in [1, 2, 5] {
        must_land(async || {
            let edit = Editable::new(fixture).await;
            let epoch = edit.chat.epoch().await;
            edit.chat.add_turns(2).await;
            assert!(edit.keep(from).await.is_some());
            landed(edit.chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await)
        })
        .await;
    }
}

/// A truncation that is refused is no deletion.
pub async fn a_refused_truncation_refuses_no_first_turn(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::SINCE;
    must_land(async || {
        let edit = Editable::new(fixture).await;
        let epoch = edit.chat.epoch().await;
        assert_gone(edit.truncate(Revision::new(Incarnation::random(), 1), 0).await);
        edit.chat.add_turns(1).await;
        let stale = edit.chat.revision().await;
        edit.chat.add_turns(1).await;
        assert_conflict(edit.truncate(stale, 0).await, edit.chat.revision().await);
        assert_gone(edit.truncate(Revision::new(Incarnation::random(), 2), 0).await);
        let appended = landed(edit.chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await)?;
        assert_eq!(appended.seq, Seq::new(2));
        Some(())
    })
    .await;
}

/// The first turns of other conversations are stored.
pub async fn first_turns_of_others_are_stored(fixture: &dyn Fixture) {
    must_land(async || {
        let id = unused_id(["a", "b"]);
        let edit = Editable::at(fixture, id.clone()).await;
        let parts: Vec<_> = id.parts().map(std::borrow::Cow::into_owned).collect();
        let end = parts.len() - 1;
        let with_end = |last: &str| [&parts[..end], &[last.to_owned()]].concat();
        let longer = [&parts[..], &["c".to_owned()]].concat();
        let others = [with_end("b-2"), with_end("B"), with_end("b0"), parts[..end].to_vec(), longer];
        let others = others.map(|parts| edit.chat.with_id(ConversationId::new(parts).expect("the parts are legal")));
        let epochs = join_all(others.iter().map(Chat::epoch)).await;
        edit.chat.add_turns(1).await;
        edit.keep(0).await;
        for (chat, epoch) in others.iter().zip(epochs) {
            landed(chat.append_since(epoch, Expect::Absent, turn_of("first")).await)?;
        }
        Some(())
    })
    .await;
}

/// Whatever first turns are in flight: after the truncation, there is no conversation.
pub async fn a_truncation_to_nothing_during_first_turns_is_final(fixture: &dyn Fixture) {
    for wait in 0..6 {
        let edit = Editable::new(fixture).await;
        let handles = edit.chat.handles(fixture, 3).await;
        let epoch = edit.chat.epoch().await;
        edit.chat.add_turns(1).await;
        let revision = edit.chat.revision().await;
        let creating = join_all(handles.iter().enumerate().map(|(n, chat)| async move {
            for _ in 0..3 * n {
                pause().await;
            }
            // The conversation exists, or it existed: no first turn is stored.
            let refused = chat.append_since(epoch, Expect::Absent, turn_of("first")).await;
            assert!(refused.is_err(), "{refused:?}");
        }));
        let truncating = async {
            for _ in 0..wait {
                pause().await;
            }
            edit.truncate(revision, 0).await.must("nothing changed", &CLAUSE);
        };
        join(creating, truncating).await;
        edit.chat.assert_absent().await;
    }
}

/// It is remembered after the storage is opened again.
pub async fn truncations_to_nothing_persist(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let (id, epoch) = (edit.chat.id.clone(), edit.chat.epoch().await);
    edit.chat.add_turns(1).await;
    edit.keep(0).await;
    drop(edit);
    let chat = Chat::new(fixture).await.with_id(id);
    assert_refused(&chat, epoch).await;
    chat.assert_absent().await;
}
