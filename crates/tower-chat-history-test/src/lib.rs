//! Test doubles for services that remember: a mock LLM, as a tower service and as an HTTP server, and a store with faults.
//!
//! | double | stands for | checks |
//! |---|---|---|
//! | [`MockLlm`] | the model under a tower stack, whole or streamed | that every prompt obeys the chat rules |
//! | [`MockServer`] | an OpenAI-compatible API over HTTP, with SSE | the same, down to the bytes |
//! | [`FaultStore`] | a store that fails, loses answers, is slow or hangs | how often each operation is called |
//!
//! Both mocks answer with [`Reply`]s, from a script or by a rule ([`Replies`]), and record what they receive.
//! [`rules::remembering`] is a rule that shows whether memory works; [`check_chat_rules`] is the check itself, to use on
//! any prompt.
//!
//! # Example
//!
//! ```
//! use async_openai::{Client, config::OpenAIConfig, types::chat::*};
//! use tower_chat_history_test::{MockServer, Reply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = MockServer::start([Reply::text("Hello!")]).await?;
//! let client = Client::with_config(OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test"));
//!
//! let request = CreateChatCompletionRequestArgs::default()
//!     .model("mock")
//!     .messages(vec![ChatCompletionRequestUserMessage::from("Hi!").into()])
//!     .build()?;
//! let response = client.chat().create(request).await?;
//!
//! assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
//! assert_eq!(server.prompts()[0][0].text(), "Hi!");
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! Delays are sleeps of tokio, so a paused clock makes tests of them fast: `#[tokio::test(start_paused = true)]`. It
//! needs tokio's feature `test-util`, which this crate does not switch on: `cargo add --dev tokio --features
//! macros,rt,test-util`.
//!
//! # Features
//!
//! Both are on by default; without them [`FaultStore`] and [`check_chat_rules`] remain, and nothing of HTTP.
//!
//! - `openai`: [`MockLlm`], over the types of async-openai (without TLS).
//! - `server`: [`MockServer`], over axum.

#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation is published with all features; without some, links into them have no target.
#![cfg_attr(not(all(feature = "openai", feature = "server")), allow(rustdoc::broken_intra_doc_links))]

mod chat_rules;
mod fault;
#[cfg(feature = "openai")]
mod llm;
#[cfg(any(feature = "openai", feature = "server"))]
mod replies;
#[cfg(any(feature = "openai", feature = "server"))]
mod reply;
#[cfg(any(feature = "openai", feature = "server"))]
pub mod rules;
#[cfg(feature = "server")]
mod server;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "openai")]
pub use self::llm::{MockChat, MockChatStream, MockLlm, ReplyFuture};
#[cfg(feature = "server")]
pub use self::server::{MockServer, RecordedRequest};
pub use self::{
    chat_rules::{RuleViolation, check_chat_rules},
    fault::{Fault, FaultStore, Hold, Op},
};
#[cfg(any(feature = "openai", feature = "server"))]
pub use self::{
    replies::Replies,
    reply::{ApiFailure, Call, Choice, Reply},
};

/// Locks what a panicking test may have poisoned: nothing here is ever left half changed.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
