//! Loading a window.

use std::sync::Arc;

use tokio_postgres::Row;
use tower_chat_history_core::{
    Added, ConversationId, Epoch, ExchangeId, Load, Loaded, Profile, Recorded, Seq, StoreError, Window,
};
use uuid::Uuid;

use super::take_head;
use crate::{
    database::{BatchQueue, Batchable, Database, Parameter, query_batched},
    error::{Failure, PostgresError},
    rows::{self, Damaged, Head, count, stored, uuid},
    sql::{Sql, Statements},
};

pub(crate) async fn load(
    database: &Arc<Database>,
    queue: &BatchQueue<LoadRequest>,
    id: &ConversationId,
    load: Load,
) -> Result<Loaded, Failure> {
    let profile = load.profile.clone();
    let request = LoadRequest { id: id.clone(), load };
    let rows = query_batched(database, queue, request, database.limits()).await;
    let rows = rows.map_err(|failure| rows::or_damaged_counters(id, failure))?;
    loaded(id, &profile, rows).await
}

#[derive(Debug)]
pub(crate) struct LoadRequest {
    id: ConversationId,
    load: Load,
}

impl Batchable for LoadRequest {
    const READS: bool = true;

    fn key(&self) -> &str {
        self.id.as_str()
    }

    fn is_small(&self) -> bool {
        true
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let Load { limit, exchange, profile, .. } = &self.load;
        let known = self.load.known.as_ref();
        vec![
            Box::new(self.id.as_str()),
            Box::new(profile.as_str()),
            Box::new(exchange.as_ref().map(ExchangeId::as_str)),
            Box::new(known.map(|known| uuid(known.revision.incarnation()))),
            Box::new(known.map(|known| stored(known.revision.version()))),
            Box::new(known.map(|known| stored(known.revision.first().get()))),
            Box::new(known.map(|known| stored(known.compaction.get()))),
            Box::new(known.and_then(|known| known.newest.as_ref()).map(ExchangeId::as_str)),
            Box::new(stored(limit.messages() as u64)),
            Box::new(stored(limit.bytes() as u64)),
            Box::new(i32::from(self.load.or_added)),
        ]
    }

    fn statements(sql: &Sql) -> &Statements {
        &sql.load
    }
}

/// The columns of a conversation's row. Pages have the first three as well.
const INCARNATION: usize = 8;
pub(super) const FROM: usize = 13;
pub(super) const TO: usize = 14;
const RECORDED: usize = 15;
const COMPACTION: usize = 16;
const POSITIONS: usize = 17;
const EPOCH: usize = 18;
const BYTES_BEFORE: usize = 19;
const ADDED: usize = 20;
const COMPACTION_BODY: usize = 2;

/// Reads the rows that the function returned.
async fn loaded(id: &ConversationId, profile: &Profile, mut rows: Vec<Row>) -> Result<Loaded, Failure> {
    let row = take_head(&mut rows).ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<Uuid>>(INCARNATION)?.is_none() {
        let epoch: Option<i64> = row.try_get(EPOCH)?;
        let epoch = epoch.ok_or_else(|| StoreError::backend(Damaged::Epoch))?;
        return Ok(Loaded::Absent(Epoch::new(count(epoch))));
    }
    let head = Head::from_row(id, &row)?;
    let Some(to) = row.try_get::<_, Option<i64>>(TO)?.map(count) else { return Ok(Loaded::Unchanged) };
    let from = count(row.try_get(FROM)?);
    let recorded: Option<i64> = row.try_get(RECORDED)?;
    if recorded.is_some_and(|seq| !head.has(seq)) {
        return Err(rows::damaged_counters(id).into());
    }
    let exchanges = rows::exchanges(id, head, rows, from..to).await;
    if recorded.is_some() {
        let recorded = exchanges?.pop().ok_or(PostgresError::Protocol)?;
        return Ok(Loaded::AlreadyRecorded(recorded));
    }
    let before: Option<i64> = row.try_get(BYTES_BEFORE)?;
    let log_bytes = head.bytes_after(before.unwrap_or_default());
    if row.try_get::<_, Option<bool>>(ADDED)?.unwrap_or_default() {
        let exchanges = exchanges?;
        head.check_end(id, from, &exchanges)?;
        return Ok(Loaded::Added(Added::new(head.revision, exchanges, log_bytes)));
    }
    Ok(Loaded::Window(window(id, profile, &row, head, from, exchanges)?.log_bytes(log_bytes)))
}

fn window(
    id: &ConversationId,
    profile: &Profile,
    row: &Row,
    head: Head,
    from: u64,
    exchanges: Result<Vec<Recorded>, StoreError>,
) -> Result<Window, Failure> {
    let compaction = match row.try_get::<_, Option<i64>>(COMPACTION)? {
        Some(version) => {
            let (positions, body): (Vec<i64>, _) = (row.try_get(POSITIONS)?, row.try_get(COMPACTION_BODY)?);
            Some(rows::compaction(id, head.len, profile, version, &positions, body)?)
        }
        None => None,
    };
    let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.cut.window_start);
    let exchanges = exchanges?;
    head.check_window(id, &exchanges)?;
    let truncated = from > start.max(head.revision.first()).get();
    Ok(Window::new(head.revision, compaction, exchanges, truncated))
}
