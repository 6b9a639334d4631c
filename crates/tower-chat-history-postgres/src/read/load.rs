//! Loading what a call needs.

use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, ExchangeId, Load, Loaded, Profile, Recorded, Window};

use crate::{
    database::Call,
    error::Failure,
    log::{self, count, revision, stored, uuid},
};

pub(crate) async fn load(call: &Call, id: &ConversationId, load: Load) -> Result<Loaded, Failure> {
    let known = load.known.as_ref();
    let incarnation = known.map(|known| uuid(known.revision.incarnation()));
    let version = known.map(|known| stored(known.revision.version()));
    let first = known.map(|known| stored(known.revision.first().get()));
    let compaction = known.map(|known| stored(known.compaction.get()));
    let newest = known.and_then(|known| known.newest.as_ref()).map(ExchangeId::as_str);
    let exchange = load.exchange.as_ref().map(ExchangeId::as_str);
    let (messages, bytes) = (stored(load.limit.messages() as u64), stored(load.limit.bytes() as u64));
    let mut rows = call
        .query(
            &call.sql.load,
            &[
                &id.as_str(),
                &load.profile.as_str(),
                &exchange,
                &incarnation,
                &version,
                &first,
                &compaction,
                &newest,
                &messages,
                &bytes,
            ],
        )
        .await?;
    let Some(head) = take_head(&mut rows) else { return Ok(Loaded::Absent) };
    let Some(to) = head.try_get::<_, Option<i64>>(9)?.map(count) else { return Ok(Loaded::Unchanged) };
    let from = count(head.try_get(8)?);
    let exchanges = log::exchanges(id, rows, from, to).await;
    if head.try_get::<_, Option<i64>>(5)?.is_some() {
        let recorded = exchanges?.pop();
        // There is one, or it was missed above.
        return Ok(recorded.map_or(Loaded::Absent, Loaded::AlreadyRecorded));
    }
    window(id, &load.profile, &head, from, exchanges?)
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
