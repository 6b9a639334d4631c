//! What a provider has cached: the part of a prompt before the input, from one stored call to the next.

use tower_chat_history::{Message, TurnReport};

use super::{
    super::{
        outcome::{Checked, Violation},
        rules::shorten,
    },
    log::Positions,
};

/// A call whose exchange was stored, and nothing came between it and the next one.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) engine: usize,
    pub(super) window: Vec<Message>,
    /// The compaction under which it was planned.
    pub(super) positions: Positions,
}

/// Returns whether nothing was left out of a prompt for this call alone, or cut by the load limit.
pub(super) fn is_plain(report: &TurnReport) -> bool {
    let trimmed = report.tokens.is_some_and(|tokens| {
        tokens.for_this_call || tokens.evicted_messages > 0 || tokens.trimming.reason.is_some() || tokens.compacted
    });
    !report.truncated && !trimmed && report.summary.is_none()
}

/// Checks that the window of the call before is the beginning of this call's.
pub(super) fn check(before: &Sent, window: &[Message]) -> Checked {
    let parted = before.window.iter().enumerate().find(|(at, message)| window.get(*at) != Some(message));
    let Some((at, message)) = parted else { return Ok(()) };
    let now = window.get(at).map_or_else(|| "nothing".to_owned(), shorten);
    let seen = format!("message {at} was {}, and is {now}", shorten(message));
    Err(Violation::new("what was sent stays the beginning of what is sent", seen))
}
