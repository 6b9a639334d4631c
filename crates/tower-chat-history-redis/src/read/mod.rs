//! Calls that read. A load, a page and a description are one script, and see one state of the conversation. Other calls
//! check that it did not change between their steps.

mod attachments;
mod describe;
mod load;
mod page;
mod pick;

pub(crate) use self::{
    attachments::attachments,
    describe::{describe, describe_all, labels},
    load::load,
    page::page,
    pick::pick,
};
