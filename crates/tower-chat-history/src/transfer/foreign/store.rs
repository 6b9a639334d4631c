//! Storing conversations of other formats.

use tower_chat_history_core::{ConversationId, ConversationIdError, List, Prefix, Seq, Timestamp};

use super::conversation::ForeignConversation;
use crate::transfer::{
    import::{ImportError, ImportReport, Log, Put, Reason, may_concern_one_conversation},
    problem::ForeignError,
};

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
        let under = self.under.as_id().map(|id| id.parts().map(String::from).collect::<Vec<_>>()).unwrap_or_default();
        match &self.separator {
            Some(separator) => {
                ConversationId::new(under.iter().map(String::as_str).chain(name.split(separator.as_str())))
            }
            None => ConversationId::new(under.iter().map(String::as_str).chain([name])),
        }
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
            Ok(conversation) => one(store, conversation, options, &mut report).await?,
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
) -> Result<(), ImportError> {
    let at = conversation.record;
    report.lines = at;
    let failed = |source| ImportError::Store { line: at, source };
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
        Err(error) => return Err(failed(error)),
    };
    for exchange in conversation.exchanges(options.now) {
        match log.put(store, exchange).await.map_err(failed)? {
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
