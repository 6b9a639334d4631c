//! Deleting and erasing conversations.

mod count;
mod delete;
mod numbers;
mod page;
mod revision;

pub(crate) use self::{count::count, delete::delete, page::erase, revision::erase_if};
