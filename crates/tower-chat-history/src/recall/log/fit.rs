//! The message with the result, within the allowance.

use std::collections::{BTreeSet, HashMap};

use tower_chat_history_core::{Citation, Message, Recalled, Recorded};

use super::{
    ask::Ask,
    joined::Joined,
    pace::{Pace, Stop},
};
use crate::recall::{
    passage::only_text_of,
    search::Ranking,
    select::{Place, Selector, citations},
    shown::{
        render_exchange, render_exchange_of_other, render_frame, render_frame_with_others, render_joined,
        render_message,
    },
};

/// The most bytes of a token. A message with more than 64 bytes per token of the allowance cannot fit, so its tokens
/// are not counted.
const MAX_BYTES_PER_COST: u64 = 64;

/// Selects messages and renders them. Returns the result with its cost, which is at most the allowance.
///
/// Costs of single messages are estimates. If the rendered message costs too much, the worst units are left out. The
/// number of units that fit is found by halving, so the message is counted at most 9 times, with pauses in between.
pub(super) async fn fit(
    ask: &Ask<'_>,
    joined: &Joined,
    selector: Selector<'_>,
    ranking: &Ranking,
    exchanges: &[Recorded],
    pace: &mut Pace,
) -> Result<Option<(Recalled, u64)>, Stop> {
    let Some(mut costs) = Costs::new(ask, joined, exchanges) else { return Ok(None) };
    let Some(allowance) = ask.allowance.checked_sub(costs.frame) else { return Ok(None) };

    let selector = selector.exchange_cost(costs.exchange).with_allowance(allowance);
    let mut units: Vec<Vec<Place>> = Vec::new();
    for unit in selector.units_of(ranking, exchanges, |recorded, message| costs.of(recorded, message)) {
        units.extend(unit);
        pace.pause().await?;
    }

    if let Some(all) = message_of(ask, joined, exchanges, &units) {
        return Ok(Some(all));
    }

    // `fits` units fit, and `exceeds` units do not.
    let mut fits = 0;
    let mut exceeds = units.len();
    let mut best = None;
    while exceeds.saturating_sub(fits) > 1 {
        let middle = fits + (exceeds - fits) / 2;
        pace.pause().await?;
        match message_of(ask, joined, exchanges, &units[..middle]) {
            Some(found) => {
                fits = middle;
                best = Some(found);
            }
            None => exceeds = middle,
        }
    }
    Ok(best)
}

/// Renders the messages of these units. Returns the message with its cost, or `None` if it exceeds the allowance.
fn message_of(ask: &Ask<'_>, joined: &Joined, exchanges: &[Recorded], units: &[Vec<Place>]) -> Option<(Recalled, u64)> {
    let places: BTreeSet<Place> = units.iter().flatten().copied().collect();
    let cited: Vec<Citation> = citations(places);
    let mut recalled = render_joined(exchanges, &cited, |seq| joined.origin(seq))?;
    recalled.citations = recalled.citations.into_iter().map(|citation| joined.separated(citation)).collect();

    let cost = (ask.cost)(&recalled.message);
    (cost <= ask.allowance).then_some((recalled, cost))
}

/// The costs of messages as they are rendered, by estimate.
struct Costs<'a> {
    ask: &'a Ask<'a>,
    frame: u64,
    exchange: u64,
    /// The cost of what is around the text of a message.
    around: u64,
    known: HashMap<Place, u64>,
}

impl<'a> Costs<'a> {
    /// Measures what is around messages. Returns `None` if there are no exchanges.
    fn new(ask: &'a Ask<'a>, joined: &Joined, exchanges: &[Recorded]) -> Option<Self> {
        let last = exchanges.last()?;
        let (frame, exchange) = if joined.has_others() {
            (render_frame_with_others(), render_exchange_of_other(last, joined.origin(last.seq).seq))
        } else {
            (render_frame(), render_exchange(last))
        };

        let with_exchange = (ask.cost)(&Message::user(format!("{frame}{exchange}")));
        let with_message = (ask.cost)(&Message::user(format!("{frame}{}", render_message(&Message::user("-")))));
        let frame = (ask.cost)(&Message::user(frame));
        Some(Self {
            ask,
            frame,
            exchange: with_exchange.saturating_sub(frame),
            around: with_message.saturating_sub(frame),
            known: HashMap::new(),
        })
    }

    fn of(&mut self, recorded: &Recorded, index: u32) -> u64 {
        let place = (recorded.seq, index);
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let message = usize::try_from(index).ok().and_then(|index| recorded.exchange.messages.get(index));
        let cost = message.map_or(u64::MAX, |message| self.estimate(message));
        self.known.insert(place, cost);
        cost
    }

    /// Returns the cost of a message. That of plain text is mostly known, because the count of a stored message is
    /// stored with it.
    fn estimate(&self, message: &Message) -> u64 {
        let text = only_text_of(message);
        if text.as_ref().is_some_and(|text| self.is_too_long(text)) {
            return u64::MAX;
        }

        let rendered = render_message(message);
        if rendered.is_empty() {
            return 0;
        }
        if self.is_too_long(&rendered) {
            return u64::MAX;
        }

        match text {
            Some(text) => {
                let cost = (self.ask.cost)(message);
                // Quotation marks and line feeds are escaped.
                let escapes = rendered.len().saturating_sub(text.len() + 64) as u64;
                cost.saturating_add(self.around).saturating_add(cost.saturating_mul(escapes) / text.len().max(1) as u64)
            }
            None => (self.ask.cost)(&Message::user(rendered)),
        }
    }

    /// Returns `true` for a text that cannot fit.
    const fn is_too_long(&self, text: &str) -> bool {
        text.len() as u64 / MAX_BYTES_PER_COST > self.ask.allowance
    }
}
