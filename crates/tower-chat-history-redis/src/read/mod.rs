//! Calls that read. Each is one script, and sees one state of the conversation.

mod load;
mod page;

pub(crate) use self::{load::load, page::page};
