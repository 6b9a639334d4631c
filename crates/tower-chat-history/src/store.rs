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
    CompactionVersion, Content, Conversation, ConversationId, ConversationIdError, Cursor, CursorError, Cut, Cuts,
    Derived, Epoch, Erase, EraseError, EraseExt, EraseQuotesError, ErasedPage, ErasedQuotes, Erasure, Exchange,
    ExchangeId, ExchangeIdError, Expect, ExpireError, Expiry, ExpiryCursor, ExpiryRule, ExpiryRun, FailedConversation,
    ForeignShape, Fork, ForkError, ForkTo, Forked, HistoryStore, HistoryStoreExt, ImportError, Incarnation, KnownState,
    Labels, LabelsError, LabelsOutcome, LabelsVersion, List, ListExt, Listed, Listing, Load, LoadLimit, LoadLimitError,
    Loaded, Message, MessageError, Metadata, MetadataError, Newest, NewestRound, Origin, Page, PageBack, Positions,
    Prefix, Profile, ProfileError, PromptDigests, Provenance, Prune, PruneTo, Pruned, Recalled, Receipt, Recorded,
    Removed, Revision, RevisionError, Role, Scrubbed, Sealed, SealedError, Seq, StoreError, Summary, Timestamp,
    TokenCounts, ToolCall, Truncate, Truncated, Usage, Window, erase_quotes, management,
};

#[doc(inline)]
pub use crate::{
    cached::CachedStore,
    memory::MemoryStore,
    routed::{OtherStore, Route, RoutedStore, StoreList, StoreListError},
};
