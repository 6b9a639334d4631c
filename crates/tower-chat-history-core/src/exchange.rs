//! The unit of the log: the messages of one model call.
//!
//! # Decisions
//!
//! - **One record is one exchange.** It's stored whole or not at all, and one unique index makes appends idempotent.
//!   With a record for each message, a crash could leave a question without its answer. With one blob for each
//!   conversation, overlapping calls would overwrite each other.
//! - **A partial reply gets a generated id.** The caller's id stays free, because a repeated call must call the model
//!   again and not return half a reply.
//! - **Ids come from a generator in the process** (`fast-rng` of `uuid`), which the operating system seeds. A system
//!   call for each id took a tenth of the engine's time for a turn.

mod sealed;

use std::{
    borrow::Cow,
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use uuid::Uuid;

pub use self::sealed::Sealed;
use crate::{
    invalid::InvalidValue,
    memory::{block, shared},
    message::{Dialect, DialectName, Message, MessageError},
    metadata::Metadata,
    provenance::Provenance,
    recalled::Recalled,
    seq::Seq,
};

/// The messages that one model call adds to a conversation: its input and the reply, stored as one record. All of
/// them are in one [dialect](crate::Dialect).
///
/// An exchange is written whole or not at all, and never changed afterwards. Trimming and summarizing write
/// [compactions](crate::Compaction) next to the log.
///
/// An exchange without a reply is allowed: an imported log may end with a question.
///
/// `Debug` shows the id and sizes in one line, and in its alternate form (`{:#?}`) all fields. Neither shows
/// message text.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Exchange {
    /// The id that makes the append idempotent.
    pub id: ExchangeId,
    /// The time at which the exchange was created, by the clock of the process that created it.
    pub at: Timestamp,
    /// The position of the exchange whose tool calls this exchange answers, or `None` if this exchange opens a turn.
    pub continues: Option<Seq>,
    /// The name of the messages' dialect.
    pub dialect: DialectName,
    /// The input in order, then the reply.
    pub messages: Vec<Message>,
    /// The encrypted content, if a store wrapper has encrypted the exchange and nothing has decrypted it yet. There are
    /// no messages then.
    pub sealed: Option<Sealed>,
    /// The number of messages at the end that are the reply. In chat completions, a reply is one message.
    pub reply_len: usize,
    /// The token counts of the messages, so that each message is counted only once. See
    /// [`share_counts`](Self::share_counts).
    pub tokens: Option<TokenCounts>,
    /// The model that replied, as it named itself.
    pub model: Option<String>,
    /// The reason why the model stopped, as the provider named it (`stop`, `length`, `tool_calls`, …).
    pub finish_reason: Option<String>,
    /// The usage that the provider reported for the call.
    pub usage: Option<Usage>,
    /// `true` if the stream was interrupted and the reply is only the part that arrived.
    pub incomplete: bool,
    /// The caller's own data about the exchange. It is stored byte for byte, never sent to a model, and erased with the
    /// exchange.
    ///
    /// It is a part of the exchange's record. It makes no difference to a prompt, so it does not count in
    /// [`bytes`](Self::bytes) and in [load limits](crate::LoadLimit). It counts in [`memory`](Self::memory).
    pub metadata: Option<Metadata>,
    /// The earlier messages that were shown again before the input, if there were any.
    ///
    /// They are not a part of the exchange's record, because they are derived from other exchanges: a
    /// [prune](crate::Derived::Erase) can remove them. They do not count in [`bytes`](Self::bytes) and in
    /// [`counted_messages`](Self::counted_messages).
    pub recalled: Option<Recalled>,
    /// The conditions under which the prompt of the reply was made. `None` if no model made the reply, or if an
    /// [erasure](crate::Derived::Erase) removed it.
    ///
    /// It is not a part of the exchange's record either, and does not count in [`bytes`](Self::bytes).
    pub provenance: Option<Provenance>,
}

impl Exchange {
    /// Creates an exchange of these messages that opens a turn. Its time is now. Its dialect is that of the first
    /// message. If the last message is a reply, it is the reply of the exchange.
    #[must_use]
    pub fn new(id: ExchangeId, messages: impl IntoIterator<Item = Message>) -> Self {
        let messages: Vec<Message> = messages.into_iter().collect();
        let dialect = messages.first().and_then(Message::dialect);
        Self {
            id,
            at: Timestamp::now(),
            continues: None,
            dialect: dialect.map_or_else(DialectName::default, DialectName::of),
            reply_len: default_reply_len(&messages),
            messages,
            sealed: None,
            tokens: None,
            model: None,
            finish_reason: None,
            usage: None,
            incomplete: false,
            metadata: None,
            recalled: None,
            provenance: None,
        }
    }

    /// Sets the number of messages at the end that are the reply.
    #[must_use]
    pub const fn with_reply_len(mut self, messages: usize) -> Self {
        self.reply_len = messages;
        self
    }

    /// Makes this exchange answer the tool calls of the exchange at `seq`.
    #[must_use]
    pub fn continuing(mut self, seq: Seq) -> Self {
        self.continues = Some(seq);
        self
    }

    /// Returns the messages before the reply.
    #[inline]
    #[must_use]
    pub fn input(&self) -> &[Message] {
        &self.messages[..self.messages.len().saturating_sub(self.reply_len)]
    }

    /// Returns the reply. It is empty if the exchange has none.
    #[inline]
    #[must_use]
    pub fn reply(&self) -> &[Message] {
        &self.messages[self.messages.len().saturating_sub(self.reply_len)..]
    }

    /// Reads the messages in this dialect, if they were stored in a dialect that this crate does not have. All clones
    /// of the messages share the result.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is not an element of this dialect.
    pub fn read_in(&self, dialect: &'static dyn Dialect) -> Result<(), MessageError> {
        if let Some(recalled) = &self.recalled {
            recalled.message.read_in(dialect)?;
        }
        self.messages.iter().try_for_each(|message| message.read_in(dialect))
    }

    /// Copies the stored token counts to the messages that do not have a count yet. [`Message::tokens_by`] then returns
    /// these counts. If the number of counts differs from the number of messages, only the count of the
    /// [recalled](Self::recalled) message is copied.
    ///
    /// [`decode`](Self::decode) calls this. Call it yourself for an exchange whose counts come from elsewhere.
    pub fn share_counts(&self) {
        let Some(TokenCounts { counter, counts }) = &self.tokens else { return };
        if let Some(Recalled { message, tokens: Some(tokens), .. }) = &self.recalled {
            message.remember_tokens(counter, *tokens);
        }
        if counts.len() == self.messages.len() {
            for (message, tokens) in self.messages.iter().zip(counts) {
                message.remember_tokens(counter, *tokens);
            }
        }
    }

    /// Returns `true` if this exchange opens a turn, that is, if it does not answer the calls of an earlier
    /// exchange. A window always starts at such an exchange.
    ///
    /// An exchange that opens a turn closes all tool calls that are still open before it. An exchange of only tool
    /// results and blank replies should therefore [continue](Self::continues) the one before it. An
    /// [import](crate::Conversation::import) does that.
    #[inline]
    #[must_use]
    pub const fn opens_turn(&self) -> bool {
        self.continues.is_none()
    }

    /// Returns the size of the messages' JSON in bytes, also if they are [encrypted](Self::sealed).
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.sealed {
            Some(sealed) => sealed.bytes(),
            None => self.messages.iter().map(Message::bytes).sum(),
        }
    }

    /// Returns how many of these [`bytes`](Self::bytes) are [media](Message::media_bytes), also if they are
    /// [encrypted](Self::sealed).
    #[must_use]
    pub fn media_bytes(&self) -> usize {
        match &self.sealed {
            Some(sealed) => sealed.media_bytes(),
            None => self.messages.iter().map(Message::media_bytes).sum(),
        }
    }

    /// Returns the number of messages, also if they are [encrypted](Self::sealed).
    #[inline]
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.sealed.as_ref().map_or(self.messages.len(), Sealed::messages)
    }

    /// Returns the number by which this exchange counts against the messages of a [load limit](crate::LoadLimit): the
    /// number of its messages, but at least 1. A store that keeps sums of message counts must add up these numbers.
    #[must_use]
    pub fn counted_messages(&self) -> usize {
        self.message_count().max(1)
    }

    /// Returns an estimate of the memory that this exchange takes in an `Arc`, in bytes: its
    /// [messages](Message::memory), its other fields, and a constant. Stores and caches with a memory limit use it.
    #[must_use]
    pub fn memory(&self) -> usize {
        let messages: usize = self.messages.iter().map(Message::memory).sum();
        let list = block(self.messages.capacity().saturating_mul(size_of::<Message>()));
        let tokens = self.tokens.as_ref().map_or(0, |TokenCounts { counter, counts }| {
            shared(counter.len()) + block(counts.capacity().saturating_mul(size_of::<u32>()))
        });

        let id = shared(self.id.as_str().len());
        let model = self.model.as_ref().map_or(0, |model| block(model.capacity()));
        let finish_reason = self.finish_reason.as_ref().map_or(0, |reason| block(reason.capacity()));
        let metadata = self.metadata.as_ref().map_or(0, Metadata::memory);
        let recalled = self.recalled.as_ref().map_or(0, Recalled::memory);
        let provenance = self.provenance.as_ref().map_or(0, |provenance| provenance.memory());
        let sealed = self.sealed.as_ref().map_or(0, |sealed| block(sealed.capacity()));
        let texts = id + model + finish_reason + sealed;

        shared(size_of::<Self>()) + list + messages + tokens + metadata + recalled + provenance + texts
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            at,
            continues,
            dialect,
            messages,
            sealed,
            reply_len,
            tokens,
            model,
            finish_reason,
            usage,
            incomplete,
            metadata,
            recalled,
            provenance,
        } = self;
        let whole = f.alternate();
        let mut out = f.debug_struct("Exchange");
        out.field("id", &id.as_str());
        if let Some(continues) = continues {
            out.field("continues", &continues.get());
        }
        if !dialect.is_chat_completions() {
            out.field("dialect", dialect);
        }
        if !whole {
            return out.field("messages", &self.message_count()).field("bytes", &self.bytes()).finish_non_exhaustive();
        }
        if let Some(sealed) = sealed {
            out.field("sealed", sealed);
        }
        out.field("at", at).field("messages", messages).field("reply_len", reply_len).field("tokens", tokens);
        out.field("model", model).field("finish_reason", finish_reason).field("usage", usage);
        out.field("incomplete", incomplete).field("metadata", metadata);
        out.field("recalled", recalled).field("provenance", provenance).finish()
    }
}

/// Returns the number of messages at the end that are one reply, as far as the messages show it.
pub(crate) fn default_reply_len(messages: &[Message]) -> usize {
    let joined = messages.iter().rev().take_while(|message| message.joins_reply()).count();
    // The first element of a reply may be one that joins no other.
    let first = messages[..messages.len() - joined].last().filter(|first| joined == 0 && first.is_reply());
    joined + usize::from(first.is_some())
}

/// An exchange with its position in the log. Cloning it only increments a reference count.
///
/// `Debug` shows the position and the exchange in one line, as [`Exchange`] does.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Recorded {
    /// Its position.
    pub seq: Seq,
    /// The exchange.
    pub exchange: Arc<Exchange>,
}

impl Recorded {
    /// Creates the recorded exchange at this position.
    #[must_use]
    pub fn new(seq: Seq, exchange: impl Into<Arc<Exchange>>) -> Self {
        Self { seq, exchange: exchange.into() }
    }

    /// Returns `true` if there is another exchange between this one and the one that it continues. The exchange in
    /// between can be that of another caller, an earlier, interrupted attempt to answer the same calls, or the result
    /// of another one of the calls.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.exchange.continues.is_some_and(|seq| seq.next() != self.seq)
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.seq)?;
        self.exchange.fmt(f)
    }
}

/// The token counts of an exchange's messages, by one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// The counter's name, such as `o200k_base`. All messages with a count share it.
    #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
    pub counter: Arc<str>,
    /// One count per message, in order, in tokens.
    pub counts: Vec<u32>,
}

fn write_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn read_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Text::deserialize(deserializer).map(|Text(text)| text.into())
}

/// A text that is read without a copy, unless it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The token usage that a provider reported for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// The tokens of the prompt that came from the provider's cache, if the provider reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
}

impl Usage {
    /// Creates the usage of a call, in tokens.
    #[must_use]
    pub const fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, cached_input_tokens: None }
    }
}

/// The id of an exchange within its conversation. Appending an exchange whose id is already in the log stores
/// nothing.
///
/// If a caller may repeat a request, it must use the same id each time, such as an `Idempotency-Key` or the message id
/// of its client. Other callers use a [generated](Self::generate) id. An id has 1 to 128 bytes of visible ASCII, so it
/// fits into a header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct ExchangeId(Arc<str>);

impl ExchangeId {
    /// The maximum length of an id, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Creates an id from the caller's text.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is empty, longer than [`MAX_LEN`](Self::MAX_LEN) bytes, or contains anything but
    /// visible ASCII.
    pub fn new(id: impl AsRef<str>) -> Result<Self, InvalidValue> {
        let id = id.as_ref();
        let legal = !id.is_empty() && id.len() <= Self::MAX_LEN && id.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(id.into())) } else { Err(InvalidValue::ExchangeId { len: id.len(), max: Self::MAX_LEN }) }
    }

    /// Creates a random id of 32 hexadecimal digits.
    ///
    /// The random numbers come from a generator in the process, which the operating system seeds. A copy of the process
    /// that `fork` makes, and that does not start another program, would create the same ids and [incarnations] as the
    /// original. Do not use this library in such a process.
    ///
    /// [incarnations]: crate::Incarnation::random
    #[must_use]
    pub fn generate() -> Self {
        let mut buffer = Uuid::encode_buffer();
        Self(Arc::from(&*Uuid::new_v4().as_simple().encode_lower(&mut buffer)))
    }

    /// Returns the id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ExchangeId {
    type Err = InvalidValue;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::new(id)
    }
}

impl TryFrom<String> for ExchangeId {
    type Error = InvalidValue;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::new(id)
    }
}

impl<'de> Deserialize<'de> for ExchangeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(id) = Text::deserialize(deserializer)?;
        Self::new(id).map_err(D::Error::custom)
    }
}

impl From<ExchangeId> for String {
    fn from(id: ExchangeId) -> Self {
        id.0.as_ref().into()
    }
}

/// A wall-clock time in whole milliseconds since the Unix epoch, which every store can represent.
///
/// It is meant for display and for expiry. Do not order exchanges by it, because the clocks of replicas differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the current time of this machine's clock, or the epoch if the clock is set to a time before it.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Creates the time this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_ids_and_sizes_and_no_text() {
        let id = ExchangeId::new("e1").unwrap();
        let mut exchange = Exchange::new(id, [Message::user("secret")]).continuing(Seq::new(2));
        let bytes = exchange.bytes();
        let recorded = Recorded::new(Seq::new(3), exchange.clone());
        let short = format!("3: Exchange {{ id: \"e1\", continues: 2, messages: 1, bytes: {bytes}, .. }}");
        assert_eq!(format!("{recorded:?}"), short);
        exchange.model = Some("gpt-4o".into());
        let whole = format!("{exchange:#?}");
        assert!(whole.contains("gpt-4o") && !whole.contains("secret"), "{whole}");
    }

    #[test]
    fn refuses_ids_that_do_not_fit_a_header() {
        for wrong in ["", "a b", "ä", "a\n", &"x".repeat(129)] {
            assert!(ExchangeId::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(ExchangeId::new("x".repeat(128)).is_ok());
    }

    #[test]
    fn generated_ids_are_legal_and_differ() {
        let (a, b) = (ExchangeId::generate(), ExchangeId::generate());
        assert_ne!(a, b);
        assert_eq!(ExchangeId::new(a.as_str()), Ok(a));
    }
}
