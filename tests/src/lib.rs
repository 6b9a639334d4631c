//! Support that the tests share: the stores, a chat through the typed integration, short forms of messages to
//! compare, and the random tests.

// This crate consists of assertions.
#![allow(clippy::unwrap_used)]

mod chat;
mod property;
pub mod random;
pub mod rng;
mod short;
mod storage;

pub use self::{
    chat::{
        BOTH_KINDS, CallKind, Chat, Chunk, Gated, MockChat, Response, TypedCall, TypedRequest, history_error,
        input_error, read_to_finish, reply_text, request, response_text, unsaved, user_call,
    },
    property::check,
    short::{ABANDONED, NO_REPLY, UNDERSTOOD, exchanges, log, prompt, prompts, short},
    storage::{FullStore, MASTER_KEY, Remote, Storage, patient},
};
