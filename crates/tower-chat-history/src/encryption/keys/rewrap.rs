//! Wrapping data keys again, with the current master key.

use tower_chat_history_core::Prefix;

use super::{Forgets, Keys, context};
use crate::encryption::{
    key::KeyError,
    vault::{DataKey, EntryId},
};

/// The largest number of entries that are listed per call of the vault.
const PAGE: usize = 10_000;

impl Keys {
    /// Wraps all data keys of the vault with the current master key, if another master key wrapped them. Nothing that
    /// is stored in the database changes.
    ///
    /// It learns the name of the current master key from the first key that it wraps. It skips the keys that this
    /// master key wrapped, and does not check that they can be unwrapped. For each other key, it calls the master keys
    /// twice.
    ///
    /// When no entry has [failed](RewrapRun::failed), and the [lifetime](Self::with_lifetime) of the keys in all
    /// processes has passed, the old master key is not needed any more, except for old copies of the vault. An entry
    /// that others add in the meantime is wrapped with the current master key of their process.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be listed, or if it or the master keys are not
    /// [available](KeyError::Unavailable). [`RewrapError::run`] says what was done before. Repeat the call then: it
    /// begins again, and skips what was done.
    pub async fn rewrap_all(&self) -> Result<RewrapRun, RewrapError> {
        let all = Prefix::all();
        // Keys in memory have the old wrapped form.
        let _forgets = Forgets { keys: &self.0.known, under: &all };
        let mut run = RewrapRun::default();
        match self.rewrap_entries(&mut run).await {
            Ok(()) => Ok(run),
            Err(source) => Err(RewrapError { run: Box::new(run), source }),
        }
    }

    async fn rewrap_entries(&self, run: &mut RewrapRun) -> Result<(), KeyError> {
        let (mut current, mut after) = (None, None);
        loop {
            let page = self.0.vault.list(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(*last);
            for entry in &page {
                match self.rewrap(entry, &mut current, &mut run.keys).await {
                    Ok(()) => {}
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

    /// Wraps the keys of an entry again, and counts them. `current` is the name of the current master key, if it is
    /// known.
    async fn rewrap(&self, of: &EntryId, current: &mut Option<String>, keys: &mut u64) -> Result<(), KeyError> {
        for stored in self.0.vault.read(of).await? {
            if current.as_ref() == Some(&stored.wrapped.master) {
                continue;
            }
            let context = context(of, stored.id);
            let secret = self.0.master.unwrap(&stored.wrapped, &context).await?;
            let wrapped = self.0.master.wrap(&secret, &context).await?;
            *current = Some(wrapped.master.clone());
            if wrapped.master != stored.wrapped.master {
                let replaced = self.0.vault.replace(of, &stored, &DataKey::new(stored.id, wrapped)).await?;
                *keys += u64::from(replaced);
            }
        }
        Ok(())
    }
}

/// The numbers of one call of [`Keys::rewrap_all`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RewrapRun {
    /// The number of entries that the call looked at.
    pub entries: u64,
    /// The number of keys that were wrapped again.
    pub keys: u64,
    /// The number of entries that are damaged, or that have a key that must be wrapped again and cannot be unwrapped.
    pub failed: u64,
    /// The first of them.
    pub first_failure: Option<(EntryId, KeyError)>,
}

/// The error for a call of [`Keys::rewrap_all`] that stopped.
#[derive(Debug, thiserror::Error)]
#[error("the call stopped after {} entries, and not all data keys were wrapped again: {source}", run.entries)]
#[non_exhaustive]
pub struct RewrapError {
    /// The numbers so far.
    pub run: Box<RewrapRun>,
    /// The cause.
    pub source: KeyError,
}
