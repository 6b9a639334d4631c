//! Measuring the cached prefix: the part at the beginning of a prompt that also began the previous prompt. A
//! provider's prefix cache can serve this part.
//!
//! # Decisions
//!
//! - **Two prompts are compared by hashes of their messages.** This includes every cause of a change, also trimmers and
//!   the caller's head.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    sync::Arc,
};

use foldhash::fast::FixedState;
use quick_cache::{Weighter, sync::Cache};
use tower_chat_history_core::{ConversationId, Prefix};

/// The largest weight of all remembered prompts, in parts. A part takes 16 bytes, so this is about 4 MiB.
const MAX_PARTS: u64 = 1 << 18;

/// The weight of a conversation in addition to its parts and the text of its id: its slot in the cache, in parts.
const SLOT_PARTS: u64 = 16;

/// The expected number of conversations.
const EXPECTED_CONVERSATIONS: usize = 1 << 12;

/// The last planned prompt of each conversation, as hashes. The least recently used are evicted.
pub(crate) struct PrefixCache(Cache<ConversationId, Arc<[Part]>, ByParts>);

/// One part of a prompt.
#[derive(Clone, Copy)]
struct Part {
    /// The hash of the prompt up to this part, inclusive.
    hash: u64,
    /// The tokens of this part.
    tokens: u64,
}

#[derive(Clone)]
struct ByParts;

impl Weighter<ConversationId, Arc<[Part]>> for ByParts {
    fn weight(&self, id: &ConversationId, parts: &Arc<[Part]>) -> u64 {
        let id = id.as_str().len().div_ceil(size_of::<Part>());
        SLOT_PARTS.saturating_add(parts.len().saturating_add(id) as u64)
    }
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self(Cache::with_weighter(EXPECTED_CONVERSATIONS, MAX_PARTS, ByParts))
    }
}

impl PrefixCache {
    /// Forgets the conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.0.retain(|conversation, _| !under.contains(conversation));
    }

    /// Remembers this prompt, and returns its cached prefix: the number of tokens at its beginning that also began
    /// the conversation's previous prompt. Returns `None` for the first prompt.
    ///
    /// A prompt is given as the texts that are sent, each with its tokens, in the order in which a model reads them.
    pub(super) fn common_prefix<'a>(
        &self,
        conversation: &ConversationId,
        prompt: impl Iterator<Item = (&'a str, u64)>,
    ) -> Option<u64> {
        let mut hash = 0;
        let parts = prompt.map(|(text, tokens)| {
            let mut hasher = FixedState::with_seed(hash).build_hasher();
            hasher.write(text.as_bytes());
            hash = hasher.finish();
            Part { hash, tokens }
        });
        let parts: Arc<[Part]> = parts.collect();

        let before = self.0.get(conversation);
        self.0.insert(conversation.clone(), Arc::clone(&parts));

        let before = before?;
        let common = parts.iter().zip(before.iter()).take_while(|(now, before)| now.hash == before.hash);
        Some(common.map(|(now, _)| now.tokens).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(prefix_cache: &PrefixCache, conversation: &str, prompt: &[&str]) -> Option<u64> {
        let id = ConversationId::new([conversation]).unwrap();
        prefix_cache.common_prefix(&id, prompt.iter().map(|text| (*text, text.len() as u64)))
    }

    #[test]
    fn long_ids_count_by_their_size() {
        let weight = |id: &str| ByParts.weight(&ConversationId::new([id]).unwrap(), &Arc::from([]));
        assert_eq!(weight(&"a".repeat(1_000)) - weight("a"), 62);
    }

    #[test]
    fn the_common_prefix_of_two_prompts_is_counted() {
        let prefix_cache = PrefixCache::default();
        assert_eq!(common(&prefix_cache, "a", &["head", "u1"]), None);
        assert_eq!(common(&prefix_cache, "b", &["head", "other"]), None, "another conversation");
        assert_eq!(common(&prefix_cache, "a", &["head", "u1", "a1", "u2"]), Some(6));
        assert_eq!(common(&prefix_cache, "a", &["head", "u2", "a2", "u3"]), Some(4), "the window moved");
        assert_eq!(common(&prefix_cache, "a", &["other", "u2"]), Some(0));
        assert_eq!(common(&prefix_cache, "a", &["ot", "her", "u2"]), Some(0), "the boundaries of parts count");
    }
}
