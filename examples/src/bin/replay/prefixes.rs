//! The prefixes of all prompts that were sent.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// The prefixes of all prompts of a run, in whole messages: a trie whose nodes are identified by the hash of their
/// path.
#[derive(Default)]
pub(crate) struct Prefixes(HashSet<u64>);

impl Prefixes {
    /// Adds a prompt. Returns the number of messages at its beginning that an earlier prompt also begins with.
    pub(crate) fn send<'a>(&mut self, prompt: impl IntoIterator<Item = &'a str>) -> usize {
        let (mut path, mut known, mut is_known) = (0, 0, true);
        for message in prompt {
            let mut hasher = DefaultHasher::new();
            (path, message).hash(&mut hasher);
            path = hasher.finish();
            is_known &= !self.0.insert(path);
            known += usize::from(is_known);
        }
        known
    }
}

/// Returns the tokens of a prefix that OpenAI's cache would have: a multiple of 128, or 0 below 1,024.
pub(crate) const fn cached_by_provider(tokens: u64) -> u64 {
    if tokens < 1_024 { 0 } else { tokens / 128 * 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_known_after_it_was_sent() {
        let mut prefixes = Prefixes::default();
        assert_eq!(prefixes.send(["s", "a", "b"]), 0);
        assert_eq!(prefixes.send(["s", "a", "b", "c"]), 3);
        assert_eq!(prefixes.send(["s", "b", "c"]), 1, "the same messages after another prefix are not known");
        assert_eq!(prefixes.send(["s", "a", "b"]), 3, "known prefixes stay known");
        assert_eq!(prefixes.send(["a", "b"]), 0);
        assert_eq!(prefixes.send(["s", "b", "c", "d"]), 3);
    }

    #[test]
    fn the_provider_caches_in_steps_of_128_tokens() {
        assert_eq!([0, 1_023, 1_024, 1_151, 1_152].map(cached_by_provider), [0, 0, 1_024, 1_024, 1_152]);
    }
}
