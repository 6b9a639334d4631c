//! Reading pages of the log.

use tower_chat_history_core::{ConversationId, Page, Seq, StoreError};

use crate::{call::Shared, error::UnexpectedReply, scripts};

/// The largest size of a page's messages, in bytes. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: u64 = 4 << 20;

pub(crate) async fn page(shared: &Shared, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
    let call = shared.call(&scripts::READ, id).number(from.get()).number(limit as u64).number(MAX_PAGE_BYTES);
    let mut reply = shared.run_limited(call).await?;
    match reply.word.as_str() {
        "absent" => Ok(Page::absent()),
        "page" => {
            let revision = reply.revision()?;
            let from = reply.number()?;
            let exchanges = reply.exchanges(id, from)?;
            let more = from + (exchanges.len() as u64) < revision.version();
            Ok(Page::new(revision, exchanges, more))
        }
        _ => Err(UnexpectedReply::error()),
    }
}
