//! Calls that read. Each is one statement, and sees one state of the conversation.

mod load;
mod page;

pub(crate) use self::{
    load::{LoadRequest, load},
    page::page,
};
