//! The events of a stream.

use serde_json::{Value, json};

use crate::pieces::pieces;

/// The number of characters of a signature in a delta.
const SIGNATURE_CHARS: usize = 40;

/// Returns the events that stream these blocks.
pub(super) fn of(begun: &Value, blocks: &[Value], stop_reason: &str, output_tokens: u64, chars: usize) -> Vec<String> {
    let mut events = vec![event(&json!({"type": "message_start", "message": begun}))];
    for (index, block) in blocks.iter().enumerate() {
        let (begun, deltas) = parts(block, chars);
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": begun})));
        if index == 0 {
            events.push(event(&json!({"type": "ping"})));
        }
        let delta = |delta: Value| event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas.into_iter().map(delta));
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
    }
    let stop = json!({"stop_reason": stop_reason, "stop_sequence": null});
    let usage = json!({"output_tokens": output_tokens});
    events.push(event(&json!({"type": "message_delta", "delta": stop, "usage": usage})));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// Returns the beginning of a block, and its deltas.
fn parts(block: &Value, chars: usize) -> (Value, Vec<Value>) {
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    let mut split = |name: &str, kind: &str, chars: usize| {
        let Some(text) = block[name].as_str() else { return };
        begun[name] = "".into();
        deltas.extend(pieces(text, chars).into_iter().map(|piece| json!({"type": kind, name: piece})));
    };
    match block["type"].as_str().unwrap_or_default() {
        "text" => split("text", "text_delta", chars),
        "thinking" => {
            split("thinking", "thinking_delta", chars);
            split("signature", "signature_delta", SIGNATURE_CHARS);
        }
        "compaction" => split("content", "compaction_delta", chars),
        "tool_use" | "server_tool_use" => {
            begun["input"] = json!({});
            let input = block["input"].to_string();
            // The first piece is empty, as that of the API.
            let written = [String::new()].into_iter().chain(pieces(&input, chars));
            deltas.extend(written.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})));
        }
        _ => {}
    }
    (begun, deltas)
}
