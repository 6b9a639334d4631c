//! Decoding the rows of exchanges.

use tokio::task::spawn_blocking;
use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, Recorded, Seq, StoreError, backend::ExchangeRecords};

use super::count;
use crate::error::{Failure, PostgresError};

/// Records of this total size or more, in bytes, are parsed on a blocking thread, because that takes milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 256 << 10;

/// The columns of an exchange, with which the results of the functions that read begin.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const BODY: usize = 1;
    pub(super) const RECALLED: usize = 2;
    pub(super) const PROVENANCE: usize = 3;
}

/// Decodes the rows of exchanges, which may be in any order.
pub(crate) async fn exchanges(id: &ConversationId, mut rows: Vec<Row>) -> Result<Vec<Recorded>, Failure> {
    rows.sort_by_key(|row| row.try_get::<_, i64>(column::SEQ).unwrap_or_default());
    let large = rows.iter().map(|row| row.raw_size_bytes()).sum::<usize>() > BLOCKING_THRESHOLD_BYTES;
    if !large {
        return decode(id, &rows);
    }
    let conversation = id.clone();
    let decoding = spawn_blocking(move || decode(&conversation, &rows));
    // This fails only if the runtime shuts down.
    decoding.await.unwrap_or_else(|_| Err(PostgresError::NoRuntime.into()))
}

fn decode(id: &ConversationId, rows: &[Row]) -> Result<Vec<Recorded>, Failure> {
    rows.iter().map(|row| exchange(id, row)).collect()
}

fn exchange(id: &ConversationId, row: &Row) -> Result<Recorded, Failure> {
    let seq = Seq::new(count(row.try_get(column::SEQ)?));
    let records = ExchangeRecords {
        exchange: row.try_get(column::BODY)?,
        recalled: row.try_get(column::RECALLED)?,
        provenance: row.try_get(column::PROVENANCE)?,
    };

    let exchange = records.decode().map_err(|error| StoreError::Corrupt {
        conversation: id.clone(),
        seq,
        source: error.into(),
    })?;
    Ok(Recorded::new(seq, exchange))
}
