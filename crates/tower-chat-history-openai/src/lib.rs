//! Conversation memory for async-openai.
//!
//! [`OpenAi`] is the adapter between async-openai's own request and response types and
//! [`tower_chat_history::ChatHistoryLayer`]; [`ChatService`] and [`ChatStreamService`] make a client a tower service.
//!
//! ```no_run
//! use async_openai::{Client, types::chat::CreateChatCompletionRequest};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use tower_chat_history::{BoxError, ChatHistoryLayer, ConversationId, InConversation, MemoryStore};
//! use tower_chat_history_openai::{ChatService, OpenAi};
//!
//! # async fn example(request: CreateChatCompletionRequest) -> Result<(), BoxError> {
//! let mut chat = ServiceBuilder::new()
//!     .layer(ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new()))
//!     .service(ChatService::new(Client::new()));
//!
//! let id = ConversationId::new(["acme", "user-42"])?;
//! let response = chat.ready().await?.call(InConversation::new(id, request)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Code that calls a client directly can stay as it is: with the feature `client`, memory goes
#![cfg_attr(feature = "client", doc = "[inside of the client](client).")]
#![cfg_attr(not(feature = "client"), doc = "inside of the client.")]
//!
//! # Features
//!
//! | feature | what it brings |
//! |---|---|
//! | `tiktoken` (default), `bpe-openai` | tokens counted as OpenAI's models do |
//! | `client` | memory inside of a client |
//! | `otel` | the current trace in the headers of what [`ChatService`], [`ChatStreamService`] and the client of the feature `client` send (`traceparent`), by the program's propagator; and the metrics of [`tower_chat_history::telemetry`] |
//!
//! # What is head, what is input
//!
//! System and developer messages at the beginning of a request are the caller's instructions: they are sent first and never
//! stored. [`InConversation::few_shot_messages`](tower_chat_history::InConversation::few_shot_messages) counts few-shot messages behind them
//! as head too. Everything else in the request is new: this exchange's input, which is stored with the reply.
//!
//! # What the types cannot carry
//!
//! The log keeps every message verbatim. async-openai's structs know no fields and no content parts of other providers, so
//! what they cannot carry is left out of what is *sent* through this door, never an error:
//!
//! | in the log | what is sent |
//! |---|---|
//! | a field the types do not know, also of a call or a content part (`reasoning_content`, `cache_control`, a reply's `annotations`, a tool result's `name`) | the message without it |
//! | a content part the types do not know (`video_url`) | the message without it |
//! | the `audio` of a reply | its id |
//! | content that is neither text nor parts | its JSON as text |
//! | a message with a role the types do not know, a reply of which they carry nothing | nothing |
//!
//! [`TurnReport::downgraded`](tower_chat_history::TurnReport::downgraded) counts the messages this happened to. Of a
//! response, async-openai itself drops what it does not know before history sees it. A stream with tool calls without
//! an `index`, with custom tool calls, or with content in parts is an error in async-openai.
//!
//! **Do not use these types for reasoning models of other providers with tools.** With thinking and tools, DeepSeek
//! wants `reasoning_content` back in the request that brings the tool results, and Gemini 3 wants the signature in a
//! call's `extra_content` (documentation of November 2026). The types carry neither, so the second request of a tool
//! round fails with status 400. OpenRouter's `reasoning_details` and vLLM's reasoning are lost in the same way. Use
#![cfg_attr(feature = "client", doc = "[the client integration](client)")]
#![cfg_attr(not(feature = "client"), doc = "the client integration (feature `client`)")]
//! for DeepSeek, Gemini, OpenRouter and vLLM: it keeps and sends every byte. A log that already has such fields,
//! because the client integration wrote it, is sent without them; a warning is logged once a process if they stand
//! beside tool calls.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
#[cfg(feature = "client")]
pub mod client;
mod convert;
mod counter;
mod deep;
mod error_type;
mod fold;
mod from_typed;
mod recorded;
mod service;
mod summarizer;
mod to_typed;
#[cfg(any(feature = "tiktoken", feature = "bpe-openai"))]
pub mod tokens;
#[cfg(feature = "otel")]
mod trace_context;

pub use self::{
    adapter::{OpenAi, TypedDraft},
    convert::{Converted, from_request_messages, from_response_message, to_request_messages},
    deep::RequestTooDeep,
    recorded::to_response,
    service::{ChatService, ChatStreamService, ClientFuture},
    summarizer::summarizer,
};
