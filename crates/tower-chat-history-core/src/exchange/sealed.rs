//! The encrypted content of an exchange.

use serde::{Deserialize, Serialize};

use super::Exchange;
use crate::message::DialectName;

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
}

impl Sealed {
    /// Creates the content from the encrypted text, the number of encrypted messages, and the size of their JSON in
    /// bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more messages than bytes, or more bytes than the text has. Then the sizes cannot
    /// be those of the content.
    pub fn new(text: String, messages: usize, bytes: usize) -> Result<Self, SealedError> {
        if messages > bytes || bytes > text.len() {
            return Err(SealedError { messages, bytes, text: text.len() });
        }
        Ok(Self { text, messages, bytes })
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

    /// Returns the capacity of the text, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity()
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed").field("messages", &self.messages).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The stored form, whose sizes are not checked yet.
#[derive(Deserialize)]
struct StoredSealed {
    text: String,
    messages: usize,
    bytes: usize,
}

impl TryFrom<StoredSealed> for Sealed {
    type Error = SealedError;

    fn try_from(StoredSealed { text, messages, bytes }: StoredSealed) -> Result<Self, SealedError> {
        Self::new(text, messages, bytes)
    }
}

/// The error for encrypted content with sizes that it cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid sizes of encrypted content: {messages} messages of {bytes} bytes in a text of {text} bytes")]
pub struct SealedError {
    messages: usize,
    bytes: usize,
    text: usize,
}

impl Exchange {
    /// Returns this exchange with the text in place of its content. Its id, its time, the exchange that it continues
    /// and the sizes of its messages stay visible. Its recalled messages and its provenance are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is shorter than the messages' JSON.
    pub fn sealed_as(&self, text: String) -> Result<Self, SealedError> {
        let sealed = Sealed::new(text, self.message_count(), self.bytes())?;
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

    #[test]
    fn a_sealed_exchange_is_read_back() {
        let sealed = sealed("x");
        assert_eq!(Exchange::decode(&sealed.encode().unwrap()).unwrap(), sealed);
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
    }

    #[test]
    fn debug_does_not_show_the_text() {
        assert!(!format!("{:#?}", sealed("secret")).contains("secret"));
    }
}
