//! What becomes of all of a conversation's compactions when a new incarnation begins.

use std::collections::BTreeMap;

use redis::Value;
use tower_chat_history_core::{Compaction, ConversationId, Revision, StoreError};

use crate::{
    append::call_name,
    call::{Call, Shared},
    reply::{self, positions_of},
    scripts,
};

/// What stays of the compactions, at which revision and at which of their changes they were read: they are replaced only if there
/// was no other change meanwhile. What cannot be read does not stay, as it might tell of what is removed.
pub(crate) struct Rewritten {
    pub(crate) revision: Revision,
    pub(crate) changes: u64,
    stay: Vec<[String; 3]>,
}

impl Rewritten {
    pub(crate) async fn read(
        shared: &Shared,
        id: &ConversationId,
        stays: impl Fn(&Compaction) -> Option<Compaction>,
    ) -> Result<Self, StoreError> {
        let mut reply = shared.run(&shared.call(&scripts::COMPACTIONS, id)).await?;
        if reply.word != "compactions" {
            return Err(StoreError::Gone);
        }
        let revision = reply.revision(id)?;
        let changes = reply.number()?;
        let mut rewritten = Self { revision, changes, stay: Vec::new() };
        for (profile, positions, record) in compactions(reply.list()?) {
            let Some(compaction) = reply::compaction(&positions, &record).ok().as_ref().and_then(&stays) else {
                continue;
            };
            let [window, rounds, cleared, covers] = positions_of(&compaction.cut);
            let version = compaction.version.get();
            let positions = format!("{version} {window} {rounds} {cleared} {covers} {}", call_name());
            let record = compaction.cut.encode().map_err(StoreError::backend)?;
            rewritten.stay.push([profile, positions, record]);
        }
        Ok(rewritten)
    }

    /// Adds what stays to a script's arguments.
    pub(crate) fn add_to<'a>(&'a self, call: Call<'a>) -> Call<'a> {
        self.stay.iter().flatten().fold(call, |call, field| call.text(field))
    }
}

/// The compactions among a conversation's fields: profile, positions and record.
fn compactions(fields: Vec<Value>) -> impl Iterator<Item = (String, Vec<u8>, Vec<u8>)> {
    let mut fields = fields.into_iter().filter_map(|value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    let mut by_name = BTreeMap::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        // Profiles are ASCII: a name that is no text is none of theirs.
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
