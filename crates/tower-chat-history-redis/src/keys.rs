//! The keys of a conversation.

use tower_chat_history_core::ConversationId;

/// The parts after the hash tag, in the order that the scripts use. The first four exist for every conversation. The
/// fifth exists if an exchange has recalled messages, and the sixth if one has a provenance. The last one exists for an
/// hour after a deletion.
const PARTS: [&str; 7] = ["", ":log", ":index", ":ids", ":recalled", ":provenances", ":gone"];

/// Returns the keys of one conversation.
///
/// The conversation's id is their hash tag, so a Cluster keeps them in one slot. Prefixes and ids contain no braces,
/// because an id's text is percent-encoded. The hash tag is therefore always the whole id, and no two conversations
/// share a key.
pub(crate) fn of(prefix: &str, id: &ConversationId) -> Vec<String> {
    let shared = [prefix, "{", id.as_str(), "}"].concat();
    PARTS.iter().map(|part| [&shared, *part].concat()).collect()
}

/// Returns the keys of exchanges that a fork of this name has staged for the copy with this id. They are in the slot of
/// the copy.
pub(crate) fn staged(prefix: &str, id: &ConversationId, name: &str) -> Vec<String> {
    let shared = [prefix, "{", id.as_str(), "}:fork:", name].concat();
    PARTS.iter().take(6).map(|part| [&shared, *part].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_the_whole_id() {
        for parts in [["a"].as_slice(), &["a", "b/c"], &["{", "}"], &["a}:log", "{b}"], &["ä", "\0", ":ids"]] {
            let id = ConversationId::new(parts).unwrap();
            for key in of("chat:", &id) {
                let (_, tail) = key.split_once('{').unwrap();
                assert_eq!(tail.split_once('}').unwrap().0, id.as_str());
            }
        }
    }
}
