//! The stored forms of cuts.

use std::{str, sync::Arc};

use serde::{Deserialize, Serialize, de::Error as _};

use super::{Reader, RecordError, VERSION, Version, encoded, none, read};
use crate::{
    compaction::{Compaction, CompactionVersion, Cut, Cuts, LearnedReaders, Positions, Summary},
    profile::Profile,
    seq::Seq,
    store::Compact,
};

/// The readers of all versions from 1 on. The last one reads [`VERSION`].
pub(super) const CUTS: &[Reader<Cuts>] = &[cuts_1];
pub(super) const STATES: &[Reader<State<Version>>] = &[state_1];

/// Cuts as a file has them: the summaries beside the positions.
#[derive(Serialize, Deserialize)]
struct StoredCuts<V, C> {
    v: V,
    #[serde(flatten)]
    cut: C,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    replaced: Option<C>,
}

/// The state of a compaction.
#[derive(Serialize, Deserialize)]
pub(super) struct State<V> {
    v: V,
    cut: Positions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<Positions>,
    #[serde(default, skip_serializing_if = "LearnedReaders::is_empty")]
    learned: LearnedReaders,
}

/// The text of a compaction that was derived from messages. Its version is that of the state.
#[derive(Serialize, Deserialize)]
struct Summaries<S> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    summary: Option<S>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    replaced: Option<S>,
}

impl Cuts {
    /// Returns the request to store these cuts in a profile, if the stored compaction still has the version `replaces`.
    ///
    /// # Errors
    ///
    /// Never fails for cuts of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn compact(&self, profile: Profile, replaces: CompactionVersion) -> Result<Compact, RecordError> {
        let replaced = self.replaced.as_deref();
        let state = encoded(&State {
            v: VERSION,
            cut: self.cut.positions,
            replaced: replaced.map(|cut| cut.positions),
            learned: self.cut.learned.clone(),
        })?;

        let summaries =
            Summaries { summary: self.cut.summary.as_ref(), replaced: replaced.and_then(|cut| cut.summary.as_ref()) };
        let derived = if summaries.summary.is_some() || summaries.replaced.is_some() {
            Some(Arc::from(encoded(&summaries)?.into_bytes()))
        } else {
            None
        };

        Ok(Compact::new(profile, replaces, self.cut.window_start, Arc::from(state.into_bytes()), derived))
    }

    /// Reads the cuts that [`compact`](Self::compact) wrote.
    ///
    /// If their summaries were [erased](crate::Derived::Erase), only [`encrypted_from`](Positions::encrypted_from) and
    /// what was learned about readers is left of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the compaction is not from `compact`, or if a newer version of this library wrote it.
    pub fn read(compaction: &Compaction) -> Result<Self, RecordError> {
        let state = str::from_utf8(&compaction.state)
            .map_err(|error| RecordError::malformed(serde_json::Error::custom(error)))?;
        let State { cut, replaced, learned, .. } = read(state, STATES)?;

        let Some(derived) = &compaction.derived else {
            let has_summary = [Some(cut), replaced].into_iter().flatten().any(|at| at.covers_to > Seq::FIRST);
            let left = if has_summary { Cut::without_encrypted(cut.encrypted_from) } else { Cut::at(cut) };
            let replaced = replaced.filter(|_| !has_summary).map(Cut::at);
            return Ok(Self::new(Cut { learned, ..left }).replacing(replaced));
        };

        let summaries: Summaries<Summary> = serde_json::from_slice(derived).map_err(RecordError::malformed)?;
        let cut = Cut { positions: cut, summary: summaries.summary, learned };
        let replaced = replaced.map(|positions| Cut { positions, summary: summaries.replaced, ..Cut::default() });
        complete(Self::new(cut).replacing(replaced)).map_err(RecordError::malformed)
    }

    /// Returns these cuts as one text, for a file. Stores never see it.
    ///
    /// # Errors
    ///
    /// The same as [`compact`](Self::compact).
    pub fn encode(&self) -> Result<String, RecordError> {
        encoded(&StoredCuts { v: VERSION, cut: &self.cut, replaced: self.replaced.as_deref() })
    }

    /// Reads the text that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        read(record, CUTS)
    }
}

/// Checks that each cut whose summary covers something has the summary.
fn complete(cuts: Cuts) -> Result<Cuts, serde_json::Error> {
    for cut in [Some(&cuts.cut), cuts.replaced.as_deref()].into_iter().flatten() {
        if cut.summary.is_none() && cut.covers_to > Seq::FIRST {
            return Err(serde_json::Error::custom("a summary is missing"));
        }
    }
    Ok(cuts)
}

pub(super) fn cuts_1(record: &str) -> Result<(Version, Cuts), serde_json::Error> {
    let StoredCuts { v, cut, replaced } = serde_json::from_str(record)?;
    Ok((v, complete(Cuts::new(cut).replacing(replaced))?))
}

fn state_1(record: &str) -> Result<(Version, State<Version>), serde_json::Error> {
    let state: State<Version> = serde_json::from_str(record)?;
    Ok((state.v, state))
}
