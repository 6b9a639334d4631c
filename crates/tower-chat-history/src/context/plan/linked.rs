//! Replies that belong together, because one has the result of a [call](crate::context::server_tools) of the other one.
//!
//! The provider refuses one without the other. They are therefore one round, with everything between them: a cut leaves
//! out all of them or none. If none of them is in a round, nothing leaves out one of them alone.

use std::collections::BTreeMap;

use tower_chat_history_core::Seq;

use super::item::{Item, Round};
use crate::context::server_tools::{Settlement, needs_reply};

/// Joins the rounds of replies that belong together, and leaves out what the provider would refuse. If `continues`, the
/// model continues its turn after the items. `next` is the position of the log's next exchange.
pub(super) fn settle(items: &mut Vec<Item>, continues: bool, next: Seq) {
    let Settlement { changes, links } = Settlement::of(items.iter().map(|item| &item.message), continues);
    join(items, &links, next);
    if changes.is_empty() {
        return;
    }
    let mut changes = changes.into_iter().peekable();
    let mut at = 0;
    items.retain_mut(|item| {
        let change = changes.next_if(|change| change.at == at);
        at += 1;
        let Some(change) = change else { return true };
        let Some(message) = change.left else { return false };
        (item.message, item.is_settled) = (message, true);
        true
    });
    for at in (0..items.len()).rev() {
        let is_followed = || items.get(at + 1).is_some_and(|next| next.is_reply);
        if needs_reply(&items[at].message) && !is_followed() {
            items.remove(at);
        }
    }
}

/// Makes the items from the first to the last index of each link one round.
fn join(items: &mut [Item], links: &[(usize, usize)], next: Seq) {
    let spans: Vec<Span> =
        spans(links).into_iter().filter_map(|(first, last)| Span::of(items, first, last, next)).collect();
    let mut joined = BTreeMap::new();
    for span in &spans {
        items[span.first..=span.last].iter_mut().for_each(|item| {
            let before = item.round.replace(span.round);
            joined.extend(before.map(|round| (positions(round), span.round)));
        });
    }
    // A round can begin before the span, and its results come after it.
    for item in items {
        item.round = item.round.map(|round| *joined.get(&positions(round)).unwrap_or(&round));
    }
}

/// The items of replies that belong together, and their round.
struct Span {
    first: usize,
    last: usize,
    round: Round,
}

impl Span {
    /// Returns `None` if none of the items is in a round.
    fn of(items: &[Item], first: usize, last: usize, next: Seq) -> Option<Self> {
        let between = &items[first..=last];
        if between.iter().all(|item| item.round.is_none()) {
            return None;
        }
        let asked = between.iter().map(|item| item.round.map_or(item.seq, |round| round.asked)).min()?;
        // The last reply can have calls of its own. Otherwise the next item follows the round.
        let followed = match items[last].round {
            Some(round) => round.followed,
            None => items.get(last + 1).map_or(next, |item| item.seq),
        };
        Some(Self { first, last, round: Round { asked, followed } })
    }
}

fn positions(round: Round) -> (Seq, Seq) {
    (round.asked, round.followed)
}

/// Returns the first and the last index of links that overlap. The links are in the order of their last index.
fn spans(links: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (mut first, last) in links.iter().copied() {
        while let Some((before, _)) = spans.pop_if(|(_, end)| *end >= first) {
            first = first.min(before);
        }
        spans.push((first, last));
    }
    spans
}
