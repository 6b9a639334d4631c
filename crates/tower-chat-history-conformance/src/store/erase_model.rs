//! Creations, changes and erasures in any order, compared with a map.

use std::collections::BTreeMap;

use tower_chat_history_core::{Labels, LabelsVersion, Prefix, Recorded, Removed};

use super::{Fixture, prune_model::Numbers, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LIST_CURRENT;

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

fn numbers(model: &Model, under: &Prefix) -> Removed {
    let inside: Vec<_> = model.iter().filter(|(id, _)| is_in(under, id)).map(|(_, expected)| expected).collect();
    let labels = inside.iter().filter(|expected| !expected.labels.is_empty()).count() as u64;
    with!(numbers_of(inside.iter().map(|expected| expected.log.as_slice())), labels)
}

fn is_in(under: &Prefix, id: &str) -> bool {
    id.parse().is_ok_and(|id| under.contains(&id))
}

/// Asserts that a listing has the conversations of the model.
async fn assert_listing(owned: &Owned, model: &Model, under: &Prefix, limit: usize) {
    let listed = owned.list(under, limit).await;
    let inside: Vec<_> = model.iter().filter(|(id, _)| is_in(under, id)).collect();
    let ids: Vec<&str> = listed.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, inside.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), "under {under}");
    for (entry, (_, expected)) in listed.iter().zip(inside) {
        let times = expected.log.iter().map(|recorded| recorded.exchange.at);
        assert_eq!(entry.revision.len(), expected.log.len() as u64, "{}", entry.id);
        assert_eq!((entry.created_at, Some(entry.updated_at)), (expected.log[0].exchange.at, times.max()));
        assert_eq!((&entry.labels, entry.labels_version), (&expected.labels, expected.version), "{}", entry.id);
        assert_eq!(entry.bytes, bytes_of(&expected.log));
    }
}

/// After any sequence of calls, listings, counts and logs equal those of the map.
pub async fn random_calls_match_a_map(fixture: &dyn Fixture) {
    for seed in 1..=4 {
        let (owned, mut random) = (Owned::new(fixture).await, Numbers(seed * 0x9e37_79b9));
        let mut model = Model::new();
        for _ in 0..60 {
            let chat = owned.chat(COLLIDING[random.below(COLLIDING.len() as u64) as usize]);
            let under = owned.under(PREFIXES[random.below(PREFIXES.len() as u64) as usize]);
            let (id, limit) = (chat.id.as_str().to_owned(), 1 + random.below(4) as usize);
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
                    let erased = owned.store.erase_if(&chat.id, chat.revision().await).await;
                    let expected = numbers(&model, &under).conversations;
                    assert_eq!(owned.count(&under).await.conversations + u64::from(is_in(&under, &id)), expected);
                    assert_eq!(erased.must("nothing changed", &clause::ERASE_IF).map(|one| one.conversations), Some(1));
                    model.remove(&id);
                }
                3..=5 => {
                    let Some(expected) = model.get_mut(&id) else { continue };
                    let title = labels([("title", &*random.below(100).to_string())]);
                    expected.version = owned.label(&chat, expected.version, &title).await;
                    expected.labels = title;
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
