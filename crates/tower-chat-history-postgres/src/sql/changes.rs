//! The statements that change rows within a transaction of several statements.

use super::Statement;

/// All changes, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) remove_exchanges: Statement,
    pub(crate) remove_logs: Statement,
    pub(crate) remove_compactions: Statement,
    /// Replaces the compaction that has this profile and version, and removes all others.
    pub(crate) carry_compaction: Statement,
    /// Changes all compactions as `Compaction::without_derived` does.
    pub(crate) erase_derived: Statement,
    /// Removes from the exchanges from a position on their provenances, and the recalled messages that cite an exchange
    /// before the position or another conversation.
    pub(crate) erase_records: Statement,
    pub(crate) remove_conversations: Statement,
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
            carry_compaction: statement(
                "with removed as ( \
                    delete from @.compaction where conversation = $1 and (profile <> $2 or version <> $3) \
                 ) update @.compaction set version = version + 1, window_start = $4, call = $5, state = $6, derived = $7 \
                 where conversation = $1 and profile = $2 and version = $3",
                "ltllubb",
            ),
            erase_derived: statement(
                "update @.compaction set version = version + 1, call = $3, derived = null, \
                 window_start = case when derived is null then window_start else $2 end where conversation = $1",
                "llu",
            ),
            erase_records: statement(
                "update @.exchange set provenance = null, \
                 recalled = case when recalled_first < $2 then null else recalled end, \
                 recalled_first = case when recalled_first < $2 then null else recalled_first end \
                 where conversation = $1 and seq >= $2 and (provenance is not null or recalled_first < $2)",
                "ll",
            ),
            remove_conversations: statement("delete from @.conversation where id = any ($1)", "L"),
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
