//! The events of a stream, for a reply of the mock.

use serde_json::{Value, json};

/// Returns the events that stream a response.
pub(crate) fn events(reply: &str) -> String {
    let whole: Value = serde_json::from_str(reply).unwrap();
    let mut begin = whole.clone();
    (begin["content"], begin["stop_reason"]) = (json!([]), Value::Null);
    let mut text = event(&json!({"type": "message_start", "message": begin})) + &event(&json!({"type": "ping"}));
    for (index, block) in whole["content"].as_array().unwrap().iter().enumerate() {
        let (begin, deltas) = pieces(block);
        text += &event(&json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in deltas {
            text += &event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        text += &event(&json!({"type": "content_block_stop", "index": index}));
    }
    let stop = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    text += &event(&json!({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}));
    text + &event(&json!({"type": "message_stop"}))
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// Returns the beginning of a block, and its deltas.
fn pieces(block: &Value) -> (Value, Vec<Value>) {
    let mut begin = block.clone();
    let mut deltas = Vec::new();
    let mut cut = |name: &str, kind: &str| {
        let Some(text) = begin[name].as_str().map(str::to_owned) else { return };
        let middle = (0..=text.len() / 2).rfind(|at| text.is_char_boundary(*at)).unwrap();
        begin[name] = "".into();
        for piece in [&text[..middle], &text[middle..]] {
            deltas.push(json!({"type": kind, name: piece}));
        }
    };
    match block["type"].as_str().unwrap() {
        "text" => {
            cut("text", "text_delta");
            if let Some(citations) = block["citations"].as_array() {
                begin["citations"] = json!([]);
                deltas
                    .extend(citations.iter().map(|citation| json!({"type": "citations_delta", "citation": citation})));
            }
        }
        "thinking" => {
            cut("thinking", "thinking_delta");
            cut("signature", "signature_delta");
        }
        "compaction" => cut("content", "compaction_delta"),
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let input = block["input"].to_string();
            begin["input"] = json!({});
            let (front, back) = input.split_at(input.len() / 2);
            for piece in ["", front, back] {
                deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
            }
        }
        _ => {}
    }
    (begin, deltas)
}
