//! Joining the deltas of a stream, as a client has to.

use serde_json::{Value, json};

/// Joins the deltas of a stream to one message: texts are appended, calls and `reasoning_details` are joined by their
/// `index`, and `thinking_blocks` until there is a signature.
pub(super) fn message(choices: &[Value]) -> Value {
    let mut message = json!({ "role": "assistant", "content": null });
    for choice in choices {
        for (name, piece) in choice["delta"].as_object().unwrap() {
            match (name.as_str(), piece) {
                (_, Value::Null) => {}
                ("role", role) => message["role"] = role.clone(),
                ("tool_calls" | "reasoning_details", Value::Array(entries)) => {
                    entries.iter().for_each(|entry| by_index(&mut message[name], entry));
                }
                ("thinking_blocks", Value::Array(blocks)) => {
                    blocks.iter().for_each(|block| until_signed(&mut message[name], block));
                }
                (_, piece) => append(&mut message[name], piece),
            }
        }
    }
    message
}

fn append(whole: &mut Value, piece: &Value) {
    match (whole, piece) {
        (Value::String(whole), Value::String(piece)) => whole.push_str(piece),
        (Value::Object(whole), Value::Object(piece)) => {
            for (name, piece) in piece {
                let constant = matches!(name.as_str(), "id" | "type" | "format" | "index" | "name");
                let whole = whole.entry(name).or_insert(Value::Null);
                if constant || whole.is_null() { *whole = piece.clone() } else { append(whole, piece) }
            }
        }
        (whole, piece) => *whole = piece.clone(),
    }
}

fn by_index(list: &mut Value, entry: &Value) {
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    let same = list.iter_mut().find(|old| !entry["index"].is_null() && old["index"] == entry["index"]);
    match same {
        Some(same) => append(same, entry),
        None => list.push(entry.clone()),
    }
}

fn until_signed(list: &mut Value, block: &Value) {
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    match list.last_mut().filter(|last| last["signature"] == "") {
        Some(last) => append(last, block),
        None => list.push(block.clone()),
    }
}

/// Returns a message without the `index` of its calls, which a whole message does not have.
pub(super) fn without_call_index(mut message: Value) -> Value {
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        call.as_object_mut().unwrap().remove("index");
    }
    message
}
