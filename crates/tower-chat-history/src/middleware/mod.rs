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
//! - `call` opens the request, finishes this process's pending saves of the conversation, loads the window, calls the
//!   inner service, and saves when the reply is complete.
//! - An inner permit (a concurrency limit) that `poll_ready` has reserved is held across the load, and the very
//!   instance that was ready is called. If the call has to wait for another call of its conversation
//!   ([`Serialize`](crate::policy::OnConflict::Serialize)), for a save or for a summary, it gives the permit back before, and
//!   waits for readiness once more afterwards. So calls that wait in one conversation keep no other conversation from
//!   the model.
//! - Nothing is stored when the inner service fails, panics or is cancelled.
//! - Inner errors come out as they are; history's own are [`HistoryError`](crate::HistoryError) and
//!   [`Unsaved`](crate::Unsaved). All are found by downcasting the [`BoxError`](crate::BoxError).
//! - No field of a request changes but its messages.
//!
//! # In a spawned task
//!
//! If the inner service is a closure whose error is [`BoxError`](crate::BoxError), `tokio::spawn(async {
//! chat.oneshot(call).await })` fails to compile ("implementation of `From` is not general enough"), as it does with
//! tower's own `Timeout`. Name the closure's error (`Ok::<_, std::io::Error>(..)`), or write
//! `chat.oneshot(call).boxed().await` with `futures_util::FutureExt`.

mod future;
mod layer;
mod service;

pub use self::{future::ResponseFuture, layer::ChatHistoryLayer, service::ChatHistory};
