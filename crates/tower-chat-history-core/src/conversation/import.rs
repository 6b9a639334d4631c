//! Import of messages from elsewhere, which are split into exchanges.

use super::Conversation;
use crate::{
    conversation_id::ConversationId,
    exchange::{Exchange, ExchangeId, Recorded},
    management::TARGET,
    message::{ForeignShape, Message},
    rounds::NewestRound,
    seq::Seq,
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

        let mut imported = 0;
        let mut written = 0;
        let end = match self.end_of_rounds().await {
            Ok(end) => end,
            Err(source) => return Err(ImportError::Store { exchanges: imported, messages: written, source }),
        };
        let mut expect = end.as_ref().map_or(Expect::Absent, |(revision, _)| Expect::Exactly(*revision));
        let mut tail = Tail::default();
        end.iter().flat_map(|(_, turn)| turn).for_each(|recorded| tail.push(recorded));

        for messages in exchanges(messages) {
            let exchange = tail.exchange(messages);
            let append = Append::new(expect, exchange.clone());
            let appended = match append_or_repeat(self.store, self.id, append).await {
                Ok(appended) => appended,
                Err(source) => return Err(ImportError::Store { exchanges: imported, messages: written, source }),
            };

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
async fn append_or_repeat<S: HistoryStore + ?Sized>(
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

impl Recorded {
    /// Returns the log that results if these messages are [imported](crate::Conversation::import) into an empty
    /// conversation. The exchanges have generated ids, and the first one has position 0.
    #[must_use]
    pub fn log(messages: Vec<Message>) -> Vec<Self> {
        let mut log = Vec::new();
        let mut tail = Tail::default();

        for messages in exchanges(messages) {
            let recorded = Self::new(Seq::new(log.len() as u64), tail.exchange(messages));
            tail.push(&recorded);
            log.push(recorded);
        }

        log
    }
}

/// Splits a log after each reply.
pub(crate) fn exchanges(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let mut exchanges: Vec<Vec<Message>> = Vec::new();
    // True if the next message begins an exchange, unless it is one more element of the reply.
    let mut has_ended = true;
    for message in messages {
        let is_reply = message.is_reply();
        match exchanges.last_mut().filter(|_| !has_ended || message.joins_reply()) {
            Some(exchange) => exchange.push(message),
            None => exchanges.push(vec![message]),
        }
        has_ended = is_reply;
    }
    exchanges
}

/// The part of a log's end that determines the turn of the next exchange.
///
/// An exchange that opens a turn must close all calls that are open before it, because a window may start there. An
/// exchange of only tool results and blank replies would not, so it belongs to the turn before it.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    newest: NewestRound,
    last: Option<Seq>,
}

impl Tail {
    /// Adds the log's next exchange.
    pub(crate) fn push(&mut self, recorded: &Recorded) {
        self.last = Some(recorded.seq);
        self.newest.push(recorded);
    }

    /// Creates an exchange of these messages, in the turn to which they belong.
    pub(crate) fn exchange(&self, messages: Vec<Message>) -> Exchange {
        let continues = self.continued_by(&messages);
        let mut exchange = Exchange::new(ExchangeId::generate(), messages);
        exchange.continues = continues;
        exchange
    }

    /// Returns the exchange that these messages continue, or `None` if they open a turn.
    fn continued_by(&self, messages: &[Message]) -> Option<Seq> {
        self.newest.continued_by(messages).or_else(|| {
            let closes = messages.iter().any(Message::closes_open_calls);
            self.newest.asked().or(self.last).filter(|_| !closes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Message {
        let calls: Vec<String> =
            ids.iter().map(|id| format!(r#"{{"id":"{id}","function":{{"name":"f","arguments":""}}}}"#)).collect();
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
        Message::from_json(json).unwrap()
    }

    /// Returns the position that each exchange of a list continues.
    fn continued(messages: &[Message]) -> Vec<Option<u64>> {
        let log = Recorded::log(messages.to_vec());
        log.iter().map(|recorded| recorded.exchange.continues.map(Seq::get)).collect()
    }

    fn user() -> Message {
        Message::user("u")
    }

    fn blank() -> Message {
        Message::assistant("")
    }

    #[test]
    fn an_exchange_ends_at_each_assistant_message() {
        let log = vec![Message::user("a"), Message::assistant("b"), Message::assistant("c"), Message::user("d")];
        let lens: Vec<usize> = exchanges(log).iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 1, 1]);
        assert!(exchanges(vec![]).is_empty());
    }

    #[test]
    fn results_of_open_calls_continue_the_exchange_that_asked() {
        let (x, y, done) = (Message::tool("x", "r"), Message::tool("y", "r"), Message::assistant("a"));
        let asked = [user(), calls(&["x", "y"])];
        let after = |rest: &[Message]| continued(&[&asked, rest].concat());
        assert_eq!(after(&[x.clone(), y.clone(), done.clone()]), [None, Some(0)]);
        assert_eq!(after(&[y.clone(), blank(), x.clone(), done.clone()]), [None, Some(0), Some(0)]);
        assert_eq!(after(&[blank(), x.clone(), calls(&["z"])]), [None, Some(0), Some(0)]);
        assert_eq!(after(&[x.clone(), y, blank(), done.clone()]), [None, Some(0), Some(0)], "the reply comes late");
        assert_eq!(after(&[user(), x, done]), [None, None], "they were closed by then");
    }

    #[test]
    fn an_exchange_that_leaves_calls_open_opens_no_turn() {
        let orphan = Message::tool("z", "r");
        let asked = [user(), calls(&["x"])];
        let after = |rest: &[Message]| continued(&[&asked, rest].concat());
        assert_eq!(after(&[orphan.clone(), blank()]), [None, Some(0)]);
        assert_eq!(after(&[blank(), blank(), Message::tool("x", "r")]), [None, Some(0), Some(0), Some(0)]);
        assert_eq!(after(std::slice::from_ref(&orphan)), [None, Some(0)]);
        assert_eq!(after(&[orphan.clone(), user(), blank()]), [None, None], "a question closes them");
        assert_eq!(continued(&[user(), Message::assistant("a"), blank()]), [None, Some(0)]);
        assert_eq!(continued(&[orphan, blank(), user()]), [None, None], "before it there is no turn");
    }

    #[test]
    fn calls_can_be_answered_again_after_an_interrupted_reply() {
        let mut log = Recorded::log(vec![user(), calls(&["x"])]);
        let mut partial = Exchange::new(ExchangeId::generate(), [Message::tool("x", "r"), Message::assistant("Let")]);
        (partial.continues, partial.incomplete) = (Some(Seq::FIRST), true);
        log.push(Recorded::new(Seq::new(1), partial));
        let mut tail = Tail::default();
        log.iter().for_each(|recorded| tail.push(recorded));
        let again = tail.exchange(vec![Message::tool("x", "r"), Message::assistant("a")]);
        assert_eq!(again.continues, Some(Seq::FIRST));
        assert_eq!(tail.exchange(vec![user(), Message::assistant("a")]).continues, None);
    }
}
