//! Import of messages from elsewhere.

use super::Conversation;
use crate::{
    conversation_id::ConversationId,
    exchange::Recorded,
    management::TARGET,
    message::{ForeignShape, Message},
    split::{Tail, exchanges},
    store::{Append, Appended, Expect, HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Adds existing messages to the end of the conversation. Returns the number of exchanges added.
    ///
    /// Each assistant message ends an exchange. Messages after the last one become an exchange without a reply. Tool
    /// results that answer open calls continue the turn of these calls. An exchange of only tool results and blank
    /// replies never opens a turn, because it does not close open calls. Nothing else is checked. A log that breaks the
    /// chat rules is stored as it is. Prompts are made from a repaired view of it.
    ///
    /// To import exchanges with times, models or [metadata](crate::Exchange::metadata) of their own,
    /// [append](HistoryStore::append) them one by one.
    ///
    /// Each exchange is one write. The import must be the only writer: if another caller appends during the call,
    /// it stops with [`StoreError::Conflict`], and [`ImportError::Store`] says how much was imported. A write whose
    /// outcome is unknown is repeated once under the same id.
    ///
    /// # Errors
    ///
    /// - [`ImportError::Instructions`] if the messages start with system or developer messages, which belong to
    ///   each request and not to the history.
    /// - [`ImportError::Foreign`] if a message has the shape of another API.
    /// - [`ImportError::Store`] if the store fails.
    #[doc(alias = "add_messages")]
    pub async fn import(&self, messages: impl IntoIterator<Item = Message> + Send) -> Result<usize, ImportError> {
        let messages: Vec<Message> = messages.into_iter().collect();
        let instructions = messages.iter().take_while(|message| message.is_instruction()).count();
        if instructions > 0 {
            return Err(ImportError::Instructions { count: instructions });
        }
        let mut shapes = messages.iter().map(Message::foreign_shape).enumerate();
        if let Some((position, shape)) = shapes.find_map(|(position, shape)| Some((position, shape?))) {
            return Err(ImportError::Foreign { position, shape });
        }
        let (mut imported, mut written) = (0, 0);
        let at = |exchanges, messages| move |source| ImportError::Store { exchanges, messages, source };
        let end = self.end_of_rounds().await.map_err(at(0, 0))?;
        let mut expect = end.as_ref().map_or(Expect::Absent, |(revision, _)| Expect::Exactly(*revision));
        let mut tail = Tail::default();
        end.iter().flat_map(|(_, turn)| turn).for_each(|recorded| tail.push(recorded));
        for messages in exchanges(messages) {
            let exchange = tail.exchange(messages);
            let append = Append::new(expect, exchange.clone());
            let appended = settle(self.store, self.id, append).await.map_err(at(imported, written))?;
            expect = Expect::Exactly(appended.revision);
            imported += 1;
            written += exchange.messages.len();
            tail.push(&Recorded::new(appended.seq, exchange));
        }
        tracing::info!(target: TARGET, action = "import", conversation = %self.id, exchanges = imported);
        Ok(imported)
    }
}

/// Appends, and repeats the append once if its outcome is unknown.
async fn settle<S: HistoryStore + ?Sized>(
    store: &S,
    id: &ConversationId,
    append: Append,
) -> Result<Appended, StoreError> {
    match store.append(id, append.clone()).await {
        Err(error) if error.is_retryable() => store.append(id, append).await,
        appended => appended,
    }
}

/// The error for a log that was not imported, or not completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The log starts with system or developer messages. Nothing was imported.
    #[error("the log starts with {count} system or developer messages: send them with each request instead")]
    Instructions {
        /// The number of these messages.
        count: usize,
    },
    /// A message has the shape of an API other than chat completions. Nothing was imported.
    #[error("message {position} of the log is not in the chat-completions format: {shape}")]
    Foreign {
        /// The index of the message, counted from 0.
        position: usize,
        /// The shape of the message.
        shape: ForeignShape,
    },
    /// The store failed. To continue, import the messages after those already in the log. Unless the cause is a
    /// conflict, check first whether the next exchange is in the log as well.
    #[error("the import stopped after {exchanges} exchanges with {messages} messages: {source}")]
    Store {
        /// The number of exchanges that are certainly in the log.
        exchanges: usize,
        /// The number of messages in these exchanges.
        messages: usize,
        /// The cause.
        source: StoreError,
    },
}
