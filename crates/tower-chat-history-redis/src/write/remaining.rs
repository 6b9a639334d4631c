//! The compactions that remain when a new incarnation begins.

use std::collections::BTreeMap;

use redis::Value;
use tower_chat_history_core::{Compaction, ConversationId, Revision, StoreError};

use crate::{
    call::{Call, Shared, call_name},
    reply::{self, positions_of},
    scripts,
};

/// The compactions that remain, with the revision and the number of compaction changes at which they were read.
///
/// The stored compactions are replaced only if there was no other change in between. A compaction that cannot be read
/// does not remain, because it may contain removed text.
pub(super) struct RemainingCompactions {
    pub(super) revision: Revision,
    pub(super) changes: u64,
    fields: Vec<[String; 3]>,
}

impl RemainingCompactions {
    pub(super) async fn read(
        shared: &Shared,
        id: &ConversationId,
        stays: impl Fn(&Compaction) -> Option<Compaction>,
    ) -> Result<Self, StoreError> {
        let mut reply = shared.run(&shared.call(&scripts::COMPACTIONS, id)).await?;
        if reply.word != "compactions" {
            return Err(StoreError::Gone);
        }
        let revision = reply.revision()?;
        let changes = reply.number()?;
        let mut remaining = Self { revision, changes, fields: Vec::new() };
        for (profile, positions, record) in compactions(reply.list()?) {
            let Some(compaction) = reply::compaction(&positions, &record).ok().as_ref().and_then(&stays) else {
                continue;
            };
            let numbers = positions_of(&compaction.cut).map(|position| position.to_string()).join(" ");
            let positions = format!("{} {numbers} {}", compaction.version.get(), call_name());
            let record = compaction.encode().map_err(StoreError::backend)?;
            remaining.fields.push([profile, positions, record]);
        }
        Ok(remaining)
    }

    /// Adds the compactions to a script's arguments.
    pub(super) fn add_to<'a>(&'a self, call: Call<'a>) -> Call<'a> {
        self.fields.iter().flatten().fold(call, |call, field| call.text(field))
    }
}

/// Returns the compactions among a conversation's fields: profile, positions and record.
fn compactions(fields: Vec<Value>) -> impl Iterator<Item = (String, Vec<u8>, Vec<u8>)> {
    let mut fields = fields.into_iter().filter_map(|value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    let mut by_name = BTreeMap::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        // Profiles are ASCII. A name that is not text belongs to no profile.
        if let Ok(name) = String::from_utf8(name) {
            by_name.insert(name, value);
        }
    }
    let profiles: Vec<_> = by_name.keys().filter_map(|name| name.strip_prefix("v:").map(str::to_owned)).collect();
    profiles.into_iter().filter_map(move |profile| {
        let positions = by_name.remove(&format!("v:{profile}"))?;
        let record = by_name.remove(&format!("c:{profile}"))?;
        Some((profile, positions, record))
    })
}
