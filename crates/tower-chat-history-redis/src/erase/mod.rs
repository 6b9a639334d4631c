//! Deleting and erasing conversations.

/// The name of the store's system, which is also its name in receipts.
pub(crate) const SYSTEM: &str = "redis";

mod count;
mod delete;
mod numbers;
mod page;
mod persistence;
mod revision;
mod scrub;

pub(crate) use self::{count::count, delete::delete, page::erase, revision::erase_if, scrub::scrub};
