//! Writing lines.

use serde::Serialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Cuts, Digest, Exchange, Profile, Provenance, Recalled, Seq, backend::RecordError};

use super::{ConversationLine, EndLine, FORMAT, VERSION, conversation_digest, digest_of, exchange_digest};

#[derive(Serialize)]
struct LineFields<'a, T> {
    r#type: &'a str,
    #[serde(flatten)]
    fields: T,
}

#[derive(Serialize)]
struct HeaderFields {
    format: &'static str,
    version: u64,
}

#[derive(Serialize)]
struct DoneFields {
    conversations: u64,
}

#[derive(Serialize)]
struct ConversationFields<'a> {
    #[serde(flatten)]
    conversation: &'a ConversationLine,
    digest: Digest,
}

#[derive(Serialize)]
struct ExchangeFields<'a> {
    r#type: &'a str,
    seq: Seq,
    record: Record<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recalled: Option<Record<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<Record<'a>>,
    digest: Digest,
}

#[derive(Serialize)]
struct CompactionFields<'a> {
    r#type: &'a str,
    profile: &'a Profile,
    record: Record<'a>,
    digest: Digest,
}

/// A stored record: as it is, or as a string if it has line breaks. Messages and metadata may have them.
#[derive(Serialize)]
#[serde(untagged)]
enum Record<'a> {
    AsItIs(&'a RawValue),
    Quoted(&'a str),
}

impl<'a> Record<'a> {
    fn new(text: &'a str) -> Self {
        if text.contains(['\n', '\r']) {
            return Self::Quoted(text);
        }
        match serde_json::from_str(text) {
            Ok(raw) => Self::AsItIs(raw),
            Err(_) => Self::Quoted(text),
        }
    }
}

fn line(fields: &impl Serialize) -> String {
    // Only types of this crate are written, so this cannot fail. If it did, readers would report a malformed line.
    serde_json::to_string(fields).unwrap_or_default()
}

pub(crate) fn header() -> String {
    line(&LineFields { r#type: "header", fields: HeaderFields { format: FORMAT, version: VERSION } })
}

/// Returns the line at the beginning of a conversation, and its digest.
pub(crate) fn conversation(conversation: &ConversationLine) -> (String, Digest) {
    let digest = conversation_digest(conversation);
    let fields = ConversationFields { conversation, digest };
    (line(&LineFields { r#type: "conversation", fields }), digest)
}

pub(crate) fn end(fields: &EndLine) -> String {
    line(&LineFields { r#type: "end", fields })
}

pub(crate) fn done(conversations: u64) -> String {
    line(&LineFields { r#type: "done", fields: DoneFields { conversations } })
}

/// Returns the line of an exchange and its digest. `before` is the digest of the lines before it. Recalled messages and
/// the provenance are written only on request.
pub(crate) fn exchange(
    before: Digest,
    seq: Seq,
    exchange: &Exchange,
    with_recall: bool,
) -> Result<(String, Digest), RecordError> {
    let record = exchange.encode()?;
    let recalled = exchange.recalled.as_ref().filter(|_| with_recall).map(Recalled::encode).transpose()?;
    let provenance = exchange.provenance.as_ref().filter(|_| with_recall).map(Provenance::encode).transpose()?;

    let digest = exchange_digest(before, seq, &record, recalled.as_deref(), provenance.as_deref());
    let line = line(&ExchangeFields {
        r#type: "exchange",
        seq,
        record: Record::new(&record),
        recalled: recalled.as_deref().map(Record::new),
        provenance: provenance.as_deref().map(Record::new),
        digest,
    });
    Ok((line, digest))
}

/// Returns the line of a compaction and its digest. `before` is the digest of the lines before it.
pub(crate) fn compaction(before: Digest, profile: &Profile, cuts: &Cuts) -> Result<(String, Digest), RecordError> {
    let record = cuts.encode()?;
    let digest = digest_of(before, [profile.as_str(), &record]);
    let fields = CompactionFields { r#type: "compaction", profile, record: Record::new(&record), digest };
    Ok((line(&fields), digest))
}
