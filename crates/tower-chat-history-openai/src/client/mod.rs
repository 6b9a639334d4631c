//! Memory inside of an async-openai client.
//!
//! Code that calls `client.chat().create(..)` or `create_stream(..)` stays as it is: the client is built by
//! [`OpenAiHistory`], and each call names its conversation in a header.
//!
//! ```no_run
//! use async_openai::{config::OpenAIConfig, traits::RequestOptionsBuilder, types::chat::CreateChatCompletionRequest};
//! use tower_chat_history::{BoxError, ConversationId, MemoryStore};
//! use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
//!
//! # async fn example(request: CreateChatCompletionRequest) -> Result<(), BoxError> {
//! let client = OpenAiHistory::new(MemoryStore::new()).client(OpenAIConfig::new());
//!
//! let id = ConversationId::new(["acme", "user-42"])?;
//! let response = client.chat().header(CONVERSATION_ID, id.to_string())?.create(request).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The stack
//!
//! ```text
//!   client.chat().create(..), create_stream(..), any other call
//!     │  HTTP request, with the headers of this module
//!   errors       inner ones are what they were
//!     │
//!   ChatHistory  loads, puts the window into the body, saves once
//!     │  HTTP request, without those headers
//!   retry        async-openai's own: 429, server errors, Retry-After
//!     │
//!   transport    reqwest
//! ```
//!
//! For other layers in between, build the stack by hand, around [`OpenAiHistory::layer`], with [`openai_error`] outermost.
//! Beware of async-openai's `Client::with_http_client` and `with_http_service`: each replaces the whole stack, history and
//! retries included. Set the HTTP client [here](OpenAiHistory::http_client) instead.
//!
//! # What a call can say
//!
//! | header | value | default |
//! |---|---|---|
//! | [`CONVERSATION_ID`] | a conversation id | that of the running task |
//! | [`EXCHANGE_ID`] | an exchange id | a generated one |
//! | [`STATELESS`] | `true`: no history, nothing stored | `false` |
//! | [`DONT_STORE`] | `true`: history, nothing stored | `false` |
//! | [`FEW_SHOT_MESSAGES`] | how many messages are few-shot examples | the client's |
//!
//! A call with another value in one of them, or with a header that is set twice, fails with
//! [`HeaderError`](tower_chat_history::error::HeaderError). Of calls that pass through, the headers are removed unread.
//!
//! What else [`CallOptions`] has is not to be had by header. Message text does not belong into headers, which proxies log, so
//! there is no `store_instead`; and a header cannot bring a report back. For that there is [`HistoryOptions::on_turn`]: the
//! hook gets the report of every turn, with its conversation and its exchange.
//!
//! # What is touched
//!
//! A chat call is a POST to a path that ends in `/chat/completions`, Azure's deployments included. Every other call passes
//! through, as does a chat call marked [`STATELESS`]; all lose the headers of this module on the way. A chat call without
//! [`CONVERSATION_ID`] belongs to the conversation that the [running task is in](tower_chat_history::in_conversation); without
//! that either, it fails with [`MissingConversation`](tower_chat_history::MissingConversation). A body that history cannot
//! read is a [`CallError`].
//!
//! `responses()` and `threads()` have no memory here. The first such call of a process is logged as a warning, unless
//! it is marked [`STATELESS`].
//!
//! With the feature `otel`, every request gets the current span's context as headers, by the program's
//! [propagator](tower_chat_history::telemetry): the model's call goes on in the turn's trace.
//!
//! Of a chat call's body the messages change and no other byte. What is sent is its head (the system and developer messages
//! it begins with, and few-shot examples that are counted), the window as it is stored, and the input as it was written.
//! The input is by default what comes after the last assistant message: callers that keep their own list of messages send
//! all of it, and what stands before the input is compared with the log and not sent again. See [`InputMode`].
//!
//! # What is stored
//!
//! Answers of status 2xx; others are handed on, and nothing is stored. The server's content type says whether the
//! answer is whole or a stream of events; where it says neither, the first byte does. Both are read by the rules of
//! [`completion`](tower_chat_history::adapt::completion).
//!
//! - **Whole**: it is read to its end (as the client does itself, without a bound), and the message of the choice with
//!   the least index is stored byte for byte. When the save fails, the error has the response:
//!   `Unsaved<reqwest::Response>` in `OpenAIError::Boxed`.
//! - **Events** pass as they come, cut as they come. The message is put together from its deltas. The bytes that
//!   complete `[DONE]` come when the exchange is stored. An error event, or one that cannot be read, is an
//!   [interruption](tower_chat_history::policy::OnInterruption) unless the reply was complete before. So is a line or an event
//!   of more than 16 MiB: it is not kept, but passes.
//! - **In another shape**: it is handed on, and nothing is stored. The report says
//!   [`UnreadableReply`](tower_chat_history::report::NotStored::UnreadableReply), and a warning is logged.
//! - **Encoded**: a body with a `content-encoding` that the HTTP client has not undone is handed on as it came, and
//!   nothing is stored, as for another shape. A client that undoes the encoding (features of reqwest) also removes the
//!   header.
//!
//! HTTP trailers of an answer are not handed on.
//!
//! Usage is in a stream only if it is asked for (`stream_options.include_usage`).

mod adapter;
mod body;
mod error;
mod fields;
mod fold;
#[cfg(test)]
mod fold_tests;
mod headers;
mod history;
mod request;
mod response;
mod service;
mod sse;

#[cfg(doc)]
use tower_chat_history::{CallOptions, HistoryOptions, engine::InputMode};

pub use self::{
    adapter::OpenAiHttp,
    error::CallError,
    headers::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, STATELESS},
    history::OpenAiHistory,
    request::HttpDraft,
    service::openai_error,
};
