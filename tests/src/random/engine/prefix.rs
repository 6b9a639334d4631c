//! The part of a prompt that a provider has cached: everything before the input, from one stored call to the
//! next.

use tower_chat_history::{Message, TurnReport};

use super::{
    super::{
        outcome::{Checked, Violation},
        rules::shorten,
    },
    log::Positions,
};

/// A call whose exchange was stored, followed directly by the next call.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) engine: usize,
    pub(super) window: Vec<Message>,
    /// The compaction for which it was planned.
    pub(super) positions: Positions,
}

/// Returns true if nothing was left out of the prompt for this call alone, and the load limit cut nothing
/// off.
pub(super) fn is_plain(report: &TurnReport) -> bool {
    let trimmed = report.tokens.is_some_and(|tokens| {
        tokens.for_this_call || tokens.evicted_messages > 0 || tokens.trimming.reason.is_some() || tokens.compacted
    });
    !report.truncated && !trimmed && report.summary.is_none()
}

/// Checks that the window of this call begins with the window of the call before.
pub(super) fn check(before: &Sent, window: &[Message]) -> Checked {
    let parted = before.window.iter().enumerate().find(|(at, message)| window.get(*at) != Some(message));
    let Some((at, message)) = parted else { return Ok(()) };
    let now = window.get(at).map_or_else(|| "nothing".to_owned(), shorten);
    let seen = format!("message {at} was {}, and is {now}", shorten(message));
    Err(Violation::new("a prompt begins with the prompt before", seen))
}
