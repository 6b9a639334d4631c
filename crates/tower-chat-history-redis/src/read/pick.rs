//! Reading exchanges at some positions.

use tower_chat_history_core::{ConversationId, Page, Recorded, Revision, Seq, StoreError};

use super::page::MAX_PAGE_BYTES;
use crate::{call::Shared, contention::ContentionRetry, error::UnexpectedReply, scripts};

/// Reads the exchanges in several steps if they are large. If exchanges were removed in between, the call starts again.
/// Those that were appended in between are left out.
pub(crate) async fn pick(shared: &Shared, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
    let mut retry = ContentionRetry::new();
    let mut seen: Option<Revision> = None;
    let (mut done, mut exchanges, mut is_large) = (0, Vec::<Recorded>::new(), false);
    loop {
        let incarnation = seen.map(|seen| seen.incarnation());
        let call = shared.call(&scripts::PICK, id);
        let call = match (&incarnation, seen) {
            (Some(incarnation), Some(seen)) => call.bytes(incarnation.as_bytes()).number(seen.first().get()),
            _ => call.text("").text(""),
        };
        let rest = positions.get(done..).unwrap_or_default();
        let call = rest.iter().fold(call.number(MAX_PAGE_BYTES), |call, seq| call.number(seq.get()));
        let mut reply = shared.run_limited_step(call, &mut is_large).await?;
        match reply.word.as_str() {
            "absent" => return Ok(Page::absent()),
            "changed" => {
                (seen, done) = (None, 0);
                exchanges.clear();
                retry.again().await?;
            }
            "picked" => {
                let now = reply.revision(id)?;
                let step = usize::try_from(reply.number()?).map_err(|_| UnexpectedReply::error())?;
                let found = reply.numbers()?;
                exchanges.extend(reply.exchanges(id, found, now.version())?);
                let first = *seen.get_or_insert(now);
                done += step;
                if done >= positions.len() {
                    exchanges.retain(|recorded| recorded.seq.get() < first.version());
                    return Ok(Page::new(first, exchanges, false));
                }
                if step == 0 {
                    return Err(UnexpectedReply::error());
                }
            }
            _ => return Err(UnexpectedReply::error()),
        }
    }
}
