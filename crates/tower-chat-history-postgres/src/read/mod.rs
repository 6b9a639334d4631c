//! The calls that read, each with one statement, and so of one state of the conversation.

mod load;
mod page;

pub(crate) use self::{
    load::{LoadRequest, load},
    page::page,
};
