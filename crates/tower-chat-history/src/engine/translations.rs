//! The translations that an engine keeps, so that the next call of a conversation need not make them again.

use std::{
    collections::hash_map::RandomState,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use quick_cache::{
    Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tower_chat_history_core::{ConversationId, Dialect, Prefix, Seq, Translated, Untranslated};

use crate::last_used::{IDLE_LIMIT, LastUsed, UseClock};

/// The smallest size of a shard, in bytes, except in a smaller cache. The cache is divided into shards, each with a
/// lock, and a translation that is larger than a shard is not kept. Three exchanges of the default
/// [`LoadLimit`](tower_chat_history_core::LoadLimit) fit, each with its translation.
const SHARD_BYTES: usize = 32 << 20;

/// The smallest number of items per shard in `quick_cache`, which derives the number of shards from the expected
/// number of items.
const ITEMS_PER_SHARD: usize = 32;

/// The size of a kept translation without its two exchanges and its texts, in bytes: its slots in the tables of the
/// cache, and its block. It is an upper bound.
const ENTRY_BYTES: usize = 512;

/// The translations of an engine. Those that are seldom used are evicted.
///
/// A translation depends on the exchange, its position, the calls that it answers, the dialect and the provider. It is
/// found only for an equal exchange that answers the same calls, so it is never used for an exchange that was stored in
/// place of a deleted one. A translation that was not used for an hour is removed when the cache is next used.
pub(super) struct TranslationCache {
    kept: Cache<Key, Arc<Kept>, ByBytes, RandomState>,
    clock: UseClock,
    /// The number of times that conversations were forgotten.
    forgotten: AtomicU64,
}

/// The place of an exchange, and the call for which it is translated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    conversation: ConversationId,
    seq: Seq,
    to: &'static str,
    provider: Option<String>,
}

struct Kept {
    of: Untranslated,
    translated: Translated,
    /// The size of both exchanges when they were kept. The cache subtracts what it has added.
    bytes: usize,
    used: LastUsed,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Arc<Kept>> for ByBytes {
    fn weight(&self, key: &Key, kept: &Arc<Kept>) -> u64 {
        let provider = key.provider.as_ref().map_or(0, String::len);
        (ENTRY_BYTES + key.conversation.as_str().len() + provider).saturating_add(kept.bytes) as u64
    }
}

/// The call for which the exchanges of a conversation are translated.
#[derive(Clone, Copy)]
pub(super) struct TranslatedFor<'a> {
    pub(super) conversation: &'a ConversationId,
    pub(super) to: &'static dyn Dialect,
    pub(super) provider: Option<&'a str>,
}

impl TranslatedFor<'_> {
    fn key(self, seq: Seq) -> Key {
        let provider = self.provider.map(str::to_owned);
        Key { conversation: self.conversation.clone(), seq, to: self.to.name(), provider }
    }
}

impl TranslationCache {
    /// Creates a cache that takes at most `bytes` bytes of memory, by its estimate.
    pub(super) fn new(bytes: usize) -> Self {
        // `quick_cache` rounds the number of shards up to a power of two, so the number is rounded down here.
        let shards = 1 << (bytes / SHARD_BYTES).max(1).ilog2().min(6);
        let items = shards * ITEMS_PER_SHARD;
        // Ids come from users, so their hashes are keyed.
        let kept = Cache::with(items, bytes as u64, ByBytes, RandomState::new(), DefaultLifecycle::default());
        Self { kept, clock: UseClock::new(), forgotten: AtomicU64::new(0) }
    }

    /// Returns the translation of this exchange if it is kept.
    pub(super) fn get(&self, call: TranslatedFor<'_>, of: &Untranslated) -> Option<Translated> {
        if self.clock.is_search_due() {
            let is_idle = self.clock.idle_for(IDLE_LIMIT);
            self.kept.retain(|_, kept| !is_idle(&kept.used));
        }
        let kept = self.kept.get(&call.key(of.recorded().seq))?;
        self.clock.touch(&kept.used);
        (kept.of == *of).then(|| kept.translated.clone())
    }

    /// Returns the number of times that conversations were forgotten. Read it before translating.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Keeps a translation of this exchange, in place of that of another exchange at its position. If conversations
    /// were forgotten since `forgotten` was read, nothing is kept.
    pub(super) fn insert(&self, call: TranslatedFor<'_>, of: Untranslated, translated: Translated, forgotten: u64) {
        let bytes = of.memory().saturating_add(translated.exchange.memory());
        let (key, used) = (call.key(of.recorded().seq), LastUsed::default());
        self.clock.touch(&used);
        self.kept.insert(key.clone(), Arc::new(Kept { of, translated, bytes, used }));
        // Checked after the insertion: otherwise, conversations could be forgotten between check and insertion.
        if self.forgotten() != forgotten {
            self.kept.remove(&key);
        }
    }

    /// Removes all translations of conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.kept.retain(|key, _| !under.contains(&key.conversation));
    }
}

impl fmt::Debug for TranslationCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranslationCache").field("bytes", &self.kept.weight()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{
        AnthropicMessages, ChatCompletions, Exchange, ExchangeId, Message, Origin, Recorded, Translator,
    };

    use super::*;

    fn id(name: &str) -> ConversationId {
        ConversationId::new([name]).unwrap()
    }

    fn next(recorded: &Recorded) -> Untranslated {
        Translator::new(&AnthropicMessages, &Origin::UNKNOWN).next(recorded)
    }

    fn recorded(seq: u64, text: &str) -> Untranslated {
        let messages = [Message::user(text), Message::assistant("a")];
        next(&Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::new("x").unwrap(), messages)))
    }

    fn anthropic(conversation: &ConversationId) -> TranslatedFor<'_> {
        TranslatedFor { conversation, to: &AnthropicMessages, provider: Some("p") }
    }

    fn translated(of: &Untranslated) -> Translated {
        of.translate(&AnthropicMessages, &Origin::unknown().provider("p")).unwrap()
    }

    #[test]
    fn a_translation_is_found_only_for_its_exchange_and_its_call() {
        let (translations, id, other) = (TranslationCache::new(1 << 20), id("c"), id("d"));
        let (first, call) = (recorded(3, "u"), anthropic(&id));
        let kept = translated(&first);
        translations.insert(call, first.clone(), kept.clone(), 0);
        let found = translations.get(call, &first).unwrap();
        assert!(Arc::ptr_eq(&found.exchange, &kept.exchange));
        let stored = first.recorded();
        let again = next(&Recorded::new(stored.seq, Exchange::clone(&stored.exchange)));
        assert_eq!(translations.get(call, &again).as_ref(), Some(&kept), "another load of the same exchange");

        assert_eq!(translations.get(call, &recorded(4, "u")), None, "another position");
        assert_eq!(translations.get(anthropic(&other), &first), None, "another conversation");
        assert_eq!(translations.get(TranslatedFor { to: &ChatCompletions, ..call }, &first), None, "another dialect");
        assert_eq!(translations.get(TranslatedFor { provider: None, ..call }, &first), None, "another provider");
        let replaced = recorded(3, "another text under the same id");
        assert_eq!(translations.get(call, &replaced), None, "an exchange that was stored in its place");
        let mut changed = Exchange::clone(&stored.exchange);
        changed.continues = Some(Seq::FIRST);
        assert_eq!(translations.get(call, &next(&Recorded::new(stored.seq, changed))), None, "another round");

        translations.insert(call, replaced.clone(), translated(&replaced), 0);
        assert_eq!(translations.get(call, &first), None, "only the newest exchange of a position is kept");
        translations.forget(&Prefix::from(&other));
        assert!(translations.get(call, &replaced).is_some(), "another conversation was forgotten");
        translations.forget(&Prefix::from(&id));
        assert_eq!(translations.get(call, &replaced), None);
        translations.insert(call, replaced.clone(), translated(&replaced), 0);
        assert_eq!(translations.get(call, &replaced), None, "it was made from what was loaded before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_translation_that_was_not_used_for_an_hour_is_dropped_by_the_next_use() {
        let (translations, id, other) = (TranslationCache::new(1 << 20), id("c"), id("d"));
        let recorded = recorded(0, "u");
        translations.insert(anthropic(&id), recorded.clone(), translated(&recorded), 0);
        tokio::time::advance(IDLE_LIMIT / 2).await;
        assert_eq!(translations.get(anthropic(&other), &recorded), None);
        assert_eq!(translations.kept.len(), 1);
        tokio::time::advance(IDLE_LIMIT / 2).await;
        assert_eq!(translations.get(anthropic(&other), &recorded), None);
        assert_eq!(translations.kept.len(), 0);
    }

    #[test]
    fn the_limit_counts_both_exchanges() {
        const LIMIT: usize = 1 << 20;
        let (translations, id) = (TranslationCache::new(LIMIT), id("c"));
        let call = anthropic(&id);
        let all: Vec<Untranslated> = (0..1_000).map(|seq| recorded(seq, &"x".repeat(10_000))).collect();
        for recorded in &all {
            translations.insert(call, recorded.clone(), translated(recorded), 0);
            assert!(translations.kept.weight() <= LIMIT as u64);
        }
        let kept: Vec<u64> = all
            .iter()
            .filter(|kept| translations.get(call, kept).is_some())
            .map(|kept| kept.recorded().seq.get())
            .collect();
        // Each takes twice 10 KB, and a little more.
        assert!((40..=52).contains(&kept.len()), "{} translations", kept.len());
        assert_eq!(kept.last(), Some(&999), "the newest is kept");

        let large = recorded(0, &"x".repeat(LIMIT));
        translations.insert(call, large.clone(), translated(&large), 0);
        assert_eq!(translations.get(call, &large), None, "it is larger than the cache");
        assert!(translations.kept.weight() <= LIMIT as u64);
    }

    #[test]
    fn a_cache_of_no_bytes_keeps_nothing() {
        let (translations, id, recorded) = (TranslationCache::new(0), id("c"), recorded(0, "u"));
        translations.insert(anthropic(&id), recorded.clone(), translated(&recorded), 0);
        assert_eq!(translations.get(anthropic(&id), &recorded), None);
    }
}
