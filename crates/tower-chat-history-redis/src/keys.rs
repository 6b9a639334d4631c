//! The keys of a conversation.

use tower_chat_history_core::ConversationId;

/// The keys of one conversation, in the order that the scripts use. The first four exist for every conversation. The
/// fifth exists if an exchange has recalled messages, the sixth if one has a provenance, and the last two if there are
/// attachments.
///
/// The conversation's id is their hash tag, so a Cluster keeps them in one slot. Prefixes and ids contain no braces,
/// because an id's text is percent-encoded. The hash tag is therefore always the whole id, and no two conversations
/// share a key.
#[derive(Clone, Debug)]
pub(crate) struct Keys(pub(crate) [String; 8]);

impl Keys {
    pub(crate) fn new(prefix: &str, id: &ConversationId) -> Self {
        let parts = ["", ":log", ":index", ":ids", ":recalled", ":provenances", ":attached", ":bodies"];
        Self(parts.map(|part| format!("{prefix}{{{id}}}{part}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_the_whole_id() {
        for parts in [["a"].as_slice(), &["a", "b/c"], &["{", "}"], &["a}:log", "{b}"], &["ä", "\0", ":ids"]] {
            let id = ConversationId::new(parts).unwrap();
            for key in Keys::new("chat:", &id).0 {
                let (_, tail) = key.split_once('{').unwrap();
                assert_eq!(tail.split_once('}').unwrap().0, id.as_str());
            }
        }
    }
}
