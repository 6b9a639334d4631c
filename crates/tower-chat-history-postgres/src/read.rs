//! Calls that read a log: loading a window, and reading a page. Each is one statement, and sees one state of the
//! conversation.

use std::sync::Arc;

use tokio_postgres::Row;
use tower_chat_history_core::{Added, ConversationId, Epoch, ExchangeId, Load, Loaded, Page, Profile, Seq, Window};
use uuid::Uuid;

use crate::{
    database::{BatchQueue, Batchable, Call, Database, Parameter, query_batched},
    error::{Failure, PostgresError},
    rows::{self, count, stored, take_head, uuid},
    sql::{Sql, Statements},
};

/// The largest size of a page's messages, in bytes. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: i64 = 4 << 20;

pub(crate) async fn load(
    database: &Arc<Database>,
    queue: &BatchQueue<LoadRequest>,
    id: &ConversationId,
    load: Load,
) -> Result<Loaded, Failure> {
    let profile = load.profile.clone();
    let request = LoadRequest { id: id.clone(), load };
    let rows = query_batched(database, queue, request, database.limits()).await?;
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
            Box::new(stored(limit.media_bytes() as u64)),
            Box::new(i32::from(self.load.or_added)),
        ]
    }

    fn statements(sql: &Sql) -> &Statements {
        &sql.load
    }
}

/// The columns of a conversation's row.
const INCARNATION: usize = 4;
const FROM: usize = 7;
const RECORDED: usize = 8;
const COMPACTION: usize = 9;
const EPOCH: usize = 13;
const BYTES: usize = 14;
const ADDED: usize = 15;

/// Reads the rows that the function returned.
async fn loaded(id: &ConversationId, profile: &Profile, mut rows: Vec<Row>) -> Result<Loaded, Failure> {
    let row = take_head(&mut rows).ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<Uuid>>(INCARNATION)?.is_none() {
        return Ok(Loaded::Absent(Epoch::new(count(row.try_get(EPOCH)?))));
    }

    let revision = rows::revision_of(&row)?;
    let Some(from) = row.try_get::<_, Option<i64>>(FROM)? else { return Ok(Loaded::Unchanged) };

    let exchanges = rows::exchanges(id, rows).await;
    if row.try_get::<_, Option<bool>>(RECORDED)?.unwrap_or_default() {
        let recorded = exchanges?.pop().ok_or(PostgresError::Protocol)?;
        return Ok(Loaded::AlreadyRecorded(recorded));
    }

    let log_bytes = count(row.try_get(BYTES)?);
    if row.try_get::<_, Option<bool>>(ADDED)?.unwrap_or_default() {
        return Ok(Loaded::Added(Added::new(revision, exchanges?, log_bytes)));
    }

    // An error about the compaction comes before an error about an exchange.
    let compaction = rows::compaction(id, revision.version(), profile, &row, COMPACTION)?;
    let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.window_start);
    let truncated = count(from) > start.max(revision.first()).get();
    Ok(Loaded::Window(Window::new(revision, compaction, exchanges?, truncated).log_bytes(log_bytes)))
}

pub(crate) async fn page(call: &Call, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, Failure> {
    // This bound is far above the number of exchanges in a page. It is low enough that the sum with a position cannot
    // overflow.
    let limit = i64::try_from(limit).unwrap_or(i64::MAX).min(i64::from(i32::MAX));
    let from = stored(from.get());

    let mut rows = call.query(&call.sql.read, &[&id.as_str(), &from, &limit, &MAX_PAGE_BYTES]).await?;
    let Some(row) = take_head(&mut rows) else { return Ok(Page::absent()) };
    let revision = rows::revision_of(&row)?;
    let to = count(row.try_get("r_to")?);
    let exchanges = rows::exchanges(id, rows).await?;
    Ok(Page::new(revision, exchanges, to < revision.version()))
}
