//! Appending an exchange.

use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Epoch, Expect, Incarnation, Provenance, Seq, StoreError,
};

use super::{
    cut::sweep,
    replace::{add_compaction, compaction_outcome},
};
use crate::{
    call::{Call, ContentionRetry, Shared, call_name},
    error::{Contended, Failure, LogFull, UnexpectedReply},
    list,
    registry::{self, Registration, Slot},
    reply::Reply,
    scripts,
    stored::recalled_value,
};

/// The number of times that an append removes the rest of a truncation before it gives up. Another call may leave a new
/// rest each time.
const MAX_SWEEPS: usize = 8;

pub(crate) async fn append(shared: &Shared, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
    let random = Incarnation::random();
    let name = call_name();
    // An append that names an epoch, or creates the conversation, needs a registration.
    let mut needs_registration = append.since.is_some() || append.expect == Expect::Absent;
    let mut retry = ContentionRetry::new();

    loop {
        let naming = match append.since {
            _ if !needs_registration => Naming::None,
            Some(since) if shared.creates_in_one_step() => Naming::ByScript(since),
            since => match registry::register(shared, id, since).await? {
                Some(registration) => Naming::Registered(registration),
                None => Naming::Erased,
            },
        };

        let mut reply = match send(shared, id, &append, random, &name, &naming).await {
            Err(error) if matches!(naming, Naming::ByScript(_)) && Failure::is_cross_slot(&error) => {
                shared.note_divided_keys();
                continue;
            }
            reply => reply?,
        };

        match reply.word.as_str() {
            "register" => needs_registration = true,
            // The conversation was deleted since it was registered, or the request was on its way for too long.
            "again" => retry.again().await?,
            _ => {
                let appended = appended(&mut reply, id, &append);
                tidy_names(shared, id, &naming, appended.as_ref().err()).await;
                return appended;
            }
        }
    }
}

/// The registration of the conversation that an append sends.
enum Naming {
    /// None. If there is no such conversation, the script asks for a registration.
    None,
    Registered(Registration),
    /// The registry refused the conversation. The exchange may be in the log all the same, so the script looks for it.
    Erased,
    /// The script registers the conversation, unless it was erased since the epoch.
    ///
    /// Only calls that name an epoch may do this. If such a call arrives late, the registry refuses it. One without an
    /// epoch would create a conversation again that was deleted in between.
    ByScript(Epoch),
}

/// Removes names that the registry found, and the name of a conversation that was not created. A name that cannot be
/// removed now is removed later.
async fn tidy_names(shared: &Shared, id: &ConversationId, naming: &Naming, refused: Option<&StoreError>) {
    match naming {
        Naming::None | Naming::Erased => return,
        Naming::Registered(registration) => {
            list::forget_expired(shared, &registration.stale).await.ok();
        }
        Naming::ByScript(_) => {}
    }

    if refused.is_some_and(|error| !matches!(error, StoreError::Conflict { current: Some(_) })) {
        registry::drop_name(shared, id).await.ok();
    }
}

/// Sends an append with its registration (see `scripts/append.lua` and `scripts/create.lua`).
async fn send(
    shared: &Shared,
    id: &ConversationId,
    append: &Append,
    random: Incarnation,
    name: &str,
    naming: &Naming,
) -> Result<Reply, StoreError> {
    let [stamp, time] = match naming {
        Naming::None => [String::new(), String::new()],
        Naming::Erased => ["erased".to_owned(), String::new()],
        Naming::Registered(registration) => [registration.stamp.0.to_string(), registration.time.to_string()],
        Naming::ByScript(since) => [since.get().to_string(), id.as_str().to_owned()],
    };

    let exchange = &append.exchange;
    let body = exchange.encode().map_err(StoreError::backend)?;
    let recalled = recalled_value(exchange)?;
    let provenance = exchange.provenance.as_ref().map(Provenance::encode).transpose();
    let provenance = provenance.map_err(StoreError::backend)?.unwrap_or_default();

    let (word, incarnation, version) = match append.expect {
        Expect::Absent => ("absent", None, String::new()),
        Expect::Exactly(revision) => ("exactly", Some(revision.incarnation()), revision.version().to_string()),
        Expect::AnyIn(incarnation) => ("in", Some(incarnation), String::new()),
        Expect::AnyOrCreate => ("any", None, String::new()),
    };

    let call = match naming {
        Naming::ByScript(_) => Slot::of(id).add_to(shared.call(&scripts::CREATE, id), shared),
        Naming::None | Naming::Registered(_) | Naming::Erased => shared.call(&scripts::APPEND, id),
    };

    let call = call.text(exchange.id.as_str()).text(word);
    let call = call.bytes(incarnation.as_ref().map_or(&[], |incarnation| incarnation.as_bytes())).text(&version);
    let call = match exchange.continues {
        Some(continues) => call.number(continues.get()),
        None => call.text(""),
    };

    let call = call.number(u64::from(exchange.opens_turn()));
    // The number of messages, the bytes and the media, as load limits count them.
    let call = call.number(exchange.counted_messages() as u64).number(exchange.bytes() as u64);
    let call = call.number(exchange.media_bytes() as u64);
    let call = call.text(&body).bytes(random.as_bytes()).text(name);
    let call = add_time_to_live(call, shared);
    let call = call.text(&recalled).text(&provenance).number(exchange.at.as_unix_millis());
    let call = call.number(append.first.get()).text(&stamp).text(&time);
    let call = add_compaction(call, append.compact.as_ref());
    run(shared, id, &call).await
}

/// Adds the milliseconds after which the conversation expires, or an empty argument.
pub(super) fn add_time_to_live<'a>(call: Call<'a>, shared: &Shared) -> Call<'a> {
    match shared.options.expire_after {
        Some(time) => call.number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        None => call.text(""),
    }
}

/// Runs an append, after removing the rest of an interrupted truncation or prune.
async fn run(shared: &Shared, id: &ConversationId, call: &Call<'_>) -> Result<Reply, StoreError> {
    for _ in 0..MAX_SWEEPS {
        let reply = shared.run(call).await?;
        if reply.word != "sweep" {
            return Ok(reply);
        }
        sweep(shared, id).await?;
    }
    Err(StoreError::unavailable(Contended))
}

/// Reads the result of an append.
fn appended(reply: &mut Reply, id: &ConversationId, append: &Append) -> Result<Appended, StoreError> {
    let exchange = &append.exchange;
    match reply.word.as_str() {
        "stored" => {
            let revision = reply.revision()?;
            let seq = Seq::new(reply.number()?);
            let compaction = outcome(reply, id, append.compact.as_ref())?;
            Ok(Appended::stored(revision, seq, compaction))
        }
        "duplicate" => {
            let revision = reply.revision()?;
            Ok(Appended::duplicate(revision, Seq::new(reply.number()?)))
        }
        "refused" => {
            let current = reply.optional_revision()?;
            append.expect.check(current)?;
            Err(UnexpectedReply::error())
        }
        "unknown" => {
            let continues = exchange.continues.unwrap_or_default();
            Err(StoreError::ContinuesUnknown { continues, len: reply.number()? })
        }
        "longest" => Err(StoreError::backend(LogFull)),
        "full" => Err(reply.full(exchange.bytes())?),
        _ => Err(UnexpectedReply::error()),
    }
}

fn outcome(
    reply: &mut Reply,
    id: &ConversationId,
    compact: Option<&Compact>,
) -> Result<Option<CompactOutcome>, StoreError> {
    let kind = reply.text()?;
    match (kind.as_str(), compact) {
        ("none", _) => Ok(None),
        (kind, Some(compact)) => match compaction_outcome(kind, reply, id, &compact.profile) {
            // The exchange is stored, even if the stored compaction cannot be read.
            Err(StoreError::CorruptCompaction { .. }) => Ok(Some(CompactOutcome::Kept(None))),
            outcome => outcome.map(Some),
        },
        (_, None) => Err(UnexpectedReply::error()),
    }
}
