//! Registering a conversation before it is created.

use std::time::Duration;

use redis::Value;
use tower_chat_history_core::{ConversationId, Epoch, StoreError};

use super::{Slot, Stamp};
use crate::{call::Shared, error::UnexpectedReply, reply::Reply, scripts};

/// The age from which on a name may belong to no conversation, if conversations expire sooner than that. It is longer
/// than a registration is valid.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(3_600);

/// The answer of the registry.
pub(crate) enum Registration {
    Registered(Registered),
    /// The conversation was erased since the epoch that the call named.
    Erased,
}

pub(crate) struct Registered {
    pub(crate) stamp: Stamp,
    /// The time of the registration in microseconds.
    pub(crate) time: u64,
    /// Old names, whose conversations may have expired.
    pub(crate) stale: Vec<(ConversationId, Stamp)>,
}

/// Registers a conversation, so that listings and erasures find it from now on. The registration is valid for fifteen
/// minutes.
pub(crate) async fn register(
    shared: &Shared,
    id: &ConversationId,
    since: Option<Epoch>,
) -> Result<Registration, StoreError> {
    let age = shared.options.expire_after.map(|time| micros(time.max(MIN_AGE)));
    let call = Slot::of(id).call(shared, &scripts::REGISTER).text(id.as_str());
    let call = call.owned(since.map(|epoch| epoch.get().to_string()).unwrap_or_default());
    let call = call.owned(age.map(|age| age.to_string()).unwrap_or_default());
    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "registered" => {
            let (stamp, time) = (Stamp(reply.number()?), reply.number()?);
            Ok(Registration::Registered(Registered { stamp, time, stale: stale(&mut reply)? }))
        }
        "erased" => Ok(Registration::Erased),
        "full" => Err(reply.full(id.as_str().len())?),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads names and their stamps, which alternate.
fn stale(reply: &mut Reply) -> Result<Vec<(ConversationId, Stamp)>, StoreError> {
    let values = reply.list()?;
    values.chunks_exact(2).map(|pair| name_and_stamp(pair).ok_or_else(UnexpectedReply::error)).collect()
}

fn name_and_stamp(pair: &[Value]) -> Option<(ConversationId, Stamp)> {
    let [Value::BulkString(name), Value::BulkString(stamp)] = pair else { return None };
    let text = |bytes| std::str::from_utf8(bytes).ok();
    Some((text(name)?.parse().ok()?, Stamp(text(stamp)?.parse().ok()?)))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
