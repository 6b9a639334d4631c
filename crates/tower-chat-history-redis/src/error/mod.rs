//! Errors of opening a store, and of its calls.

mod causes;
mod failure;
mod open;

pub(crate) use self::{
    causes::{Contended, FilesNotWritten, LogFull, StillWriting, UnexpectedReply},
    failure::Failure,
};
pub use self::{
    causes::{Damaged, NewerLayout},
    open::OpenError,
};
