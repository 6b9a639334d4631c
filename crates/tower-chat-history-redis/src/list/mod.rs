//! Listings and labels.

mod labels;
mod page;

pub(crate) use self::{labels::set_labels, page::list};
