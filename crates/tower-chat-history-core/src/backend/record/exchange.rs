//! The record of an exchange.

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::value::RawValue;

use super::{EXCHANGES, RECALLED, RecordError, VERSION, Version, encoded, message, messages, read};
use crate::{
    exchange::{Exchange, Sealed, TokenCounts, Usage, default_reply_len},
    exchange_id::ExchangeId,
    message::{DialectName, Message},
    metadata::Metadata,
    provenance::Provenance,
    seq::Seq,
    timestamp::Timestamp,
};

#[derive(Serialize)]
struct Written<'a> {
    v: u64,
    id: &'a ExchangeId,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<Seq>,
    /// Absent for chat completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'a DialectName>,
    /// Empty, because serde would parse the messages to write them. They are [put](messages::put) into the record.
    messages: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: &'a Option<Sealed>,
    /// Absent for chat completions if it is 1 for an exchange that ends with a reply, and 0 for any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_len: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: &'a Option<TokenCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: &'a Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
    /// It comes after the messages, because `messages::put` expects only numbers and texts before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: &'a Option<Metadata>,
}

#[derive(Deserialize)]
pub(super) struct ReadExchange {
    v: Version,
    id: ExchangeId,
    at: Timestamp,
    continues: Option<Seq>,
    #[serde(default)]
    dialect: DialectName,
    messages: Vec<Box<RawValue>>,
    sealed: Option<Sealed>,
    reply_len: Option<usize>,
    tokens: Option<TokenCounts>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    incomplete: bool,
    metadata: Option<Metadata>,
}

impl Exchange {
    /// Returns the text to store, which contains the messages and the [metadata](Self::metadata) byte for byte. The
    /// [recalled](Self::recalled) messages and the [provenance](Self::provenance) are not in it: store them in places of
    /// their own, as [`Recalled::encode`](crate::Recalled::encode) and [`Provenance::encode`] return them.
    ///
    /// # Errors
    ///
    /// Never fails for an exchange of this crate's own types. It returns a `Result` because serialization is
    /// fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let without_messages = encoded(&Written {
            v: VERSION,
            id: &self.id,
            at: self.at,
            continues: self.continues,
            dialect: Some(&self.dialect).filter(|dialect| !dialect.is_chat_completions()),
            messages: [],
            sealed: &self.sealed,
            reply_len: self.written_reply_len(),
            tokens: &self.tokens,
            model: &self.model,
            finish_reason: &self.finish_reason,
            usage: &self.usage,
            incomplete: self.incomplete,
            metadata: &self.metadata,
        })?;
        messages::put(&without_messages, &self.messages)
    }

    /// Returns the length of the reply, unless a reader finds it in the messages. A reader may not know other
    /// dialects than chat completions.
    fn written_reply_len(&self) -> Option<usize> {
        let is_usual = self.dialect.is_chat_completions() && self.reply_len == default_reply_len(&self.messages);
        (!is_usual).then_some(self.reply_len)
    }

    /// Reads the exchange that [`encode`](Self::encode) wrote. It has no recalled messages and no provenance.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        ExchangeRecords { exchange: record, recalled: None, provenance: None }.decode()
    }
}

/// The texts that a store has of one exchange.
#[derive(Clone, Copy)]
pub struct ExchangeRecords<'a> {
    /// The record, as [`Exchange::encode`] wrote it.
    pub exchange: &'a str,
    /// The recalled messages, as [`Recalled::encode`](crate::Recalled::encode) wrote them.
    pub recalled: Option<&'a str>,
    /// The provenance, as [`Provenance::encode`] wrote it.
    pub provenance: Option<&'a str>,
}

impl ExchangeRecords<'_> {
    /// Reads the exchange. Messages of a dialect that this crate does not have are read without an
    /// [index](Message::index), which [`Exchange::read_in`] adds.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the texts is not such a record, or if a newer version of this library wrote it.
    pub fn decode(self) -> Result<Exchange, RecordError> {
        let mut exchange = read(self.exchange, EXCHANGES)?;
        let recalled = self.recalled.map(|recalled| read(recalled, RECALLED)).transpose()?;
        exchange.recalled = recalled.map(|recalled| recalled.in_dialect(&exchange.dialect)).transpose()?;
        exchange.provenance = self.provenance.map(Provenance::decode).transpose()?.map(Box::new);
        exchange.share_counts();
        Ok(exchange)
    }
}

// The texts are private.
impl std::fmt::Debug for ExchangeRecords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = |text: Option<&str>| text.map(str::len);
        f.debug_struct("ExchangeRecords")
            .field("exchange_bytes", &self.exchange.len())
            .field("recalled_bytes", &bytes(self.recalled))
            .field("provenance_bytes", &bytes(self.provenance))
            .finish()
    }
}

/// Reads version 1.
pub(super) fn exchange_1(record: &str) -> Result<(Version, Exchange), serde_json::Error> {
    if let Some((read, messages)) = messages::take_plain(record) {
        return Ok(read.with_messages(messages));
    }
    exchange_of_any_form(record)
}

/// Reads version 1 with the JSON parser alone.
pub(super) fn exchange_of_any_form(record: &str) -> Result<(Version, Exchange), serde_json::Error> {
    let mut read: ReadExchange = serde_json::from_str(record)?;
    let messages = std::mem::take(&mut read.messages);
    if read.sealed.is_some() && !messages.is_empty() {
        return Err(serde_json::Error::custom("an encrypted exchange has messages"));
    }
    let messages = messages.into_iter().map(|json| message(&read.dialect, json));
    let messages = messages.collect::<Result<_, _>>()?;
    Ok(read.with_messages(messages))
}

impl ReadExchange {
    /// Returns `true` if the record is of chat completions and not encrypted.
    pub(super) fn may_have_chat_messages(&self) -> bool {
        self.dialect.is_chat_completions() && self.sealed.is_none()
    }

    /// Returns the exchange of this record with these messages, which were read from it.
    pub(super) fn with_messages(self, messages: Vec<Message>) -> (Version, Exchange) {
        let Self { v, id, at, continues, dialect, sealed, reply_len, tokens, .. } = self;
        let Self { model, finish_reason, usage, incomplete, metadata, .. } = self;
        // The reply of an unknown dialect is known only from the record.
        let reply_len = reply_len.unwrap_or_else(|| default_reply_len(&messages)).min(messages.len());
        let (recalled, provenance) = (None, None);
        let exchange = Exchange {
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
        };
        (v, exchange)
    }
}
