//! Deleting and erasing conversations.

mod count;
mod delete;
mod numbers;
mod page;
mod persistence;
mod revision;
mod scrub;

pub(crate) use self::{count::count, delete::delete, page::erase, revision::erase_if, scrub::scrub};
