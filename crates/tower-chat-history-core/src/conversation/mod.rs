//! Access to a conversation without a model: reading, importing, editing and clearing.

mod edit;
mod import;

use std::fmt;

pub use self::{edit::ForkError, import::ImportError};
use crate::{
    conversation_id::ConversationId,
    exchange::Recorded,
    management::TARGET,
    message::{Message, ToolCall},
    profile::Profile,
    rounds::NewestRound,
    seq::{Incarnation, Revision, Seq},
    store::{HistoryStore, Load, LoadLimit, Loaded, StoreError, Window},
};

/// The number of exchanges requested per page.
const PAGE: usize = 1_000;

/// Convenience methods for every [`HistoryStore`].
pub trait HistoryStoreExt: HistoryStore {
    /// Returns a handle on a conversation, which need not exist yet.
    fn conversation<'a>(&'a self, id: &'a ConversationId) -> Conversation<'a, Self>;
}

impl<S: HistoryStore + ?Sized> HistoryStoreExt for S {
    fn conversation<'a>(&'a self, id: &'a ConversationId) -> Conversation<'a, Self> {
        Conversation { store: self, id, profile: Profile::default() }
    }
}

/// A handle on one conversation in a store, to read, import, edit and clear its history without a model.
///
/// ```
/// # use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
/// # async fn example(store: &dyn HistoryStore) -> Result<(), Box<dyn std::error::Error>> {
/// let id = ConversationId::new(["acme", "user-42"])?;
/// let conversation = store.conversation(&id);
/// conversation.import([Message::user("Hi!"), Message::assistant("What's up?")]).await?;
/// assert_eq!(conversation.messages().await?.len(), 2);
/// conversation.clear().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ChatMessageHistory")]
pub struct Conversation<'a, S: ?Sized> {
    store: &'a S,
    id: &'a ConversationId,
    profile: Profile,
}

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Sets the profile whose compaction [`truncate`](Self::truncate) and [`take_last`](Self::take_last) keep, and
    /// [`fork`](Self::fork) copies, as far as it is still right. The default is [`Profile::default`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Returns the conversation's id.
    #[must_use]
    pub const fn id(&self) -> &ConversationId {
        self.id
    }

    /// Returns the number of exchanges in the log, or 0 if there is no such conversation. [Pruned](crate::Prune)
    /// exchanges do not count. This reads no exchange.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn len(&self) -> Result<u64, StoreError> {
        Ok(self.revision().await?.map_or(0, |revision| revision.len()))
    }

    /// Returns `true` if there is no such conversation.
    ///
    /// # Errors
    ///
    /// The same as [`len`](Self::len).
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.revision().await?.is_none())
    }

    /// Returns the log's revision, or `None` if there is no such conversation. This reads no exchange.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn revision(&self) -> Result<Option<Revision>, StoreError> {
        Ok(self.store.read(self.id, Seq::FIRST, 0).await?.revision)
    }

    /// Returns every message of the log in order, as it was stored, or no message if there is no such conversation.
    ///
    /// This is the whole log, not the window that is sent to a model, so its size grows with the conversation.
    /// (Messages that were [pruned](crate::Prune) are no longer in the log.)
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or [`Gone`](StoreError::Gone) if the conversation was deleted
    /// or truncated while it was read.
    pub async fn messages(&self) -> Result<Vec<Message>, StoreError> {
        let exchanges = self.exchanges().await?;
        Ok(exchanges.iter().flat_map(|recorded| recorded.exchange.messages.iter().cloned()).collect())
    }

    /// Returns every exchange of the log, in order. Like all methods that return exchanges or messages, it fails with
    /// [`Sealed`](StoreError::Sealed) if the log is encrypted, and this is not a handle on the wrapper that decrypts it.
    ///
    /// # Errors
    ///
    /// The same as [`messages`](Self::messages).
    pub async fn exchanges(&self) -> Result<Vec<Recorded>, StoreError> {
        let first = self.store.read(self.id, Seq::FIRST, PAGE).await?;
        let incarnation = first.revision.map(|revision| revision.incarnation());
        let mut exchanges = first.exchanges;
        let mut more = first.more;

        while more {
            let from = exchanges.last().map_or(Seq::FIRST, |last| last.seq.next());
            let page = self.store.read(self.id, from, PAGE).await?;
            if page.revision.map(|revision| revision.incarnation()) != incarnation || page.exchanges.is_empty() {
                return Err(StoreError::Gone);
            }

            if page.exchanges.first().is_some_and(|first| first.seq != from) {
                // The log was pruned during the reading: the exchanges read so far are no longer in it.
                exchanges.clear();
            }
            exchanges.extend(page.exchanges);
            more = page.more;
        }

        exchanges.iter().try_for_each(Recorded::check_unsealed)?;
        Ok(exchanges)
    }

    /// Removes the conversation with all its messages and compactions. If the conversation does not exist, this does
    /// nothing and succeeds.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub async fn clear(&self) -> Result<(), StoreError> {
        self.store.delete(self.id).await?;
        tracing::info!(target: TARGET, action = "delete", conversation = %self.id);
        Ok(())
    }

    /// Returns the exchanges of the newest turn, in order, or none if there is no such conversation.
    ///
    /// This is one bounded load. Its cost depends on the size of this turn, not on the size of the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn newest_turn(&self) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.end().await?.map(|(_, turn)| turn).unwrap_or_default())
    }

    /// Returns the last exchanges of the log, as many as [`NewestRound`](crate::NewestRound) needs, or none if there is
    /// no such conversation. These are the exchanges of the newest turn. In an edited log, that turn may begin with
    /// tool results. Then earlier exchanges are included too, back to one that [closes open
    /// calls](crate::Exchange::closes_open_calls).
    ///
    /// The cost depends on the size of the newest turn, not on the size of the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or [`Gone`](StoreError::Gone) if the conversation was deleted
    /// or truncated while it was read.
    pub async fn newest_round(&self) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.end_of_rounds().await?.map(|(_, end)| end).unwrap_or_default())
    }

    /// Returns the tool calls of the log's newest [round](crate::NewestRound) that have no result yet, in order, with
    /// their ids, names and arguments. The next call must provide results for them. The list is empty if no call is
    /// open, or if the conversation does not exist.
    ///
    /// The cost depends on the size of the newest turn, not on the size of the log.
    ///
    /// Only stored exchanges count. If an engine of `tower-chat-history` in this process serves the conversation,
    /// finish its saves first (`Engine::saved`).
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt as _, StoreError};
    ///
    /// /// Continues the work that an earlier process did not finish.
    /// async fn resume(store: &dyn HistoryStore, id: &ConversationId) -> Result<(), StoreError> {
    ///     for call in store.conversation(id).open_calls().await? {
    ///         println!("{} waits for {}({})", call.id(), call.name(), call.arguments());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or [`Gone`](StoreError::Gone) if the conversation was deleted
    /// or truncated while it was read.
    pub async fn open_calls(&self) -> Result<Vec<ToolCall>, StoreError> {
        let end = self.newest_round().await?;
        Ok(NewestRound::of(&end).open_calls(&end))
    }

    /// Returns the log's revision and the exchanges of [`newest_round`](Self::newest_round), or `None` if there is no
    /// such conversation.
    async fn end_of_rounds(&self) -> Result<Option<(Revision, Vec<Recorded>)>, StoreError> {
        let Some((revision, mut end)) = self.end().await? else { return Ok(None) };
        while end.first().is_some_and(|first| !first.exchange.closes_open_calls()) {
            let asked = end.len().saturating_mul(2);
            end = self.read_back(Some(revision), asked).await?.exchanges;
            if end.len() < asked {
                break;
            }
        }
        Ok(Some((revision, end)))
    }

    /// Returns the log's revision and its newest turn, or `None` if there is no such conversation.
    async fn end(&self) -> Result<Option<(Revision, Vec<Recorded>)>, StoreError> {
        let Some(window) = self.newest_window().await? else { return Ok(None) };
        window.exchanges.iter().try_for_each(Recorded::check_unsealed)?;
        Ok(Some((window.revision, window.exchanges)))
    }

    /// Returns the profile's window with only the newest turn, or `None` if there is no such conversation.
    async fn newest_window(&self) -> Result<Option<Window>, StoreError> {
        let load = Load::new().profile(self.profile.clone()).limit(smallest());
        match self.store.load(self.id, load).await? {
            Loaded::Window(window) => Ok(Some(window)),
            // The load named neither a known state nor an exchange.
            Loaded::Absent(_) | Loaded::Unchanged | Loaded::Added(_) | Loaded::AlreadyRecorded(_) => Ok(None),
        }
    }
}

/// Returns the limit of a load that returns only the newest turn, which is always returned whole.
fn smallest() -> LoadLimit {
    LoadLimit::new(1, 1).unwrap_or_default()
}

impl<S: ?Sized> fmt::Debug for Conversation<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("id", self.id).finish_non_exhaustive()
    }
}

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Returns the last `n` exchanges in order. If there are fewer, returns all of them. If there is no such
    /// conversation, returns none.
    ///
    /// The cost does not depend on the size of the log. The result is the end of the log at the time of the call.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
    ///
    /// /// Returns the last message, such as the reply that a user saw last.
    /// async fn last_message(
    ///     store: &dyn HistoryStore,
    ///     id: &ConversationId,
    /// ) -> Result<Option<Message>, Box<dyn std::error::Error>> {
    ///     let last = store.conversation(id).last(1).await?;
    ///     Ok(last.first().and_then(|recorded| recorded.exchange.messages.last().cloned()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`read_back`](Self::read_back).
    pub async fn last(&self, n: usize) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.read_back(None, n).await?.exchanges)
    }

    /// Reads one page of the log, from its end toward its beginning. With `None`, the page has the last `n` exchanges.
    /// With the [`PageBack::earlier`] of a page, it has the `n` exchanges before that page. Within a page, exchanges
    /// are in the log's order.
    ///
    /// The cost of a page does not depend on the size of the log.
    ///
    /// Each page is a part of the log as it was at the revision `from`:
    ///
    /// - Exchanges that were appended since then are not in it, so pages neither overlap nor have gaps.
    /// - Exchanges that were [pruned](crate::Prune) since then are left out, and the last page ends where the log
    ///   begins.
    /// - After a deletion, a [truncation](crate::Truncate) or an [erasing prune](crate::Derived::Erase), the
    ///   positions belong to other exchanges. The page is refused with [`Gone`](StoreError::Gone), and reading must
    ///   start at the end again.
    ///
    /// A revision has a [text form](Revision), so a client can send it back.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Revision};
    ///
    /// /// Shows the newest 20 exchanges, or the 20 before those that a client has. Returns the token for the next page.
    /// async fn show(
    ///     store: &dyn HistoryStore,
    ///     id: &ConversationId,
    ///     from: Option<Revision>,
    /// ) -> Result<Option<String>, Box<dyn std::error::Error>> {
    ///     let page = store.conversation(id).read_back(from, 20).await?;
    ///     for recorded in page.exchanges.iter().rev() {
    ///         println!("{}: {} messages", recorded.seq, recorded.exchange.messages.len());
    ///     }
    ///     Ok(page.earlier.map(|revision| revision.to_string()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if the incarnation of `from` has ended or ends during the call, and
    /// another error if the store cannot be read.
    pub async fn read_back(&self, from: Option<Revision>, n: usize) -> Result<PageBack, StoreError> {
        let from = match from {
            Some(from) => from,
            None => match self.revision().await? {
                Some(revision) => revision,
                None => return Ok(PageBack { exchanges: Vec::new(), earlier: None }),
            },
        };

        let end = from.next();
        let start = Seq::new(end.get().saturating_sub(n as u64));
        let (exchanges, first) = self.between(from.incarnation(), start, end).await?;

        // After a failover, a server may have lost the end of the log, so that no exchange is there.
        let begins = exchanges.first().map_or(start.max(first), |first| first.seq);
        let earlier = (first < begins).then(|| Revision::new(from.incarnation(), begins.get()).beginning_at(first));
        Ok(PageBack { exchanges, earlier })
    }

    /// Returns the exchanges from `start` to before `end` that are in the log of this incarnation, and the position at
    /// which the log begins.
    async fn between(
        &self,
        incarnation: Incarnation,
        start: Seq,
        end: Seq,
    ) -> Result<(Vec<Recorded>, Seq), StoreError> {
        let mut exchanges = Vec::new();
        let mut next = start;

        loop {
            let limit = usize::try_from(end.get().saturating_sub(next.get())).unwrap_or(usize::MAX);
            let page = self.store.read(self.id, next, limit).await?;
            let revision = page.revision.filter(|revision| revision.incarnation() == incarnation);
            let first = revision.ok_or(StoreError::Gone)?.first();

            // Exchanges that were pruned during the reading are no longer in the log.
            exchanges.retain(|recorded: &Recorded| recorded.seq >= first);
            let before = exchanges.len();
            page.exchanges.iter().try_for_each(Recorded::check_unsealed)?;
            exchanges.extend(page.exchanges.into_iter().take_while(|recorded| recorded.seq < end));
            next = exchanges.last().map_or(next, |last| last.seq.next());

            // A store may return fewer exchanges than requested, so this reads on. An empty page is treated as the end,
            // even if `more` is true.
            if next >= end || !page.more || exchanges.len() <= before {
                return Ok((exchanges, first));
            }
        }
    }
}

/// A page of the log that was read [from the end](Conversation::read_back).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageBack {
    /// The exchanges, in the log's order.
    pub exchanges: Vec<Recorded>,
    /// The revision to pass as `from`, to read the exchanges before these. `None` if the log begins with these.
    pub earlier: Option<Revision>,
}
