//! Reading exchanges at given positions.

use tower_chat_history_core::{ConversationId, Page, Seq};

use super::take_head;
use crate::{
    database::Call,
    error::Failure,
    rows::{self, Head},
};

pub(crate) async fn pick(call: &Call, id: &ConversationId, positions: &[Seq]) -> Result<Page, Failure> {
    // No log has a position beyond the range of the column.
    let mut positions: Vec<i64> = positions.iter().filter_map(|seq| i64::try_from(seq.get()).ok()).collect();
    positions.sort_unstable();
    let rows = call.query(&call.sql.pick, &[&id.as_str(), &positions]).await;
    let mut rows = rows.map_err(|failure| rows::or_damaged_counters(id, failure))?;
    let Some(row) = take_head(&mut rows) else { return Ok(Page::absent()) };
    let head = Head::from_row(id, &row)?;
    let expected: Vec<u64> = positions.into_iter().filter(|seq| head.has(*seq)).map(rows::count).collect();
    let exchanges = rows::exchanges(id, head, rows, expected).await?;
    Ok(Page::new(head.revision, exchanges, false))
}
