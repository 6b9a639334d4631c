//! Conversation memory for LLM services, as a tower layer.
//!
//! A service wraps its LLM client in one [layer](ChatHistoryLayer). The layer loads the conversation's history, fits it
//! to the model's context window, calls the model with it, and saves the exchange once the reply is complete.
//!
//! ```
//! use serde_json::{Value, json};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_chat_history::{ChatHistoryLayer, ConversationId, InConversation, MemoryStore, adapt::Json};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), BoxError> {
//!     // A model that answers with the number of messages it receives.
//!     let model = service_fn(|request: Value| async move {
//!         let count = request["messages"].as_array().map_or(0, Vec::len);
//!         let message = json!({"role": "assistant", "content": format!("{count} received")});
//!         Ok::<_, BoxError>(json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
//!     });
//!     let history = ChatHistoryLayer::new(MemoryStore::new(), Json::new());
//!     let mut chat = ServiceBuilder::new().layer(history).service(model);
//!
//!     let id = ConversationId::new(["acme", "user-42", "support-7"])?;
//!     for answer in ["1 received", "3 received"] {
//!         let request = json!({"messages": [{"role": "user", "content": "Hi"}]});
//!         let call = InConversation::new(id.clone(), request);
//!         let response = chat.ready().await?.call(call).await?;
//!         assert_eq!(response["choices"][0]["message"]["content"], answer);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Next steps
//!
//! | page | contents |
//! |---|---|
//! | [middleware] | the layer and its place in the stack |
//! | [adapt] | adapters for request types: `Json`, closures, or your own |
//! | [writing an adapter](adapt::writing_an_adapter) | a complete adapter for your own types, step by step |
//! | [`HistoryOptions`] | all options with their defaults |
//! | [budget], [tokens] | limits of the prompt, and token counters |
//! | [policy] | what happens on conflicts, failures and interruptions |
//! | [summary] | summaries by a second model |
//! | [store] | stores, and reading and editing conversations |
//! | [error], [report] | the errors of calls, and the reports of turns |
//! | [telemetry] | spans, attributes and metrics |
//! | [engine] | the same without tower |
//! | [trim], [view] | trimming lists of messages by hand, and making them valid prompts |
//! | [guarantees], [cases] | the promises, and the outcome of every case |
//! | [glossary] | the terms |
//!
//! The root has the names that most programs use. Everything else is in the modules.
//!
//! # Other crates
//!
//! | crate | contents |
//! |---|---|
//! | `tower-chat-history-openai` | the integration with async-openai |
//! | `tower-chat-history-sqlite` | a store in one file |
//! | `tower-chat-history-postgres`, `tower-chat-history-redis` | stores for many processes; put a [`CachedStore`] around them |
//! | `tower-chat-history-test` | a mock model and a store that fails on demand |
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `http` | extractors for the conversation id of an `http::Request` (`adapt::extract`) |
//! | `otel` | metrics, and the trace context in the model's call |
//! | `testing` | the conformance suite for stores (`testing`) |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
mod cached;
mod call;
#[doc(hidden)] // It is shown in `adapt`.
pub mod completion;
mod discard;
pub mod engine;
pub mod error;
mod memory;
pub mod middleware;
mod options;
pub mod policy;
pub mod report;
mod routed;
mod spawn;
pub mod store;
pub mod summary;
pub mod telemetry;

#[doc = include_str!("../docs/cases.md")]
pub mod cases {}
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc(inline)]
pub use tower_chat_history_context::{ContextBudget, budget, tokens, trim, view};
#[doc(inline)]
pub use tower_chat_history_core::{
    Conversation, ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt, Message, Role, StoreError,
};
#[cfg(feature = "testing")]
pub use tower_chat_history_core::{conformance_tests, testing};

#[doc(inline)]
pub use self::{
    adapt::extract::in_conversation,
    cached::CachedStore,
    call::{CallOptions, InConversation, Reply, TurnInput},
    engine::{Engine, Retention, Turn},
    error::{BoxError, HistoryError, MissingConversation, SaveError, Unsaved},
    memory::MemoryStore,
    middleware::{ChatHistory, ChatHistoryLayer},
    options::{ContextOptions, HistoryOptions, Policies},
    report::{ReportHandle, TurnReport},
    routed::RoutedStore,
    summary::Summaries,
    telemetry::Telemetry,
};
