//! Support that the tests share: the stores, a chat through the typed integration, short forms of messages to
//! compare, and the random tests.

// This crate consists of assertions.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

pub mod chance;
mod chat;
mod property;
pub mod random;
mod short;
mod storage;

pub use self::{
    chat::{
        Asked, BOTH_DOORS, Chat, Chunk, Door, Gated, MockChat, Response, TypedRequest, answer, asked, bad_input,
        kept_back, not_saved, read_to_finish, request, said,
    },
    property::check,
    short::{ABANDONED, exchanges, log, prompt, prompts, short},
    storage::{Remote, Storage},
};
