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
    ATOMIC = "HistoryStore, Atomic", "An append stores its exchange and its compaction in one write, whole or not at all.";
    CONDITIONAL = "HistoryStore, Conditional",
        "The check of Append::expect and the write are one step, also against other processes.";
    IDEMPOTENT = "HistoryStore, Idempotent",
        "An append whose exchange id is already in the log stores nothing and returns the recorded position, whatever it \
         expected.";
    GAP_FREE = "HistoryStore, Gap-free",
        "The first exchange has position 0, or the one that its append names, and each further one has the next position.";
    FIRST = "Append::first", "The position of the exchange if the append creates the conversation. Otherwise it has no effect.";
    FIRST_OPENS = "Append::first", "The first exchange of a log opens a turn.";
    SINCE = "Append::since",
        "If the conversation was deleted or erased since, the append is refused with Gone, also if another call created \
         the conversation again.";
    EPOCH = "Loaded::Absent", "The epoch says which erasures the load saw.";
    NEXT = "Revision::next", "Returns the position that the log's next exchange gets.";
    DURABLE = "HistoryStore, Acknowledged means durable",
        "Acknowledged means durable, at the level that the store documents.";
    DELETION = "HistoryStore, Deletion ends the incarnation",
        "A conversation that is created again gets a new incarnation, so appends and compactions from before the \
         deletion are refused.";
    DELETED = "HistoryStore::delete",
        "Removes the whole conversation: its log and its compactions.";
    LOSSLESS = "HistoryStore, Lossless", "Only delete, a truncation or a prune removes anything.";
    VERBATIM = "HistoryStore, Verbatim", "Messages are returned byte for byte.";
    SUMMARY_VERBATIM = "HistoryStore, Verbatim",
        "So are the text and the model of a summary, and the recalled messages, the provenance and the encrypted content \
         of an exchange. All of them may contain U+0000.";
    RECALLED = "HistoryStore, Verbatim",
        "So are the text and the model of a summary, and the recalled messages, the provenance and the encrypted content \
         of an exchange.";
    DIALECT = "HistoryStore, Verbatim",
        "A store need not know the dialect of an exchange, and an element need not be a JSON object.";
    DIALECT_NAME = "Dialect::name",
        "Returns the name, which is stored with every exchange and must never change: 1 to 64 bytes of visible ASCII.";
    PURE = "Dialect", "All methods are pure: the same message always leads to the same result.";
    READS_ITS_ELEMENTS = "Dialect", "A dialect reads all elements of its format, and all that its methods return.";
    UNKNOWN_KIND = "Dialect::index", "An element of an unknown kind is no error: its role is Role::Other.";
    SPELLING = "Dialect::index", "White space, escapes, and the depth of nested values make no difference.";
    ROLES = "Index::role",
        "Role::Assistant is every element of the model's reply (text, reasoning, calls), Role::Tool is an element with \
         nothing but results, and an element of an unknown kind has Role::Other.";
    SAYS_NOTHING = "Index::says_nothing",
        "true if providers refuse the message because it says nothing: for example a reply without text and calls.";
    PARTS = "Dialect::parts", "The calls are those of the index, and so are the calls of the results.";
    PART_KINDS = "Index::part_kinds", "The kinds of parts, if the dialect knows them after its one pass.";
    STATED_CALLS = "Dialect::statements", "Each call of the index is one call.";
    STATED_RESULTS = "Dialect::statements",
        "A message that answers calls has one result for each, before everything else.";
    SAYS_STATEMENTS = "Dialect::express",
        "Returns the JSON of the elements that say this, which an exchange of another dialect says.";
    SENT_AS_IT_IS = "Dialect::express",
        "The elements must be such that they can be sent as they are: they say something, nothing in them is bound, and \
         none is rewritten.";
    SAME_ID = "Dialect::express", "A call and its result get the same id.";
    COMPOSE = "Dialect::compose",
        "Returns the JSON of a message that says this text in this role: Role::User, Role::Assistant or Role::System.";
    ABANDONED = "Dialect::abandoned",
        "Returns the JSON of an element that has nothing but the result of a call that was abandoned.";
    CONSTANT = "Dialect::abandoned", "It must be constant for a call, and may differ between spaces.";
    CLEARED = "Dialect::cleared",
        "Returns the JSON of the message with placeholder in place of the text of those results for which clears \
         returns true.";
    CLEARED_NONE = "Dialect::cleared", "Returns None if there are none.";
    ANSWERING = "Dialect::answering",
        "Returns the JSON of the message with only the results of these calls, or None if nothing is left.";
    UNBOUND = "Dialect::unbound",
        "Returns the JSON of the message without everything that is bound to a prompt or an origin, or None if nothing \
         is left.";
    UNBOUND_FROM_PROMPT = "Dialect::unbound_from_prompt",
        "Returns the JSON of the message without everything that is bound to its prompt, or None if nothing is left. \
         Parts that are bound only to their origin stay.";
    SETTLED = "Dialect::settled",
        "Returns the JSON of the message with only these of its server calls and server results, or None if nothing is \
         left.";
    SENDABLE = "Dialect::sendable", "Returns the JSON of the message in a form that providers accept.";
    DIGEST = "Dialect::digest",
        "Returns the digest of the properties that providers compare when they check a signature.";
    READS = "Dialect::reads", "Returns true if reader can read reasoning that made_by sealed.";
    LIMIT = "LoadLimit",
        "A load returns the newest turns that exceed neither number. A turn is never split. The newest turn is returned \
         whole even if it exceeds the limit by itself.";
    LOG_BYTES = "Window::log_bytes",
        "The size of the whole log in bytes of message JSON, including the exchanges that are not in the window.";
    EMPTY = "LoadLimit", "An exchange counts as many messages as it has, and as one message if it has none.";
    LOAD = "HistoryStore::load",
        "The first of these that applies is the answer: 1. If there is no such conversation: Loaded::Absent, with \
         the current epoch. 2. If Load::exchange is already in the log: Loaded::AlreadyRecorded. 3. If nothing changed since Load::known: \
         Loaded::Unchanged. 4. If exchanges were added since, and nothing else changed: Loaded::Added. The load must allow this \
         answer, and no store has to give it. 5. Otherwise the window: Loaded::Window.";
    ADDED = "Added",
        "A store returns them only if all of the following is true. Otherwise the caller could not extend its window.";
    APPEND = "HistoryStore::append",
        "Checks in this order: a repeated exchange id, an erasure, what the append expects, the exchange, the compaction.";
    STALE = "HistoryStore::append",
        "If the compaction replaces a version other than the stored one, it is skipped without a check of its rules: \
         the exchange is stored without it, and Appended::compaction reports that.";
    CONTINUES = "StoreError::ContinuesUnknown", "The exchange continues a position that the log never had.";
    COMPACT = "HistoryStore::compact",
        "Stores a compaction by itself, if the version it replaces is still the stored one.";
    STORED = "CompactOutcome::Stored", "This call stored it, under this version.";
    KEPT = "CompactOutcome::Kept",
        "It was not stored, and the stored compaction was left unchanged. Usually, another call had stored a compaction \
         first, possibly an equal one.";
    CUT = "Cut::check",
        "Returns an error if a position decreases or is beyond the log, if the window would not start with an exchange \
         that opens a turn, or if the summary covers exchanges that are still in the window.";
    PROFILES = "HistoryStore",
        "Stores conversations: an append-only log of exchanges for each, and one compaction per profile.";
    READ = "HistoryStore::read",
        "Returns at most limit exchanges. A store that pages by size may return fewer, but returns at least one if \
         there is one and limit is not 0.";
    ABSENT = "Loaded::Absent", "There is no such conversation.";
    GONE = "StoreError::Gone", "The incarnation has ended";
    CONFLICT = "StoreError::Conflict", "The log is not at the revision that the append expects.";
    ANY_OR_CREATE = "Expect::AnyOrCreate", "No condition. If there is no conversation, the append creates it.";
    IDS = "ConversationId",
        "There is no default id. Ids are compared byte by byte (Unicode is not normalized).";
    EXCHANGE = "Exchange", "An exchange is written whole or not at all, and never changed afterwards.";
    HANDLE = "Conversation",
        "A handle on one conversation in a store, to read, import, edit and clear its history without a model.";
    TRUNCATE = "Truncate::truncate",
        "Removes the exchanges from position from on, if the log is exactly at expect.";
    TRUNCATE_ONCE = "Truncate, Conditional and in one step",
        "The log is truncated only if it is at exactly the revision that the caller saw.";
    TRUNCATE_TO_NOTHING = "Truncate, A truncation to nothing is a deletion",
        "As after a deletion, first turns whose load came before are refused with Gone.";
    TRUNCATE_COMPACTIONS = "Truncate, Compactions",
        "Each profile's compaction is replaced by the result of Compaction::truncated_to, or removed if there is none, \
         so that no summary describes removed exchanges.";
    PRUNE = "Prune::prune",
        "Removes the exchanges before those to keep, if the conversation is in this incarnation.";
    PRUNE_COMPACTIONS = "Prune, Compactions",
        "Compactions are not changed (Derived::Keep), even if their window starts at a removed exchange, and a \
         compaction that was made from the log before the prune is stored.";
    PRUNE_DERIVED = "Derived::Erase",
        "Derived data is removed: every compaction that has a summary or cannot be read is deleted.";
    PRUNE_ONCE = "Prune, Conditional and in one step",
        "The log is pruned only in the given incarnation, and the exchanges to remove are chosen in the same step.";
    READ_BACK = "Conversation::read_back",
        "Exchanges that were appended since then are not in it, so pages neither overlap nor have gaps.";
    LIST = "List::list",
        "Returns a page of the conversations under a prefix: at most limit, and after the cursor if there is one.";
    LIST_ZERO = "List::list", "A limit of 0 counts as 1";
    LIST_ORDER = "List, Order",
        "Conversations are listed in the order of their ids' text forms, compared byte by byte.";
    LIST_ONCE = "List, Order",
        "A listing that continues at its cursor contains each conversation that exists throughout exactly once, \
         whatever others append, create and delete in the meantime.";
    LIST_PARTS = "List, Whole parts", "A listing contains only conversations that the prefix contains.";
    LIST_CURRENT = "List, Current", "Each entry is a state that the conversation had during the call.";
    CURSOR = "Cursor",
        "a forged cursor can skip conversations, but never shows one outside of the requested prefix.";
    DESCRIBE = "List::describe",
        "Returns the entry of one conversation, or None if there is no such conversation.";
    UPDATED_AT = "Listed::updated_at",
        "The latest time of all exchanges that were ever appended. A prune or a truncation does not change it.";
    LISTED_BYTES = "Listed::bytes", "The size of the log in bytes of message JSON, as in a LoadLimit.";
    LABELS = "List::set_labels",
        "Replaces all labels of a conversation, if the stored labels still have the version replaces.";
    LABELS_KEPT = "LabelsOutcome::Kept",
        "They were not stored: the stored labels have another version than the one to replace.";
    LABELS_STAY = "List, Labels belong to the conversation",
        "A truncation and a prune keep them, and a deletion removes them.";
    BAR = "Erase, Calls in flight restore nothing",
        "After bar, an append is refused with Gone if it names an epoch from before.";
    IN_FLIGHT = "Erase, Calls in flight restore nothing",
        "Appends that name an incarnation are refused when the conversation is erased.";
    ERASE_PAGE = "Erase::erase",
        "Erases at most limit conversations under the prefix, in the order of a listing and after the cursor if there \
         is one.";
    ERASE_ZERO = "Erase::erase", "A limit of 0 counts as 1.";
    ERASE_WHOLE = "Erase, Page by page", "A conversation is erased whole or not at all, as by delete.";
    ERASE_AGAIN = "Erase, Repeatable",
        "If an erasure is interrupted, repeat it from the beginning. It then erases what is left.";
    ERASE_ONLY = "Erase, Nothing else is touched", "Only conversations that the prefix contains are erased.";
    ERASED = "ErasedPage::removed", "The numbers of removed things.";
    ERASE_IF = "Erase::erase_if", "Erases one conversation if its log still has this revision.";
    COUNT = "Erase::count",
        "Counts everything that is stored under the prefix, also what belongs to no conversation.";
    SYSTEM = "HistoryStore::system", "The value never changes.";
    FORK = "Conversation::fork",
        "Copies the exchanges before position at into another conversation of the same store, which must not exist yet.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of documentation comments, without the markup.
    fn documentation(source: &str) -> String {
        let lines = source.lines().filter_map(|line| line.trim_start().strip_prefix("///"));
        let mut text = String::new();
        let mut rest = lines.collect::<Vec<_>>().join(" ");
        // `[text](target)` becomes `text`.
        while let Some((before, link)) = rest.split_once("](") {
            text.push_str(before);
            rest = link.split_once(')').map_or_else(String::new, |(_, after)| after.to_owned());
        }
        text.push_str(&rest);
        text.retain(|character| !"[]`*".contains(character));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    // The files are those of the workspace, so this test does not compile in the published package.
    #[test]
    fn clauses_are_quoted_from_the_documentation() {
        let sources = [
            include_str!("../../tower-chat-history-core/src/store/mod.rs"),
            include_str!("../../tower-chat-history-core/src/store/append.rs"),
            include_str!("../../tower-chat-history-core/src/store/erase.rs"),
            include_str!("../../tower-chat-history-core/src/store/list.rs"),
            include_str!("../../tower-chat-history-core/src/store/error.rs"),
            include_str!("../../tower-chat-history-core/src/store/load.rs"),
            include_str!("../../tower-chat-history-core/src/store/prune.rs"),
            include_str!("../../tower-chat-history-core/src/store/truncate.rs"),
            include_str!("../../tower-chat-history-core/src/compaction/mod.rs"),
            include_str!("../../tower-chat-history-core/src/compaction/cut.rs"),
            include_str!("../../tower-chat-history-core/src/conversation/mod.rs"),
            include_str!("../../tower-chat-history-core/src/conversation/back.rs"),
            include_str!("../../tower-chat-history-core/src/conversation/fork.rs"),
            include_str!("../../tower-chat-history-core/src/conversation_id.rs"),
            include_str!("../../tower-chat-history-core/src/cursor.rs"),
            include_str!("../../tower-chat-history-core/src/exchange.rs"),
            include_str!("../../tower-chat-history-core/src/revision.rs"),
            include_str!("../../tower-chat-history-core/src/message/dialect/mod.rs"),
            include_str!("../../tower-chat-history-core/src/message/dialect/index.rs"),
        ];
        let documentation = documentation(&sources.join("\n"));
        let missing = ALL.iter().map(|clause| clause.says).filter(|says| !documentation.contains(says));
        assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "the documentation does not say this");
    }
}
