//! The requests to load from a store, and its answers.

use super::StoreError;
use crate::{
    compaction::{Compaction, CompactionVersion},
    exchange::{ExchangeId, Recorded},
    profile::Profile,
    seq::{Epoch, Revision, Seq},
};

/// A request to load a window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Load {
    /// The profile whose compaction applies.
    pub profile: Profile,
    /// The state that the caller has already loaded. If it is still the current one, the store answers
    /// [`Loaded::Unchanged`].
    pub known: Option<KnownState>,
    /// `true` if the store may answer with [`Loaded::Added`] when the log has only grown since the known state.
    pub or_added: bool,
    /// If this exchange is already in the log, the store answers [`Loaded::AlreadyRecorded`], whatever else is
    /// requested.
    pub exchange: Option<ExchangeId>,
    /// The upper bound on the amount to load.
    pub limit: LoadLimit,
}

impl Load {
    /// Creates a request for the default profile within the default limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the profile whose window is loaded. The default is [`Profile::default`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the state that the caller has already loaded. If it is still the current one, no window is loaded. The
    /// default is `None`: the window is always loaded.
    #[must_use]
    pub fn known(mut self, known: KnownState) -> Self {
        self.known = Some(known);
        self
    }

    /// Allows the store to return only the exchanges that were [added](Loaded::Added) since the known state, in place of
    /// the window. The default is `false`.
    #[must_use]
    pub const fn or_added(mut self) -> Self {
        self.or_added = true;
        self
    }

    /// Sets an exchange to look up. If it is already in the log, it is returned in place of the window. The default is
    /// `None`.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Sets the upper bound on the amount to load. The default is [`LoadLimit::default`].
    #[must_use]
    pub const fn limit(mut self, limit: LoadLimit) -> Self {
        self.limit = limit;
        self
    }
}

/// The state of a conversation that a caller has already seen in one profile. Do not use it for another profile: equal
/// version numbers mean nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// The log's revision.
    pub revision: Revision,
    /// The profile's compaction.
    pub compaction: CompactionVersion,
    /// The newest exchange of the log. If it is `None`, the caller does not know it, and it is not compared.
    ///
    /// A server can lose acknowledged appends in a failover to a replica that lagged. The next append then leads to
    /// the same revision, but to a different exchange.
    pub newest: Option<ExchangeId>,
}

impl KnownState {
    /// Returns the newest known exchange and its position, if the log may only have grown since: a log with this
    /// revision, and with this version of the profile's compaction. A store still has to compare the exchange at that
    /// position.
    #[must_use]
    pub fn end_within(&self, now: Revision, compaction: CompactionVersion) -> Option<(Seq, &ExchangeId)> {
        let known = self.revision;
        let is_longer = known.version() < now.version();
        let is_same =
            (known.incarnation(), known.first(), self.compaction) == (now.incarnation(), now.first(), compaction);
        let newest = self.newest.as_ref().filter(|_| is_longer && is_same)?;
        Some((Seq::new(known.version().checked_sub(1)?), newest))
    }
}

/// The upper bound on the amount that a load returns, in messages, in bytes of text and in bytes of media. A load
/// returns the newest turns that exceed none of these numbers.
///
/// A turn is never split. The newest turn is returned whole even if it exceeds the limit by itself.
///
/// An exchange counts as many messages as it has, and as one message if it has none. A load therefore returns at most
/// `messages` exchanges, or the newest turn. Bytes are counted in the JSON of the messages, so an exchange without
/// messages has 0 bytes.
///
/// [Media](crate::Message::media_bytes), such as images in base64, have a limit of their own, because a photo has as
/// many bytes as a long conversation, but few tokens. A load needs memory for both: at most the sum of the two limits,
/// or the newest turn. If the media of a window exceed their limit, the window begins later, with its texts.
///
/// The default is 1,000 messages, 4 MiB of message JSON without media, and 32 MiB of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct LoadLimit {
    #[cfg_attr(feature = "config", serde(deserialize_with = "crate::config::field::positive"))]
    messages: usize,
    #[cfg_attr(feature = "config", serde(deserialize_with = "crate::config::field::positive"))]
    bytes: usize,
    media_bytes: usize,
}

/// The default limit of media, in bytes.
const MEDIA_BYTES: usize = 32 << 20;

impl LoadLimit {
    /// Creates a limit of this many messages and this many bytes of their JSON without media. An exchange without
    /// messages counts as one message. The limit of media is 32 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the numbers is 0.
    pub const fn new(messages: usize, bytes: usize) -> Result<Self, LoadLimitError> {
        if messages == 0 || bytes == 0 {
            return Err(LoadLimitError);
        }
        Ok(Self { messages, bytes, media_bytes: MEDIA_BYTES })
    }

    /// Sets the maximum number of bytes of media. With 0, a turn with media is loaded only if it is the newest one.
    #[must_use]
    pub const fn with_media_bytes(mut self, bytes: usize) -> Self {
        self.media_bytes = bytes;
        self
    }

    /// Returns the maximum number of messages.
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.messages
    }

    /// Returns the maximum number of bytes of message JSON without media.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the maximum number of bytes of media.
    #[must_use]
    pub const fn media_bytes(&self) -> usize {
        self.media_bytes
    }

    /// Returns `true` if this many messages are within the limit, with this many bytes of JSON, of which so many are
    /// media.
    #[must_use]
    pub const fn allows(&self, messages: usize, bytes: usize, media_bytes: usize) -> bool {
        let text = bytes.saturating_sub(media_bytes);
        messages <= self.messages && text <= self.bytes && media_bytes <= self.media_bytes
    }
}

impl Default for LoadLimit {
    fn default() -> Self {
        Self { messages: 1_000, bytes: 4 << 20, media_bytes: MEDIA_BYTES }
    }
}

/// The error for a load limit of 0 messages or 0 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid load limit: it must allow at least one message and one byte")]
pub struct LoadLimitError;

/// A store's answer to a [`Load`].
#[allow(clippy::large_enum_variant)] // A value lives only as long as a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// There is no such conversation. The epoch says which erasures the load saw. The first turn
    /// [names](crate::Append::since) it.
    Absent(Epoch),
    /// The log and the compaction are as the caller knows them.
    Unchanged,
    /// The requested exchange is already in the log.
    AlreadyRecorded(Recorded),
    /// The exchanges that were added since the known state. Only a load that [allows](Load::or_added) it gets this
    /// answer. A store may always return the window instead.
    Added(Added),
    /// The newest exchanges of the window.
    Window(Window),
}

impl Loaded {
    /// Returns `true` if there is no such conversation.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent(_))
    }
}

/// The newest exchanges of a conversation's window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// The log's revision.
    pub revision: Revision,
    /// The profile's compaction. The window starts at its `window_start`: no earlier exchange is loaded. If the log was
    /// [pruned](crate::Prune), the window may start later.
    pub compaction: Option<Compaction>,
    /// The exchanges in order. The first one opens a turn.
    pub exchanges: Vec<Recorded>,
    /// `true` if the limit cut off exchanges that belong to the window.
    pub truncated: bool,
    /// The size of the whole log in bytes of message JSON, including the exchanges that are not in the window.
    pub log_bytes: u64,
}

impl Window {
    /// Creates a window of these exchanges, which are the whole log. If the log has more exchanges, set its
    /// [size](Self::log_bytes).
    #[must_use]
    pub fn new(revision: Revision, compaction: Option<Compaction>, exchanges: Vec<Recorded>, truncated: bool) -> Self {
        let log_bytes = exchanges.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
        Self { revision, compaction, exchanges, truncated, log_bytes }
    }

    /// Sets the size of the whole log, in bytes of message JSON. The default is the size of the window's exchanges.
    #[must_use]
    pub const fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Returns the state to present as [`Load::known`] next time.
    #[must_use]
    pub fn known(&self) -> KnownState {
        let newest = self.exchanges.last().map(|recorded| recorded.exchange.id.clone());
        KnownState { revision: self.revision, compaction: self.compaction_version(), newest }
    }

    /// Returns `true` if a caller who knows this state already has this window.
    #[must_use]
    pub fn is_known(&self, known: &KnownState) -> bool {
        let newest = self.exchanges.last().map(|recorded| &recorded.exchange.id);
        (known.revision, known.compaction) == (self.revision, self.compaction_version())
            && (known.newest.is_none() || known.newest.as_ref() == newest)
    }

    /// Returns the window with the exchanges that were added since. It may exceed the limit of the load that returned
    /// it.
    #[must_use]
    pub fn with_added(mut self, added: Added) -> Self {
        self.revision = added.revision;
        self.log_bytes = added.log_bytes;
        self.exchanges.extend(added.exchanges);
        self
    }

    /// Returns the version of the profile's compaction.
    #[must_use]
    pub fn compaction_version(&self) -> CompactionVersion {
        self.compaction.as_ref().map_or(CompactionVersion::NONE, |compaction| compaction.version)
    }
}

/// The exchanges that were added to a log since a [known state](KnownState).
///
/// A store returns them only if all of the following is true. Otherwise the caller could not extend its window.
///
/// - The log has the known incarnation and begins at the known position, and the profile's compaction has the known
///   version.
/// - The newest known exchange is still at its position, the last one of the known revision. A caller that does not
///   know that exchange gets the window.
/// - The added exchanges are within the [limit](Load::limit) of the load.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Added {
    /// The log's revision.
    pub revision: Revision,
    /// The exchanges in order, from the known version on.
    pub exchanges: Vec<Recorded>,
    /// The size of the whole log in bytes of message JSON.
    pub log_bytes: u64,
}

impl Added {
    /// Creates the answer with these exchanges, which lead to this revision.
    #[must_use]
    pub const fn new(revision: Revision, exchanges: Vec<Recorded>, log_bytes: u64) -> Self {
        Self { revision, exchanges, log_bytes }
    }

    /// Returns `true` if a load with this limit may return these exchanges.
    #[must_use]
    pub fn is_within(&self, limit: LoadLimit) -> bool {
        let messages = self.exchanges.iter().map(|recorded| recorded.exchange.counted_messages()).sum();
        let bytes = self.exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum();
        let media = self.exchanges.iter().map(|recorded| recorded.exchange.media_bytes()).sum();
        limit.allows(messages, bytes, media)
    }
}

/// A page of the log, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The log's revision when the page was read; `None` if there is no such conversation.
    pub revision: Option<Revision>,
    /// The exchanges.
    pub exchanges: Vec<Recorded>,
    /// `true` if there are exchanges in the log after these. If the limit is 0: `true` if there is one at or after the
    /// requested position.
    pub more: bool,
}

impl Page {
    /// Creates the page of a conversation that does not exist.
    #[must_use]
    pub const fn absent() -> Self {
        Self { revision: None, exchanges: Vec::new(), more: false }
    }

    /// Creates a page of the log at this revision.
    #[must_use]
    pub const fn new(revision: Revision, exchanges: Vec<Recorded>, more: bool) -> Self {
        Self { revision: Some(revision), exchanges, more }
    }
}

impl Recorded {
    /// Checks that the exchange is not [encrypted](crate::Exchange::sealed). Everything that looks at messages calls
    /// this first. Otherwise an encrypted exchange would look like one without messages.
    ///
    /// # Errors
    ///
    /// Returns [`Sealed`](StoreError::Sealed) if it is encrypted.
    pub fn check_unsealed(&self) -> Result<(), StoreError> {
        if self.exchange.sealed.is_some() { Err(StoreError::Sealed { seq: self.seq }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exchange::{Exchange, ExchangeId},
        message::Message,
        seq::Seq,
    };

    #[test]
    fn text_and_media_have_limits_of_their_own() {
        let limit = LoadLimit::new(3, 100).unwrap().with_media_bytes(1_000);
        for (messages, bytes, media, allowed) in [
            (3, 1_100, 1_000, true),
            (4, 1_100, 1_000, false),
            (3, 1_101, 1_000, false),
            (3, 1_100, 1_001, false),
            (3, 101, 0, false),
            (3, 1_000, 1_000, true),
        ] {
            assert_eq!(limit.allows(messages, bytes, media), allowed, "{messages} messages, {bytes} bytes, {media}");
        }
    }

    #[test]
    fn an_encrypted_exchange_is_a_typed_error() {
        let exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [Message::user("hi")]);
        let recorded = |exchange| Recorded::new(Seq::new(7), exchange);
        let error = recorded(exchange.sealed_as("x".repeat(100)).unwrap()).check_unsealed().unwrap_err();
        assert!(matches!(error, StoreError::Sealed { seq } if seq == Seq::new(7)), "{error:?}");
        assert!(recorded(exchange).check_unsealed().is_ok());
    }
}
