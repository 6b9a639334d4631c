//! The encrypted content of an exchange.

use serde::{Deserialize, Serialize};

use super::Exchange;
use crate::{invalid::InvalidValue, message::DialectName};

/// The content of an exchange that a store wrapper has encrypted, with the sizes of what it contains.
///
/// The wrapper replaces the messages and what belongs to them by this value before the store sees them, and puts them
/// back when they are read. The sizes are those of the messages, so that limits, listings and prunes are as exact as
/// without encryption. `EncryptedStore` of the crate `tower-chat-history` (feature `encryption`) is such a wrapper.
///
/// `Debug` shows the sizes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredSealed")]
pub struct Sealed {
    text: String,
    messages: usize,
    bytes: usize,
    /// Absent in most records.
    #[serde(skip_serializing_if = "is_zero")]
    media_bytes: usize,
}

impl Sealed {
    /// Creates the content from the encrypted text, the number of encrypted messages, the size of their JSON in bytes,
    /// and how many of these bytes are [media](crate::Message::media_bytes).
    ///
    /// # Errors
    ///
    /// Returns an error if there are more messages than bytes, more bytes than the text has, or more media than bytes.
    /// Then the sizes cannot be those of the content.
    pub fn new(text: String, messages: usize, bytes: usize, media_bytes: usize) -> Result<Self, InvalidValue> {
        if messages > bytes || bytes > text.len() || media_bytes > bytes {
            return Err(InvalidValue::Sealed { messages, bytes, media_bytes, text: text.len() });
        }
        Ok(Self { text, messages, bytes, media_bytes })
    }

    /// Returns the encrypted text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of messages.
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.messages
    }

    /// Returns the size of the messages' JSON, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many of these bytes are [media](crate::Message::media_bytes).
    #[must_use]
    pub const fn media_bytes(&self) -> usize {
        self.media_bytes
    }

    /// Returns the capacity of the text, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity()
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Sealed");
        out.field("messages", &self.messages).field("bytes", &self.bytes).field("media_bytes", &self.media_bytes);
        out.finish_non_exhaustive()
    }
}

/// The stored form, whose sizes are not checked yet.
#[derive(Deserialize)]
struct StoredSealed {
    text: String,
    messages: usize,
    bytes: usize,
    #[serde(default)]
    media_bytes: usize,
}

// The signature is that of serde.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}

impl TryFrom<StoredSealed> for Sealed {
    type Error = InvalidValue;

    fn try_from(StoredSealed { text, messages, bytes, media_bytes }: StoredSealed) -> Result<Self, InvalidValue> {
        Self::new(text, messages, bytes, media_bytes)
    }
}

impl Exchange {
    /// Returns this exchange with the text in place of its content. Its id, its time, the exchange that it continues
    /// and the sizes of its messages stay visible. Its recalled messages and its provenance are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is shorter than the messages' JSON.
    pub fn sealed_as(&self, text: String) -> Result<Self, InvalidValue> {
        let sealed = Sealed::new(text, self.message_count(), self.bytes(), self.media_bytes())?;
        Ok(Self {
            id: self.id.clone(),
            at: self.at,
            continues: self.continues,
            dialect: DialectName::default(),
            messages: Vec::new(),
            sealed: Some(sealed),
            reply_len: 0,
            tokens: None,
            model: None,
            finish_reason: None,
            usage: None,
            incomplete: false,
            metadata: None,
            recalled: None,
            provenance: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExchangeId, Message, Seq};

    fn sealed(text: &str) -> Exchange {
        let messages = [Message::user("hi"), Message::assistant("hello")];
        let exchange = Exchange::new(ExchangeId::new("e1").unwrap(), messages).continuing(Seq::new(2));
        exchange.sealed_as(text.repeat(100)).unwrap()
    }

    #[test]
    fn sizes_are_those_of_the_messages() {
        let sealed = sealed("x");
        assert_eq!((sealed.message_count(), sealed.counted_messages(), sealed.bytes()), (2, 2, 68));
        assert_eq!((sealed.messages.len(), sealed.continues), (0, Some(Seq::new(2))));
    }

    /// An exchange with 2,000 bytes of media.
    fn sealed_photo() -> Exchange {
        let photo = Message::user("A".repeat(2_000));
        Exchange::new(ExchangeId::new("e1").unwrap(), [photo]).sealed_as("x".repeat(4_000)).unwrap()
    }

    #[test]
    fn media_are_those_of_the_messages() {
        assert_eq!((sealed_photo().bytes(), sealed_photo().media_bytes()), (2_028, 2_000));
        assert_eq!(sealed("x").media_bytes(), 0);
    }

    #[test]
    fn a_sealed_exchange_is_read_back() {
        for sealed in [sealed("x"), sealed_photo()] {
            assert_eq!(Exchange::decode(&sealed.encode().unwrap()).unwrap(), sealed);
        }
        assert!(!sealed("x").encode().unwrap().contains("media"), "records without media are as short as before");
    }

    #[test]
    fn a_record_with_impossible_sizes_or_with_messages_is_refused() {
        let record = sealed("x").encode().unwrap();
        for (from, to) in [
            (r#""bytes":68"#, r#""bytes":101"#),
            (r#""messages":2"#, r#""messages":69"#),
            (r#""messages":2"#, r#""messages":-1"#),
            (r#""messages":[]"#, r#""messages":[{"role":"user","content":"x"}]"#),
        ] {
            assert!(record.contains(from), "{record}");
            assert!(Exchange::decode(&record.replace(from, to)).is_err(), "{to}");
        }

        let record = sealed_photo().encode().unwrap();
        let more_media = record.replace(r#""media_bytes":2000"#, r#""media_bytes":2029"#);
        assert_ne!(record, more_media);
        assert!(Exchange::decode(&more_media).is_err());
    }

    #[test]
    fn debug_does_not_show_the_text() {
        assert!(!format!("{:#?}", sealed("secret")).contains("secret"));
    }
}
