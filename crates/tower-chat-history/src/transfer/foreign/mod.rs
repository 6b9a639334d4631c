//! Conversations from other libraries.
//!
//! Each reader of this module returns an iterator over the [conversations](ForeignConversation) of a file.
//! [`import_foreign`] stores them. The page about [other libraries](self::guide) says what each format keeps.
//!
//! The readers block the thread while they read the file. Their memory depends on the longest conversation. A file of
//! JSON that is one list is read whole, and may have at most 128 MiB.

mod assistants;
mod conversation;
mod datasets;
mod langchain;
mod records;
#[cfg(feature = "transfer-sqlite")]
mod sqlite;

use tower_chat_history_core::{ConversationId, ConversationIdError, List, Prefix, Seq, StoreError, Timestamp};

#[cfg(feature = "transfer-sqlite")]
pub use self::sqlite::{agents_sqlite, langchain_sqlite, langgraph_sqlite};
pub use self::{
    assistants::assistants_threads,
    conversation::{ForeignConversation, ForeignMessage},
    datasets::{chat_ml, chat_ml_text, share_gpt},
    langchain::langchain_redis,
};
pub use crate::transfer::import::{ForeignError, Problem};
use crate::transfer::import::{ImportError, ImportReport, Log, Put, Reason, may_concern_one_conversation};

#[doc = include_str!("../../../docs/transfer/foreign.md")]
pub mod guide {}

/// The options for conversations of other formats.
#[derive(Clone, Debug)]
pub struct ForeignOptions {
    under: Prefix,
    separator: Option<String>,
    now: Timestamp,
}

impl ForeignOptions {
    /// Stores the conversations under this prefix, with their name as one more part.
    #[must_use]
    pub fn new(under: Prefix) -> Self {
        Self { under, separator: None, now: Timestamp::now() }
    }

    /// Splits the names at this text, so that each piece is a part of the id. The default is `None`: a name is one
    /// part.
    #[must_use]
    pub fn separator(mut self, separator: Option<String>) -> Self {
        self.separator = separator.filter(|separator| !separator.is_empty());
        self
    }

    /// Sets the time of exchanges whose time is not known. The default is the time at which the options were created.
    #[must_use]
    pub const fn now(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    fn id(&self, name: &str) -> Result<ConversationId, ConversationIdError> {
        let mut parts: Vec<String> = match self.under.as_id() {
            Some(under) => under.parts().map(String::from).collect(),
            None => Vec::new(),
        };
        match &self.separator {
            Some(separator) => parts.extend(name.split(separator.as_str()).map(String::from)),
            None => parts.push(name.to_owned()),
        }
        ConversationId::new(parts)
    }
}

/// Stores conversations of another format.
///
/// Messages are grouped to exchanges as by [`Conversation::import`](tower_chat_history_core::Conversation::import). The
/// id of an exchange depends only on the name of the conversation and on its messages so far. A repeated import
/// therefore stores nothing, and if the conversation has become longer, it stores what is new. Instructions at the
/// beginning of a conversation are left out, because they belong to each request.
///
/// # Errors
///
/// Returns an error if the input or the store cannot be read, or if the store cannot be written. A conversation that
/// cannot be read is not an error: the report names it.
pub async fn import_foreign(
    store: &dyn List,
    conversations: impl Iterator<Item = Result<ForeignConversation, ForeignError>> + Send,
    options: &ForeignOptions,
) -> Result<ImportReport, ImportError> {
    let mut report = ImportReport { is_whole: true, ..ImportReport::default() };
    for conversation in conversations {
        report.conversations += 1;
        match conversation {
            Ok(conversation) => {
                let line = conversation.record;
                let stored = one(store, conversation, options, &mut report).await;
                stored.map_err(|source| ImportError::Store { line, source })?;
            }
            Err(error @ ForeignError::Conversation { record, .. }) => {
                report.lines = record;
                report.skip(record, None, Reason::Foreign(error));
            }
            Err(error) => return Err(ImportError::Input(Box::new(error))),
        }
    }
    Ok(report)
}

async fn one(
    store: &dyn List,
    mut conversation: ForeignConversation,
    options: &ForeignOptions,
    report: &mut ImportReport,
) -> Result<(), StoreError> {
    let at = conversation.record;
    report.lines = at;
    let id = match options.id(&conversation.name) {
        Ok(id) => id,
        Err(error) => {
            report.skip(at, None, Reason::Id(error));
            return Ok(());
        }
    };

    report.instructions += conversation.remove_instructions() as u64;
    report.left_out += conversation.left_out;

    let mut log = match Log::open(store, id.clone(), Seq::FIRST).await {
        Ok(log) => log,
        Err(source) if may_concern_one_conversation(&source) => {
            report.skip(at, Some(&id), Reason::Store { seq: Seq::FIRST, source });
            return Ok(());
        }
        Err(error) => return Err(error),
    };

    for exchange in conversation.exchanges(options.now) {
        match log.put(store, exchange).await? {
            Put::Stored => report.stored += 1,
            Put::Present => report.present += 1,
            Put::Pruned => report.pruned += 1,
            Put::Refused(reason) => {
                report.skip(at, Some(&id), reason);
                break;
            }
        }
    }
    Ok(())
}
