//! First turns that are running while conversations are erased.

use futures_util::future::join_all;
use tower_chat_history_core::{Epoch, Expect, Prefix};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::BAR;

/// Returns a conversation for each of the colliding ids, none of which exists, and its epoch.
async fn absent(owned: &Owned) -> Vec<(Chat, Epoch)> {
    let chats: Vec<Chat> = COLLIDING.iter().map(|parts| owned.chat(parts)).collect();
    let epochs = join_all(chats.iter().map(Chat::epoch)).await;
    chats.into_iter().zip(epochs).collect()
}

/// First turns under the prefix are refused, through any handle, and others are not.
pub async fn first_turns_under_the_prefix_are_refused(fixture: &dyn Fixture) {
    for parts in [&["acme"] as &[&str], &["acme", "a"], &["acme/a"], &["acm"], &["none"]] {
        must_land(async || {
            let owned = Owned::new(fixture).await;
            let (under, chats) = (owned.under(parts), absent(&owned).await);
            owned.reopened(fixture).await.bar(&under).await;
            for (chat, epoch) in &chats {
                let expect = if chat.id.as_str().len() % 2 == 0 { Expect::Absent } else { Expect::AnyOrCreate };
                let appended = chat.append_since(*epoch, expect, turn_of("first")).await;
                if under.contains(&chat.id) {
                    assert_gone(appended);
                    chat.assert_absent().await;
                } else {
                    landed(appended)?;
                }
            }
            Some(())
        })
        .await;
    }
}

/// First turns of all conversations are refused if all are erased.
pub async fn all_first_turns_are_refused(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = absent(&owned).await;
    owned.bar(&Prefix::all()).await;
    for (chat, epoch) in &chats {
        assert_gone(chat.append_since(*epoch, Expect::AnyOrCreate, turn_of("late")).await);
        chat.assert_absent().await;
    }
    let (chat, before) = &chats[0];
    let after = chat.epoch().await;
    assert!(after > *before, "{after:?}, after an erasure since {before:?}");
    must_land(async || landed(chat.append_since(chat.epoch().await, Expect::Absent, turn_of("x")).await)).await;
}

/// First turns that begin later are stored, and so are appends that name no epoch.
pub async fn later_first_turns_are_stored(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    for n in 0..3 {
        owned.bar(&under).await;
        let (one, other) = (owned.chat(&["acme", &format!("{n}-a")]), owned.chat(&["acme", &format!("{n}-b")]));
        must_land(async || landed(one.append_since(one.epoch().await, Expect::Absent, turn_of("x")).await)).await;
        other.append(Expect::Absent, turn_of("x")).await.must("it names no epoch", &clause::ANY_OR_CREATE);
    }
    assert_eq!(owned.list(&under, 10).await.len(), 6);
}

/// A bar removes nothing, and calls that name an incarnation go on.
pub async fn a_bar_removes_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let chats = owned.colliding().await;
    let before = owned.list(&owned.under(&[]), 100).await;
    let numbers = owned.count(&under).await;
    owned.bar(&under).await;
    assert_eq!(owned.list(&owned.under(&[]), 100).await, before);
    assert_eq!(owned.count(&under).await, numbers);
    for chat in &chats {
        let revision = chat.revision().await;
        chat.append(Expect::Exactly(revision), turn_of("next")).await.must("nothing changed", &clause::CONDITIONAL);
    }
}

/// The newest erasure counts, whichever prefix it has.
pub async fn each_of_several_bars_counts(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a", "deep"]);
    let prefixes: [&[&str]; 3] = [&["acme", "a"], &["acme", "a", "deep"], &["acme"]];
    for under in prefixes.into_iter().chain(prefixes) {
        let epoch = chat.epoch().await;
        owned.bar(&owned.under(under)).await;
        owned.bar(&owned.under(&["other"])).await;
        assert_gone(chat.append_since(epoch, Expect::Absent, turn_of("late")).await);
    }
    let old = chat.epoch().await;
    owned.bar(&owned.under(&["acme"])).await;
    let between = chat.epoch().await;
    owned.bar(&owned.under(&["acme", "a"])).await;
    owned.bar(&owned.under(&["other"])).await;
    for epoch in [old, between] {
        assert_gone(chat.append_since(epoch, Expect::Absent, turn_of("late")).await);
    }
    chat.assert_absent().await;
}

/// A bar is remembered after the storage is opened again.
pub async fn bars_persist(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DURABLE;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let (id, epoch) = (chat.id.clone(), chat.epoch().await);
    owned.bar(&owned.under(&["acme"])).await;
    drop((owned, chat));
    let chat = Chat::new(fixture).await.with_id(id);
    assert_gone(chat.append_since(epoch, Expect::Absent, turn_of("late")).await);
    let later = chat.epoch().await;
    assert!(later > epoch, "{later:?}, after an erasure since {epoch:?}");
}
