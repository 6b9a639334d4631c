//! Reading exchanges at given positions.

use rusqlite::Connection;
use tower_chat_history_core::{ConversationId, Page, Seq};

use super::log::Log;
use crate::{error::Failure, job::Request, stats::Counters};

pub(crate) struct PickExchanges {
    pub(crate) id: ConversationId,
    pub(crate) positions: Vec<Seq>,
}

impl Request for PickExchanges {
    type Answer = Page;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Page, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(Page::absent()) };
        let within = self.positions.iter().map(|seq| seq.get()).filter(|seq| (log.first()..log.len).contains(seq));
        let mut exchanges = Vec::new();
        for seq in within {
            counters.visited(1);
            exchanges.push(log.recorded(connection, &self.id, seq, counters)?);
        }
        Ok(Page::new(log.revision, exchanges, false))
    }
}
