//! Erasures at the same time as other calls, and in any order.

use std::collections::BTreeMap;

use super::support::*;

/// Returns conversations under `acme`.
fn four(owned: &Owned) -> [Chat; 4] {
    ["a", "b", "c", "d"].map(|end| owned.chat(&["acme", end]))
}

/// First turns that began before the erasure was recorded leave nothing, however late they are.
pub async fn first_turns_from_before_leave_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats = four(&other);
        let epochs = join_all(chats.iter().map(Chat::epoch)).await;
        let creating = join_all(chats.iter().zip(epochs).enumerate().map(|(n, (chat, epoch))| async move {
            for text in ["first", "second"] {
                pause(n).await;
                let _ = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of(text)).await);
            }
        }));
        let erasing = async {
            pause(wait).await;
            owned.bar(&under).await;
            owned.erase(&under, 2).await;
        };
        join(creating, erasing).await;
        owned.assert_nothing(&under).await;
    }
}

/// Appends that name an incarnation are stored before the erasure or refused, and leave nothing.
pub async fn appends_to_incarnations_leave_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats = four(&other);
        for chat in &chats {
            chat.add_turns(2).await;
        }
        let incarnations = join_all(chats.iter().map(Chat::incarnation)).await;
        let appending = join_all(chats.iter().zip(incarnations).map(|(chat, incarnation)| async move {
            let mut stored = 2;
            for _ in 0..4 {
                if let Some(appended) = landed(chat.append(Expect::AnyIn(incarnation), turn_of("next")).await) {
                    assert_eq!(appended.seq, Seq::new(stored));
                    stored += 1;
                }
                pause(1).await;
            }
            stored
        }));
        let erasing = async {
            pause(wait).await;
            owned.erase(&under, 2).await
        };
        let (stored, removed) = join(appending, erasing).await;
        owned.assert_nothing(&under).await;
        // Each acknowledged exchange was erased and counted.
        assert_eq!(removed.exchanges, stored.into_iter().sum::<u64>());
    }
}

/// Appends that may create conversations leave whole ones, which a repeated erasure erases.
pub async fn later_conversations_are_whole(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats = four(&other);
        let appending = join_all(chats.iter().map(|chat| async move {
            for n in 0..4 {
                let appended = chat.append(Expect::AnyOrCreate, turn_of("next")).await.unwrap();
                assert!(appended.seq <= Seq::new(n), "{appended:?}");
                pause(1).await;
            }
        }));
        let erasing = async {
            pause(wait).await;
            owned.bar(&under).await;
            owned.erase(&under, 3).await;
        };
        join(appending, erasing).await;

        // Reading checks that there is no gap.
        let mut logs = join_all(chats.iter().map(Chat::log)).await;
        logs.retain(|log| !log.is_empty());
        let there = numbers_of(&logs);
        assert_eq!(owned.count(&under).await, there);
        assert_eq!(owned.ids().await.len(), logs.len());
        assert_eq!(owned.erase(&under, 3).await, there);
        owned.assert_nothing(&under).await;
    }
}

/// Of several racing erasures, one erases each conversation and counts it.
pub async fn racing_erasures_count_once(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let others = [owned.reopened(fixture).await, owned.reopened(fixture).await, owned.reopened(fixture).await];
    let under = owned.under(&["acme"]);
    for limit in 1..=4 {
        let mut logs = Vec::new();
        for chat in four(&owned) {
            logs.push(chat.add_turns(3).await);
        }
        let mut total = Removed::default();
        for removed in join_all(others.iter().map(|owned| owned.erase(&under, limit))).await {
            total += removed;
        }
        assert_eq!(total, numbers_of(&logs));
        owned.assert_nothing(&under).await;
    }
}

/// A dropped erasure leaves whole conversations, and a repeat erases what is left.
pub async fn a_dropped_erasure_is_repeated(fixture: &dyn Fixture) {
    for polls in [0, 1, 2, 3, 4, 10, 100] {
        // The erasure that was dropped before may still be running, so each one has conversations of its own.
        let owned = Owned::new(fixture).await;
        let under = owned.under(&["acme"]);
        let outside = owned.chat(&["acme-2"]);
        let other = outside.add_turns(2).await;
        let chats = four(&owned);
        let logs = join_all(chats.iter().map(|chat| chat.add_turns(3))).await;
        abandon(owned.store().erase(&under, None, 3), polls).await;
        for (chat, log) in chats.iter().zip(logs) {
            let left = chat.log().await;
            assert!(left.is_empty() || left == log, "{left:?}, after {polls} polls");
        }
        owned.erase(&under, 3).await;
        owned.assert_nothing(&under).await;
        assert_eq!(outside.log().await, other);
    }
}

/// An append at the same time as the erasure of one revision wins, or it is refused.
pub async fn a_racing_append_wins_or_is_gone(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.reopened(fixture).await.chat(&["acme", "a"]);
    for wait in 0..6 {
        chat.add_turns(1).await;
        let revision = chat.revision().await;
        let appending = chat.append(Expect::AnyIn(revision.incarnation()), turn_of("next"));
        let erasing = async {
            pause(wait % 3).await;
            owned.erase_if(&chat, revision).await
        };
        match join(appending, erasing).await {
            (Ok(_), None) => assert_eq!(chat.log().await.len(), 2),
            (Err(StoreError::Gone), Some(removed)) => {
                assert_eq!(removed.exchanges, 1);
                chat.assert_absent().await;
            }
            other => panic!("one of the two is done: {other:?}"),
        }
        chat.delete().await;
    }
}

/// The parts of prefixes that contain some of the colliding ids.
const PREFIXES: [&[&str]; 6] = [&[], &["acme"], &["acme", "a"], &["acme", "a", "deep"], &["acme/a"], &["acme-2"]];

/// A conversation, as it must be stored.
#[derive(Default)]
struct Expected {
    log: Vec<Recorded>,
    labels: Labels,
    version: LabelsVersion,
}

/// The conversations by their ids' text forms.
type Model = BTreeMap<String, Expected>;

fn is_in(under: &Prefix, id: &str) -> bool {
    id.parse().is_ok_and(|id| under.contains(&id))
}

/// Returns what the model has under the prefix.
fn inside<'a>(model: &'a Model, under: &Prefix) -> Vec<(&'a String, &'a Expected)> {
    model.iter().filter(|(id, _)| is_in(under, id)).collect()
}

fn numbers(model: &Model, under: &Prefix) -> Removed {
    let inside = inside(model, under);
    let labels = inside.iter().filter(|(_, expected)| !expected.labels.is_empty()).count() as u64;
    let logs: Vec<_> = inside.into_iter().map(|(_, expected)| &expected.log).collect();
    with!(numbers_of(&logs), labels: labels)
}

/// Asserts that a listing has the conversations of the model.
async fn assert_listing(owned: &Owned, model: &Model, under: &Prefix, limit: usize) {
    let listed = owned.list(under, limit).await;
    let inside = inside(model, under);
    let ids: Vec<&str> = listed.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, inside.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), "under {under}");
    for (entry, (_, expected)) in listed.iter().zip(inside) {
        let updated = expected.log.iter().map(|recorded| recorded.exchange.at).max();
        assert_eq!(entry.revision.len(), expected.log.len() as u64, "{}", entry.id);
        assert_eq!((entry.created_at, Some(entry.updated_at)), (expected.log[0].exchange.at, updated));
        assert_eq!((&entry.labels, entry.labels_version), (&expected.labels, expected.version), "{}", entry.id);
        assert_eq!(entry.bytes, bytes_of(&expected.log));
    }
}

/// After any sequence of creations, changes and erasures, listings, counts and logs equal those of a map.
pub async fn random_calls_match_a_map(fixture: &dyn Fixture) {
    for seed in 1..=4 {
        let owned = Owned::new(fixture).await;
        let mut random = Numbers::new(seed);
        let mut model = Model::new();
        for _ in 0..60 {
            let chat = owned.chat(COLLIDING[random.below(COLLIDING.len() as u64) as usize]);
            let under = owned.under(PREFIXES[random.below(PREFIXES.len() as u64) as usize]);
            let id = chat.id.as_str().to_owned();
            let limit = 1 + random.below(4) as usize;
            match random.below(12) {
                0 => {
                    let expected = numbers(&model, &under);
                    assert_eq!(owned.count(&under).await, expected);
                    assert_eq!(owned.erase(&under, limit).await, expected);
                    model.retain(|id, _| !is_in(&under, id));
                }
                1 => {
                    chat.delete().await;
                    model.remove(&id);
                }
                2 if model.contains_key(&id) => {
                    let erased = owned.erase_if(&chat, chat.revision().await).await;
                    assert_eq!(erased.map(|one| one.conversations), Some(1));
                    model.remove(&id);
                    assert_eq!(owned.count(&under).await.conversations, numbers(&model, &under).conversations);
                }
                3..=5 => {
                    let Some(expected) = model.get_mut(&id) else { continue };
                    expected.labels = titled(&random.below(100).to_string());
                    expected.version = owned.label(&chat, expected.version, &expected.labels).await;
                }
                _ => model.entry(id).or_default().log.push(chat.add(turn_of("next")).await),
            }
            assert_listing(&owned, &model, &under, limit).await;
        }
        for parts in COLLIDING {
            let chat = owned.chat(parts);
            let expected = model.get(chat.id.as_str()).map_or(&[][..], |expected| &expected.log);
            assert_eq!(chat.log().await, expected);
        }
    }
}
