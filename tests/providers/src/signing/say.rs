//! Scripts of replies.

use tower_chat_history_core::{Digest, Space};

use super::{element::kind_of, fields::quoted};

/// An element of a scripted reply. A reply is a list of them. Calls next to each other are parallel calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Say {
    /// A text.
    Text(String),
    /// Signed reasoning.
    Thought(String),
    /// Signed reasoning and a text, in one element.
    ThoughtAndText(String, String),
    /// A call of a function.
    Call {
        /// The kind: `Space(0)` or `Space(1)`.
        space: Space,
        /// The id within its kind.
        id: String,
    },
    /// Reasoning that must be followed by another element of the reply. A script that ends with it is a reply that was
    /// interrupted.
    Plan(String),
    /// Reasoning that only the provider can read.
    Sealed(String),
    /// Reasoning that only the provider can read, and that stands for everything before it.
    Compaction(String),
    /// An element of an unknown kind.
    Unknown,
}

impl Say {
    /// Returns the reasoning that is signed.
    pub(super) fn thinking(&self) -> Option<&str> {
        match self {
            Self::Thought(thinking) | Self::ThoughtAndText(thinking, _) => Some(thinking),
            _ => None,
        }
    }

    /// Returns the JSON of the element. `signature` is that of its reasoning.
    pub(super) fn json(&self, signature: Digest, provider: &str) -> String {
        let signed =
            |thinking: &str| format!(r#"{{"from":"model","thinking":{},"signature":"{signature}""#, quoted(thinking));
        match self {
            Self::Text(text) => format!(r#"{{"from":"model","text":{}}}"#, quoted(text)),
            Self::Thought(thinking) => format!("{}}}", signed(thinking)),
            Self::ThoughtAndText(thinking, text) => format!(r#"{},"text":{}}}"#, signed(thinking), quoted(text)),
            Self::Call { space, id } => {
                let (id, kind) = (quoted(id), kind_of(*space));
                format!(r#"{{"from":"model","call":{{"id":{id},"kind":"{kind}","name":"look","input":"?"}}}}"#)
            }
            Self::Plan(plan) => format!(r#"{{"from":"model","plan":{},"next":true}}"#, quoted(plan)),
            Self::Sealed(text) => {
                format!(r#"{{"from":"model","sealed":{},"by":{}}}"#, quoted(text), quoted(provider))
            }
            Self::Compaction(text) => {
                let (sealed, by) = (quoted(text), quoted(provider));
                format!(r#"{{"from":"model","sealed":{sealed},"by":{by},"compacts":true}}"#)
            }
            Self::Unknown => r#"{"from":"?","level":1.50}"#.to_owned(),
        }
    }
}
