//! A cache of counts, for messages that already remember the count of another counter.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use quick_cache::sync::Cache;
use tower_chat_history_core::{Dialect, Message};

use super::TokenCounter;

/// A cache of counts, for messages that already remember the count of another counter: a message remembers only one.
/// Use it if two layers with different models use the same log, or if a log was written while the service used another
/// model.
///
/// The cache is bounded and contains no text: its keys are hashes of the messages' JSON, with a random key for each
/// cache. It distinguishes counters by their names, and messages also by their dialects. Do not share a cache between
/// counters without a name.
pub(crate) struct CountCache {
    counts: Cache<u64, u32>,
    key: RandomState,
}

impl CountCache {
    /// Creates a cache of about `counts` counts at most. A count takes about 30 bytes.
    pub(crate) fn new(counts: usize) -> Self {
        Self { counts: Cache::new(counts), key: RandomState::new() }
    }

    /// Returns the tokens of a message: the count that the message remembers, or else the count in the cache. If there
    /// is neither, the message is counted.
    pub(crate) fn tokens_of<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> u32 {
        if let Some(tokens) = remembered(counter, message) {
            return tokens;
        }
        // The cache stores the count even if the message can remember it, because the next load creates a new message.
        let tokens = self.get_or_count(self.message_key(counter, message), || counter.count_message(message));
        if let Some(name) = counter.name() {
            message.remember_tokens(name, tokens);
        }
        tokens
    }

    /// Returns the tokens of a text. If the cache does not have its count, the text is counted.
    pub(crate) fn tokens_of_text<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> u32 {
        self.get_or_count(self.text_key(counter, text), || counter.count_text(text))
    }

    /// Returns the count of a message if it is known. The message remembers a count that was in the cache.
    #[inline]
    pub(crate) fn known<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> Option<u32> {
        remembered(counter, message).or_else(|| self.cached(counter, message))
    }

    /// Returns the count of a message if the cache has it. The message then remembers it.
    fn cached<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> Option<u32> {
        let tokens = self.counts.get(&self.message_key(counter, message))?;
        if let Some(name) = counter.name() {
            message.remember_tokens(name, tokens);
        }
        Some(tokens)
    }

    /// Returns `true` if the count of a text is known.
    pub(crate) fn knows_text<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> bool {
        self.counts.peek(&self.text_key(counter, text)).is_some()
    }

    fn message_key<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> u64 {
        // Dialects read the same JSON differently, and a counter counts what the message's dialect reads.
        let dialect = message.dialect().map(Dialect::name);
        self.key.hash_one((counter.name(), Some(dialect), message.json()))
    }

    fn text_key<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> u64 {
        self.key.hash_one((counter.name(), None::<Option<&str>>, text))
    }

    fn get_or_count(&self, key: u64, count: impl FnOnce() -> u32) -> u32 {
        self.counts.get(&key).unwrap_or_else(|| {
            let tokens = count();
            self.counts.insert(key, tokens);
            tokens
        })
    }
}

/// Returns the count that the message remembers, if it is of this counter.
#[inline]
fn remembered<C: TokenCounter + ?Sized>(counter: &C, message: &Message) -> Option<u32> {
    counter.name().and_then(|name| message.tokens_by(name))
}

/// A counter with a cache of its counts, for lists of messages that a program parses again for each call, for example
/// before it calls [`trim_messages`](crate::context::trim::trim_messages). The engine has its own cache.
#[derive(Debug)]
pub struct CachedCounter<C> {
    counter: C,
    cache: CountCache,
}

impl<C: TokenCounter> CachedCounter<C> {
    /// Wraps a counter in a cache of the default size.
    #[must_use]
    pub fn new(counter: C) -> Self {
        Self { counter, cache: CountCache::default() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: TokenCounter> TokenCounter for CachedCounter<C> {
    fn name(&self) -> Option<&Arc<str>> {
        self.counter.name()
    }

    fn count_text(&self, text: &str) -> u32 {
        self.cache.tokens_of_text(&self.counter, text)
    }

    fn count_message(&self, message: &Message) -> u32 {
        self.cache.tokens_of(&self.counter, message)
    }

    fn reply_priming(&self) -> u32 {
        self.counter.reply_priming()
    }

    fn tools_priming(&self) -> u32 {
        self.counter.tools_priming()
    }

    fn is_estimate(&self) -> bool {
        self.counter.is_estimate()
    }

    fn is_ready(&self) -> bool {
        self.counter.is_ready()
    }
}

impl Default for CountCache {
    /// Creates a cache of 65,536 counts, which takes about 2 MiB.
    fn default() -> Self {
        Self::new(1 << 16)
    }
}

impl fmt::Debug for CountCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountCache").field("counts", &self.counts.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tower_chat_history_core::AnthropicMessages;

    use super::*;
    use crate::context::tokens::{ByteEstimate, tokens_of};

    #[derive(Debug)]
    struct Counting {
        name: Arc<str>,
        counts: AtomicU32,
    }

    impl Counting {
        fn new(name: &str) -> Self {
            Self { name: name.into(), counts: AtomicU32::new(0) }
        }

        fn counts(&self) -> u32 {
            self.counts.load(Ordering::Relaxed)
        }
    }

    impl TokenCounter for Counting {
        fn name(&self) -> Option<&Arc<str>> {
            Some(&self.name)
        }

        fn count_text(&self, text: &str) -> u32 {
            self.counts.fetch_add(1, Ordering::Relaxed);
            text.len() as u32
        }
    }

    #[test]
    fn a_message_is_counted_once() {
        let (counter, message) = (Counting::new("a"), Message::user("four"));
        for message in [&message, &message.clone()] {
            assert_eq!(tokens_of(&counter, message), 8);
        }
        assert_eq!((counter.counts(), message.tokens_by("a"), message.tokens_by("b")), (1, Some(8), None));
    }

    #[test]
    fn the_cache_remembers_the_counts_of_a_second_counter() {
        let (cache, second) = (CountCache::default(), Counting::new("b"));
        for _ in 0..3 {
            // A load creates the message anew, with the count of the first counter.
            let message = Message::user("four");
            tokens_of(&ByteEstimate::new(), &message);
            assert_eq!(cache.tokens_of(&second, &message), 8);
        }
        assert_eq!(second.counts(), 1);
        let third = Counting::new("c");
        let message = Message::user("four");
        tokens_of(&second, &message);
        cache.tokens_of(&third, &message);
        assert_eq!(third.counts(), 1, "counters with different names have different entries");
    }

    #[test]
    fn messages_of_two_dialects_have_counts_of_their_own() {
        let (cache, counter) = (CountCache::default(), ByteEstimate::new());
        let named = format!(r#"{{"role":"user","content":"q","name":"{}"}}"#, "n".repeat(1_000));
        let image =
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#;
        for json in [&*named, image] {
            let (chat, other) =
                (Message::from_json(json).unwrap(), Message::in_dialect(&AnthropicMessages, json).unwrap());
            let counts = [&chat, &other].map(|message| counter.count_message(message));
            assert_ne!(counts[0], counts[1]);
            assert_eq!([&chat, &other].map(|message| cache.tokens_of(&counter, message)), counts);
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let (cache, counter) = (CountCache::new(10), Counting::new("b"));
        for number in 0..1_000 {
            let message = Message::user(number.to_string());
            tokens_of(&ByteEstimate::new(), &message);
            cache.tokens_of(&counter, &message);
        }
        assert!(cache.counts.len() <= 20, "{}", cache.counts.len());
    }
}
