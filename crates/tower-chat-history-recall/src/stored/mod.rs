//! The index next to a log in a store: its search, and the steps that make it.

mod ask;
mod embed_job;
mod embedder;
mod error;
mod fit;
mod job;
mod joined;
mod limits;
mod merge;
mod names;
mod others;
mod pages;
pub(crate) mod pause;
mod progress;
mod ranked;
mod read;
mod records;
mod refused;
mod remove;
mod scan;
mod scope;
mod search;
mod suspects;
mod vectors;
mod verify;
mod waiting;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::{Attach, AttachmentNameError, Dialect};

#[cfg(test)]
pub(crate) use self::pause::SLICE;
pub use self::{
    ask::{Ask, Found, Meaning, Others, Searched},
    embedder::{EmbedError, Embedder},
    error::IndexError,
    job::Indexed,
    scope::SearchScope,
};
pub(crate) use self::{
    error::Stop,
    limits::Limits,
    ranked::{LogPart, Ranked},
};
use self::{
    names::TermNames,
    progress::Progress,
    refused::Refused,
    scope::Listing,
    suspects::Suspects,
    vectors::{ByMeaning, VectorNames},
    waiting::TimeForOthers,
};
use crate::{analyzer::Analyzer, gate::Gate};

/// The index of conversations in a store, and the search in them.
///
/// The index of a conversation is kept as [attachments](Attach) of its log. A [search](Self::search) reads those that
/// its words need. The newest exchanges that are not indexed yet are read from the log. So up to a
/// [limit](Self::scan_limit) of 512 such exchanges, and of 4 MiB, the result does not depend on the index. Older ones
/// that are not indexed are not found. The [index](Self::index) is made in steps, in the background, for exchanges that have left
/// the window. So an append costs nothing, and neither does a conversation whose whole log is in the window.
///
/// Cloning only increments reference counts.
///
/// ```
/// use std::sync::Arc;
///
/// use tower_chat_history::MemoryStore;
/// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message, Seq};
/// use tower_chat_history_recall::{Analyzer, Ask, Searched, StoredIndex};
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
/// let index = StoredIndex::new(store, Analyzer::default());
/// let window_start = Seq::new(90);
/// while index.index(&id, revision, window_start).await?.more {}
/// let ask = Ask {
///     conversation: &id,
///     revision: Some(revision),
///     before: window_start,
///     input: &[Message::user("What is my dog called?")],
///     already: &[],
///     allowance: 500,
///     cost: &|message| message.bytes() as u64 / 4,
/// };
/// let Searched::Found(found) = index.search(ask).await? else { return Err("nothing was searched".into()) };
/// let recalled = found.recalled.ok_or("nothing was found")?;
/// assert!(recalled.message.text().contains("My dog is called Rex."));
/// # Ok(())
/// # }
/// ```
///
/// # Records
///
/// | Attachment | Range | Content |
/// | --- | --- | --- |
/// | `terms/<id>/all` | 64 exchanges | a block |
/// | `terms/<id>/b00` to `b63` | up to 4,096 exchanges | the terms of a segment |
/// | `terms/<id>/docs` | the same | the documents of a segment, written last |
/// | `vectors/<model>/<block>` | 64 exchanges | the vectors of a block |
/// | `vectors/<model>/made` | the same | a mark that the vectors were made |
///
/// `<id>` is a hash of the [analyzer's id](Analyzer::id), so another analyzer has other names, and each of two versions
/// of a program has its own index while both run. `<model>` is a hash of the [model's name](Embedder::model). A store
/// cannot list names. So records of an analyzer or a model that is no longer used stay until the conversation is
/// deleted, unless they are [named](Self::former_analyzers).
///
/// # Limits
///
/// - A search reads at most 32 MiB of the index, and at most 64 MiB together with vectors.
/// - A search reads at most [512](Self::scan_limit) exchanges of the log that are not indexed, the newest ones, and
///   analyzes at most 4 MiB of them. An exchange counts at most 256 KiB. Pages have at most 64 exchanges, but fewer if
///   the exchanges are long, and none is read after 16 MiB. [`Found::unsearched`] is the number of the others. Only
///   whole blocks are indexed, so with fewer than 64 exchanges before the window, long ones are analyzed at each
///   search.
/// - With a [scope](Self::under), the other conversations share limits: at most 32 MiB of their indexes, 20,000 vectors,
///   and of what is not indexed, 512 exchanges, 4 MiB that are read, and 1 MiB that is analyzed. Small conversations
///   get what they need, and the others get equal parts of the rest. At most four are read at the same time, the newest
///   first.
/// - The terms of an exchange have 64,000 bytes of room in the record of its block: about 7,000 different words. The
///   passages after these are found by their neighbors only. [`Indexed::cut`] is the number of such exchanges. So the
///   record of a block always fits into an attachment.
/// - Blocks are merged to a segment only if they have at most 16 MiB together, and if each record of the segment has at
///   most 4 MiB. Otherwise they stay as they are.
/// - At most 20,000 vectors are compared: the newest ones of the newest 20,480 exchanges, as far as the bytes that are
///   read allow it. A vector has at most 8,192 numbers, and a byte for each. The vectors of a block have at most 4 MiB.
///   Passages after these have none, and are found by words only.
/// - A part of the index that cannot be read counts as absent: its exchanges are not indexed, and the next step of the
///   index replaces it. Damage is found by the search that reads the damaged record. A damaged record that still is
///   a valid one is not found.
/// - Both futures pause after about a millisecond of computation (after up to four in other conversations), so they can
///   run on a runtime's threads: between messages and passages, within a block that is written, within a table that is
///   searched or merged, after each block of vectors, and for each message that may be shown. A few steps cannot be
///   divided and can take some milliseconds: to decode a message of 1 MiB, a block of 4 MiB or its vectors, and to
///   score 65,536 postings. The check of a part that a search found damaged has no pauses. The futures need no
///   particular runtime.
///
/// `Debug` shows the analyzer's id, the limit of exchanges, the scope and the model's name.
#[derive(Clone)]
pub struct StoredIndex {
    store: Arc<dyn Attach>,
    /// The scope of a search that covers other conversations, and the same store.
    listing: Option<Listing>,
    /// The dialect of exchanges that are not in chat completions.
    dialect: Option<&'static dyn Dialect>,
    analyzer: Analyzer,
    gate: Gate,
    /// Names that a store refuses fail when they are used.
    names: Result<Arc<TermNames>, AttachmentNameError>,
    former: Arc<[TermNames]>,
    scan_limit: usize,
    time_limit: Option<Duration>,
    time_for_others: Option<TimeForOthers>,
    by_meaning: Option<ByMeaning>,
    least_cosine: Option<f64>,
    former_models: Arc<[VectorNames]>,
    progress: Arc<Progress>,
    suspects: Arc<Suspects>,
    refused: Arc<Refused>,
}

impl StoredIndex {
    /// The most exchanges that a search reads because they are not indexed, by default.
    pub const SCAN_LIMIT: usize = 512;
    /// The most texts that are [embedded](Embedder::embed) at once.
    pub const EMBED_BATCH: usize = 256;

    /// Creates the index of the conversations of a store, with the [gate](Gate::new) of the analyzer.
    #[must_use]
    pub fn new(store: Arc<dyn Attach>, analyzer: Analyzer) -> Self {
        Self {
            store,
            listing: None,
            dialect: None,
            gate: Gate::new(&analyzer),
            names: TermNames::new(analyzer.id()).map(Arc::new),
            analyzer,
            former: Arc::new([]),
            scan_limit: Self::SCAN_LIMIT,
            time_limit: None,
            time_for_others: None,
            by_meaning: None,
            least_cosine: None,
            former_models: Arc::new([]),
            progress: Arc::default(),
            suspects: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Sets the gate. The default is [`Gate::new`].
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Sets the dialect of conversations that are not held in chat completions. A store has only the name of a dialect.
    /// The default is none: an exchange of another dialect than chat completions is then an
    /// [error](IndexError::UnknownDialect), unless the store returns messages that were read already.
    #[must_use]
    pub const fn dialect(mut self, dialect: &'static dyn Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Sets the number of exchanges that a search reads at most because they are not indexed. The default is
    /// [`SCAN_LIMIT`](Self::SCAN_LIMIT).
    #[must_use]
    pub const fn scan_limit(mut self, exchanges: usize) -> Self {
        self.scan_limit = exchanges;
        self
    }

    /// Sets the longest time of a [search](Self::search). It is checked at each pause, without a timer. A search that
    /// waits for the store, or for an embedder, does not end before they do. The default is no limit.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Searches also by meaning: vectors of this model are made for all passages, and fused with the search by words.
    ///
    /// The vectors of a block are made once, in the background. A search embeds its input. If that fails, or if there
    /// are no vectors yet, it uses words alone: [`Found::meaning`] says so. The gate still decides by words, unless
    /// [`least_cosine`](Self::least_cosine) is set.
    ///
    /// If the model fails for a block although it has just embedded another text, the block waits for 1 step of the
    /// [index](Self::index), then for 2, 4 and so on up to 1,024, and the vectors of other blocks are made.
    /// [`Indexed::refused`] is the number of these blocks. A model that fails twice in a row is down: the step ends.
    #[must_use]
    pub fn by_meaning(mut self, embedder: Arc<dyn Embedder>) -> Self {
        let names = VectorNames::new(embedder.model());
        (self.progress, self.refused) = (Arc::default(), Arc::default());
        self.by_meaning = Some(ByMeaning { embedder, names, works: Arc::default() });
        self
    }

    /// Sets the cosine from which a passage opens the gate, because its meaning is near enough. The default is none, so
    /// only words open it. It depends on the model, and has no effect without [one](Self::by_meaning).
    #[must_use]
    pub const fn least_cosine(mut self, cosine: f64) -> Self {
        self.least_cosine = Some(cosine);
        self
    }

    /// Names models that were used before, by their [names](Embedder::model). When a conversation is indexed, their
    /// vectors are removed, as the records of [former analyzers](Self::former_analyzers). The model that is
    /// [used](Self::by_meaning) is not a former one, also if it is named.
    #[must_use]
    pub fn former_models<T: AsRef<str>>(mut self, models: impl IntoIterator<Item = T>) -> Self {
        self.progress = Arc::default();
        self.former_models = models.into_iter().map(|model| VectorNames::new(model.as_ref())).collect();
        self
    }

    /// Names analyzers that were used before, by their [ids](Analyzer::id). When a conversation is indexed, their
    /// records are removed.
    ///
    /// Name an analyzer only when no process uses it any more: otherwise its index is made and removed again and again.
    /// This index and its clones look for such records once per conversation and incarnation, unless they forget it.
    #[must_use]
    pub fn former_analyzers<T: AsRef<str>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.progress = Arc::default();
        let current = self.analyzer.id();
        let former = ids.into_iter().filter(|id| id.as_ref() != current);
        // An analyzer whose names are not allowed has no records.
        self.former = former.filter_map(|id| TermNames::new(id.as_ref()).ok()).collect();
        self
    }

    /// Returns the analyzer.
    #[must_use]
    pub const fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// Returns the most exchanges that a search reads because they are not indexed.
    pub(crate) const fn limit_of_scans(&self) -> usize {
        self.scan_limit
    }

    /// Returns the names of the records of terms.
    fn names(&self) -> Result<&TermNames, AttachmentNameError> {
        self.names.as_deref().map_err(Clone::clone)
    }

    /// Returns the names of former models, without the one that is used.
    fn former_vectors(&self) -> impl Iterator<Item = &VectorNames> {
        let current = self.by_meaning.as_ref().map(|by_meaning| &by_meaning.names);
        self.former_models.iter().filter(move |names| Some(*names) != current)
    }
}

impl fmt::Debug for StoredIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredIndex")
            .field("analyzer", &self.analyzer.id())
            .field("scan_limit", &self.scan_limit)
            .field("scope", &self.listing.as_ref().map(|listing| listing.scope))
            .field("model", &self.by_meaning.as_ref().map(|by_meaning| by_meaning.embedder.model()))
            .finish_non_exhaustive()
    }
}
