//! The search in the logs of a store.
//!
//! # Decisions
//!
//! - **There's no stored index.** It would have to follow every truncation, prune and erasure in every store. The
//!   newest 2,000 messages are read from the log, and their terms stay in memory.
//! - **A scope is a number of parts of the conversation's own id.** A prefix that a program passes can be another
//!   tenant's. A number of parts can't.
//! - **Scores of two logs aren't compared.** A word is rarer in a long log, so a score becomes a share of the score
//!   that a message with all words of the question would have.
//! - **A citation of another conversation is stored as position -1**, which is before any log. So an erasing prune
//!   removes every quote, without an index of who quotes whom.

mod ask;
mod cache;
mod fit;
mod joined;
mod meaning;
mod others;
mod pace;
mod read;
mod search;
mod words;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::{ConversationId, Dialect, HistoryStore, Incarnation, List, Prefix, Revision, Seq};

pub use self::{
    ask::{Ask, Findings, Meaning, Others, SearchAnswer},
    meaning::Preparation,
    others::SearchScope,
    pace::SearchError,
};
use self::{
    cache::{ExchangeCache, Extent},
    meaning::{ByMeaning, EMBED_BATCH},
    others::Listing,
    read::LogReader,
    words::Words,
};
pub(crate) use self::{
    pace::{Pace, Stop},
    words::{ByWords, LogPart},
};
use super::{analyzer::Analyzer, embedder::Embedder, gate::Gate};

/// The bytes of messages that are searched of a log: about a quarter of a second of analysis, if no terms are in
/// memory.
const MAX_BYTES: usize = 4 << 20;

/// The search in the conversations of a store, and in the newest messages of each one.
///
/// A [search](Self::search) reads the newest messages before the window from the log, and analyzes them. Their terms
/// stay in memory, so the next search in the conversation reads only what is new, and the messages that it shows.
/// Nothing is stored, and an append costs nothing.
///
/// A search [by meaning](Self::by_meaning) compares vectors, which are made in the background and stay in memory, too.
///
/// A clone shares the memory.
///
/// ```
/// use std::sync::Arc;
///
/// use tower_chat_history::MemoryStore;
/// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message, Seq};
/// use tower_chat_history::recall::{Analyzer, Ask, LogSearch, SearchAnswer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// let id = ConversationId::new(["ann"])?;
/// let mut messages = vec![Message::user("My dog is called Rex."), Message::assistant("A good name!")];
/// messages.extend((0..100).flat_map(|n| [Message::user(format!("Chapter {n}")), Message::assistant("Read.")]));
/// store.conversation(&id).import(messages).await?;
/// let revision = store.conversation(&id).revision().await?.ok_or("the conversation is not there")?;
///
/// let search = LogSearch::new(store, Analyzer::default());
/// let ask = Ask {
///     conversation: &id,
///     revision: Some(revision),
///     before: Seq::new(90),
///     input: &[Message::user("What is my dog called?")],
///     already: &[],
///     allowance: 500,
///     cost: &|message| message.bytes() as u64 / 4,
/// };
/// let SearchAnswer::Found(found) = search.search(ask).await? else { return Err("nothing was searched".into()) };
/// let recalled = found.recalled.ok_or("nothing was found")?;
/// assert!(recalled.message.text().contains("My dog is called Rex."));
/// # Ok(())
/// # }
/// ```
///
/// # What is removed is never shown
///
/// Each search reads the revision of the log, and reads the messages that it shows from the log. Terms and vectors
/// belong to a position in one [incarnation](Incarnation) of a conversation, which ends with a deletion, a truncation and
/// an erasing prune. From then on they are not found any more. They stay in memory until they are evicted or
/// [forgotten](Self::forget). Text does not stay in memory.
///
/// # Limits
///
/// - Of a log, the newest [2,000](Self::messages) messages before the window are searched, and of these 4 MiB. The last
///   exchange may exceed this. An exchange counts at least 1 message, and at most 128 messages and 256 KiB, because no
///   more of it is analyzed. [`Findings::unsearched`] is the number of older exchanges.
/// - A message counts with all of its JSON, also with images and files that are in it as base64, although these are not
///   searched. So 16 exchanges with an image each can be all that is searched of a log.
/// - Of all other conversations together, 512 KiB are searched. Small conversations get what they need, and the others
///   get equal parts of the rest. The last exchange of each may exceed its part. At most four are searched at the same
///   time, the newest first.
/// - Terms take at most about [64 MiB](Self::term_bytes) of memory, and vectors [256 MiB](Self::vector_bytes).
/// - The futures pause after about a millisecond of computation (after up to four in other conversations), so they can
///   run on a runtime's threads. A few steps cannot be divided and can take some milliseconds: to decode a message of
///   1 MiB, and to rank 65,536 occurrences of words. The futures need no particular
///   runtime, except that the [time for others](Self::time_for_others) is measured by the timer of tokio.
///
/// `Debug` shows the analyzer, the limit of messages and the scope.
#[derive(Clone)]
pub struct LogSearch {
    pub(crate) log: LogReader,
    /// The scope of a search that covers other conversations, and the same store.
    listing: Option<Listing>,
    gate: Gate,
    messages: usize,
    time_limit: Option<Duration>,
    time_for_others: Option<Duration>,
    pub(crate) words: Words,
    by_meaning: Option<ByMeaning>,
    vector_bytes: usize,
    least_cosine: Option<f64>,
}

impl LogSearch {
    /// The number of messages of a log that are searched by default.
    pub const MESSAGES: usize = 2_000;
    /// The bytes of memory for terms by default: enough for about 100 conversations of 2,000 messages.
    pub const TERM_BYTES: usize = 64 << 20;
    /// The bytes of memory for vectors by default: enough for about 80 conversations of 2,000 messages, if vectors have
    /// 384 numbers.
    pub const VECTOR_BYTES: usize = 256 << 20;
    /// The most texts that are [embedded](Embedder::embed) at once.
    pub const EMBED_BATCH: usize = EMBED_BATCH;

    /// Creates the search in the conversations of a store, with the [gate](Gate::new) of the analyzer.
    #[must_use]
    pub fn new(store: Arc<dyn HistoryStore>, analyzer: Analyzer) -> Self {
        Self {
            log: LogReader { store, dialect: None },
            listing: None,
            gate: Gate::new(&analyzer),
            messages: Self::MESSAGES,
            time_limit: None,
            time_for_others: None,
            words: Words { analyzer, terms: Arc::new(ExchangeCache::new(Self::TERM_BYTES)) },
            by_meaning: None,
            vector_bytes: Self::VECTOR_BYTES,
            least_cosine: None,
        }
    }

    /// Creates the search in the conversations of a store. A [search](Self::search) for a conversation also covers the
    /// newest other conversations in the [scope](SearchScope).
    ///
    /// The store must list its conversations, which [`new`](Self::new) does not require.
    #[must_use]
    pub fn under<S: List>(store: Arc<S>, analyzer: Analyzer, scope: SearchScope) -> Self {
        let listing = Some(Listing { store: Arc::clone(&store) as Arc<dyn List>, scope });
        Self { listing, ..Self::new(store, analyzer) }
    }

    /// Sets the gate. The default is [`Gate::new`].
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Sets the dialect of conversations that are not held in chat completions. A store has only the name of a dialect.
    /// The default is none: an exchange of another dialect than chat completions is then an
    /// [error](SearchError::UnknownDialect), unless the store returns messages that were read already.
    #[must_use]
    pub const fn dialect(mut self, dialect: &'static dyn Dialect) -> Self {
        self.log.dialect = Some(dialect);
        self
    }

    /// Sets the number of messages of a log that are searched: the newest ones before the window. The default is
    /// [`MESSAGES`](Self::MESSAGES).
    ///
    /// Whatever the number, the search ends after [4 MiB](Self#limits) of messages. Images and files in base64 count
    /// toward them with their full size, up to 256 KiB for an exchange, although they are not searched. Of a log with
    /// many of them, fewer messages are searched. If that is too few, store media as URLs.
    #[must_use]
    pub const fn messages(mut self, messages: usize) -> Self {
        self.messages = messages;
        self
    }

    /// Sets the memory for terms, in bytes. Terms that do not fit are made again by the next search. The default is
    /// [`TERM_BYTES`](Self::TERM_BYTES).
    #[must_use]
    pub fn term_bytes(mut self, bytes: usize) -> Self {
        self.words.terms = Arc::new(ExchangeCache::new(bytes));
        self
    }

    /// Sets the longest time of a [search](Self::search). It is checked at each pause, without a timer. A search that
    /// waits for the store, or for an embedder, does not end before they do. The default is no limit.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Sets the time that a [search](Self::search) has for other conversations, from its beginning. Those that were not
    /// searched by then are left out, and [`Others::failed`] counts them. The messages to show have half as long again.
    /// It is measured by the timer of the tokio runtime. The default is no limit: a search then waits for the slowest
    /// conversation.
    #[must_use]
    pub const fn time_for_others(mut self, limit: Duration) -> Self {
        self.time_for_others = Some(limit);
        self
    }

    /// Searches also by meaning: passages are embedded by this model, and found by their vectors, too.
    ///
    /// The vectors are made by [preparations](Self::prepare), in the background. They are in memory, so they are made
    /// again in each process. A search embeds its input. If that fails, or if there are no vectors yet, it uses words
    /// alone: [`Findings::meaning`] says so. The gate still decides by words, unless [`least_cosine`](Self::least_cosine)
    /// is set.
    ///
    /// If the model refuses the text of an exchange but accepts others, a later preparation tries that exchange once
    /// more. If the model refuses it again, it gets no vectors and is found by words only.
    #[must_use]
    pub fn by_meaning(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.by_meaning = Some(ByMeaning::new(embedder, self.vector_bytes));
        self
    }

    /// Sets the memory for vectors, in bytes. A vector takes four bytes for each of its numbers. The default is
    /// [`VECTOR_BYTES`](Self::VECTOR_BYTES).
    ///
    /// Give it the size that the conversations in use need. Vectors that do not fit are made again and again, and each
    /// time is a call of the model.
    #[must_use]
    pub fn vector_bytes(mut self, bytes: usize) -> Self {
        self.vector_bytes = bytes;
        match self.by_meaning.take() {
            Some(by_meaning) => self.by_meaning(by_meaning.embedder),
            None => self,
        }
    }

    /// Sets the cosine from which a passage opens the gate, because its meaning is near enough. The default is none, so
    /// only words open it. It depends on the model, and has no effect without [one](Self::by_meaning).
    #[must_use]
    pub const fn least_cosine(mut self, cosine: f64) -> Self {
        self.least_cosine = Some(cosine);
        self
    }

    /// Prepares a search [by meaning](Self::by_meaning): makes vectors of exchanges before `before` that have none in
    /// memory, the newest first, at most about 1,024. Without an embedder, there is nothing to prepare, and nothing is
    /// read.
    ///
    /// `revision` is the log's revision as it was loaded, and `before` the start of the window that is sent. If the
    /// incarnation of the revision has ended, nothing is left to do.
    ///
    /// A preparation can be repeated, and stopped at any await.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails. The vectors that were made until then stay.
    pub async fn prepare(
        &self,
        conversation: &ConversationId,
        revision: Revision,
        before: Seq,
    ) -> Result<Preparation, SearchError> {
        let Some(by_meaning) = &self.by_meaning else { return Ok(Preparation::default()) };
        match by_meaning.prepare(&self.log, conversation, revision, before, self.extent()).await {
            Ok(prepared) => Ok(prepared),
            Err(Stop::Gone) => Ok(Preparation::default()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Removes what is in memory of the conversations under the prefix: their ids, terms and vectors. Call it after you
    /// have deleted, [erased](tower_chat_history_core::Erase) or truncated conversations, also if another process did
    /// so.
    ///
    /// Searches and preparations that are running may add something again until they end.
    pub fn forget(&self, under: &Prefix) {
        self.words.terms.forget(under);
        if let Some(by_meaning) = &self.by_meaning {
            by_meaning.forget(under);
        }
    }

    /// Returns `true` if a search for this conversation covers other conversations, too.
    #[must_use]
    pub fn covers_others(&self, conversation: &ConversationId) -> bool {
        self.listing.as_ref().is_some_and(|listing| listing.scope.prefix(conversation).is_some())
    }

    /// Returns the analyzer.
    #[must_use]
    pub const fn analyzer(&self) -> &Analyzer {
        &self.words.analyzer
    }

    /// Returns the part of a log that is searched.
    const fn extent(&self) -> Extent {
        Extent { messages: self.messages, bytes: MAX_BYTES }
    }

    /// Reads the revision of a log, and returns the part of the log to search: its newest messages.
    pub(crate) async fn newest<'a>(
        &self,
        conversation: &'a ConversationId,
        incarnation: Option<Incarnation>,
        limit: usize,
    ) -> Result<LogPart<'a>, Stop> {
        let revision = self.log.revision(conversation, incarnation).await?;
        Ok(LogPart { conversation, revision, before: revision.next(), extent: self.extent(), limit })
    }
}

impl fmt::Debug for LogSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSearch")
            .field("analyzer", &self.words.analyzer)
            .field("messages", &self.messages)
            .field("scope", &self.listing.as_ref().map(|listing| listing.scope))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{HistoryStoreExt as _, Message};

    use super::*;
    use crate::{error::BoxError, memory::MemoryStore};

    #[derive(Debug)]
    struct Lengths;

    #[async_trait::async_trait]
    impl Embedder for Lengths {
        async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError> {
            Ok(texts.iter().map(|text| vec![text.len() as f32]).collect())
        }
    }

    /// Returns the numbers of exchanges whose terms and whose vectors are in memory.
    fn in_memory(search: &LogSearch) -> (usize, usize) {
        (search.words.terms.len(), search.by_meaning.as_ref().unwrap().answers.len())
    }

    #[tokio::test]
    async fn nothing_of_a_forgotten_conversation_is_in_memory() {
        let store = MemoryStore::new();
        let search = LogSearch::new(Arc::new(store.clone()), Analyzer::default()).by_meaning(Arc::new(Lengths));
        let ids = ["acme/ann/1", "acme/ann/2", "acme/anne/1"].map(|id| id.parse::<ConversationId>().unwrap());
        for id in &ids {
            let turn = |number: usize| [Message::user(format!("page {number}")), Message::assistant("Read.")];
            store.conversation(id).import((0..50).flat_map(turn)).await.unwrap();
            let revision = store.conversation(id).revision().await.unwrap().unwrap();
            search.prepare(id, revision, Seq::new(40)).await.unwrap();

            let input = [Message::user("Which page?")];
            let ask = Ask {
                conversation: id,
                revision: Some(revision),
                before: Seq::new(40),
                input: &input,
                already: &[],
                allowance: 100,
                cost: &|_| 1,
            };
            search.search(ask).await.unwrap();
        }
        assert_eq!(in_memory(&search), (120, 120));

        search.forget(&"acme/ann".parse().unwrap());
        assert_eq!(in_memory(&search), (40, 40), "another user's stay");
        search.forget(&Prefix::all());
        assert_eq!(in_memory(&search), (0, 0));
    }
}
