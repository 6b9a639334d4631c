//! LiteLLM: thinking in `thinking_blocks`.

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

pub(super) const FIELD: Field = Field { name: "thinking_blocks", read };

fn read(entry: &Value) -> Entry {
    let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match entry["type"].as_str() {
        Some("thinking") => match text("signature") {
            Some(signature) => Entry::Signed(Thought::Text(text("thinking").unwrap_or_default()), signature),
            None => Entry::Unsigned,
        },
        Some("redacted_thinking") => {
            text("data").map_or(Entry::Unsigned, |signature| Entry::Signed(Thought::Redacted, signature))
        }
        _ => Entry::Unsigned,
    }
}

/// Returns the fields of a reply with these thoughts and signatures.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn said(signed: &[(&Thought, String)], chars: usize) -> Said {
    let mut said = Said::default();
    let (mut text, mut blocks) = (String::new(), Vec::new());
    for (thought, signature) in signed {
        match thought {
            Thought::Text(thought) => {
                text += thought;
                let block = |text: &str, signature: &str| json!({ "type": "thinking", "thinking": text, "signature": signature });
                let delta = |text: &str, signature: &str| json!({ "reasoning_content": text, "thinking_blocks": [block(text, signature)] });
                said.deltas.extend(pieces(thought, chars).iter().map(|piece| delta(piece, "")));
                said.deltas.push(delta("", signature));
                blocks.push(block(thought, signature));
            }
            Thought::Redacted => {
                let block = json!({ "type": "redacted_thinking", "data": signature });
                said.deltas.push(json!({ "thinking_blocks": [block.clone()] }));
                blocks.push(block);
            }
        }
    }
    said.fields = Map::from_iter([("reasoning_content".into(), text.into()), (FIELD.name.into(), blocks.into())]);
    said
}
