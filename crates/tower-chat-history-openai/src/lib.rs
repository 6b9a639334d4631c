//! Conversation memory for async-openai, built on [`tower_chat_history`].
//!
//! A program adds this crate only. It re-exports [`async_openai`], [`tower`], everything of [`tower_chat_history`], and
//! the stores, so their versions always match:
//!
//! ```sh
//! cargo add tower-chat-history-openai --features sqlite
//! cargo add tokio --features macros,rt-multi-thread
//! ```
//!
//! The minor version of this crate is that of async-openai.
//!
//! [`OpenAi`] adapts async-openai's requests and responses for [`ChatHistoryLayer`]. [`ChatService`] and
//! [`ChatStreamService`] turn a client into a tower service, which the layer can wrap.
//!
//! # Example
//!
#![cfg_attr(feature = "sqlite", doc = "```no_run")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use tower_chat_history_openai::{
//!     BoxError, ChatHistoryLayer, ChatService, ConversationId, InConversation, OpenAi,
//!     async_openai::{
//!         Client,
//!         types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
//!     },
//!     sqlite::SqliteStore,
//!     tower::{Service, ServiceBuilder, ServiceExt},
//! };
//!
//! #[tokio::main]
//! async fn main() -> Result<(), BoxError> {
//!     let history = ChatHistoryLayer::new(SqliteStore::open("chat.db").await?, OpenAi::new());
//!     let model = ChatService::new(Client::new());
//!     let mut chat = ServiceBuilder::new().layer(history).service(model);
//!
//!     let id = ConversationId::new(["acme", "user-42"])?;
//!     for question in ["My name is Nemo.", "What is my name?"] {
//!         let messages = vec![ChatCompletionRequestUserMessage::from(question).into()];
//!         let request = CreateChatCompletionRequest {
//!             model: "gpt-4o-mini".into(),
//!             messages,
//!             ..Default::default()
//!         };
//!         let call = InConversation::new(id.clone(), request);
//!         let response = chat.ready().await?.call(call).await?;
//!         let text = response.choices[0].message.content.as_deref();
//!         println!("{}", text.unwrap_or_default());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The second question is sent with the first exchange before it, so the model knows the name.
//!
//! # Pages
//!
//! | I want to ... | use |
//! |---|---|
//! | get whole responses | [`ChatService`] |
//! | stream responses | [`ChatStreamService`] |
#![cfg_attr(feature = "client", doc = "| add history to existing code that calls a client | [`client`] |")]
#![cfg_attr(not(feature = "client"), doc = "| add history to existing code that calls a client | `client` (feature) |")]
//! | find the conversation in the request or the running task | [`OpenAi::id_from`], [`OpenAi::id_from_task`] |
//! | resend the whole list of messages | [`OpenAi::input_mode`] |
//! | summarize old turns with a second model | [`summarizer`] |
//! | recall old messages by their meaning | `embedder`, `EmbeddingService` (feature `recall`) |
//! | count tokens exactly | `tokens::Tiktoken`, `tokens::BpeOpenai` (features) |
//! | convert messages | [`to_request_messages`], [`from_request_messages`] |
//! | answer a repeated call from the log | [`to_response`] |
//! | use DeepSeek, Gemini, OpenRouter, LiteLLM or vLLM | `client`, because [async-openai's types lose their reasoning](guide::provider_fields) |
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `rustls` | yes | TLS by rustls, for async-openai's client, PostgreSQL and Redis (which uses the program's crypto provider of rustls) |
//! | `tiktoken` | yes | `tokens::Tiktoken`: exact token counts, by tiktoken-rs |
//! | `bpe-openai` | no | `tokens::BpeOpenai`: the same counts, by bpe-openai |
//! | `client` | no | `client::OpenAiHistory`: history inside a client |
//! | `sqlite`, `postgres`, `redis` | no | the stores: `sqlite::SqliteStore`, `postgres::PostgresStore`, `redis::RedisStore` |
//! | `recall` | no | the search of [recall](tower_chat_history::recall), and `embedder`: vectors for a search by meaning |
//! | `otel` | no | the trace context in the headers of requests (`traceparent`), and [metrics](tower_chat_history::telemetry) |
//! | `config`, `encryption`, `http`, `transfer`, `transfer-sqlite` | no | the same features of [`tower_chat_history`] |
//!
//! With `tiktoken` or `bpe-openai`, the tokens of prompts are counted exactly for OpenAI's models. Without these
//! features, they are estimated.
//!
//! # Next steps
//!
//! - [`HistoryOptions`] has all options of the layer, such as budgets and summaries.
//! - [`guide::provider_fields`] lists the fields that providers require in later requests, and how they are carried.
//! - [`guide::types`] lists the parts of messages that the types cannot carry.
//! - [`Engine::drain`](tower_chat_history::Engine::drain) waits for pending saves, summaries and detached streams. Call
//!   it before the runtime ends.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
mod carry;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "recall")]
mod embeddings;
mod error_type;
mod fold;
mod from_typed;
mod recorded;
mod service;
mod summarizer;
mod to_typed;
pub mod tokens;

pub use async_openai;
pub use tower;
pub use tower_chat_history;
pub use tower_chat_history::*;
#[cfg(feature = "postgres")]
pub use tower_chat_history_postgres as postgres;
#[cfg(feature = "redis")]
pub use tower_chat_history_redis as redis;
#[cfg(feature = "sqlite")]
pub use tower_chat_history_sqlite as sqlite;

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "recall")]
pub use self::embeddings::{EmbeddingError, EmbeddingService, embedder};
pub use self::{
    adapter::{OpenAi, RequestTooDeep, TypedDraft},
    carry::CannotCarry,
    from_typed::{from_request_messages, from_response_message},
    recorded::to_response,
    service::{ChatService, ChatStreamService},
    summarizer::summarizer,
    to_typed::{Converted, to_request_messages},
};

pub mod guide {
    //! Documentation pages. These modules contain no code.

    #[cfg(feature = "client")]
    #[doc = include_str!("../docs/client-requests.md")]
    pub mod client_requests {}

    #[cfg(feature = "client")]
    #[doc = include_str!("../docs/client-responses.md")]
    pub mod client_responses {}

    #[doc = include_str!("../docs/provider-fields.md")]
    pub mod provider_fields {}

    #[doc = include_str!("../docs/types.md")]
    pub mod types {}
}
