//! The tower layer.
//!
//! # Order in the stack
//!
//! History stands outside of everything that acts on one attempt. Were it inside a retry, a repeated attempt would be a
//! second turn; were it inside a timeout, a slow save would be cut off with the reply already paid for.
//!
//! ```text
//!   caller
//!     │  InConversation { id, request }
//!   ChatHistory        loads, keeps valid, calls, saves once
//!     │  request with its history
//!   retry              each attempt is the same request
//!   timeout            for one attempt
//!   concurrency limit  see below
//!     │
//!   LLM client
//! ```
//!
//! # When what happens
//!
//! - `poll_ready` asks the inner service, nothing else.
//! - `call` opens the request, finishes this process's pending saves of the conversation, loads the window, calls the very
//!   instance that was ready, and saves when the reply is complete. An inner permit (a concurrency limit) is therefore held
//!   across load and save.
//! - Nothing is stored when the inner service fails, panics or is cancelled.
//! - Inner errors come out as they are; history's own are [`HistoryError`](crate::HistoryError) and
//!   [`SaveFailed`](crate::SaveFailed). All are found by downcasting the [`BoxError`](crate::BoxError).
//! - No field of a request changes but its messages.

mod future;
mod layer;
mod service;

pub use self::{future::ResponseFuture, layer::ChatHistoryLayer, service::ChatHistory};
