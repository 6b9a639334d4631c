//! Asking a store for a window, and what it answers.

use crate::{
    compaction::{Compaction, CompactionVersion},
    exchange::Recorded,
    exchange_id::ExchangeId,
    profile::Profile,
    revision::Revision,
};

/// What a call asks a store for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Load {
    /// Whose compaction applies.
    pub profile: Profile,
    /// What the caller already has: if nothing changed since, the store answers [`Loaded::Unchanged`].
    pub known: Option<KnownState>,
    /// If this exchange is already recorded, the store answers [`Loaded::AlreadyRecorded`], whatever else is asked.
    pub exchange: Option<ExchangeId>,
    /// How much to load at most.
    pub limit: LoadLimit,
}

impl Load {
    /// Loads the default profile within the default limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads the window of that profile. The default is [`Profile::default`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Loads only if there is something newer than what is known. The default is to load in any case.
    #[must_use]
    pub fn known(mut self, known: KnownState) -> Self {
        self.known = Some(known);
        self
    }

    /// Asks whether that exchange is already recorded. The default is not to ask.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Loads at most that much. The default is [`LoadLimit::default`].
    #[must_use]
    pub const fn limit(mut self, limit: LoadLimit) -> Self {
        self.limit = limit;
        self
    }
}

/// The state of a conversation that a caller has already seen, in one profile. It says nothing of another profile, even
/// where the numbers are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// The log's revision.
    pub revision: Revision,
    /// The profile's compaction.
    pub compaction: CompactionVersion,
    /// The newest exchange of the log; `None` if the caller does not know it, and then it is not compared.
    ///
    /// A server can lose the end of what it acknowledged, by a failover to a replica that was behind. What is appended then comes
    /// to the same revision, and is another exchange.
    pub newest: Option<ExchangeId>,
}

/// How much a load may bring: the newest turns that fit both numbers.
///
/// A turn is never split: the newest one comes whole even when it alone is larger.
///
/// An exchange counts as many messages as it has, and an exchange without messages counts as one message. So a load
/// brings at most `messages` exchanges, or the newest turn. The bytes are those of the messages' JSON: an exchange
/// without messages has 0.
///
/// The default is 1,000 messages and 4 MiB of message JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimit {
    messages: usize,
    bytes: usize,
}

impl LoadLimit {
    /// At most that many messages and that many bytes of their JSON. An exchange without messages counts as one
    /// message.
    ///
    /// # Errors
    ///
    /// When one of the numbers is 0.
    pub const fn new(messages: usize, bytes: usize) -> Result<Self, LoadLimitError> {
        if messages == 0 || bytes == 0 { Err(LoadLimitError) } else { Ok(Self { messages, bytes }) }
    }

    /// The most messages.
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.messages
    }

    /// The most bytes of message JSON.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Default for LoadLimit {
    fn default() -> Self {
        Self { messages: 1_000, bytes: 4 << 20 }
    }
}

/// A load limit that lets nothing through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a load limit needs at least one message and one byte")]
pub struct LoadLimitError;

/// A store's answer to a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// There is no such conversation.
    Absent,
    /// Log and compaction are as the caller knows them.
    Unchanged,
    /// The exchange that was asked for is in the log.
    AlreadyRecorded(Recorded),
    /// The window's newest exchanges.
    Window(Window),
}

/// The loaded end of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// The log's revision.
    pub revision: Revision,
    /// The profile's compaction. It says where the window starts, so nothing before that is loaded. A [pruned](crate::Prune)
    /// log may begin later than that.
    pub compaction: Option<Compaction>,
    /// The exchanges in order. The first one opens a turn.
    pub exchanges: Vec<Recorded>,
    /// Whether the limit cut off exchanges that belong to the window.
    pub truncated: bool,
}

impl Window {
    /// A window of these exchanges.
    #[must_use]
    pub const fn new(
        revision: Revision,
        compaction: Option<Compaction>,
        exchanges: Vec<Recorded>,
        truncated: bool,
    ) -> Self {
        Self { revision, compaction, exchanges, truncated }
    }

    /// What to present as [`Load::known`] next time.
    #[must_use]
    pub fn known(&self) -> KnownState {
        let newest = self.exchanges.last().map(|recorded| recorded.exchange.id.clone());
        KnownState { revision: self.revision, compaction: self.compaction_version(), newest }
    }

    /// Whether a caller who knows that has this window already.
    #[must_use]
    pub fn is_known(&self, known: &KnownState) -> bool {
        let newest = self.exchanges.last().map(|recorded| &recorded.exchange.id);
        (known.revision, known.compaction) == (self.revision, self.compaction_version())
            && (known.newest.is_none() || known.newest.as_ref() == newest)
    }

    /// The version of the profile's compaction.
    #[must_use]
    pub fn compaction_version(&self) -> CompactionVersion {
        self.compaction.as_ref().map_or(CompactionVersion::NONE, |compaction| compaction.version)
    }
}

/// A piece of the log, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The log's revision when the page was read; `None` if there is no such conversation.
    pub revision: Option<Revision>,
    /// The exchanges.
    pub exchanges: Vec<Recorded>,
    /// Whether the log goes on after them (with a limit of 0: from the position on).
    pub more: bool,
}

impl Page {
    /// The page of a conversation that does not exist.
    #[must_use]
    pub const fn absent() -> Self {
        Self { revision: None, exchanges: Vec::new(), more: false }
    }

    /// A page of the log at that revision.
    #[must_use]
    pub const fn new(revision: Revision, exchanges: Vec<Recorded>, more: bool) -> Self {
        Self { revision: Some(revision), exchanges, more }
    }
}
