//! Replacing the labels of a conversation.

use rusqlite::{Connection, params};
use tower_chat_history_core::{ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion, StoreError};

use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::{Log, labels},
    stats::Counters,
};

pub(crate) struct ReplaceLabels {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) replaces: LabelsVersion,
    pub(crate) labels: Labels,
}

impl Request for ReplaceLabels {
    type Answer = LabelsOutcome;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<LabelsOutcome, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;
        let mut statement =
            connection.prepare_cached("SELECT labels_version, labels FROM conversation WHERE id = ?1")?;
        let mut rows = statement.query([log.id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        // If the stored labels are damaged, they can still be replaced.
        if row.get::<_, i64>(0).ok() != i64::try_from(self.replaces.get()).ok() {
            let (stored, version) = labels(&self.id, row, 0)?;
            return Ok(LabelsOutcome::Kept(stored, version));
        }
        let next = self.replaces.next();
        let number = i64::try_from(next.get()).unwrap_or(i64::MAX);
        let encoded = (!self.labels.is_empty()).then(|| self.labels.encode());
        let sql = "UPDATE conversation SET labels_version = ?2, labels = ?3 WHERE id = ?1";
        NotWritten::check(connection.prepare_cached(sql)?.execute(params![log.id, number, encoded])?)?;
        Ok(LabelsOutcome::Stored(next))
    }
}
