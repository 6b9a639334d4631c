//! Reading pages of the log.

use tower_chat_history_core::{ConversationId, Page, Seq};

use super::take_head;
use crate::{
    database::Call,
    error::Failure,
    rows::{self, count, stored},
};

/// The largest size of a page's messages, in bytes. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: i64 = 4 << 20;

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
