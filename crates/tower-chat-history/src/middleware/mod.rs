//! The tower layer.
//!
//! # Order in the stack
//!
//! Put the history layer outside of the layers for retries, timeouts and concurrency limits. If it were inside a
//! retry layer, each attempt would be a separate turn. If it were inside a timeout layer, the timeout would also
//! limit the save, and could drop a call whose reply is already paid for.
//!
//! ```text
//!   caller
//!     │  InConversation { id, request }
//!   ChatHistory        one turn: loads, calls, saves
//!     │  request with its history
//!   retry              repeats the same request
//!   timeout            limits one attempt
//!   concurrency limit  see below
//!     │
//!   LLM client
//! ```
//!
//! # Steps of a call
//!
//! - `poll_ready` only polls the inner service.
//! - `call` splits the request into its parts, finishes the engine's pending saves of the conversation, loads the
//!   window, calls the inner service, and saves the exchange when the reply is complete.
//! - The instance of the inner service that was polled ready is the one that is called. A permit that its
//!   `poll_ready` reserved (for example of a concurrency limit) is held during the load. If the call must wait for a
//!   save, a summary or another call of its conversation ([`Serialize`](crate::policy::OnConflict::Serialize)), it
//!   releases the permit first, and polls for readiness again after the wait. So does a call whose request is not
//!   complete yet, such as one with a slow body. Calls that wait therefore never block other conversations.
//! - If the provider refuses the call because it cannot read encrypted parts of the history any more, and the adapter
//!   reports that as a [`Repair`](crate::adapt::Repair), the layer polls for readiness again and calls the inner service
//!   once more, without these parts. It returns the response of that call, whatever it is.
//! - If the inner service fails or panics, or its future is dropped, nothing is stored.
//! - Errors of the inner service are returned unchanged. The layer's own errors are listed in [error](crate::error).
//!   To handle them, downcast the [`BoxError`](crate::BoxError).
//! - The layer changes only the messages of a request, and its reply limit if the
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
