//! Calls that read. A load and a page are one script, and see one state of the conversation. Other calls check that it
//! did not change between their steps.

mod attachments;
mod load;
mod page;
mod pick;

pub(crate) use self::{attachments::attachments, load::load, page::page, pick::pick};
