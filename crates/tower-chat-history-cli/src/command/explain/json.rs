//! An explained prompt as a JSON object.

use std::io::Write;

use serde::Serialize;
use tower_chat_history::explain::{Explanation, Fate, Row, SizedMessage, Subject, Why};
use tower_chat_history_core::{ConversationId, Message, Origin, Seq, Usage};

use crate::{command::write_json, outcome::Failure};

#[derive(Serialize)]
struct Explained<'a> {
    id: &'a ConversationId,
    position: Seq,
    digest_agrees: bool,
    /// The reason why the prompt is not known.
    not_known: Option<String>,
    renderer: Option<u32>,
    origin: Option<&'a Origin>,
    estimated_tokens: Option<u64>,
    usage: Option<Usage>,
    rows: Vec<Entry<'a>>,
}

/// A [`Row`]. Its names are those of the library.
#[derive(Default, Serialize)]
struct Entry<'a> {
    subject: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Seq>,
    /// The position after the last exchange, if the row is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covers_to: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    translated: Option<bool>,
    fate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    stored: Option<Size>,
    sent: Option<Sent<'a>>,
}

#[derive(Serialize)]
struct Size {
    bytes: usize,
    tokens: u64,
}

#[derive(Serialize)]
struct Sent<'a> {
    bytes: usize,
    tokens: u64,
    message: &'a Message,
}

pub(super) fn write(
    id: &ConversationId,
    explanation: &Explanation,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let exchange = &explanation.exchange.exchange;
    let provenance = exchange.provenance.as_deref();
    let rows = explanation.prompt.as_deref().unwrap_or_default();
    let explained = Explained {
        id,
        position: explanation.exchange.seq,
        digest_agrees: explanation.prompt.is_ok(),
        not_known: explanation.prompt.as_ref().err().map(ToString::to_string),
        renderer: provenance.map(|provenance| provenance.renderer),
        origin: provenance.map(|provenance| &provenance.origin),
        estimated_tokens: provenance.and_then(|provenance| provenance.tokens),
        usage: exchange.usage,
        rows: rows.iter().map(Entry::of).collect(),
    };
    write_json(out, &explained)
}

impl<'a> Entry<'a> {
    fn of(row: &'a Row) -> Self {
        let mut entry = Self::about(&row.subject);
        entry.fate = fate(row.fate);
        if let Fate::LeftOut(reason) = row.fate {
            entry.why = Some(why(reason));
        }
        entry.stored = row.stored.as_ref().map(|stored| Size { bytes: stored.bytes(), tokens: stored.tokens });
        entry.sent = row.sent.as_ref().map(|sent: &SizedMessage| Sent {
            bytes: sent.bytes(),
            tokens: sent.tokens,
            message: &sent.message,
        });
        entry
    }

    /// Returns an entry that says what it is about, and nothing else.
    fn about(subject: &Subject) -> Self {
        match *subject {
            Subject::Before { from, to, covers_to } => {
                Self { subject: "before", position: Some(from), to: Some(to), covers_to, ..Self::default() }
            }
            Subject::Summary { covers_to } => {
                Self { subject: "summary", covers_to: Some(covers_to), ..Self::default() }
            }
            Subject::Logged { seq, index, translated } => Self {
                subject: "logged",
                position: Some(seq),
                index: Some(index),
                translated: Some(translated),
                ..Self::default()
            },
            Subject::Recalled { seq } => Self { subject: "recalled", position: Some(seq), ..Self::default() },
            Subject::StoodIn { seq } => Self { subject: "stood_in", position: Some(seq), ..Self::default() },
            Subject::Meanwhile { from, to } => {
                Self { subject: "meanwhile", position: Some(from), to: Some(to), ..Self::default() }
            }
            Subject::Input { index } => Self { subject: "input", index: Some(index), ..Self::default() },
            _ => Self { subject: "other", ..Self::default() },
        }
    }
}

const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Sent => "sent",
        Fate::InPart => "in_part",
        Fate::Cleared => "cleared",
        Fate::LeftOut(_) => "left_out",
        _ => "other",
    }
}

const fn why(why: Why) -> &'static str {
    match why {
        Why::BeforeWindow => "before_window",
        Why::Later => "later",
        Why::Round => "round",
        Why::Reasoning => "reasoning",
        Why::Recalled => "recalled",
        Why::StoodFor => "stood_for",
        Why::OtherAttempt => "other_attempt",
        Why::Blank => "blank",
        Why::NoOpenCall => "no_open_call",
        Why::Unpaired => "unpaired",
        _ => "other",
    }
}
