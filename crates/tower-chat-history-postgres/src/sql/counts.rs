//! The statements that count the rows of several conversations, given their numbers.

use super::Statement;

/// The statements, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Counts {
    /// A page of conversations: the columns that a transaction reads of each.
    pub(crate) page: Statement,
    /// The one conversation with a key.
    pub(crate) one: Statement,
    /// The number of exchanges and their bytes.
    pub(crate) exchanges: Statement,
    /// The number of compactions, and of those that have derived text.
    pub(crate) compactions: Statement,
}

impl Counts {
    pub(super) fn new(schema: &str) -> Self {
        let statement = |text: &str, letters: &str| Statement::new(schema, text, letters);
        Self {
            page: statement(
                &format!("{} where c.key > $1 and c.key < $2 order by c.key limit $3", super::CONVERSATION),
                "ttl",
            ),
            one: statement(&format!("{} where c.key = $1", super::CONVERSATION), "t"),
            exchanges: statement(
                "select count(*), coalesce(sum(e.bytes), 0)::bigint \
                 from @.exchange e where e.conversation = any ($1)",
                "L",
            ),
            compactions: statement(
                "select count(*), count(k.derived) from @.compaction k where k.conversation = any ($1)",
                "L",
            ),
        }
    }
}
