//! The index of a log: which passages have which terms, in bytes.

mod documents;
mod finding;
mod indexing;
mod log_index;
mod merge;
mod part;
mod postings;
mod record;
mod room;

pub(crate) use self::{
    documents::Documents,
    indexing::{Indexing, Writing},
    merge::{Merger, Step},
    postings::{Posting, Postings},
};
pub use self::{log_index::LogIndex, part::IndexPart, record::RecordName};
