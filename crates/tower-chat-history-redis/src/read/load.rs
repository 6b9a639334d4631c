//! Loading a window.

use tower_chat_history_core::{Added, ConversationId, ExchangeId, Load, Loaded, StoreError, Window};

use crate::{call::Shared, error::UnexpectedReply, registry, reply::corrupt_compaction, scripts};

pub(crate) async fn load(shared: &Shared, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
    let exchange = load.exchange.as_ref().map_or("", |id| id.as_str());
    let call = shared.call(&scripts::LOAD, id).text(load.profile.as_str()).text(exchange);
    let known = load.known.as_ref().map(|known| (known.revision.incarnation(), known));
    let call = match &known {
        Some((incarnation, known)) => call
            .bytes(incarnation.as_bytes())
            .owned(known.revision.version().to_string())
            .owned(known.revision.first().to_string())
            .owned(known.compaction.get().to_string())
            .text(known.newest.as_ref().map_or("", ExchangeId::as_str)),
        None => call.text("").text("").text("").text("").text(""),
    };
    let call = call.number(u64::from(load.or_added));
    let call = call.number(load.limit.messages() as u64).number(load.limit.bytes() as u64);
    let mut reply = shared.run_limited(call).await?;
    match reply.word.as_str() {
        // The epoch is read after the conversation was found absent. An epoch from before would not show that the
        // conversation was deleted in between.
        "absent" => registry::epoch(shared, id).await.map(Loaded::Absent),
        "unchanged" => Ok(Loaded::Unchanged),
        "recorded" => {
            let seq = reply.number()?;
            reply.exchange(id, seq).map(Loaded::AlreadyRecorded)
        }
        "compaction" => Err(corrupt_compaction(id, &load.profile)),
        word @ ("window" | "added") => {
            let is_added = word == "added";
            let revision = reply.revision()?;
            let compaction = reply.compaction(id, &load.profile)?;
            let truncated = reply.number()? == 1;
            let from = reply.number()?;
            let exchanges = reply.exchanges(id, from)?;
            let log_bytes = reply.number()?;
            if is_added {
                return Ok(Loaded::Added(Added::new(revision, exchanges, log_bytes)));
            }
            Ok(Loaded::Window(Window::new(revision, compaction, exchanges, truncated).log_bytes(log_bytes)))
        }
        _ => Err(UnexpectedReply::error()),
    }
}
