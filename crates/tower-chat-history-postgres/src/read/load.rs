//! Loading what a call needs.

use std::sync::Arc;

use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, ExchangeId, Load, Loaded, Profile, Recorded, Window};

use crate::{
    database::{Database, Line, Parameter, Question, ask},
    error::Failure,
    log::{self, count, revision, stored, uuid},
    sql::{Sql, Statements},
};

pub(crate) async fn load(database: &Arc<Database>, id: &ConversationId, load: Load) -> Result<Loaded, Failure> {
    let profile = load.profile.clone();
    let rows = ask(database, LoadQuestion { id: id.clone(), load }).await?;
    loaded(id, &profile, rows).await
}

#[derive(Debug)]
pub(crate) struct LoadQuestion {
    id: ConversationId,
    load: Load,
}

impl Question for LoadQuestion {
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
        ]
    }

    fn statements(sql: &Sql) -> &Statements {
        &sql.load
    }

    fn line(database: &Database) -> &Line<Self> {
        &database.loads
    }
}

/// What the function's rows say.
async fn loaded(id: &ConversationId, profile: &Profile, mut rows: Vec<Row>) -> Result<Loaded, Failure> {
    let Some(head) = take_head(&mut rows) else { return Ok(Loaded::Absent) };
    let Some(to) = head.try_get::<_, Option<i64>>(9)?.map(count) else { return Ok(Loaded::Unchanged) };
    let from = count(head.try_get(8)?);
    let exchanges = log::exchanges(id, rows, from, to).await;
    if head.try_get::<_, Option<i64>>(5)?.is_some() {
        let recorded = exchanges?.pop();
        // There is one, or it was missed above.
        return Ok(recorded.map_or(Loaded::Absent, Loaded::AlreadyRecorded));
    }
    window(id, profile, &head, from, exchanges?)
}

fn window(
    id: &ConversationId,
    profile: &Profile,
    head: &Row,
    from: u64,
    exchanges: Vec<Recorded>,
) -> Result<Loaded, Failure> {
    let revision = revision(head.try_get(2)?, head.try_get(3)?, head.try_get(4)?);
    let compaction = match head.try_get::<_, Option<i64>>(6)? {
        Some(version) => Some(log::compaction(id, profile, version, head.try_get(1)?)?),
        None => None,
    };
    let truncated = from > count(head.try_get(7)?);
    Ok(Loaded::Window(Window::new(revision, compaction, exchanges, truncated)))
}

/// The conversation's own row: the one without a position.
pub(super) fn take_head(rows: &mut Vec<Row>) -> Option<Row> {
    let head = rows.iter().position(|row| matches!(row.try_get::<_, Option<i64>>(0), Ok(None)))?;
    Some(rows.swap_remove(head))
}
