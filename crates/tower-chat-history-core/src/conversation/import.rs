//! Adding messages that were exchanged elsewhere.

use super::{Conversation, settle};
use crate::{
    exchange::Recorded,
    message::{ForeignShape, Message},
    split::{Tail, exchanges},
    store::{Append, Expect, HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Adds a ready log to the end of the conversation and returns how many exchanges it became.
    ///
    /// An exchange ends at each assistant message; messages after the last one become an exchange without a reply. Tool
    /// results that answer open calls continue the turn of these calls, and what would leave them open does not begin a
    /// turn: an exchange of nothing but tool results and blank replies. Nothing else is checked: a broken log is kept
    /// as it is, and repaired only in what is sent.
    ///
    /// Each exchange is one write. The import expects to be the only writer: if another one comes between, it stops with
    /// [`StoreError::Conflict`], and [`ImportError::Store`] says how much is in. A write whose outcome is unknown is repeated
    /// once under its id.
    ///
    /// # Errors
    ///
    /// [`ImportError::Instructions`] when the log starts with system or developer messages (they belong to each
    /// request, not to the history), [`ImportError::Foreign`] when a message is in another API's shape,
    /// [`ImportError::Store`] when the store fails.
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
            let (appended, _) = settle(self.store, self.id, append).await.map_err(at(imported, written))?;
            expect = Expect::Exactly(appended.revision);
            imported += 1;
            written += exchange.messages.len();
            tail.push(&Recorded::new(appended.seq, exchange));
        }
        Ok(imported)
    }
}

/// A log that was not imported, or not whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The log starts with system or developer messages. Nothing was imported.
    #[error("the log starts with {count} system or developer messages: send them with each request instead")]
    Instructions {
        /// How many there are.
        count: usize,
    },
    /// A message is in the shape of another API than chat completions. Nothing was imported.
    #[error("message {position} of the log is no message in the chat-completions format: {shape}")]
    Foreign {
        /// Which message, counted from 0.
        position: usize,
        /// The shape it has.
        shape: ForeignShape,
    },
    /// The store failed. Go on after the messages that are in; unless the store refused the next exchange (a conflict), look
    /// whether that one is in as well.
    #[error("the store failed after {exchanges} imported exchanges of {messages} messages")]
    Store {
        /// How many exchanges are surely in the log.
        exchanges: usize,
        /// How many messages these are.
        messages: usize,
        /// Why it stopped.
        source: StoreError,
    },
}
