//! Counting the tokens of texts, messages and requests.
//!
//! A [`TokenCounter`] counts the tokens of a text. All counters of this module add the same costs for the other parts
//! of a message, except [`Estimate`], [`LangChainEstimate`], [`MessageCount`], and closures that count whole messages
//! ([`per_message`]):
//!
//! | part of a message | tokens |
//! |---|---|
//! | the message itself | [3](PER_MESSAGE), and 1 for its role |
//! | content (a text, or parts of type text), refusal | those of the text |
//! | readable reasoning | those of its text |
//! | sealed data: signatures, encrypted reasoning | its bytes divided by [6](Costs::sealed_bytes), rounded up |
//! | a name | those of the name, and 1 |
//! | a tool call (also one in the older `function_call`) | 3, and those of the tool's name and of the arguments |
//! | an image | [85](IMAGE_LOW_DETAIL) at low detail, otherwise [1,445](IMAGE_HIGH_DETAIL) |
//! | audio | [600](AUDIO) |
//! | a file, a document, a video | [2,000](FILE) |
//! | a part of another type | those of its JSON |
//!
//! These are the costs of OpenAI's chat models. Source: OpenAI's cookbook, "How to count tokens with tiktoken". Images,
//! audio and files have a fixed cost, whatever the length of their base64 text. Call ids and fields that the format
//! does not know cost nothing, because models do not see them. [`RequestTokens`] counts the parts of a request other
//! than its messages.
//!
//! A counter with the model's own tokenizer is exact only for texts, names and calls. The tokens of media, of
//! reasoning and of sealed data are a guess with every counter.
//!
//! ```
//! use tower_chat_history::{
//!     Message,
//!     tokens::{ByteEstimate, TokenCounter, tokens_of},
//! };
//!
//! let counter = ByteEstimate::new();
//! assert_eq!(counter.count_text("12345678"), 2);
//! assert_eq!(tokens_of(&counter, &Message::user("12345678")), 3 + 1 + 2);
//! ```
//!
//! | counter | counts |
//! |---|---|
//! | [`ByteEstimate`] (the default) | an estimate by UTF-8 bytes, high enough for Chinese, Japanese and Korean prose |
//! | [`Estimate`] | an estimate by the words and characters of texts, with costs by family of models: Claude, Gemini, DeepSeek, Llama, Mistral, Qwen |
//! | [`LangChainEstimate`] | what LangChain's approximation counts, except the spelling of JSON |
//! | [`MessageCount`] | messages instead of tokens |
//! | [`per_text`] | texts by a closure, such as another model's tokenizer |
//! | [`per_message`] | whole messages by a closure |
//! | `Tiktoken`, `BpeOpenai` of `tower-chat-history-openai` | exactly what OpenAI's models count, for texts, names and calls |
//!
//! # Models without a public tokenizer
//!
//! [`Estimate`] has presets for families of models. It depends on two tables. The
//! [dialect](tower_chat_history_core::Dialect) of a message tells its [parts](tower_chat_history_core::Part): texts,
//! calls, results, images, documents, reasoning. The preset tells what the family of the model charges for each part. A
//! counter says with [`is_estimate`](TokenCounter::is_estimate) that its counts are estimates. The provider's reports
//! then [correct](crate::context::ContextBudget::calibrate) them in both directions.
//!
//! # Each message is counted once
//!
//! A message [remembers](Message::remember_tokens) the count of one counter, and [`tokens_of`] uses it. The engine
//! stores the counts with each exchange, so that loaded messages have them again. If a second counter counts the same
//! messages, the engine's cache remembers its counts in the process.

mod cache;
mod costs;
mod counters;
mod estimate;
mod framing;
mod langchain;

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

pub use self::{
    cache::CachedCounter,
    costs::{AUDIO, Costs, FILE, IMAGE_HIGH_DETAIL, IMAGE_LOW_DETAIL, PER_MESSAGE, REPLY_PRIMING},
    counters::{ByteEstimate, MessageCount, per_message, per_text},
    estimate::Estimate,
    framing::RequestTokens,
    langchain::LangChainEstimate,
};
pub(crate) use self::{
    cache::CountCache,
    costs::{DocumentCost, ImageCost, MediaCost, pixels},
    framing::has_fixed_cost,
};

/// Counts the tokens of texts and messages.
///
/// A counter must not panic on any text, must always return the same count for the same text, and must be fast, because
/// it runs on the threads that serve requests. The engine counts large texts on threads for blocking work.
pub trait TokenCounter: fmt::Debug + Send + Sync + 'static {
    /// Returns the name under which counts are remembered and stored, such as `o200k_base`. Counters with the same name
    /// must return the same counts. Return `None` if counts must not be remembered, either because counting again is
    /// cheap, or because the counts depend on more than the message.
    fn name(&self) -> Option<&Arc<str>>;

    /// Returns the tokens of a text.
    fn count_text(&self, text: &str) -> u32;

    /// Returns the tokens of a message. The default implementation adds up the [costs of its parts](self), with texts
    /// counted by [`count_text`](Self::count_text).
    fn count_message(&self, message: &Message) -> u32 {
        framing::message(self, &Costs::new(), message)
    }

    /// Returns the tokens that prime the reply. They are added once to each request. The default is [`REPLY_PRIMING`].
    fn reply_priming(&self) -> u32 {
        REPLY_PRIMING
    }

    /// Returns the tokens that the provider adds to each request with tools, besides the JSON of the tools. The default
    /// is 0.
    fn tools_priming(&self) -> u32 {
        0
    }

    /// Returns `true` if the counts are estimates, which may be far above or below the model's own. The
    /// [correction](crate::context::ContextBudget::calibrate) by the provider's reports then has wider bounds. The
    /// default is `false`, for counters with the model's tokenizer.
    fn is_estimate(&self) -> bool {
        false
    }

    /// Returns `true` if the counter can count immediately. Return `false` if the first count takes long, for example
    /// because it loads a vocabulary. The engine then makes that count on a thread for blocking work. The default
    /// implementation returns `true`.
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

    fn tools_priming(&self) -> u32 {
        (**self).tools_priming()
    }

    fn is_estimate(&self) -> bool {
        (**self).is_estimate()
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }
}

/// Returns the tokens of a message. If the message already remembers the counter's count, that count is returned.
/// Otherwise the message is counted, and remembers the count.
pub fn tokens_of<C: TokenCounter + ?Sized>(counter: &C, message: &Message) -> u32 {
    let Some(name) = counter.name() else { return counter.count_message(message) };
    message.tokens_by(name).unwrap_or_else(|| {
        let tokens = counter.count_message(message);
        message.remember_tokens(name, tokens);
        tokens
    })
}

/// Returns the sum of the [tokens of these messages](tokens_of).
pub fn count_messages<C: TokenCounter + ?Sized>(counter: &C, messages: &[Message]) -> u64 {
    messages.iter().map(|message| u64::from(tokens_of(counter, message))).sum()
}

/// Converts a length to a count of tokens. Real lengths are far below the limit.
fn count_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
