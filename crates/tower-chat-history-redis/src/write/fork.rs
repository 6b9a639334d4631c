//! Copying the beginning of a log into a new conversation.

use tower_chat_history_core::{CompactionVersion, ConversationId, ForkTo, Forked, Incarnation, Revision, StoreError};

use super::{append::add_time_to_live, cut::sweep, replace::add_compaction};
use crate::{
    call::{ContentionRetry, Shared, call_name},
    erase::erase_if,
    error::{Contended, Failure, UnexpectedReply},
    list, read, registry,
    scripts::{self, keys_of, staged_keys},
};

/// The largest number of exchanges of one step. A server takes a few milliseconds for them.
const STEP_EXCHANGES: u64 = 500;

/// The largest size of their messages, in bytes.
const STEP_BYTES: u64 = 1 << 20;

pub(crate) async fn fork(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    mut to: ForkTo,
) -> Result<Forked, StoreError> {
    if let Some(compact) = &mut to.compact {
        compact.replaces = CompactionVersion::NONE;
    }

    let mut retry = ContentionRetry::new();
    loop {
        match attempt(shared, id, incarnation, &to).await {
            Ok(Some(forked)) => return Ok(forked),
            Ok(None) => retry.again().await?,
            Err(error) if !shared.divides_keys() && Failure::is_cross_slot(&error) => shared.note_divided_keys(),
            Err(StoreError::Corrupt { .. }) => {
                // The script does not say which conversation is damaged. If none is, staged keys were evicted.
                read::describe(shared, id).await?;
                read::describe(shared, &to.id).await?;
                return Err(StoreError::unavailable(Contended));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes the copy. Returns `None` if another call came in between.
///
/// On a single server, one script copies the keys. If a server divides its keys, no script has those of both
/// conversations, so the exchanges are staged next to the copy first.
async fn attempt(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
) -> Result<Option<Forked>, StoreError> {
    if !shared.divides_keys() {
        return create(shared, incarnation, to, "COPY", keys_of(&shared.options.prefix, id)).await;
    }

    // If the copy exists, nothing is staged.
    if let Some(copy) = read::describe(shared, &to.id).await? {
        return existing(shared, to, copy.revision).await;
    }

    let staged = staged_keys(&shared.options.prefix, &to.id, &call_name());
    let done = match stage(shared, id, incarnation, to, &staged).await {
        Ok(take) => create(shared, incarnation, to, take, staged.clone()).await,
        Err(error) => Err(error),
    };

    // If the server cannot be reached, the keys expire.
    unstage(shared, &to.id, staged).await.ok();

    let forked = done?;
    if let Some(Forked { revision: Some(copy), .. }) = forked {
        remove_if_gone(shared, id, incarnation, to, copy).await?;
    }
    Ok(forked)
}

/// Removes the copy, unless others have changed it, and returns `Gone` if the log has ended.
///
/// If an erasure of both ended after the exchanges were staged, it has not counted a copy that was made later.
async fn remove_if_gone(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
    copy: Revision,
) -> Result<(), StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::DESCRIBE, id)).await?;
    if reply.word == "described" && reply.revision()?.incarnation() == incarnation {
        return Ok(());
    }

    erase_if(shared, &to.id, copy).await.map_err(|error| error.into_erased().1)?;
    Err(StoreError::Gone)
}

/// Returns the result of a fork whose copy exists at this revision.
async fn existing(shared: &Shared, to: &ForkTo, revision: Revision) -> Result<Option<Forked>, StoreError> {
    if revision.incarnation() != to.incarnation {
        return Err(StoreError::Conflict { current: Some(revision) });
    }
    // The rest of the log, which a single server copies as well, is deleted before the call returns.
    sweep(shared, &to.id).await?;
    Ok(Some(Forked::new(Some(revision))))
}

/// Registers the copy and creates it from the keys of a log. `take` says how (see `scripts/fork.lua`).
async fn create(
    shared: &Shared,
    incarnation: Incarnation,
    to: &ForkTo,
    take: &str,
    log: Vec<String>,
) -> Result<Option<Forked>, StoreError> {
    let registration = registry::register(shared, &to.id, to.since).await?;
    let [stamp, time] = match &registration {
        Some(registration) => [registration.stamp.0.to_string(), registration.time.to_string()],
        None => ["erased".to_owned(), String::new()],
    };
    let labels = if to.labels.is_empty() { String::new() } else { to.labels.encode() };

    let call = shared.call(&scripts::FORK, &to.id).with_keys(log).text(take);
    let call = call.bytes(incarnation.as_bytes()).bytes(to.incarnation.as_bytes()).number(to.before.get());
    let call = call.text(&stamp).text(&time).number(to.at.as_unix_millis());
    let call = add_time_to_live(call, shared).text(&labels);
    let call = add_compaction(call, to.compact.as_ref());
    let done = shared.run(&call).await;

    if let Some(registration) = &registration {
        // A name that is not removed now is removed later.
        list::forget_expired(shared, &registration.stale).await.ok();
        let is_absent = match &done {
            Ok(reply) => matches!(reply.word.as_str(), "nothing" | "full"),
            Err(error) => matches!(error, StoreError::Gone),
        };
        if is_absent {
            registry::drop_name(shared, &to.id).await.ok();
        }
    }

    let mut reply = done?;
    match reply.word.as_str() {
        "again" => Ok(None),
        "nothing" => Ok(Some(Forked::new(None))),
        "exists" => existing(shared, to, reply.revision()?).await,
        "full" => {
            let bytes = usize::try_from(reply.number()?).unwrap_or(usize::MAX);
            Err(reply.full(bytes)?)
        }
        _ => Err(UnexpectedReply::error()),
    }
}

/// Copies the exchanges to these keys in the slot of the copy, in small steps. Returns how the copy takes them, or why
/// there is nothing to take (see `scripts/fork.lua`). The keys expire if the caller leaves.
///
/// All exchanges are those of the log at the time of the last step: within an incarnation, an exchange never changes.
/// If the log is pruned between two steps, the fork begins again.
async fn stage(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
    keys: &[String],
) -> Result<&'static str, StoreError> {
    let mut next = 0;
    let mut first = None;
    loop {
        let call = shared.call(&scripts::READ, id).number(next).number(STEP_EXCHANGES).number(STEP_BYTES);
        let mut reply = shared.run_limited(call).await?;
        match reply.word.as_str() {
            "page" => {}
            "absent" => return Ok("gone"),
            _ => return Err(UnexpectedReply::error()),
        }

        let revision = reply.revision()?;
        if revision.incarnation() != incarnation {
            return Ok("gone");
        }
        if *first.get_or_insert(revision.first()) != revision.first() {
            return Ok("again");
        }

        let from = reply.number()?;
        let end = to.before.get().min(revision.version());
        if from >= end {
            return Ok("nothing");
        }

        let mut exchanges = reply.stored(id, from)?;
        exchanges.truncate(usize::try_from(end - from).unwrap_or(usize::MAX));

        let call = shared.call(&scripts::STAGE, &to.id).in_place_of_keys(keys.to_vec());
        let call = call.bytes(incarnation.as_bytes()).number(revision.first().get()).number(from);
        let call = exchanges.iter().fold(call, |call, exchange| {
            let call = call.bytes(&exchange.record).bytes(&exchange.entry);
            call.bytes(&exchange.recalled).bytes(&exchange.provenance)
        });

        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "staged" => next = from + exchanges.len() as u64,
            "again" => return Ok("again"),
            "full" => return Err(reply.full(exchanges.iter().map(|exchange| exchange.record.len()).sum())?),
            _ => return Err(UnexpectedReply::error()),
        }

        if next >= end {
            return Ok("RENAME");
        }
    }
}

/// Deletes staged exchanges that did not become the copy with this id.
async fn unstage(shared: &Shared, id: &ConversationId, keys: Vec<String>) -> Result<(), StoreError> {
    shared.run(&shared.call(&scripts::UNSTAGE, id).in_place_of_keys(keys)).await.map(drop)
}
