//! Counts of a second counter.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use quick_cache::sync::Cache;
use tower_chat_history_core::Message;

use super::TokenCounter;

/// Counts that are remembered in the process, for messages that remember those of another counter: two layers with two
/// models over one log, or a log that was written when the service had another model.
///
/// It is bounded, and holds no text: a message is known by a hash of its JSON, keyed anew in each process. Counters without a
/// name are not told apart: keep them in caches of their own.
pub struct CountCache {
    counts: Cache<u64, u32>,
    key: RandomState,
}

impl CountCache {
    /// A cache of at most about that many counts, of some 30 bytes each.
    #[must_use]
    pub fn new(counts: usize) -> Self {
        Self { counts: Cache::new(counts), key: RandomState::new() }
    }

    /// The tokens of a message: what it remembers, or else what the cache has, or else what is counted now.
    pub fn tokens_of<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> u32 {
        if let Some(tokens) = counter.name().and_then(|name| message.tokens_by(name)) {
            return tokens;
        }
        // Also where the message itself has room for it: a message that is loaded is another one at every load.
        let tokens = self.get_or_count(self.message_key(counter, message), || counter.count_message(message));
        if let Some(name) = counter.name() {
            message.remember_tokens(name, tokens);
        }
        tokens
    }

    /// The tokens of a text: what the cache has, or else what is counted now.
    pub fn tokens_of_text<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> u32 {
        self.get_or_count(self.text_key(counter, text), || counter.count_text(text))
    }

    #[doc(hidden)]
    /// Returns whether a message need not be counted any more.
    pub fn knows<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> bool {
        let remembers = counter.name().is_some_and(|name| message.tokens_by(name).is_some());
        remembers || self.counts.peek(&self.message_key(counter, message)).is_some()
    }

    #[doc(hidden)]
    /// Returns whether a text need not be counted any more.
    pub fn knows_text<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> bool {
        self.counts.peek(&self.text_key(counter, text)).is_some()
    }

    fn message_key<C: TokenCounter + ?Sized>(&self, counter: &C, message: &Message) -> u64 {
        self.key.hash_one((counter.name(), true, message.json()))
    }

    fn text_key<C: TokenCounter + ?Sized>(&self, counter: &C, text: &str) -> u64 {
        self.key.hash_one((counter.name(), false, text))
    }

    fn get_or_count(&self, key: u64, count: impl FnOnce() -> u32) -> u32 {
        self.counts.get(&key).unwrap_or_else(|| {
            let tokens = count();
            self.counts.insert(key, tokens);
            tokens
        })
    }
}

/// A counter with a [`CountCache`]: for lists of messages that are made anew from call to call, such as those of
/// [`trim_messages`](crate::trim::trim_messages) behind a parser. The engine of `tower-chat-history` has a cache of its own.
#[derive(Debug)]
pub struct Cached<C> {
    counter: C,
    cache: CountCache,
}

impl<C: TokenCounter> Cached<C> {
    /// The counter with a cache of the default size.
    #[must_use]
    pub fn new(counter: C) -> Self {
        Self { counter, cache: CountCache::default() }
    }
}

impl<C: TokenCounter> TokenCounter for Cached<C> {
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

    fn is_ready(&self) -> bool {
        self.counter.is_ready()
    }
}

impl Default for CountCache {
    /// Of 65,536 counts, which is about 2 MiB.
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

    use super::*;
    use crate::tokens::{ByteEstimate, tokens_of};

    #[derive(Debug)]
    struct Counting {
        name: Arc<str>,
        asked: AtomicU32,
    }

    impl Counting {
        fn new(name: &str) -> Self {
            Self { name: name.into(), asked: AtomicU32::new(0) }
        }

        fn asked(&self) -> u32 {
            self.asked.load(Ordering::Relaxed)
        }
    }

    impl TokenCounter for Counting {
        fn name(&self) -> Option<&Arc<str>> {
            Some(&self.name)
        }

        fn count_text(&self, text: &str) -> u32 {
            self.asked.fetch_add(1, Ordering::Relaxed);
            text.len() as u32
        }
    }

    #[test]
    fn a_message_is_counted_once() {
        let (counter, message) = (Counting::new("a"), Message::user("four"));
        for message in [&message, &message.clone()] {
            assert_eq!(tokens_of(&counter, message), 8);
        }
        assert_eq!((counter.asked(), message.tokens_by("a"), message.tokens_by("b")), (1, Some(8), None));
    }

    #[test]
    fn a_second_counter_is_served_by_the_cache() {
        let (cache, second) = (CountCache::default(), Counting::new("b"));
        for _ in 0..3 {
            // As loads do, which make the message anew and tell it the first counter's count.
            let message = Message::user("four");
            tokens_of(&ByteEstimate::new(), &message);
            assert_eq!(cache.tokens_of(&second, &message), 8);
        }
        assert_eq!(second.asked(), 1);
        let third = Counting::new("c");
        let message = Message::user("four");
        tokens_of(&second, &message);
        cache.tokens_of(&third, &message);
        assert_eq!(third.asked(), 1, "counters of other names are not mixed up");
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
