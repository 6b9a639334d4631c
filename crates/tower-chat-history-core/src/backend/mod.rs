//! Tools for authors of stores.
//!
//! Applications do not need this module. The guide [writing a store](crate::writing_a_store) shows most of it in use.
//!
//! | Rule of the contract | Tool |
//! | --- | --- |
//! | An append is stored only if the log is as expected | [`Expect::check`](crate::Expect::check) |
//! | A first turn is refused if its conversation was erased in the meantime | [`Erasures`] |
//! | A listing has the conversations of its prefix after its cursor | [`KeyRange`] |
//! | A load returns the newest turns within its limit | [`WindowScan`] |
//! | A load of a known state returns nothing | [`Window::is_known`](crate::Window::is_known) |
//! | A prune removes whole turns | [`PruneScan`] |
//! | A prune may remove derived data | [`Compaction::without_derived`](crate::Compaction::without_derived) |
//! | Conversations begin a new incarnation | [`Incarnation::random`](crate::Incarnation::random) |
//! | Every store writes the same bytes | [`Exchange::encode`](crate::Exchange::encode) and [`ExchangeRecords`], [`RecordError`] |
//! | Stored token counts are used | [`Exchange::share_counts`](crate::Exchange::share_counts), which `decode` calls |
//! | A limit in bytes counts memory | [`Exchange::memory`](crate::Exchange::memory), [`Compaction::memory`](crate::Compaction::memory) |

mod erasures;
mod key_range;
mod prune_scan;
mod record;
mod window_scan;

pub use self::{
    erasures::Erasures,
    key_range::KeyRange,
    prune_scan::PruneScan,
    record::{ExchangeRecords, RecordError},
    window_scan::WindowScan,
};

/// The answer of a [`WindowScan`] or a [`PruneScan`] to an offered exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The exchange may be a part of the result. Offer the exchange before it.
    More,
    /// The result starts after this exchange. Offer no more exchanges.
    Stop,
}

/// Returns the number of messages that an exchange of `messages` counts as under a limit.
///
/// It is at least 1. Otherwise any number of exchanges without messages would be within every limit.
const fn at_least_one(messages: usize) -> usize {
    if messages == 0 { 1 } else { messages }
}
