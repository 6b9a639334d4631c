//! The stored forms of cuts.

use std::{str, sync::Arc};

use serde::{Deserialize, Serialize, de::Error as _};

use super::{Reader, RecordError, VERSION, Version, encoded, none, read};
use crate::{
    compaction::{Compaction, CompactionVersion, Cut, Cuts, Summary},
    profile::Profile,
    provenance::Positions,
    seq::Seq,
    store::Compact,
};

/// The readers of all versions from 1 on. The last one reads [`VERSION`].
pub(super) const CUTS: &[Reader<Cuts>] = &[cuts_1];
pub(super) const STATES: &[Reader<State<Version>>] = &[state_1];

/// Cuts as a file has them: positions by their names, and summaries beside them.
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
}

/// The text of a compaction that was derived from messages. Its version is that of the state.
#[derive(Serialize, Deserialize)]
struct Summaries<T> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    summary: Option<StoredSummary<T>>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    replaced: Option<StoredSummary<T>>,
}

/// A summary without the position that it covers exchanges to, which is in the state.
#[derive(Serialize, Deserialize)]
struct StoredSummary<T> {
    text: T,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u32>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    model: Option<T>,
}

impl Cuts {
    /// Returns the request to store these cuts in a profile, if the stored compaction still has the version `replaces`.
    ///
    /// # Errors
    ///
    /// Never fails for cuts of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn compact(&self, profile: Profile, replaces: CompactionVersion) -> Result<Compact, RecordError> {
        let replaced = self.replaced.as_deref();
        let state = encoded(&State { v: VERSION, cut: self.cut.positions(), replaced: replaced.map(Cut::positions) })?;

        let summaries = Summaries {
            summary: self.cut.summary.as_ref().map(StoredSummary::of),
            replaced: replaced.and_then(|cut| cut.summary.as_ref()).map(StoredSummary::of),
        };
        let derived = if summaries.summary.is_some() || summaries.replaced.is_some() {
            Some(Arc::from(encoded(&summaries)?.into_bytes()))
        } else {
            None
        };

        Ok(Compact::new(profile, replaces, self.cut.window_start, Arc::from(state.into_bytes()), derived))
    }

    /// Reads the cuts that [`compact`](Self::compact) wrote.
    ///
    /// If their summaries were [erased](crate::Derived::Erase), only [`Cut::encrypted_from`] is left of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the compaction is not from `compact`, or if a newer version of this library wrote it.
    pub fn read(compaction: &Compaction) -> Result<Self, RecordError> {
        let state = str::from_utf8(&compaction.state).map_err(malformed)?;
        let State { cut, replaced, .. } = read(state, STATES)?;

        let Some(derived) = &compaction.derived else {
            let has_summary = [Some(cut), replaced].into_iter().flatten().any(|at| at.covers_to > Seq::FIRST);
            return Ok(if has_summary {
                Self::new(Cut::without_encrypted(cut.encrypted_from))
            } else {
                Self::new(Cut::at(cut)).replacing(replaced.map(Cut::at))
            });
        };

        let summaries: Summaries<String> = serde_json::from_slice(derived).map_err(RecordError::malformed)?;
        let replaced = replaced.map(|at| cut_at(at, summaries.replaced)).transpose()?;
        Ok(Self::new(cut_at(cut, summaries.summary)?).replacing(replaced))
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

impl<'a> StoredSummary<&'a str> {
    fn of(summary: &'a Summary) -> Self {
        Self { text: &summary.text, tokens: summary.tokens, model: summary.model.as_deref() }
    }
}

/// Returns the cut at these positions with its summary, which it has if its summary covers something.
fn cut_at(positions: Positions, summary: Option<StoredSummary<String>>) -> Result<Cut, RecordError> {
    if summary.is_none() && positions.covers_to > Seq::FIRST {
        return Err(malformed("a summary is missing"));
    }
    let mut cut = Cut::at(positions);
    cut.summary = summary.map(|StoredSummary { text, tokens, model }| Summary {
        text,
        covers_to: positions.covers_to,
        tokens,
        model,
    });
    Ok(cut)
}

fn malformed(cause: impl std::fmt::Display) -> RecordError {
    RecordError::malformed(serde_json::Error::custom(cause))
}

pub(super) fn cuts_1(record: &str) -> Result<(Version, Cuts), serde_json::Error> {
    let StoredCuts { v, cut, replaced } = serde_json::from_str(record)?;
    Ok((v, Cuts::new(cut).replacing(replaced)))
}

fn state_1(record: &str) -> Result<(Version, State<Version>), serde_json::Error> {
    let state: State<Version> = serde_json::from_str(record)?;
    Ok((state.v, state))
}
