//! Calls that read. The answer of each comes from one script, and has one state of the conversation.

use tower_chat_history_core::{
    Added, ConversationId, ExchangeId, Labels, LabelsVersion, Listed, Load, Loaded, Page, Seq, StoreError, Timestamp,
    Window,
};

use crate::{
    call::{self, Shared},
    error::{LayoutError, UnexpectedReply},
    registry,
    reply::corrupt_compaction,
    scripts,
};

/// The largest size of a page's messages, in bytes. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: u64 = 4 << 20;

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
    let call = call.number(load.limit.media_bytes() as u64);

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

pub(crate) async fn describe(shared: &Shared, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::DESCRIBE, id)).await?;
    match reply.word.as_str() {
        "absent" => Ok(None),
        "described" => {
            let revision = reply.revision()?;
            let created = Timestamp::from_unix_millis(reply.number()?);
            let updated = Timestamp::from_unix_millis(reply.number()?);
            let listed = Listed::new(id.clone(), revision, created, updated, reply.number()?);

            match reply.optional_bytes()? {
                Some(stored) => {
                    let (labels, version) = labels(&stored, id, revision.first())?;
                    Ok(Some(listed.labels(labels, version)))
                }
                None => Ok(Some(listed)),
            }
        }
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads the entries of several conversations.
pub(crate) async fn describe_all(
    shared: &Shared,
    ids: Vec<&ConversationId>,
) -> Vec<Result<Option<Listed>, StoreError>> {
    call::all(ids.into_iter().map(|id| describe(shared, id)).collect()).await
}

/// Reads stored labels: their version, the name of the call that stored them, and their record.
pub(crate) fn labels(stored: &[u8], id: &ConversationId, first: Seq) -> Result<(Labels, LabelsVersion), StoreError> {
    decode_labels(stored).ok_or_else(|| LayoutError::damaged(id, first.get()))
}

fn decode_labels(stored: &[u8]) -> Option<(Labels, LabelsVersion)> {
    let mut parts = std::str::from_utf8(stored).ok()?.splitn(3, ' ');
    let version = parts.next()?.parse().ok()?;
    let record = parts.nth(1)?;

    // The error of a decoder can quote the record, so it is dropped.
    let labels = Labels::decode(record).ok()?;
    Some((labels, LabelsVersion::new(version)))
}
