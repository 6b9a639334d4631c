//! The statements that change rows within a transaction of several statements.
//!
//! A trigger of the database's owner can skip a row without an error. Each of these statements therefore returns a row
//! with `true` if no row was skipped.

use super::Statement;

/// A statement that changes rows. See [`Lease::change`](crate::database::Lease::change).
#[derive(Debug)]
pub(crate) struct Change(Statement);

impl Change {
    /// Creates a change of one row, which exists.
    fn of_one(schema: &str, text: &str, letters: &str) -> Self {
        Self(Statement::new(schema, &format!("{text} returning true"), letters))
    }

    /// Creates a change of any number of rows: `change` and `rest` surround the table and the condition.
    ///
    /// Both parts of the statement see the rows as they were before it.
    fn of_all(schema: &str, [change, rows, rest]: [&str; 3], condition: &str, letters: &str) -> Self {
        let text = format!(
            "with changed as ({change} {rows}{rest} where {condition} returning 1) \
             select (select count(*) from changed) = (select count(*) from {rows} where {condition})"
        );
        Self(Statement::new(schema, &text, letters))
    }

    pub(crate) const fn statement(&self) -> &Statement {
        &self.0
    }
}

/// All changes, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) remove_exchanges: Change,
    pub(crate) remove_logs: Change,
    pub(crate) remove_compactions: Change,
    pub(crate) remove_compaction: Change,
    /// Removes the recalled messages that cite an exchange before a position, or another conversation.
    pub(crate) erase_recalled: Change,
    /// Removes the provenances of the exchanges from a position on.
    pub(crate) erase_provenances: Change,
    pub(crate) remove_conversations: Change,
    pub(crate) set_compaction: Change,
    pub(crate) set_first: Change,
    pub(crate) set_incarnation: Change,
}

impl Changes {
    pub(super) fn new(schema: &str) -> Self {
        let one = |text: &str, letters: &str| Change::of_one(schema, text, letters);
        let removal = |rows: &str, condition: &str, letters: &str| {
            Change::of_all(schema, ["delete from", rows, ""], condition, letters)
        };
        let exchanges = "@.exchange e";
        let compactions = "@.compaction k";
        Self {
            remove_exchanges: removal(exchanges, "e.conversation = $1 and e.seq >= $2 and e.seq < $3", "lll"),
            remove_logs: removal(exchanges, "e.conversation = any ($1)", "L"),
            remove_compactions: removal(compactions, "k.conversation = any ($1)", "L"),
            remove_compaction: removal(compactions, "k.conversation = $1 and k.profile = $2", "lt"),
            erase_recalled: Change::of_all(
                schema,
                ["update", exchanges, " set recalled = null, recalled_first = null"],
                "e.conversation = $1 and e.seq >= $2 and e.recalled_first < $2",
                "ll",
            ),
            erase_provenances: Change::of_all(
                schema,
                ["update", exchanges, " set provenance = null"],
                "e.conversation = $1 and e.seq >= $2 and e.provenance is not null",
                "ll",
            ),
            remove_conversations: removal("@.conversation c", "c.id = any ($1)", "L"),
            set_compaction: one(
                "update @.compaction set version = $3, window_start = $4, rounds_start = $5, cleared_before = $6, \
                 recalled_from = $7, reasoning_from = $8, encrypted_from = $9, covers_to = $10, call = $11, body = $12 \
                 where conversation = $1 and profile = $2",
                "ltllllllllut",
            ),
            set_first: one("update @.conversation set first = $2 where id = $1", "ll"),
            set_incarnation: one(
                "update @.conversation set incarnation = $2, version = $3, len = $3, \
                 messages = coalesce($4, messages), bytes = coalesce($5, bytes), opening = coalesce(( \
                 select e.seq from @.exchange e where e.conversation = $1 and e.continues is null \
                 order by e.seq desc limit 1), -1) where id = $1",
                "lulll",
            ),
        }
    }
}
