//! The tower layer.
//!
//! # Order in the stack
//!
//! Put the history outside of every layer that acts on one attempt. Inside a retry layer, each attempt would be a
//! turn of its own. Inside a timeout layer, a slow save would be cut off although the reply is already paid for.
//!
//! ```text
//!   caller
//!     │  InConversation { id, request }
//!   ChatHistory        loads, makes the prompt, calls, saves once
//!     │  request with its history
//!   retry              each attempt is the same request
//!   timeout            for one attempt
//!   concurrency limit  see below
//!     │
//!   LLM client
//! ```
//!
//! # Steps of a call
//!
//! - `poll_ready` only polls the inner service.
//! - `call` opens the request, finishes this process's pending saves of the conversation, loads the window, calls the
//!   inner service, and saves the exchange when the reply is complete.
//! - A permit that `poll_ready` has reserved (of a concurrency limit, for example) is held during the load, and the
//!   instance that was ready is called. If the call must wait for another call of its conversation
//!   ([`Serialize`](crate::policy::OnConflict::Serialize)), for a save or for a summary, it releases the permit first,
//!   and waits for readiness again afterwards. Waiting calls of one conversation therefore never block other
//!   conversations.
//! - If the inner service fails, panics or is cancelled, nothing is stored.
//! - Errors of the inner service are returned unchanged. The layer's own are [`HistoryError`](crate::HistoryError) and
//!   [`Unsaved`](crate::Unsaved). To get them, downcast the [`BoxError`](crate::BoxError); see [error](crate::error).
//! - Of a request, only the messages change, and the limit of the reply if the
//!   [budget](crate::ContextBudget::shrink_reply_to) lowers it.
//!
//! # In a spawned task
//!
//! If the inner service is a closure whose error is [`BoxError`](crate::BoxError),
//! `tokio::spawn(async { chat.oneshot(call).await })` does not compile ("implementation of `From` is not general
//! enough"). The same happens with tower's own `Timeout`. Give the closure a concrete error
//! (`Ok::<_, std::io::Error>(..)`), or write `chat.oneshot(call).boxed().await` with `futures_util::FutureExt`.

mod future;
mod layer;
mod service;

pub use self::{future::ResponseFuture, layer::ChatHistoryLayer, service::ChatHistory};
