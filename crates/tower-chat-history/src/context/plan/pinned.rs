//! The cut under which a turn continues.
//!
//! If a turn has reasoning that is bound to its prompt, its prompts must stay prefixes of each other until it ends. A
//! compaction that another call stored in the meantime therefore takes effect with the next turn.

use tower_chat_history_core::{Cut, Message, NewestRound, Positions, Recorded, Seq};

use super::{input::continues_turn, loaded::LoadedWindow, reasoning::digests_of_reply};
use crate::context::request::RequestInfo;

/// Returns the cut under which the turn that the input continues got its newest bound reasoning. Returns `None` if the
/// window is the one under that cut, if nothing of the turn is bound to its prompt, or if the cut's summary is not
/// stored any more. Elements that the provider cannot read any more are left out under this cut, too.
///
/// If the request lets the provider [drop](RequestInfo::may_drop_reasoning) reasoning, that which a stored compaction left
/// out within the turn stays left out.
#[must_use]
pub fn pinned(window: &LoadedWindow, input: &[Message], request: &RequestInfo) -> Option<Cut> {
    let is_bound = |recorded: &Recorded| recorded.exchange.is_bound_to_prompt();
    if !continues_turn(input) || !window.exchanges.iter().any(is_bound) {
        return None;
    }
    let asked = NewestRound::of(&window.exchanges).asked()?;
    let opens = |recorded: &Recorded| recorded.seq <= asked && recorded.exchange.opens_turn();
    let turn = &window.exchanges[window.exchanges.iter().rposition(opens)?..];
    let none = Cut::default();
    let stored = window.cut().unwrap_or(&none);
    let from = if request.may_drop_reasoning { stored.reasoning_from } else { Seq::FIRST };
    let newest = turn.iter().rfind(|recorded| recorded.seq >= from && digests_of_reply(&recorded.exchange).is_some());
    let mut sent_under = newest?.exchange.provenance.as_ref()?.cut;
    sent_under.encrypted_from = sent_under.encrypted_from.max(stored.encrypted_from);
    let is_loaded = is_under(sent_under, stored, &window.exchanges) && !window.truncated;
    if is_loaded || sent_under.window_start > turn.first()?.seq {
        return None;
    }
    let replaced = window.cuts.as_ref().and_then(|cuts| cuts.replaced.as_deref());
    cut(sent_under, [Some(stored), replaced].into_iter().flatten())
}

/// Returns `true` if a prompt at these positions was made under this cut. It had no summary if it began with a message
/// that stands for everything before it.
fn is_under(positions: Positions, cut: &Cut, exchanges: &[Recorded]) -> bool {
    let mut messages = exchanges.iter().flat_map(|recorded| &recorded.exchange.messages);
    let mut of_cut = cut.positions;
    if positions == of_cut {
        return true;
    }
    of_cut.covers_to = Seq::FIRST;
    positions == of_cut && messages.any(|message| message.index().restarts)
}

/// Returns the cut with these positions and its summary, or `None` if none of the stored cuts has this summary.
fn cut<'a>(positions: Positions, mut stored: impl Iterator<Item = &'a Cut>) -> Option<Cut> {
    let mut cut = Cut::at(positions);
    if positions.covers_to > Seq::FIRST {
        let summarized = stored.find(|stored| stored.covers_to == positions.covers_to)?;
        cut.set_summary(summarized.summary.clone()?, positions.covers_to);
    }
    Some(cut)
}
