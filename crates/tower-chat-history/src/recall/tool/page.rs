//! The division of results into pages.

use std::collections::BTreeSet;

use tower_chat_history_core::{Recorded, Seq};

use super::arguments::Arguments;
use crate::recall::{
    search::Hit,
    select::{Around, Place},
    shown::{render_exchange, render_frame, render_message},
};

/// The most units of a page.
pub(super) const MAX_UNITS: usize = 10;

/// The pages up to the one that is asked for. Results are given to it best first, so all calls divide them alike.
#[derive(Debug)]
pub(super) struct Pager<'a> {
    arguments: &'a Arguments,
    max_bytes: usize,
    /// The messages of this page and the ones before it.
    seen: BTreeSet<Place>,
    /// The page that is being filled.
    pub(super) page: Page,
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// From 1 on.
    pub(super) number: u64,
    pub(super) messages: BTreeSet<Place>,
    /// The exchanges of messages that are too long for a page.
    pub(super) too_long: BTreeSet<Seq>,
    units: usize,
    bytes: usize,
}

impl Page {
    fn new(number: u64) -> Self {
        let bytes = render_frame().len();
        Self { number, messages: BTreeSet::new(), too_long: BTreeSet::new(), units: 0, bytes }
    }

    /// Returns `true` if it shows messages of this exchange.
    pub(super) fn has(&self, seq: Seq) -> bool {
        self.messages.range((seq, 0)..=(seq, u32::MAX)).next().is_some()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.units == 0
    }
}

impl<'a> Pager<'a> {
    pub(super) fn new(arguments: &'a Arguments, max_bytes: usize) -> Self {
        Self { arguments, max_bytes, seen: BTreeSet::new(), page: Page::new(1) }
    }

    /// Adds a result to the page or to the next one. `exchanges` has its exchange and the two next to it. Returns
    /// `true` if the page that is asked for is full, and the result would begin the next one.
    pub(super) fn add(&mut self, hit: &Hit, exchanges: &[Recorded]) -> bool {
        let place = (hit.seq, hit.message);
        let included = recorded(exchanges, hit.seq).is_some_and(|found| self.arguments.includes(found.exchange.at));
        if !included || self.seen.contains(&place) {
            return false;
        }
        let Some(around) = Around::of(exchanges, place) else { return false };
        let largest = self.max_bytes.saturating_sub(render_frame().len());
        let fits = |unit: &Vec<Place>| Self::bytes(unit, exchanges, &BTreeSet::new()) <= largest;
        let units = [around.with_neighbors(), around.alone(), Some(vec![place])];
        let unit = units.into_iter().flatten().map(|unit| self.new_messages(unit, exchanges)).find(fits);
        let bytes = unit.as_ref().map_or(0, |unit| Self::bytes(unit, exchanges, &self.page.messages));
        if self.page.units >= MAX_UNITS || self.page.bytes + bytes > self.max_bytes {
            if self.page.number >= self.arguments.page {
                return true;
            }
            self.page = Page::new(self.page.number + 1);
        }
        self.page.units += 1;
        self.page.bytes += unit.as_ref().map_or(0, |unit| Self::bytes(unit, exchanges, &self.page.messages));
        self.seen.insert(place);
        match unit {
            Some(unit) => {
                self.seen.extend(&unit);
                self.page.messages.extend(unit);
            }
            None => {
                self.page.too_long.insert(hit.seq);
            }
        }
        false
    }

    /// Returns the messages of a unit that are on no page yet, and of the right time.
    fn new_messages(&self, mut unit: Vec<Place>, exchanges: &[Recorded]) -> Vec<Place> {
        unit.retain(|place| {
            let included = recorded(exchanges, place.0).is_some_and(|found| self.arguments.includes(found.exchange.at));
            included && !self.seen.contains(place)
        });
        unit
    }

    /// Returns the bytes of messages as they are rendered on a page that has others already.
    fn bytes(unit: &[Place], exchanges: &[Recorded], on_page: &BTreeSet<Place>) -> usize {
        let has = |seq: Seq| on_page.range((seq, 0)..=(seq, u32::MAX)).next().is_some();
        let of_exchange = |messages: &[Place]| {
            let Some(found) = messages.first().and_then(|place| recorded(exchanges, place.0)) else { return 0 };
            let message = |place: &Place| found.exchange.messages.get(usize::try_from(place.1).ok()?);
            let texts: usize = messages.iter().filter_map(message).map(|message| render_message(message).len()).sum();
            texts + if has(found.seq) { 0 } else { render_exchange(found).len() }
        };
        unit.chunk_by(|a, b| a.0 == b.0).map(of_exchange).sum()
    }
}

fn recorded(exchanges: &[Recorded], seq: Seq) -> Option<&Recorded> {
    exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok().map(|at| &exchanges[at])
}
