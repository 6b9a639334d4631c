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
mod record;
mod scan;

pub use self::{
    erasures::Erasures,
    key_range::KeyRange,
    record::{ExchangeRecords, RecordError},
    scan::{PruneScan, WindowScan},
};
