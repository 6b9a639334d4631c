//! The statements that change rows within a transaction of several statements.

use super::Statement;

/// All changes, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) remove_exchanges: Statement,
    pub(crate) remove_logs: Statement,
    pub(crate) remove_compactions: Statement,
    pub(crate) remove_compaction: Statement,
    /// Removes the recalled messages that cite an exchange before a position, or another conversation.
    pub(crate) erase_recalled: Statement,
    /// Removes the provenances of the exchanges from a position on.
    pub(crate) erase_provenances: Statement,
    pub(crate) remove_conversations: Statement,
    pub(crate) set_compaction: Statement,
    pub(crate) set_first: Statement,
    pub(crate) set_incarnation: Statement,
}

impl Changes {
    pub(super) fn new(schema: &str) -> Self {
        let statement = |text: &str, letters: &str| Statement::new(schema, text, letters);
        Self {
            remove_exchanges: statement(
                "delete from @.exchange where conversation = $1 and seq >= $2 and seq < $3",
                "lll",
            ),
            remove_logs: statement("delete from @.exchange where conversation = any ($1)", "L"),
            remove_compactions: statement("delete from @.compaction where conversation = any ($1)", "L"),
            remove_compaction: statement("delete from @.compaction where conversation = $1 and profile = $2", "lt"),
            erase_recalled: statement(
                "update @.exchange set recalled = null, recalled_first = null \
                 where conversation = $1 and seq >= $2 and recalled_first < $2",
                "ll",
            ),
            erase_provenances: statement(
                "update @.exchange set provenance = null \
                 where conversation = $1 and seq >= $2 and provenance is not null",
                "ll",
            ),
            remove_conversations: statement("delete from @.conversation where id = any ($1)", "L"),
            set_compaction: statement(
                "update @.compaction set version = $3, window_start = $4, rounds_start = $5, cleared_before = $6, \
                 recalled_from = $7, reasoning_from = $8, encrypted_from = $9, covers_to = $10, call = $11, body = $12 \
                 where conversation = $1 and profile = $2",
                "ltllllllllut",
            ),
            set_first: statement("update @.conversation set first = $2 where id = $1", "ll"),
            set_incarnation: statement(
                "update @.conversation set incarnation = $2, len = $3, messages = $4, bytes = $5, opening = ( \
                 select e.seq from @.exchange e where e.conversation = $1 and e.continues is null \
                 order by e.seq desc limit 1) where id = $1",
                "lulll",
            ),
        }
    }
}
