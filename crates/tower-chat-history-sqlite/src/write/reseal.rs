//! Replacing the sealed form of an exchange.

use rusqlite::{Connection, params};
use tower_chat_history_core::{ConversationId, Exchange, Incarnation, Provenance, Recalled, Sealed, Seq, StoreError};

use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::Log,
    stats::Counters,
};

/// An encoded exchange, and the content that the stored one must have.
pub(crate) struct ResealExchange {
    id: ConversationId,
    incarnation: Incarnation,
    seq: Seq,
    from: Option<Sealed>,
    to: Exchange,
    body: String,
    recalled: Option<String>,
    provenance: Option<String>,
}

impl ResealExchange {
    pub(crate) fn new(
        id: ConversationId,
        incarnation: Incarnation,
        seq: Seq,
        from: &Exchange,
        to: Exchange,
    ) -> Result<Self, StoreError> {
        let body = to.encode().map_err(StoreError::backend)?;
        let recalled = to.recalled.as_ref().map(Recalled::encode).transpose().map_err(StoreError::backend)?;
        let provenance = to.provenance.as_deref().map(Provenance::encode).transpose().map_err(StoreError::backend)?;
        Ok(Self { id, incarnation, seq, from: from.sealed.clone(), to, body, recalled, provenance })
    }
}

impl Request for ResealExchange {
    type Answer = bool;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<bool, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;
        let seq = self.seq.get();
        if seq < log.first() || seq >= log.len {
            return Ok(false);
        }
        let stored = log.recorded(connection, &self.id, seq, counters)?.exchange;
        if stored.sealed != self.from || !stored.is_resealed_as(&self.to) {
            return Ok(false);
        }
        // The other columns are those of the same exchange.
        let sql = "UPDATE exchange SET body = ?2, recalled = ?3, provenance = ?4 WHERE place = ?1";
        let row = params![log.place(seq), self.body, self.recalled, self.provenance];
        NotWritten::check(connection.prepare_cached(sql)?.execute(row)?)?;
        Ok(true)
    }
}
