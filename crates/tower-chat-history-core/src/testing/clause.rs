//! The sentences of the contract that failures quote.

use std::fmt;

/// One sentence of the contract, with the item whose documentation has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clause {
    item: &'static str,
    says: &'static str,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: \"{}\"", self.item, self.says)
    }
}

macro_rules! clauses {
    ($($name:ident = $item:literal, $says:literal;)+) => {
        $(pub(super) const $name: Clause = Clause { item: $item, says: $says };)+

        #[cfg(test)]
        const ALL: &[Clause] = &[$($name),+];
    };
}

clauses! {
    ATOMIC = "HistoryStore, Atomic", "An append stores its exchange and its compaction together or neither.";
    CONDITIONAL = "HistoryStore, Conditional",
        "Whether an append may land is decided in one step with storing it, also against other processes.";
    IDEMPOTENT = "HistoryStore, Idempotent",
        "An append whose exchange id is already in the log stores nothing and reports the recorded position, whatever it \
         expected.";
    GAP_FREE = "HistoryStore, Gap-free",
        "The first exchange has position 0, each further one the next position.";
    NEXT = "Revision::next", "The position that the log's next exchange gets";
    DURABLE = "HistoryStore, Acknowledged is durable",
        "Acknowledged is durable, at the level the store documents.";
    DELETION = "HistoryStore, Deletion ends the incarnation",
        "A conversation that comes back has a new one, so what was in flight is refused.";
    DELETED = "HistoryStore::delete", "Removes the conversation: log, compactions, everything.";
    LOSSLESS = "HistoryStore, Lossless", "Nothing is removed but by delete, a truncation or a prune.";
    VERBATIM = "HistoryStore, Verbatim", "Messages come back byte for byte.";
    SUMMARY_VERBATIM = "HistoryStore, Verbatim",
        "So do the text and the model of a summary, and both may contain U+0000.";
    LIMIT = "LoadLimit",
        "How much a load may bring: the newest turns that fit both numbers. A turn is never split: the newest one comes \
         whole even when it alone is larger.";
    EMPTY = "LoadLimit",
        "An exchange counts as many messages as it has, and an exchange without messages counts as one message.";
    LOAD = "HistoryStore::load",
        "Looked at in this order: whether there is such a conversation, whether the exchange that was asked for is \
         recorded, whether anything changed since what is known, the window.";
    APPEND = "HistoryStore::append",
        "A repeated exchange id is looked at first, then what is expected, then the exchange, then the compaction.";
    STALE = "HistoryStore::append",
        "A compaction that replaces another version than the stored one is left out, whatever it says: the exchange is \
         stored all the same and Appended::compaction says so.";
    CONTINUES = "StoreError::ContinuesUnknown", "The exchange says that it continues one which the log never had.";
    COMPACT = "HistoryStore::compact",
        "Stores a compaction by itself, if the one it replaces is still the stored one.";
    STORED = "CompactOutcome::Stored", "It was stored under this version, by this very call.";
    KEPT = "CompactOutcome::Kept",
        "It was not stored, and what is stored was left as it is: another call had stored another one meanwhile, or an \
         equal one.";
    CUT = "Cut::check",
        "When a position goes back or lies beyond the log, when the window would not start at a turn's opening, or when \
         the summary covers what is still in the window.";
    PROFILES = "HistoryStore",
        "Keeps conversations: for each an append-only log of exchanges, and per profile one compaction.";
    READ = "HistoryStore::read",
        "Reads the log itself, in order, from a position on: at most limit exchanges, and fewer where the store pages by \
         size, but at least one if there is one and limit is not 0.";
    ABSENT = "Loaded::Absent", "There is no such conversation.";
    GONE = "StoreError::Gone", "The incarnation has ended";
    CONFLICT = "StoreError::Conflict", "The log is not at the revision that the append expects.";
    ANY_OR_CREATE = "Expect::AnyOrCreate", "Nothing: the conversation is created if it is not there.";
    IDS = "ConversationId",
        "There is no default id, and an id is compared byte by byte (unicode forms are not normalized).";
    EXCHANGE = "Exchange", "An exchange is written whole or not at all. It is never changed afterwards";
    HANDLE = "Conversation",
        "A handle on one conversation in a store, to read, fill, edit and clear its history without a model.";
    TRUNCATE = "Truncate::truncate",
        "Removes the exchanges from position from on, if the log is exactly at expect.";
    TRUNCATE_ONCE = "Truncate, Conditional and in one step",
        "The log is cut only if it is at the very revision that the caller saw";
    TRUNCATE_COMPACTIONS = "Truncate, Compactions",
        "Each profile's compaction becomes what Compaction::truncated_to makes of it, or is removed, so that no summary \
         tells of what was removed.";
    PRUNE = "Prune::prune",
        "Removes the exchanges before those that are to stay, if the conversation is in that incarnation.";
    PRUNE_COMPACTIONS = "Prune, Compactions",
        "Compactions stay as they are (Derived::Keep), also where their window starts at what was removed, and one that \
         was made from the log as it was is stored.";
    PRUNE_TRACES = "Derived::Erase", "It is removed: no compaction stays that has a summary or cannot be read";
    PRUNE_ONCE = "Prune, Conditional and in one step",
        "It is done only in the incarnation that is named. Which exchanges are the last ones is decided in that step.";
    READ_BACK = "Conversation::read_back",
        "exchanges that were appended since then are not in it, so pages neither overlap nor leave anything out;";
    SYSTEM = "HistoryStore::system", "It does not change.";
    FORK = "Conversation::fork",
        "Copies the exchanges before position at into another conversation of the same store, which must not exist yet, \
         and returns how many these are.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of documentation comments, without what only its rendering needs.
    fn documentation(source: &str) -> String {
        let lines = source.lines().filter_map(|line| line.trim_start().strip_prefix("///"));
        let mut text = String::new();
        let mut rest = lines.collect::<Vec<_>>().join(" ");
        // `[text](target)` says `text`.
        while let Some((before, link)) = rest.split_once("](") {
            text.push_str(before);
            rest = link.split_once(')').map_or_else(String::new, |(_, after)| after.to_owned());
        }
        text.push_str(&rest);
        text.retain(|character| !"[]`*".contains(character));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn clauses_are_quoted_from_the_documentation() {
        let sources = [
            include_str!("../store/mod.rs"),
            include_str!("../store/append.rs"),
            include_str!("../store/error.rs"),
            include_str!("../store/load.rs"),
            include_str!("../store/prune.rs"),
            include_str!("../store/truncate.rs"),
            include_str!("../compaction.rs"),
            include_str!("../conversation/mod.rs"),
            include_str!("../conversation/back.rs"),
            include_str!("../conversation/fork.rs"),
            include_str!("../conversation_id.rs"),
            include_str!("../exchange.rs"),
            include_str!("../revision.rs"),
        ];
        let documentation = documentation(&sources.join("\n"));
        for clause in ALL {
            assert!(documentation.contains(clause.says), "the documentation does not say: {}", clause.says);
        }
    }
}
