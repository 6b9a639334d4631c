//! What one model call adds to a conversation.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    exchange_id::ExchangeId,
    memory::{block, shared},
    message::Message,
    seq::Seq,
    timestamp::Timestamp,
};

/// What one model call adds to a conversation: its input messages and the reply, stored as one record.
///
/// An exchange is written whole or not at all. It is never changed afterwards: trimming and summarizing write
/// [compactions](crate::Compaction) beside the log.
///
/// Input without a reply is legal: an imported log may end with a question.
///
/// `Debug` shows the id and sizes in one line, and in its alternate form (`{:#?}`) all fields. Neither shows message
/// text.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Exchange {
    /// Makes the append idempotent.
    pub id: ExchangeId,
    /// When the exchange was made, by the clock of the process that made it.
    pub at: Timestamp,
    /// The exchange whose tool calls this one answers. `None` opens a new turn.
    pub continues: Option<Seq>,
    /// The input in order, then the reply.
    pub messages: Vec<Message>,
    /// What the messages cost, so that each is counted once in its life. See [`share_counts`](Self::share_counts).
    pub tokens: Option<TokenCounts>,
    /// The model that answered, as it named itself.
    pub model: Option<String>,
    /// Why the model stopped, as the provider said it (`stop`, `length`, `tool_calls`, …).
    pub finish_reason: Option<String>,
    /// What the provider reported for the call.
    pub usage: Option<Usage>,
    /// Whether the reply broke off: the stream was interrupted and its text kept.
    pub incomplete: bool,
}

impl Exchange {
    /// An exchange of these messages, made now, that opens a turn.
    #[must_use]
    pub fn new(id: ExchangeId, messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            id,
            at: Timestamp::now(),
            continues: None,
            messages: messages.into_iter().collect(),
            tokens: None,
            model: None,
            finish_reason: None,
            usage: None,
            incomplete: false,
        }
    }

    /// The same exchange, answering the tool calls of the exchange at `seq`.
    #[must_use]
    pub fn continuing(mut self, seq: Seq) -> Self {
        self.continues = Some(seq);
        self
    }

    /// Tells its messages what they cost by the counts that are stored with it, as far as they do not know it:
    /// [`Message::tokens_by`] then answers without counting. Counts that are not one a message are left out.
    ///
    /// [`decode`](Self::decode) does it, and whoever makes an exchange with counts from elsewhere.
    pub fn share_counts(&self) {
        let Some(TokenCounts { counter, counts }) = &self.tokens else { return };
        if counts.len() == self.messages.len() {
            let counter = Arc::from(counter.as_str());
            for (message, tokens) in self.messages.iter().zip(counts) {
                message.remember_tokens(&counter, *tokens);
            }
        }
    }

    /// Whether this exchange begins a turn (it answers no earlier exchange's calls). A window starts at an opening only.
    ///
    /// Whatever calls are open before it, an opening closes. So an exchange of nothing but tool results and blank
    /// replies should [continue](Self::continues) the one before it, as an [import](crate::Conversation::import) makes
    /// it do.
    #[must_use]
    pub const fn opens_turn(&self) -> bool {
        self.continues.is_none()
    }

    /// The size of its messages' JSON in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(Message::bytes).sum()
    }

    /// Returns how many messages this exchange counts as under a [limit](crate::LoadLimit): as many as it has, and 1 if
    /// it has none. A store that keeps sums of messages sums these.
    #[must_use]
    pub fn counted_messages(&self) -> usize {
        self.messages.len().max(1)
    }

    /// Returns an estimate of the memory that this exchange takes in an `Arc`, in bytes: its
    /// [messages](Message::memory), its other fields, and a constant. A store or a cache that has a limit counts by it.
    #[must_use]
    pub fn memory(&self) -> usize {
        let messages: usize = self.messages.iter().map(Message::memory).sum();
        let list = block(self.messages.capacity().saturating_mul(size_of::<Message>()));
        let text = |text: &Option<String>| text.as_ref().map_or(0, |text| block(text.capacity()));
        let tokens = self.tokens.as_ref().map_or(0, |TokenCounts { counter, counts }| {
            // The counter's name once more, for the messages that remember their counts.
            block(counter.capacity())
                + shared(counter.len())
                + block(counts.capacity().saturating_mul(size_of::<u32>()))
        });
        let id = shared(self.id.as_str().len());
        shared(size_of::<Self>()) + id + list + messages + tokens + text(&self.model) + text(&self.finish_reason)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete } = self;
        let whole = f.alternate();
        let mut out = f.debug_struct("Exchange");
        out.field("id", &id.as_str());
        if let Some(continues) = continues {
            out.field("continues", &continues.get());
        }
        if !whole {
            return out.field("messages", &messages.len()).field("bytes", &self.bytes()).finish_non_exhaustive();
        }
        out.field("at", at).field("messages", messages).field("tokens", tokens).field("model", model);
        out.field("finish_reason", finish_reason).field("usage", usage).field("incomplete", incomplete).finish()
    }
}

/// An exchange at its place in the log. A clone is a reference count.
///
/// `Debug` shows the position and the exchange in one line, as [`Exchange`] does.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Recorded {
    /// Its position.
    pub seq: Seq,
    /// What was recorded.
    pub exchange: Arc<Exchange>,
}

impl Recorded {
    /// The exchange at that position.
    #[must_use]
    pub fn new(seq: Seq, exchange: impl Into<Arc<Exchange>>) -> Self {
        Self { seq, exchange: exchange.into() }
    }

    /// Whether another exchange came between this one and the one it answers. That may also be an earlier attempt to
    /// answer it, whose reply broke off, or results that were stored one by one.
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

/// Token counts of an exchange's messages, by one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// The counter's name, such as `o200k_base`.
    pub counter: String,
    /// One count a message, in order, in tokens.
    pub counts: Vec<u32>,
}

/// Tokens that a provider reported for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Those of the prompt that came from the provider's cache, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
}

impl Usage {
    /// The usage of a call, in tokens.
    #[must_use]
    pub const fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, cached_input_tokens: None }
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
}
