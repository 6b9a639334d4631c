//! The stored form of provenances: a JSON array with fixed places, because every exchange has one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::Error as _};

use super::{PROVENANCES, RecordError, VERSION, Version, encoded, read};
use crate::{
    compaction::Positions,
    digest::Digest,
    provenance::{Origin, PromptDigests, Provenance},
    seq::Seq,
};

/// The places of the array.
#[derive(Serialize, Deserialize)]
struct Stored<V, T>(
    /// The version of the record.
    V,
    /// The version of the renderer.
    u32,
    /// Where the log ended when the prompt was made.
    Option<Seq>,
    /// The estimated tokens.
    Option<u64>,
    /// The digests of the head and of the prompt and, if there is one, the key of the reader. Together, as base64.
    String,
    /// The positions of the cut.
    Positions,
    /// Provider, model, route and account, without the absent ones at the end.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    Vec<Option<T>>,
);

impl Provenance {
    /// Returns the text to store next to the exchange's record.
    ///
    /// # Errors
    ///
    /// Never fails for a value of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let mut digests = [self.digests.head.bytes(), self.digests.prompt.bytes()].concat();
        digests.extend(self.reader.into_iter().flat_map(Digest::bytes));

        let Origin { provider, route, account, model } = &self.origin;
        let mut names: Vec<_> = [provider, model, route, account].map(Option::as_deref).into();
        while names.pop_if(|name| name.is_none()).is_some() {}

        encoded(&Stored(
            VERSION,
            self.renderer,
            self.made_at,
            self.tokens,
            URL_SAFE_NO_PAD.encode(digests),
            self.cut,
            names,
        ))
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
    let Stored(version, renderer, made_at, tokens, digests, cut, mut names) = serde_json::from_str(record)?;
    let (digests, reader) =
        digests_and_reader(&digests).ok_or_else(|| serde_json::Error::custom("expected two or three digests"))?;

    names.resize(names.len().max(4), None);
    let [provider, model, route, account] =
        names.try_into().map_err(|_| serde_json::Error::custom("expected at most 4 names"))?;
    let origin = Origin { provider, route, account, model };

    Ok((version, Provenance { renderer, made_at, cut, digests, reader, tokens, origin }))
}

fn digests_and_reader(text: &str) -> Option<(PromptDigests, Option<Digest>)> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (head, rest) = bytes.split_first_chunk()?;
    let (prompt, reader) = rest.split_first_chunk()?;
    let reader = if reader.is_empty() { None } else { Some(Digest::from_bytes(reader.try_into().ok()?)) };

    Some((PromptDigests::new(Digest::from_bytes(*head), Digest::from_bytes(*prompt)), reader))
}
