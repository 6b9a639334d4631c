//! Tools for authors of stores.

mod prune_scan;
mod record;
mod window_scan;

pub use self::{prune_scan::PruneScan, record::RecordError, window_scan::WindowScan};

/// Whether a store should read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The exchange may belong to the window: offer the one before it.
    More,
    /// The window starts after this exchange: stop.
    Stop,
}

/// How many messages an exchange of `messages` counts as under a limit. Without a lower bound, exchanges that have none
/// would pass every limit, however many there are.
const fn at_least_one(messages: usize) -> usize {
    if messages == 0 { 1 } else { messages }
}
