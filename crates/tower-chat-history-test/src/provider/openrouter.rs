//! OpenRouter: thinking in `reasoning_details`.

use serde_json::Value;
#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::{Map, json};

#[cfg(any(feature = "openai", feature = "server"))]
use super::making::Said;
use super::{
    claude::{Entry, Field},
    thought::Thought,
};
#[cfg(any(feature = "openai", feature = "server"))]
use crate::pieces::pieces;

pub(super) const FIELD: Field = Field { name: "reasoning_details", read };

fn read(entry: &Value) -> Entry {
    let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match entry["type"].as_str() {
        Some("reasoning.text") => match text("signature") {
            Some(signature) => Entry::Signed(Thought::Text(text("text").unwrap_or_default()), signature),
            None => Entry::Unsigned,
        },
        Some("reasoning.encrypted") => {
            text("data").map_or(Entry::Unsigned, |signature| Entry::Signed(Thought::Redacted, signature))
        }
        Some("reasoning.summary") => Entry::Unseen,
        _ => Entry::Unsigned,
    }
}

/// Returns the fields of a reply with these thoughts and signatures.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn said(signed: &[(&Thought, String)], chars: usize) -> Said {
    let mut said = Said::default();
    let (mut text, mut details) = (String::new(), Vec::new());
    for (index, (thought, signature)) in signed.iter().enumerate() {
        let entry = |fields: Value| with(fields, &json!({ "format": "anthropic-claude-v1", "index": index }));
        let delta = |fields: Value| json!({ "reasoning_details": [entry(fields)] });
        match thought {
            Thought::Text(thought) => {
                text += thought;
                for piece in pieces(thought, chars) {
                    let fragment = delta(json!({ "type": "reasoning.text", "text": piece }));
                    said.deltas.push(with(fragment, &json!({ "reasoning": piece })));
                }
                said.deltas.push(delta(json!({ "type": "reasoning.text", "signature": signature })));
                details.push(entry(json!({ "type": "reasoning.text", "text": thought, "signature": signature })));
            }
            Thought::Redacted => {
                let whole = json!({ "type": "reasoning.encrypted", "data": signature });
                said.deltas.push(delta(whole.clone()));
                details.push(entry(whole));
            }
        }
    }
    said.fields = Map::from_iter([("reasoning".into(), text.into()), (FIELD.name.into(), details.into())]);
    said
}

/// Returns an object with the fields of both.
#[cfg(any(feature = "openai", feature = "server"))]
fn with(mut object: Value, further: &Value) -> Value {
    if let (Some(object), Some(further)) = (object.as_object_mut(), further.as_object()) {
        object.extend(further.clone());
    }
    object
}
