//! Erasure of one conversation at an exact revision.

use futures_util::future::join;
use tower_chat_history_core::{
    Append, CompactionVersion, Expect, Incarnation, LabelsVersion, PruneTo, Removed, Revision, Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::ERASE_IF;

async fn erase_if(owned: &Owned, chat: &Chat, revision: Revision) -> Option<Removed> {
    owned.store.erase_if(&chat.id, revision).await.must("a conversation can be erased", &CLAUSE)
}

/// A conversation at the revision is erased whole, and no other.
pub async fn the_seen_revision_is_erased(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(2).await;
    chat.cut(CompactionVersion::NONE, summary_to(1, "a secret")).await;
    owned.label(&chat, LabelsVersion::NONE, &labels([("title", "x")])).await;
    let expected = with!(numbers_of([chat.log().await.as_slice()]), compactions: 1, summaries: 1, labels: 1);
    let revision = chat.revision().await;
    assert_eq!(erase_if(&owned.reopened(fixture).await, &chat, revision).await, Some(expected));
    chat.assert_absent().await;
    assert_eq!(owned.describe(&chat).await, None);
    assert_eq!(owned.list(&owned.under(&[]), 100).await.len(), chats.len() - 1);
    assert_eq!(erase_if(&owned, &chat, revision).await, None);
}

/// A conversation at another revision stays: it has grown, it is shorter, or it is another incarnation.
pub async fn another_revision_is_not_erased(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    chat.add_turns(1).await;
    let old = chat.revision().await;
    assert_eq!(erase_if(&owned, &owned.chat(&["acme", "b"]), old).await, None);
    let log = [chat.log().await, chat.add_turns(1).await].concat();
    let now = chat.revision().await;
    let others = [
        old,
        Revision::new(now.incarnation(), now.version() + 1),
        Revision::new(Incarnation::random(), now.version()),
        now.beginning_at(Seq::new(1)),
    ];
    for other in others {
        assert_eq!(erase_if(&owned, &chat, other).await, None);
        assert_eq!(chat.log().await, log);
    }
    chat.delete().await;
    chat.add_turns(2).await;
    assert_eq!(erase_if(&owned, &chat, now).await, None);
    assert_eq!(chat.log().await.len(), 2);
}

/// A log that begins at a position has a revision with that position.
pub async fn a_revision_includes_its_beginning(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let append = Append::new(Expect::Absent, turn_of("x")).beginning_at(Seq::new(5));
    let revision = chat.store.append(&chat.id, append).await.must("nothing is there yet", &clause::FIRST).revision;
    let whole = Revision::new(revision.incarnation(), revision.version());
    assert_eq!(erase_if(&owned, &chat, whole).await, None);
    let expected = numbers_of([chat.log().await.as_slice()]);
    assert_eq!(erase_if(&owned, &chat, revision).await, Some(expected));
}

/// A log that was pruned in the meantime is at another revision.
pub async fn a_pruned_revision_is_another_one(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let log = chat.add_turns(3).await;
    let before = chat.revision().await;
    let pruned = Prunable::at(fixture, chat.id.clone()).await.keep(PruneTo::LastTurns(2)).await;
    assert_eq!(erase_if(&owned, &chat, before).await, None);
    assert_eq!(chat.log().await, log[1..]);
    assert_eq!(erase_if(&owned, &chat, pruned.revision).await, Some(numbers_of([&log[1..]])));
    chat.assert_absent().await;
}

/// First turns that began before it are stored. Calls that name the incarnation are refused.
pub async fn first_turns_are_not_refused(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    must_land(async || {
        let chat = Owned::new(fixture).await.chat(&["acme"]);
        let epoch = chat.epoch().await;
        chat.add_turns(1).await;
        let revision = chat.revision().await;
        erase_if(&owned, &chat, revision).await.must("nothing changed", &CLAUSE);
        assert_gone(chat.append(Expect::AnyIn(revision.incarnation()), turn_of("late")).await);
        landed(chat.append_since(epoch, Expect::Absent, turn_of("anew")).await)
    })
    .await;
}

/// An append at the same time wins, or it is refused.
pub async fn a_racing_append_wins_or_is_gone(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.reopened(fixture).await.chat(&["acme", "a"]);
    for wait in 0..6 {
        chat.add_turns(1).await;
        let revision = chat.revision().await;
        let appending = chat.append(Expect::AnyIn(revision.incarnation()), turn_of("next"));
        let erasing = async {
            for _ in 0..wait % 3 {
                pause().await;
            }
            erase_if(&owned, &chat, revision).await
        };
        let (appended, erased) = join(appending, erasing).await;
        match (appended, erased) {
            (Ok(_), None) => assert_eq!(chat.log().await.len(), 2),
            (Err(StoreError::Gone), Some(removed)) => {
                assert_eq!(removed.exchanges, 1);
                chat.assert_absent().await;
            }
            other => unexpected!("the append to be stored, or the erasure to be done", other),
        }
        chat.delete().await;
    }
}
