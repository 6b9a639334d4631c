//! Labels of conversations, in stores that list and erase.

use futures_util::future::join_all;
use tower_chat_history_core::{Incarnation, Labels, LabelsOutcome, LabelsVersion, Load, Loaded, PruneTo, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LABELS;

const NONE: LabelsVersion = LabelsVersion::NONE;

/// Returns the labels of a conversation and their version, which must be the same through another handle.
async fn labels_of(fixture: &dyn Fixture, owned: &Owned, chat: &Chat) -> (Labels, LabelsVersion) {
    let (entry, other) = (owned.entry(chat).await, owned.reopened(fixture).await.entry(chat).await);
    assert_eq!((&other.labels, other.labels_version), (&entry.labels, entry.labels_version));
    (entry.labels, entry.labels_version)
}

/// Labels are listed, and each change replaces all of them.
pub async fn labels_are_stored_and_replaced(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let mut version = NONE;
    let all = [
        labels([("title", "Nemo"), ("pinned", "")]),
        labels([("title", "Dory")]),
        Labels::default(),
        labels([("pinned", "yes")]),
        labels([("pinned", "yes")]),
    ];
    for labels in all {
        let stored = owned.label(&chat, version, &labels).await;
        assert!(stored > version, "{stored:?} after {version:?}");
        version = stored;
        assert_eq!(labels_of(fixture, &owned, &chat).await, (labels.clone(), version));
        chat.add_turns(1).await;
        assert_eq!(labels_of(fixture, &owned, &chat).await, (labels.clone(), version));
    }
}

/// Labels that replace another version than the stored one are not stored, and the answer has the stored ones.
pub async fn stale_labels_are_not_stored(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LABELS_KEPT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let incarnation = chat.incarnation().await;
    let new = labels([("title", "new")]);
    let set = async |replaces| {
        let outcome = owned.store.set_labels(&chat.id, incarnation, replaces, new.clone()).await;
        outcome.must("the labels are legal", &CLAUSE)
    };
    assert_eq!(set(LabelsVersion::new(7)).await, LabelsOutcome::Kept(Labels::default(), NONE));
    let first = labels([("title", "first")]);
    let version = owned.label(&chat, NONE, &first).await;
    let second = labels([("title", "second")]);
    let newest = owned.label(&chat, version, &second).await;
    for stale in [NONE, version, newest.next()] {
        assert_eq!(set(stale).await, LabelsOutcome::Kept(second.clone(), newest), "instead of {stale:?}");
    }
    // Equal labels of another call are no repeat.
    let repeat = owned.store.set_labels(&chat.id, incarnation, version, second.clone()).await;
    assert_eq!(repeat.must("the labels are legal", &CLAUSE), LabelsOutcome::Kept(second.clone(), newest));
    assert_eq!(labels_of(fixture, &owned, &chat).await, (second.clone(), newest));
}

/// Labels of another incarnation, or of no conversation, are refused.
pub async fn labels_need_their_incarnation(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::GONE;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let late = labels([("title", "late")]);
    let set = async |incarnation| owned.store.set_labels(&chat.id, incarnation, NONE, late.clone()).await;
    assert_gone(set(Incarnation::random()).await);
    chat.add_turns(1).await;
    let ended = chat.incarnation().await;
    assert_gone(set(Incarnation::random()).await);
    chat.delete().await;
    assert_gone(set(ended).await);
    chat.assert_absent().await;
    chat.add_turns(1).await;
    assert_gone(set(ended).await);
    assert_eq!(labels_of(fixture, &owned, &chat).await, (Labels::default(), NONE));
}

/// Names and values are returned byte for byte, up to the largest ones.
pub async fn labels_come_back(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let many: Vec<(String, String)> = (0..16).map(|n| (format!("name-{n:02}"), "\u{0}".repeat(57))).collect();
    let all = [
        labels([("title", "\u{0}"), ("\u{0}", "x\u{0}y"), ("empty", "")]),
        labels([("\"quoted\"", "'it''s' \\\" $1 {} [] , : %s %00"), ("\\u0000", "\\u0000"), (" ", "\n\t\r ")]),
        labels([
            ("é", "e\u{301}"),
            ("e\u{301}", "é"),
            ("😀", "\u{10ffff}\u{fffd}\u{200b}"),
            ("Title", "a"),
            ("title", "b"),
        ]),
        labels([("title", &*"é".repeat(509))]),
        Labels::new(many).expect("the labels are legal"),
    ];
    let mut version = NONE;
    for labels in all {
        version = owned.label(&chat, version, &labels).await;
        assert_eq!(labels_of(fixture, &owned, &chat).await, (labels.clone(), version));
    }
}

/// Labels belong to one conversation.
pub async fn labels_of_others_are_not_seen(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IDS;
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    for chat in &chats {
        owned.label(chat, NONE, &labels([("title", chat.id.as_str())])).await;
    }
    chats[3].delete().await;
    for entry in owned.list(&owned.under(&[]), 100).await {
        assert_eq!(entry.labels.get("title"), Some(entry.id.as_str()));
    }
}

/// A deletion removes labels. A conversation that is created again has none.
pub async fn a_deletion_removes_labels(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LABELS_STAY;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    for title in ["first", "second"] {
        chat.add_turns(1).await;
        assert_eq!(labels_of(fixture, &owned, &chat).await, (Labels::default(), NONE));
        owned.label(&chat, NONE, &labels([("title", title)])).await;
        chat.delete().await;
        assert_eq!(owned.describe(&chat).await, None);
    }
}

/// A truncation keeps labels, unless it removes the conversation.
pub async fn a_truncation_keeps_labels(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LABELS_STAY;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(3).await;
    let ended = chat.incarnation().await;
    let kept = labels([("title", "kept")]);
    let mut version = owned.label(&chat, NONE, &kept).await;
    let edit = Editable::at(fixture, chat.id.clone()).await;
    edit.keep(2).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (kept.clone(), version));
    assert_gone(owned.store.set_labels(&chat.id, ended, version, Labels::default()).await);
    let next = labels([("title", "next")]);
    version = owned.label(&chat, version, &next).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (next.clone(), version));
    edit.keep(0).await;
    chat.add_turns(1).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (Labels::default(), NONE));
}

/// A prune keeps labels, also if it erases derived data.
pub async fn a_prune_keeps_labels(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LABELS_STAY;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(4).await;
    let kept = labels([("title", "kept")]);
    let mut version = owned.label(&chat, NONE, &kept).await;
    let prunable = Prunable::at(fixture, chat.id.clone()).await;
    prunable.keep(PruneTo::LastTurns(3)).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (kept.clone(), version));
    let ended = chat.incarnation().await;
    prunable.forget(PruneTo::From(Seq::new(2))).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (kept.clone(), version));
    assert_gone(owned.store.set_labels(&chat.id, ended, version, Labels::default()).await);
    let next = labels([("title", "next")]);
    version = owned.label(&chat, version, &next).await;
    assert_eq!(labels_of(fixture, &owned, &chat).await, (next.clone(), version));
}

/// Labels change neither the log nor what a caller knows, nor the times.
pub async fn labels_do_not_change_the_log(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let log = chat.add_turns(2).await;
    let (window, entry) = (chat.window(Load::new()).await, owned.entry(&chat).await);
    let title = labels([("title", "x")]);
    let version = owned.label(&chat, NONE, &title).await;
    assert_eq!(chat.load(Load::new().known(window.known())).await, Loaded::Unchanged);
    assert_eq!((chat.log().await, chat.revision().await), (log, window.revision));
    assert_eq!(owned.entry(&chat).await, entry.labels(title, version));
}

/// Of several calls that replace the same version, exactly one is stored.
pub async fn one_setter_wins_a_version(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(owned.reopened(fixture).await);
    }
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let (incarnation, mut version) = (chat.incarnation().await, NONE);
    for _ in 0..5 {
        let setting = handles.iter().cycle().take(8).enumerate().map(|(n, owned)| {
            let (id, labels) = (&chat.id, labels([("title", &*n.to_string())]));
            async move {
                let outcome = owned.store.set_labels(id, incarnation, version, labels.clone()).await;
                (labels, outcome.must("the labels are legal", &CLAUSE))
            }
        });
        let outcomes = join_all(setting).await;
        let stored = outcomes.iter().filter_map(|(labels, outcome)| match outcome {
            LabelsOutcome::Stored(version) => Some((labels, *version)),
            LabelsOutcome::Kept(..) => None,
        });
        let stored: Vec<_> = stored.collect();
        assert_eq!(stored.len(), 1);
        assert_eq!(labels_of(fixture, &owned, &chat).await, (stored[0].0.clone(), stored[0].1));
        let kept = LabelsOutcome::Kept(stored[0].0.clone(), stored[0].1);
        let others = outcomes.iter().filter(|(_, outcome)| matches!(outcome, LabelsOutcome::Kept(..)));
        others.for_each(|(_, outcome)| assert_eq!(*outcome, kept));
        version = stored[0].1;
    }
}

/// A dropped call was done, or it was not.
pub async fn dropped_labels_are_stored_or_not(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    for polls in [0, 1, 2, 3, 10, 100] {
        let chat = owned.chat(&["acme", &polls.to_string()]);
        chat.add_turns(1).await;
        let incarnation = chat.incarnation().await;
        let dropped = labels([("title", "dropped")]);
        abandon(owned.store.set_labels(&chat.id, incarnation, NONE, dropped.clone()), polls).await;
        // The next call settles it.
        let next = labels([("title", "next")]);
        let outcome = owned.store.set_labels(&chat.id, incarnation, NONE, next.clone()).await;
        match outcome.must("the labels are legal", &CLAUSE) {
            LabelsOutcome::Stored(version) => assert_eq!(labels_of(fixture, &owned, &chat).await, (next, version)),
            LabelsOutcome::Kept(labels, version) => {
                assert_eq!(labels, dropped);
                assert_eq!(labels_of(fixture, &owned, &chat).await, (dropped.clone(), version));
            }
        }
    }
}
