//! Test doubles for services with conversation memory: a mock LLM, and a store whose calls fail on demand. The mock LLM
//! is available as a tower service and as an HTTP server.
//!
//! | double | replaces | checks |
//! |---|---|---|
//! | [`MockLlm`] | the model at the bottom of a tower stack, unary or streaming | each prompt obeys the chat rules |
//! | [`MockServer`] | an OpenAI-compatible API over HTTP, with server-sent events | each prompt obeys the chat rules |
//! | [`FaultStore`] | the store: calls fail, lose their answers, are slow or hang, as the test determines | nothing, but counts the calls of each operation |
//! | [`SigningProvider`](signing::SigningProvider) | a provider that signs its reasoning, without a network | each prompt obeys the rules of its [own format](signing), and each signature fits |
//!
//! Both mocks answer with [`Reply`]s, from a script or by a rule ([`Replies`]), and record the requests that they
//! receive. The rule [`rules::remembering`] shows that memory works: it answers questions about the user's name.
//! [`check_chat_rules`] checks any prompt. The server also answers requests for embeddings, with vectors that count
//! words ([`MockEmbeddings`]).
//!
//! # Example
//!
//! ```
//! use async_openai::{Client, config::OpenAIConfig, types::chat::*};
//! use tower_chat_history_test::{MockServer, Reply};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = MockServer::start([Reply::text("Hello!")]).await?;
//!     let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
//!
//!     let request = CreateChatCompletionRequestArgs::default()
//!         .model("mock")
//!         .messages(vec![ChatCompletionRequestUserMessage::from("Hi!").into()])
//!         .build()?;
//!     let response = Client::with_config(config).chat().create(request).await?;
//!
//!     assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
//!     assert_eq!(server.prompts()[0][0].text(), "Hi!");
//!     server.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Time
//!
//! Delays use tokio's timer, so a paused clock makes tests of them fast: `#[tokio::test(start_paused = true)]`. The
//! paused clock needs tokio's feature `test-util`, which this crate does not enable: run `cargo add --dev tokio
//! --features macros,rt,test-util`.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `openai` | yes | [`MockLlm`], with the types of async-openai |
//! | `server` | yes | [`MockServer`], with axum |
//!
//! [`FaultStore`], [`check_chat_rules`] and [`signing`] need no feature.

#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation is published with all features. Without some of them, links to their items are broken.
#![cfg_attr(not(all(feature = "openai", feature = "server")), allow(rustdoc::broken_intra_doc_links))]

mod chat_rules;
mod fault;
#[cfg(feature = "openai")]
mod llm;
mod lock;
mod provider;
#[cfg(any(feature = "openai", feature = "server"))]
mod replies;
#[cfg(any(feature = "openai", feature = "server"))]
mod reply;
#[cfg(any(feature = "openai", feature = "server"))]
pub mod rules;
#[cfg(feature = "server")]
mod server;
pub mod signing;

#[cfg(feature = "openai")]
pub use self::llm::{MockChat, MockChatStream, MockLlm, ReplyFuture};
#[cfg(feature = "server")]
pub use self::server::{MockEmbeddings, MockServer, RecordedRequest};
pub use self::{
    chat_rules::{RuleViolation, check_chat_rules},
    fault::{Fault, FaultStore, Hold, Op},
    provider::{ChatProvider, ProviderRefusal, Refused},
};
#[cfg(any(feature = "openai", feature = "server"))]
pub use self::{
    replies::Replies,
    reply::{ApiFailure, Call, Choice, Reply},
};

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "openai"))]
#[doc = include_str!("../README.md")]
mod readme {}
