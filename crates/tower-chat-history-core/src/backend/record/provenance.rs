//! The stored form of provenances.
//!
//! Every exchange has one, so the names are single letters, and the zeros at the end of the positions are left out.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::Error as _};

use super::{PROVENANCES, RecordError, VERSION, Version, encoded, read};
use crate::{
    digest::Digest,
    provenance::{Origin, Positions, PromptDigests, Provenance},
    seq::Seq,
};

#[derive(Serialize, Deserialize)]
struct Stored<V> {
    v: V,
    #[serde(rename = "r")]
    renderer: u32,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    made_at: Option<Seq>,
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    cut: Vec<Seq>,
    /// Both digests, as base64.
    #[serde(rename = "d")]
    digests: String,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    reader: Option<Digest>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    origin: Option<Names>,
}

/// The names of an origin: provider, route, account, model.
type Names = (Option<String>, Option<String>, Option<String>, Option<String>);

impl Provenance {
    /// Returns the text to store next to the exchange's record.
    ///
    /// # Errors
    ///
    /// Never fails for a value of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let Origin { provider, route, account, model } = self.origin.clone();
        encoded(&Stored {
            v: VERSION,
            renderer: self.renderer,
            made_at: self.made_at,
            cut: positions(self.cut),
            digests: URL_SAFE_NO_PAD.encode([self.digests.head.bytes(), self.digests.prompt.bytes()].concat()),
            reader: self.reader,
            tokens: self.tokens,
            origin: (!self.origin.is_unknown()).then_some((provider, route, account, model)),
        })
    }

    /// Reads the value that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        read(record, PROVENANCES)
    }
}

pub(super) fn provenance_1(record: &str) -> Result<(Version, Provenance), serde_json::Error> {
    let stored: Stored<Version> = serde_json::from_str(record)?;
    let digests = digests(&stored.digests).ok_or_else(|| serde_json::Error::custom("expected two digests"))?;
    let cut = cut(&stored.cut).ok_or_else(|| serde_json::Error::custom("expected at most 7 positions"))?;
    let (provider, route, account, model) = stored.origin.unwrap_or_default();
    let origin = Origin { provider, route, account, model };
    let mut provenance = Provenance::new(stored.renderer, cut, digests, origin);
    provenance.made_at = stored.made_at;
    provenance.reader = stored.reader;
    provenance.tokens = stored.tokens;
    Ok((stored.v, provenance))
}

fn digests(text: &str) -> Option<PromptDigests> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (head, prompt) = bytes.split_at_checked(8)?;
    Some(PromptDigests::new(Digest::from_bytes(head.try_into().ok()?), Digest::from_bytes(prompt.try_into().ok()?)))
}

/// Returns the positions, those first that are rarely 0, without the zeros at the end.
fn positions(cut: Positions) -> Vec<Seq> {
    let mut positions = vec![
        cut.window_start,
        cut.rounds_start,
        cut.covers_to,
        cut.cleared_before,
        cut.recalled_from,
        cut.reasoning_from,
        cut.encrypted_from,
    ];
    while positions.pop_if(|seq| *seq == Seq::FIRST).is_some() {}
    positions
}

/// Returns the cut with these positions, or `None` if they are too many.
fn cut(positions: &[Seq]) -> Option<Positions> {
    let mut all = [Seq::FIRST; 7];
    all.get_mut(..positions.len())?.copy_from_slice(positions);
    let [window_start, rounds_start, covers_to, cleared_before, recalled_from, reasoning_from, encrypted_from] = all;
    Some(Positions {
        window_start,
        rounds_start,
        cleared_before,
        recalled_from,
        reasoning_from,
        encrypted_from,
        covers_to,
    })
}
