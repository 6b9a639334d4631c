//! Reading lines.

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tower_chat_history_core::{Cuts, Digest, Profile, Seq, backend::ExchangeRecords};

use super::{ConversationLine, FORMAT, Line, LineError, VERSION, conversation_digest, digest_of, exchange_digest};

#[derive(Deserialize)]
struct Type<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct HeaderFields {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
struct DoneFields {
    conversations: u64,
}

#[derive(Deserialize)]
struct DigestField {
    digest: Option<Digest>,
}

#[derive(Deserialize)]
struct ExchangeFields {
    seq: Seq,
    record: Box<RawValue>,
    recalled: Option<Box<RawValue>>,
    provenance: Option<Box<RawValue>>,
    digest: Option<Digest>,
}

#[derive(Deserialize)]
struct CompactionFields {
    profile: Profile,
    record: Box<RawValue>,
    digest: Option<Digest>,
}

impl Line {
    /// Reads a line. `before` is the digest of the line before it in the same conversation. The first line of a
    /// conversation does not depend on it. For the next line, pass the [digest](Self::digest) of this one if it has
    /// one, and otherwise the same digest again.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not a JSON object of its type, if it was changed, if it does not follow that
    /// other line, or if a newer version of this crate wrote it.
    pub(crate) fn parse(line: &str, before: Digest) -> Result<Self, LineError> {
        let Type { r#type } = fields(line)?;
        match &*r#type {
            "header" => header(fields(line)?),
            "conversation" => conversation(fields(line)?, fields(line)?),
            "exchange" => exchange(&fields(line)?, before),
            "compaction" => compaction(fields(line)?, before),
            "end" => fields(line).map(Self::End),
            "done" => fields(line).map(|DoneFields { conversations }| Self::Done { conversations }),
            _ => Ok(Self::Unknown),
        }
    }
}

// serde_json's error may quote the line, so only the column is kept.
fn fields<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, LineError> {
    serde_json::from_str(line).map_err(|error| LineError::Malformed { column: error.column() })
}

fn header(HeaderFields { format, version }: HeaderFields) -> Result<Line, LineError> {
    match version {
        _ if format != FORMAT => Err(LineError::Format),
        1..=VERSION => Ok(Line::Header),
        _ => Err(LineError::Newer { version }),
    }
}

fn conversation(conversation: ConversationLine, DigestField { digest }: DigestField) -> Result<Line, LineError> {
    let digest = checked(conversation_digest(&conversation), digest)?;
    Ok(Line::Conversation { conversation, digest })
}

/// Returns the text of a record, which is written as a string if it has line breaks.
fn text(record: &RawValue) -> Result<Cow<'_, str>, LineError> {
    let json = record.get();
    if json.starts_with('"') { owned(json).map(Cow::Owned) } else { Ok(Cow::Borrowed(json)) }
}

fn owned<T: DeserializeOwned>(json: &str) -> Result<T, LineError> {
    fields(json)
}

fn checked(computed: Digest, written: Option<Digest>) -> Result<Digest, LineError> {
    if written.is_none_or(|written| written == computed) { Ok(computed) } else { Err(LineError::Digest) }
}

fn exchange(line: &ExchangeFields, before: Digest) -> Result<Line, LineError> {
    let record = text(&line.record)?;
    let recalled = line.recalled.as_deref().map(text).transpose()?;
    let recalled = recalled.as_deref();
    let provenance = line.provenance.as_deref().map(text).transpose()?;
    let provenance = provenance.as_deref();

    let digest = checked(exchange_digest(before, line.seq, &record, recalled, provenance), line.digest)?;
    let exchange = ExchangeRecords { exchange: &record, recalled, provenance }.decode()?;
    Ok(Line::Exchange { seq: line.seq, exchange: Box::new(exchange), digest })
}

fn compaction(line: CompactionFields, before: Digest) -> Result<Line, LineError> {
    let CompactionFields { profile, record, digest } = line;
    let record = text(&record)?;
    let digest = checked(digest_of(before, [profile.as_str(), &record]), digest)?;
    let cuts = Cuts::decode(&record)?;
    Ok(Line::Compaction { profile, cuts, digest })
}
