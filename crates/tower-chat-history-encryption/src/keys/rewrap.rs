//! Wrapping data keys again, with the current master key.

use tower_chat_history_core::Prefix;

use super::{Forgets, Keys, context};
use crate::{
    key::KeyError,
    vault::{DataKey, EntryId},
};

/// The largest number of entries that are listed per call of the vault.
const PAGE: usize = 10_000;

impl Keys {
    /// Wraps all data keys of the vault with the current master key, if another master key wrapped them. Nothing that
    /// is stored in the database changes. Calls the master keys twice for each data key.
    ///
    /// When no entry has [failed](RewrapRun::failed), and the [lifetime](Self::with_lifetime) of the keys in all
    /// processes has passed, the old master key is not needed any more, except for old copies of the vault. An entry
    /// that others add in the meantime is wrapped with the current master key of their process.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be listed, or if it or the master keys are not
    /// [available](KeyError::Unavailable). Repeat the call then.
    pub async fn rewrap_all(&self) -> Result<RewrapRun, KeyError> {
        let all = Prefix::all();
        // Keys in memory have the old wrapped form.
        let _forgets = Forgets { keys: &self.0.known, under: &all };
        let (mut run, mut after) = (RewrapRun::default(), None);
        loop {
            let page = self.0.vault.list(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(run) };
            after = Some(*last);
            for entry in &page {
                match self.rewrap(entry).await {
                    Ok(keys) => run.keys += keys,
                    Err(error @ KeyError::Unavailable { .. }) => return Err(error),
                    Err(error) => {
                        run.failed += 1;
                        run.first_failure.get_or_insert((*entry, error));
                    }
                }
                run.entries += 1;
            }
        }
    }

    /// Wraps the keys of an entry again. Returns their number.
    async fn rewrap(&self, of: &EntryId) -> Result<u64, KeyError> {
        let mut again = 0;
        for stored in self.0.vault.read(of).await? {
            let context = context(of, stored.id);
            let secret = self.0.master.unwrap(&stored.wrapped, &context).await?;
            let wrapped = self.0.master.wrap(&secret, &context).await?;
            if wrapped.master != stored.wrapped.master {
                let replaced = self.0.vault.replace(of, &stored, &DataKey::new(stored.id, wrapped)).await?;
                again += u64::from(replaced);
            }
        }
        Ok(again)
    }
}

/// The numbers of one call of [`Keys::rewrap_all`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RewrapRun {
    /// The number of entries of the vault.
    pub entries: u64,
    /// The number of keys that were wrapped again.
    pub keys: u64,
    /// The number of entries that are damaged, or that have a key that cannot be unwrapped.
    pub failed: u64,
    /// The first of them.
    pub first_failure: Option<(EntryId, KeyError)>,
}
