//! Conversation memory for LLM services, as a tower layer.
//!
//! A service wraps its LLM client in one [layer](ChatHistoryLayer). Every call then carries its conversation, valid and
//! within bounds, and is saved back exactly once when the reply is complete.
//!
//! ```
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use tower_chat_history::{ChatHistoryLayer, ConversationId, InConversation, MemoryStore};
//! # use tower_chat_history::{adapt::*, BoxError, Message, Reply, TurnInput};
//! # #[derive(Clone)] struct MyAdapter;
//! # struct Asked(Message);
//! # impl Draft for Asked {
//! #     type Request = Vec<Message>;
//! #     fn complete(self, prompt: Prompt<'_>) -> Result<Completed<Vec<Message>>, BoxError> {
//! #         Ok(Completed::new(prompt.window.iter().cloned().chain([self.0]).collect(), 0))
//! #     }
//! # }
//! # impl AdaptRequest<InConversation<&'static str>> for MyAdapter {
//! #     type Request = Vec<Message>;
//! #     type Draft = Asked;
//! #     async fn open(&self, call: InConversation<&'static str>) -> Result<Opened<Asked, Vec<Message>>, BoxError> {
//! #         let (scope, text) = call.into_parts();
//! #         let asked = Message::user(text);
//! #         Ok(match scope {
//! #             CallScope::Conversation(id, _) => Opened::Turn(TurnInput::new(id, [asked.clone()]), Asked(asked)),
//! #             CallScope::Stateless => Opened::PassThrough(vec![asked]),
//! #         })
//! #     }
//! # }
//! # impl ReadResponse<String> for MyAdapter {
//! #     type Response = String;
//! #     fn pass(&self, response: String) -> String { response }
//! #     async fn read(&self, response: String, _: usize) -> Result<Read<String>, BoxError> {
//! #         let reply = Reply::new(Message::assistant(&response));
//! #         Ok(Read::whole(response, reply))
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let my_llm = tower::service_fn(|messages: Vec<Message>| async move {
//! #     Ok::<_, std::io::Error>(format!("I got {} messages", messages.len()))
//! # });
//! let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), MyAdapter)).service(my_llm);
//!
//! let id = ConversationId::new(["acme", "user-42", "support-7"])?;
//! let first = chat.ready().await?.call(InConversation::new(id.clone(), "Hi")).await?;
//! let second = chat.ready().await?.call(InConversation::new(id, "And again")).await?;
//! assert_eq!([first, second], ["I got 1 messages", "I got 3 messages"]);
//! # Ok(())
//! # }
//! ```
//!
//! `tower-chat-history-openai` has the adapter for async-openai, `tower-chat-history-sqlite` a store that survives,
//! `tower-chat-history-postgres` and `tower-chat-history-redis` stores for many processes: put a [`CachedStore`] around these.
//!
//! Where to read on: [the layer and its place in the stack](middleware), [the defaults](HistoryOptions),
//! [what is guaranteed](guarantees), [the terms](glossary), [what happens in every case](cases), [what is sent](view),
//! [spans and metrics](telemetry), [writing an adapter](adapt), [the engine without tower](engine).

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
mod cached;
mod call;
#[doc(hidden)] // It is shown in `adapt`.
pub mod completion;
mod discard;
pub mod engine;
mod error;
mod memory;
pub mod middleware;
mod open_calls;
mod options;
mod policy;
mod report;
mod routed;
mod spawn;
pub mod summary;
pub mod telemetry;

#[doc = include_str!("../docs/cases.md")]
pub mod cases {}
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc(inline)]
pub use tower_chat_history_context::{
    ContextBudget, InputError, InputMode, OpenCalls, RequestInfo, TranscriptError, View, budget, tokens, trim,
    trim::trim_messages, view,
};
pub use tower_chat_history_core::backend::{PruneScan, RecordError, Scan, WindowScan};
pub use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, Compaction, CompactionError, CompactionVersion, Content, Conversation,
    ConversationId, ConversationIdError, Cut, Derived, Exchange, ExchangeId, ExchangeIdError, Expect, ForeignShape,
    ForkError, HistoryStore, HistoryStoreExt, ImportError, Incarnation, KnownState, Load, LoadLimit, LoadLimitError,
    Loaded, Message, MessageError, NewestRound, Page, PageBack, Profile, ProfileError, Prune, PruneTo, Pruned,
    Recorded, Revision, RevisionError, Role, Seq, StoreError, Summary, Timestamp, TokenCounts, ToolCall, Truncate,
    Truncated, Usage, Window, nested,
};

#[cfg(feature = "testing")]
pub use tower_chat_history_core::{conformance_tests, testing};

#[doc(inline)]
pub use self::engine::stream;
pub use self::{
    adapt::{
        MissingConversation,
        extract::{in_conversation, stateless},
    },
    cached::CachedStore,
    call::{CallOptions, CallScope, InConversation, Reply, TurnInput},
    engine::{Commit, Engine, Retention, StoredResults, ToolResults, Turn, stream::RecordedStream},
    error::{BoxError, DrainError, HistoryError, SaveError, StoreResultsError, StreamStalled, Unsaved},
    memory::MemoryStore,
    middleware::{ChatHistory, ChatHistoryLayer},
    open_calls::ConversationExt,
    options::HistoryOptions,
    policy::{
        DetachLimits, OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, OnSaveFailure, OnTranscriptMismatch,
        QueueLimits,
    },
    report::{
        Fallback, HistoryStatus, NotStored, Outcome, ReportHandle, ResponseShape, SinceLast, TurnReport, TurnTokens,
    },
    routed::RoutedStore,
    spawn::{Spawn, TokioSpawn},
    summary::{Summaries, Summarizer},
    telemetry::Telemetry,
};
