//! How much of a prompt the one before began with too: what a provider's cache of prefixes can serve.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    sync::Arc,
};

use foldhash::fast::FixedState;
use quick_cache::{Weighter, sync::Cache};
use tower_chat_history_context::{
    budget::PromptTokens,
    request::RequestInfo,
    tokens::{TokenCounter, tokens_of},
};
use tower_chat_history_core::{ConversationId, Message};

use super::recorder::Recorder;

/// How much is remembered, in parts of prompts: 16 bytes each, so some 4 MiB.
const PARTS: u64 = 1 << 18;

/// What a conversation is counted for besides its parts and the text of its id: its place.
const PLACE: u64 = 16;

/// About how many conversations that will be.
const CONVERSATIONS: usize = 1 << 12;

/// The last prompt of each conversation that this process decided on, as hashes. The longest unused are forgotten.
pub(crate) struct PrefixCache(Cache<ConversationId, Arc<[Part]>, ByParts>);

/// A prompt up to and with one of its parts.
#[derive(Clone, Copy)]
struct Part {
    /// Of everything so far.
    hash: u64,
    /// Of this part alone.
    tokens: u64,
}

#[derive(Clone)]
struct ByParts;

impl Weighter<ConversationId, Arc<[Part]>> for ByParts {
    fn weight(&self, id: &ConversationId, parts: &Arc<[Part]>) -> u64 {
        let id = id.as_str().len().div_ceil(size_of::<Part>());
        PLACE.saturating_add(parts.len().saturating_add(id) as u64)
    }
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self(Cache::with_weighter(CONVERSATIONS, PARTS, ByParts))
    }
}

impl PrefixCache {
    /// How many tokens this prompt has in common with the beginning of the one before, and remembers it. `None` for the first.
    ///
    /// A prompt is the texts that are sent, each with its tokens, in the order in which a model reads them.
    pub(crate) fn common<'a>(
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

impl Recorder {
    /// How many tokens this prompt has in common with the beginning of the conversation's prompt before, and remembers it.
    pub(crate) fn cached_prefix<'a>(
        &self,
        conversation: &ConversationId,
        request: &'a RequestInfo,
        sizes: &PromptTokens,
        messages: impl Iterator<Item = &'a Message>,
        counter: &dyn TokenCounter,
    ) -> Option<u64> {
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        let schemas = [(text(&request.tools), sizes.tools), (text(&request.response_format), sizes.response_format)];
        let messages = request.head.iter().chain(messages);
        let messages = messages.map(|message| (message.json(), u64::from(tokens_of(counter, message))));
        self.prefix_cache.common(conversation, schemas.into_iter().chain(messages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(prefix_cache: &PrefixCache, conversation: &str, prompt: &[&str]) -> Option<u64> {
        let id = ConversationId::new([conversation]).unwrap();
        prefix_cache.common(&id, prompt.iter().map(|text| (*text, text.len() as u64)))
    }

    #[test]
    fn long_ids_count_for_what_they_take() {
        let weight = |id: &str| ByParts.weight(&ConversationId::new([id]).unwrap(), &Arc::from([]));
        assert_eq!(weight(&"a".repeat(1_000)) - weight("a"), 62);
    }

    #[test]
    fn what_two_prompts_begin_with_is_common() {
        let prefix_cache = PrefixCache::default();
        assert_eq!(common(&prefix_cache, "a", &["head", "u1"]), None);
        assert_eq!(common(&prefix_cache, "b", &["head", "other"]), None, "another conversation");
        assert_eq!(common(&prefix_cache, "a", &["head", "u1", "a1", "u2"]), Some(6));
        assert_eq!(common(&prefix_cache, "a", &["head", "u2", "a2", "u3"]), Some(4), "the window moved");
        assert_eq!(common(&prefix_cache, "a", &["other", "u2"]), Some(0));
        assert_eq!(common(&prefix_cache, "a", &["ot", "her", "u2"]), Some(0), "parts are not run together");
    }
}
