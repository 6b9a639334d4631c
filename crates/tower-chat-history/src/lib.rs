//! Conversation memory for LLM services, as a tower layer.
//!
//! A program wraps its LLM client in one [layer](ChatHistoryLayer). For each call, the layer loads the conversation's
//! history, trims it to the model's context window, and calls the model with it. When the reply is complete, the layer
//! saves the exchange: the new messages and the reply.
//!
//! ```
//! use serde_json::{Value, json};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_chat_history::{ChatHistoryLayer, ConversationId, InConversation, MemoryStore};
//! use tower_chat_history::adapt::Json;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), BoxError> {
//!     // In place of an LLM client: it answers with the number of messages that it receives.
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
//! To call a real model with async-openai, add `tower-chat-history-openai` instead of this crate: it re-exports
//! everything of this crate, and the stores. To call one with an HTTP client, enable the feature `http`. For any other
//! client, write an [adapter](adapt). To keep conversations when the process ends, replace the [`MemoryStore`] with
//! another [store](#other-crates).
//!
//! Calls need a tokio runtime with a timer. Before the runtime shuts down, [drain](Engine::drain) the layer's engine.
//!
//! # Pages
//!
//! | page | contents |
//! |---|---|
//! | [middleware] | the layer and its place in the stack |
//! | [adapt] | adapters for request types: `Json`, closures, or your own |
//! | [writing an adapter](adapt::writing_an_adapter) | a complete adapter for your own types, step by step |
//! | [`HistoryOptions`] | all options with their defaults |
//! | [budget], [tokens] | the limits of a prompt, and the token counters |
//! | [compat] | what providers, servers and chat templates accept, and how prompts are adapted to them |
//! | [limits] | the most that the conversations of a tenant may use |
//! | [policy] | the policies for conflicts, failures and interruptions |
//! | [summary] | summaries by a second model |
//! | [recall] | showing messages again that left the window |
//! | [store] | stores, and reading and editing conversations |
//! | [error], [report] | the errors of calls, and the reports of turns |
//! | [telemetry] | spans, attributes and metrics |
//! | [explain] | what the model saw when it made a stored reply |
//! | [engine] | the engine inside the layer, for programs without tower |
//! | [trim], [view] | functions that trim a list of messages, or turn it into a valid prompt, without a store |
//! | [guarantees], [cases] | the guarantees with their conditions, and the outcome of every case |
//! | [glossary] | the terms, with a worked example |
//! | [readers] | how a conversation goes on with another provider, model or chat template |
//! | [providers] | the providers by integration: what is sent again, and what they refuse |
//!
//! The crate root has the items that most programs use. All others are in the modules.
//!
//! # Other crates
//!
//! | crate | contents |
//! |---|---|
//! | `tower-chat-history-openai` | the integration with async-openai, which re-exports this crate and the stores |
//! | `tower-chat-history-sqlite` | a store in one file |
//! | `tower-chat-history-postgres`, `tower-chat-history-redis` | stores for several processes; wrap them in a [`CachedStore`] |
//! | `tower-chat-history-cli` | the program `chat-history`: lists, shows, exports, imports and erases conversations |
//! | `tower-chat-history-test` | a mock model, and a store that fails on demand, for tests |
//! | `tower-chat-history-core` | the contract of stores, with a guide to write one |
//! | `tower-chat-history-conformance` | tests for your own store or message format |
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `config` | options as data of serde, for a configuration file (`config`) |
//! | `encryption` | encryption at rest around any store, with a data key for each person (`encryption::EncryptedStore`) |
//! | `http` | the layer over `http::Request`, for HTTP clients and proxies without an SDK (`http::HttpHistory`), and extractors for the conversation id of such a request (`adapt::extract`) |
//! | `otel` | metrics, and functions that write the trace context into the headers of model calls ([telemetry]) |
//! | `recall` | [recall] by a search in the log (`recall::LogRecall`), by words and by meaning, and as a tool |
//! | `transfer` | export and import of conversations as JSON lines, and import from other libraries (`transfer`) |
//! | `transfer-sqlite` | `transfer`, and import from the SQLite files of LangChain, LangGraph and openai-agents |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
mod cached;
mod call;
pub mod compat {
    //! The readers of prompts: providers, servers and chat templates, and what they accept.
    //!
    //! A provider that made a reply takes it back. Another provider, model or chat template often refuses it. So each
    //! prompt is adapted to its reader. The log stays as it is, and so do the caller's own head and input.
    //!
    //! # Without a row
    //!
    //! Fields that only their maker accepts are sent to that maker alone: `reasoning_content`, `reasoning`,
    //! `reasoning_details`, `thinking_blocks`, `extra_content`, any other field that the format does not define, and
    //! fields without a value, such as `"refusal":null`. The maker is known by the [origin](crate::store::Origin) and
    //! the host of the call, or else by the family of the model. If nothing is known about one of the two, the
    //! fields stay.
    //!
    //! # With a row
    //!
    //! [`Readers`] is the table of what is refused, by provider, host and model. For the reader of a call,
    //! [`Compat`] says how the log is rendered:
    //!
    //! | flag | what is sent |
    //! |---|---|
    //! | [`system`](Compat::system) | a system or developer message within the log is a message of the user |
    //! | [`no_developer`](Compat::no_developer) | a developer message is a system message |
    //! | [`alternates`](Compat::alternates) | a constant message stands between two of the user, or two replies |
    //! | [`begins_with_user`](Compat::begins_with_user) | a constant message of the user stands before a reply at the beginning |
    //! | [`text_content`](Compat::text_content) | a list of texts is one text |
    //! | [`plain_fields`](Compat::plain_fields) | fields that the format does not define are left out for every maker, apart from the reader's own `reasoning` |
    //! | [`reasoning`](Compat::reasoning) | an empty `reasoning_content` is added, or reasoning is left out |
    //! | [`call_ids`](Compat::call_ids) | an id of another form is replaced by a digest of it, in the call and in its result |
    //! | [`single_calls`](Compat::single_calls) | each call of a reply is a reply of its own, followed by its result |
    //! | [`media`](Compat::media) | the oldest media are a placeholder |
    //!
    //! Each message is rendered by itself and by the messages before it, so prompts for one reader begin with each
    //! other, and a provider's cache stays valid. There is one exception: several calls that wait for their results
    //! are one reply until the results are stored.

    #[doc(inline)]
    pub use tower_chat_history_core::{
        CallIdForm, Compat, LearnedReader, LearnedReaders, MadeBy, MediaCompat, ReasoningField, SystemMessages,
    };

    #[doc(inline)]
    pub use crate::context::compat::{ReaderRow, Readers};
}
#[doc(hidden)] // It is shown in `adapt`.
pub mod completion;
#[cfg(feature = "config")]
pub mod config;
mod context;
pub mod dialect;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod engine;
pub mod error;
pub mod explain;
#[cfg(feature = "http")]
pub mod http;
pub mod limits;
mod memory;
pub mod middleware;
mod options;
pub mod policy;
pub mod recall;
pub mod refusal;
pub mod report;
mod routed;
pub mod summary;
pub mod telemetry;
mod timeout;
#[cfg(feature = "transfer")]
pub mod transfer;

pub mod store {
    //! Stores, and the types of their contract.
    //!
    //! | to | use |
    //! |---|---|
    //! | read, import, edit or clear a conversation | [`HistoryStoreExt::conversation`], [`Conversation`] |
    //! | list conversations, for example for a sidebar | [`List`], [`ListExt::newest`] |
    //! | erase everything of a user, with a receipt | [`EraseExt::erase_all`] |
    //! | erase conversations that are idle or old | [`Expiry`] |
    //! | keep a record of erasures, exports and edits | [`management`] |
    //! | list the open tool calls | [`Conversation::open_calls`] |
    //! | keep the history in memory | [`MemoryStore`] |
    //! | cache the windows of a store, which other processes may use too | [`CachedStore`] |
    //! | distribute conversations over several stores | [`RoutedStore`] |
    //! | keep the history in a file or a database | the crates `tower-chat-history-sqlite`, `-postgres` and `-redis` |
    //! | handle errors of stores | [`StoreError`] |
    //! | write a store | the crate `tower-chat-history-core`: it has a guide, and tools for authors in its module `backend` |

    #[doc(inline)]
    pub use tower_chat_history_core::{
        Added, Append, Appended, ByStore, Citation, Compact, CompactOutcome, Compaction, CompactionError,
        CompactionVersion, Content, Conversation, ConversationId, ConversationIdError, Cursor, Cut, Cuts, Derived,
        Epoch, Erase, EraseExt, ErasedPage, ErasedQuotes, Erasure, Exchange, ExchangeId, Expect, Expiry, ExpiryCursor,
        ExpiryRule, ExpiryRun, FailedConversation, ForeignShape, Fork, ForkError, ForkTo, Forked, HistoryStore,
        HistoryStoreExt, ImportError, Incarnation, InvalidValue, KnownState, Labels, LabelsOutcome, LabelsVersion,
        List, ListExt, Listed, Listing, Load, LoadLimit, LoadLimitError, Loaded, Message, MessageError, Metadata,
        Newest, NewestRound, Origin, Page, PageBack, Positions, Prefix, Profile, PromptDigests, Provenance, Prune,
        PruneTo, Pruned, Recalled, Receipt, Recorded, Removed, Revision, Role, Scrubbed, Sealed, Seq, Stopped,
        StoreError, Summary, Timestamp, TokenCounts, ToolCall, Truncate, Truncated, Usage, Window, erase_quotes,
        management,
    };

    #[doc(inline)]
    pub use crate::{
        cached::CachedStore,
        memory::MemoryStore,
        routed::{OtherStore, RoutedStore},
    };
}

#[doc = include_str!("../docs/cases.md")]
pub mod cases {}
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
#[doc = include_str!("../docs/providers.md")]
pub mod providers {}

#[doc = include_str!("../docs/readers.md")]
pub mod readers {}

#[doc(inline)]
pub use tower_chat_history_core::{
    Conversation, ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt, Message, Metadata, Role,
    StoreError,
};

#[doc(inline)]
pub use self::{
    adapt::extract::in_conversation,
    cached::CachedStore,
    call::{CallOptions, InConversation, Reply, TurnInput},
    context::{ContextBudget, budget, tokens, trim, view},
    engine::{Engine, Retention, Turn},
    error::{BoxError, HistoryError, MissingConversation, SaveError, Unsaved},
    memory::MemoryStore,
    middleware::{ChatHistory, ChatHistoryLayer},
    options::{ContextOptions, HistoryOptions},
    policy::Policies,
    report::{ReportHandle, TurnReport},
    routed::RoutedStore,
    summary::Summaries,
    telemetry::Telemetry,
};
