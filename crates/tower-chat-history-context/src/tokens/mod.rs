//! Counting tokens: of a text, of a message, of what a request has besides its messages.
//!
//! A [`TokenCounter`] knows what a text costs. What a message costs beyond its text is the same for all of them:
//!
//! | part of a message | tokens |
//! |---|---|
//! | the message itself | [3](PER_MESSAGE), and 1 for its role |
//! | content: a text, or parts that are text; a refusal | those of the text |
//! | a name | those of the name, and 1 |
//! | a tool call (also one in the older `function_call`) | 3, and those of the tool's name and of the arguments |
//! | an image | [85](IMAGE_LOW_DETAIL) at low detail, [1,445](IMAGE_HIGH_DETAIL) at high, automatic or no stated one |
//! | audio | [600](AUDIO) |
//! | a file, a document, a video | [2,000](FILE) |
//! | a part of another type | those of its JSON |
//!
//! The framing is that of OpenAI's chat models (its cookbook on counting tokens). Pictures and sound never cost what their
//! base64 would. A call's id, the id that a result answers and fields that the format does not know cost nothing: models do
//! not see them. What a [request](RequestTokens) costs besides its messages is counted too.
//!
//! ```
//! use tower_chat_history_context::{Message, tokens::{ByteEstimate, TokenCounter, tokens_of}};
//!
//! let counter = ByteEstimate::new();
//! assert_eq!(counter.count_text("12345678"), 2);
//! assert_eq!(tokens_of(&counter, &Message::user("12345678")), 3 + 1 + 2);
//! ```
//!
//! | counter | what it is | where |
//! |---|---|---|
//! | `Tiktoken`, `BpeOpenai` | exact, for OpenAI's models | `tower-chat-history-openai` |
//! | [`ByteEstimate`] | by the UTF-8 bytes; does not under-count Chinese, Japanese and Korean | default |
//! | [`LangChainEstimate`] | LangChain's formula, to the token | |
//! | [`MessageCount`] | messages in place of tokens | |
//! | [`PerText`] | a closure for each text, such as another model's tokenizer | |
//! | [`PerMessage`] | a closure that counts all of a message | |
//! | [`PerList`] | a closure for a whole list; for [`trim_messages`](crate::trim::trim_messages) only | |
//!
//! # Counted once
//!
//! A message is counted once in its life. [`tokens_of`] asks the message first, which [remembers](Message::remember_tokens)
//! one counter's count; the engine stores the counts with each exchange, and a message that is loaded knows them again. A
//! second counter over the same messages is served by a [`CountCache`] in the process.

mod bytes;
mod cache;
mod closures;
mod framing;
mod langchain;
mod parts;
mod per_text;
mod python;
mod request;

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

#[doc(hidden)]
pub use self::framing::has_fixed_cost;
pub use self::{
    bytes::ByteEstimate,
    cache::{Cached, CountCache},
    closures::{MessageCount, PerList, PerMessage},
    framing::PER_MESSAGE,
    langchain::LangChainEstimate,
    parts::{AUDIO, FILE, IMAGE_HIGH_DETAIL, IMAGE_LOW_DETAIL},
    per_text::PerText,
    request::{REPLY_PRIMING, RequestTokens},
};

/// Counts the tokens of texts and messages.
///
/// It must not panic on any text, count the same text always the same, and be quick: counts are made where requests are
/// served. Large texts are counted on threads for blocking work where the engine of `tower-chat-history` counts.
pub trait TokenCounter: fmt::Debug + Send + Sync + 'static {
    /// The name that its counts are remembered and stored under, such as `o200k_base`. Counters of one name have to count
    /// alike. `None`: the counts are not to be remembered, for they cost nothing or depend on more than the message.
    fn name(&self) -> Option<&Arc<str>>;

    /// The tokens of a text.
    fn count_text(&self, text: &str) -> u32;

    /// The tokens of a message. As it stands: [what its parts cost](self), with the text counted by
    /// [`count_text`](Self::count_text).
    fn count_message(&self, message: &Message) -> u32 {
        framing::message(self, message)
    }

    /// What primes the reply, which every request costs. The default is [`REPLY_PRIMING`].
    fn reply_priming(&self) -> u32 {
        REPLY_PRIMING
    }

    /// Whether it can count at once. Otherwise its first count takes long (it loads a vocabulary), and is done where it blocks
    /// nobody. The default is that it can.
    fn is_ready(&self) -> bool {
        true
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: TokenCounter + ?Sized> TokenCounter for Arc<C> {
    fn name(&self) -> Option<&Arc<str>> {
        (**self).name()
    }

    fn count_text(&self, text: &str) -> u32 {
        (**self).count_text(text)
    }

    fn count_message(&self, message: &Message) -> u32 {
        (**self).count_message(message)
    }

    fn reply_priming(&self) -> u32 {
        (**self).reply_priming()
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }
}

/// The tokens of a message: what it remembers, or else what is counted now, which it then remembers.
pub fn tokens_of<C: TokenCounter + ?Sized>(counter: &C, message: &Message) -> u32 {
    let Some(name) = counter.name() else { return counter.count_message(message) };
    message.tokens_by(name).unwrap_or_else(|| {
        let tokens = counter.count_message(message);
        message.remember_tokens(name, tokens);
        tokens
    })
}

/// Counts lists of messages: any [`TokenCounter`], whose counts add up, or a [closure](PerList) that sees the whole list.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not count messages",
    note = "use a `TokenCounter`, or wrap a closure in `PerMessage` or `PerList`"
)]
pub trait CountMessages {
    /// The tokens of the list.
    fn count(&self, messages: &[Message]) -> u64;

    /// The tokens of one message, if those of a list are the sum of its messages' tokens.
    fn count_one(&self, message: &Message) -> Option<u64>;
}

impl<C: TokenCounter + ?Sized> CountMessages for C {
    fn count(&self, messages: &[Message]) -> u64 {
        messages.iter().map(|message| u64::from(tokens_of(self, message))).sum()
    }

    fn count_one(&self, message: &Message) -> Option<u64> {
        Some(u64::from(tokens_of(self, message)))
    }
}

/// A length as a count of tokens. None comes near the largest.
fn count_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
