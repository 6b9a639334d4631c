//! Attachments, in stores that keep them.

use tower_chat_history_core::{
    Attachment, AttachmentError, Attachments, ConversationId, Expect, Incarnation, KnownState, Load, Loaded, Page,
    PruneTo, Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::ATTACH;

const NOTHING: [Attachment; 0] = [];

/// Attachments are returned byte for byte, in the order of the names and ranges, also through other handles.
pub async fn attachments_come_back(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACHMENTS;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(6).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    let [empty, late, early] =
        [attachment("b", 0..6, b""), attachment("a", 3..6, &bytes), attachment("a", 0..3, b"\0\xff")];
    attached.put(&[empty.clone(), late.clone(), early.clone()]).await;
    for attached in [&attached, &attached.reopened(fixture).await] {
        assert_eq!(attached.all(&["a", "b"]).await, [early.clone(), late.clone(), empty.clone()]);
        assert_eq!(attached.all(&["b", "none", "a"]).await, [empty.clone(), early.clone(), late.clone()]);
        assert_eq!(attached.all(&["a"]).await, [early.clone(), late.clone()]);
        assert_eq!(attached.all(&[]).await, NOTHING);
    }
}

/// The largest attachment is returned whole, and so are many small ones, in the order of their ranges.
pub async fn large_and_many_attachments_come_back(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACHMENTS;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(120).await;
    let large = attachment("large", 0..1, &vec![7; Attachment::MAX_BYTES]);
    attached.put(std::slice::from_ref(&large)).await;
    let many: Vec<Attachment> = (0..120).map(|at| attachment("many", at..at + 1, &[at as u8; 3])).collect();
    // The order in which they are stored does not matter.
    let (first, second) = many.split_at(50);
    attached.put(second).await;
    attached.put(&first.iter().rev().cloned().collect::<Vec<_>>()).await;
    assert_eq!(attached.all(&["many"]).await, many);
    assert_eq!(attached.all(&["large"]).await, [large]);
}

/// A stored attachment is not replaced, unless the same call removes it.
pub async fn a_stored_attachment_stays(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_KEPT;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(4).await;
    let first = attachment("a", 1..3, b"first");
    attached.put(std::slice::from_ref(&first)).await;
    let second = attachment("a", 1..4, b"second");
    attached.put(&[second.clone(), attachment("b", 0..1, b"new")]).await;
    assert_eq!(attached.all(&["a", "b"]).await, [first.clone(), attachment("b", 0..1, b"new")]);
    let result = attached.attach(&[first.key()], std::slice::from_ref(&second)).await;
    result.must("the key may be removed", &CLAUSE);
    assert_eq!(attached.all(&["a"]).await, [second]);
}

/// Removing attachments that are not stored succeeds, and removes nothing else.
pub async fn attachments_are_removed_by_their_key(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_KEPT;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(4).await;
    let stored = [attachment("a", 0..2, b"1"), attachment("a", 2..4, b"2"), attachment("a/b", 0..2, b"3")];
    attached.put(&stored).await;
    let absent = [attachment("a", 1..2, b""), attachment("A", 0..2, b""), attachment("c", 0..2, b"")];
    let keys: Vec<_> = absent.iter().map(Attachment::key).collect();
    attached.attach(&keys, &[]).await.must("absent keys may be removed", &CLAUSE);
    assert_eq!(attached.all(&["a", "a/b"]).await, stored);
    attached.attach(&[stored[0].key()], &[]).await.must("a key may be removed", &CLAUSE);
    assert_eq!(attached.all(&["a", "a/b"]).await, stored[1..]);
}

/// An attachment that breaks a rule is refused, and with it everything else in the call.
pub async fn a_refused_call_changes_nothing(fixture: &dyn Fixture) {
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(3).await;
    let stored = [attachment("a", 0..3, b"stays")];
    attached.put(&stored).await;
    let too_large = vec![0; Attachment::MAX_STORED_BYTES + 1];
    for (refused, reason) in [
        (attachment("b", 2..4, b""), AttachmentError::BeyondLog { end: Seq::new(4), len: 3 }),
        (attachment("b", 0..u64::MAX, b""), AttachmentError::BeyondLog { end: Seq::new(u64::MAX), len: 3 }),
        (attachment("b", 2..2, b""), AttachmentError::EmptyRange { start: Seq::new(2) }),
        (attachment("b", 0..1, &too_large), AttachmentError::TooLarge { bytes: too_large.len() }),
    ] {
        let result = attached.attach(&[stored[0].key()], &[attachment("c", 0..1, b""), refused.clone()]).await;
        let right = matches!(result, Err(StoreError::Attachment(given)) if given == reason);
        assert!(right, "{result:?}, for {reason:?} of {refused:?}");
        assert_eq!(attached.all(&["a", "b", "c"]).await, stored);
    }
}

/// A call for another incarnation, or for no conversation, is refused.
pub async fn another_incarnation_is_gone(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::GONE;
    let attached = Attached::new(fixture).await;
    let (id, put) = (&attached.chat.id, [attachment("a", 0..1, b"late")]);
    let absent = attached.store.attachments(id, &[name("a")], 100).await;
    assert_eq!(absent.must("an absent conversation can be read", &clause::ATTACHMENTS), Attachments::absent());
    assert_gone(attached.store.attach(id, Incarnation::random(), &[], &put).await);
    attached.chat.add_turns(2).await;
    let ended = attached.chat.incarnation().await;
    assert_gone(attached.store.attach(id, Incarnation::random(), &[], &put).await);
    attached.chat.delete().await;
    assert_gone(attached.store.attach(id, ended, &[], &put).await);
    attached.chat.add_turns(2).await;
    assert_gone(attached.store.attach(id, ended, &[], &put).await);
    assert_eq!(attached.all(&["a"]).await, NOTHING);
}

/// Only whole attachments are returned, the first ones that have no more bytes than the limit.
pub async fn a_limit_cuts_off_the_last_attachments(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_LIMIT;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(4).await;
    let stored = [
        attachment("a", 0..1, &[1; 10]),
        attachment("a", 1..2, &[2; 10]),
        attachment("b", 0..1, &[3; 20]),
        attachment("b", 1..2, b""),
    ];
    attached.put(&stored).await;
    for (limit, returned) in [(0, 0), (9, 0), (10, 1), (39, 2), (40, 4), (usize::MAX, 4)] {
        let read = attached.store.attachments(&attached.chat.id, &[name("a"), name("b")], limit).await;
        let read = read.must("attachments can be read", &CLAUSE);
        assert_eq!((read.attachments.as_slice(), read.more), (&stored[..returned], returned < 4), "{limit}");
        assert_eq!(read.revision, Some(attached.chat.revision().await));
    }
}

/// Attachments belong to their conversation.
pub async fn attachments_of_other_conversations_are_not_seen(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IDS;
    let attached = Attached::new(fixture).await;
    let ids = [["a", "b"].as_slice(), &["a"], &["a-b"], &["a", "b", "c"], &["a/b"], &["A", "b"], &["a", "b:all"]];
    let base = attached.chat.id.clone();
    let mut all = Vec::new();
    for parts in ids {
        let base: Vec<_> = base.parts().collect();
        let parts: Vec<&str> = base.iter().map(|part| &**part).chain(parts.iter().copied()).collect();
        let id = ConversationId::new(parts).must("the parts are legal", &clause::IDS);
        let one = attached.with_id(id.clone());
        one.chat.add_turns(2).await;
        let own = attachment("all", 0..2, id.as_str().as_bytes());
        one.put(std::slice::from_ref(&own)).await;
        all.push((one, own));
    }
    for (one, own) in &all {
        assert_eq!(one.all(&["all"]).await, std::slice::from_ref(own), "of {}", one.chat.id);
    }
    all[1].0.chat.delete().await;
    for (one, own) in all.iter().filter(|(one, _)| one.chat.id != all[1].0.chat.id) {
        assert_eq!(one.all(&["all"]).await, std::slice::from_ref(own), "of {}", one.chat.id);
    }
}

/// Attachments change neither the log nor what a caller knows.
pub async fn the_log_is_not_changed(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_LOG;
    let attached = Attached::new(fixture).await;
    let chat = &attached.chat;
    let log = chat.add_turns(3).await;
    let window = chat.window(Load::new()).await;
    let known: KnownState = window.known();
    attached.put(&[attachment("a", 0..3, b"x")]).await;
    assert_eq!(chat.load(Load::new().known(known)).await, Loaded::Unchanged);
    assert_eq!(chat.log().await, log);
    chat.append(Expect::Exactly(window.revision), turn_of("next")).await.must("nothing changed", &CLAUSE);
    assert_eq!(attached.all(&["a"]).await.len(), 1);
}

/// A deletion removes all attachments. A conversation that is created again has none.
pub async fn a_deletion_removes_attachments(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETED;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(2).await;
    attached.put(&[attachment("a", 0..2, b"x"), attachment("b", 0..1, b"y")]).await;
    attached.chat.delete().await;
    assert_eq!(attached.all(&["a", "b"]).await, NOTHING);
    attached.chat.add_turns(3).await;
    assert_eq!(attached.all(&["a", "b"]).await, NOTHING);
}

/// A truncation removes the attachments whose range has a removed position.
pub async fn a_truncation_removes_attachments_of_removed_exchanges(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_REMOVED;
    for len in 1..=5 {
        let attached = Attached::new(fixture).await;
        attached.chat.add_turns(5).await;
        let stored = [attachment("a", 0..1, b"1"), attachment("a", 1..4, b"2"), attachment("a", 4..5, b"3")];
        attached.put(&stored).await;
        let before = attached.chat.incarnation().await;
        let edit = Editable::at(fixture, attached.chat.id.clone()).await;
        edit.keep(len).await;
        let stays: Vec<Attachment> =
            stored.iter().filter(|attachment| attachment.survives_truncation(len)).cloned().collect();
        assert_eq!(attached.all(&["a"]).await, stays, "of a log of {len}");
        if len < 5 {
            let late = attached.store.attach(&attached.chat.id, before, &[], &stored).await;
            assert_gone(late);
            attached.chat.add_turns(5).await;
            assert_eq!(attached.all(&["a"]).await, stays, "after the log has grown again");
        }
    }
    // If all exchanges are removed, so is the conversation.
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(2).await;
    attached.put(&[attachment("a", 0..1, b"1")]).await;
    Editable::at(fixture, attached.chat.id.clone()).await.keep(0).await;
    attached.chat.add_turns(2).await;
    assert_eq!(attached.all(&["a"]).await, NOTHING);
}

/// A prune removes attachments only if derived data is erased: those whose range begins before the log.
pub async fn an_erasure_removes_attachments_of_removed_exchanges(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ATTACH_REMOVED;
    for first in 0..4 {
        let attached = Attached::new(fixture).await;
        attached.chat.add_turns(4).await;
        let stored = [attachment("a", 0..2, b"1"), attachment("a", 2..3, b"2"), attachment("b", 3..4, b"3")];
        attached.put(&stored).await;
        let prunable = Prunable::at(fixture, attached.chat.id.clone()).await;
        prunable.keep(PruneTo::From(Seq::new(first))).await;
        assert_eq!(attached.all(&["a", "b"]).await, stored, "of a log from {first}");
        prunable.forget(PruneTo::From(Seq::new(first))).await;
        let stays: Vec<Attachment> =
            stored.iter().filter(|attachment| attachment.survives_erasure(Seq::new(first))).cloned().collect();
        assert_eq!(attached.all(&["a", "b"]).await, stays, "of a log from {first}");
    }
}

/// The exchanges at the given positions are read. Positions that the log does not have are left out.
pub async fn exchanges_are_picked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PICK;
    let attached = Attached::new(fixture).await;
    let chat = &attached.chat;
    let pick = async |positions: &[u64]| {
        let positions: Vec<Seq> = positions.iter().copied().map(Seq::new).collect();
        attached.store.pick(&chat.id, &positions).await.must("the log can be read", &CLAUSE)
    };
    assert_eq!(pick(&[0, 1]).await, Page::absent());
    let log = chat.add_turns(200).await;
    let page = pick(&[0, 3, 4, 199, 200, 1 << 40, u64::MAX]).await;
    assert_eq!(page.exchanges, [log[0].clone(), log[3].clone(), log[4].clone(), log[199].clone()]);
    assert_eq!((page.revision, page.more), (Some(chat.revision().await), false));
    let all: Vec<u64> = (0..200).collect();
    assert_eq!(pick(&all).await.exchanges, log);
    assert_eq!(pick(&[]).await.exchanges, log[..0]);
}

/// Pruned exchanges are not picked.
pub async fn pruned_exchanges_are_not_picked(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PICK;
    let prunable = Prunable::new(fixture).await;
    let log = prunable.chat.add_turns(4).await;
    prunable.keep(PruneTo::From(Seq::new(2))).await;
    let attached = Attached::at(fixture, prunable.chat.id.clone()).await;
    let positions = [0, 1, 2, 3].map(Seq::new);
    let page = attached.store.pick(&attached.chat.id, &positions).await.must("the log can be read", &CLAUSE);
    assert_eq!(page.exchanges, log[2..]);
}

/// A dropped call was done, or it was not.
pub async fn a_dropped_call_is_done_or_not(fixture: &dyn Fixture) {
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(2).await;
    let incarnation = attached.chat.incarnation().await;
    let old = attachment("old", 0..1, b"x");
    let new = [attachment("new", 0..1, b"1"), attachment("new", 1..2, b"2")];
    for polls in [0, 1, 2, 3, 10, 100] {
        attached
            .attach(&new.each_ref().map(Attachment::key), std::slice::from_ref(&old))
            .await
            .must("it is valid", &CLAUSE);
        let keys = [old.key()];
        abandon(attached.store.attach(&attached.chat.id, incarnation, &keys, &new), polls).await;
        let stored = attached.all(&["old", "new"]).await;
        assert!(stored == new || stored == [old.clone()], "{stored:?} after {polls} polls");
        attached.attach(&keys, &new).await.must("the store still works", &CLAUSE);
        assert_eq!(attached.all(&["old", "new"]).await, new);
    }
}

/// All data is still there after the storage is opened again.
pub async fn attachments_persist(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DURABLE;
    let attached = Attached::new(fixture).await;
    attached.chat.add_turns(2).await;
    let stored = [attachment("a", 0..2, b"x")];
    attached.put(&stored).await;
    let id = attached.chat.id.clone();
    drop(attached);
    assert_eq!(Attached::at(fixture, id).await.all(&["a"]).await, stored);
}
