//! The events of a stream.

use serde_json::{Value, json};

use crate::pieces::pieces;

/// Returns the events that stream these items. `last` is the type of the last event, which has the whole response.
pub(super) fn of(begun: &Value, output: &[String], last: &str, response: &str, chars: usize) -> Vec<String> {
    let mut events = Events(Vec::new());
    for name in ["response.created", "response.in_progress"] {
        events.push(name, &format!(r#""response":{begun}"#));
    }
    for (index, json) in output.iter().enumerate() {
        let item: Value = serde_json::from_str(json).unwrap_or_default();
        let at = |rest: &str| format!(r#""output_index":{index},{rest}"#);
        events.push("response.output_item.added", &at(&format!(r#""item":{}"#, begin(&item))));
        for (name, mut fields) in parts(&item, chars) {
            fields["item_id"] = item["id"].clone();
            events.push(name, &at(inner(&fields.to_string())));
        }
        events.push("response.output_item.done", &at(&format!(r#""item":{json}"#)));
    }
    events.push(last, &format!(r#""response":{response}"#));
    events.0
}

struct Events(Vec<String>);

impl Events {
    /// Adds an event with these fields.
    fn push(&mut self, name: &str, fields: &str) {
        let number = self.0.len();
        self.0.push(format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{number},{fields}}}\n\n"));
    }
}

/// Returns the fields of an object without its braces.
fn inner(object: &str) -> &str {
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default()
}

/// Returns an item as it is when it is added.
fn begin(item: &Value) -> Value {
    let mut begun = item.clone();
    for (name, empty) in
        [("content", json!([])), ("summary", json!([])), ("arguments", json!("")), ("input", json!(""))]
    {
        if begun[name].is_array() || begun[name].is_string() {
            begun[name] = empty;
        }
    }
    if begun["status"].is_string() {
        begun["status"] = "in_progress".into();
    }
    begun
}

/// Returns the names and the fields of the events between the beginning and the end of an item.
fn parts(item: &Value, chars: usize) -> Vec<(&'static str, Value)> {
    let written = |text: &Value| pieces(text.as_str().unwrap_or_default(), chars);
    let mut all = Vec::new();
    match item["type"].as_str().unwrap_or_default() {
        "message" => {
            for (index, part) in item["content"].as_array().into_iter().flatten().enumerate() {
                let (name, delta, done) = match part["type"].as_str() {
                    Some("refusal") => ("refusal", "response.refusal.delta", "response.refusal.done"),
                    _ => ("text", "response.output_text.delta", "response.output_text.done"),
                };
                let mut empty = part.clone();
                empty[name] = "".into();
                all.push(("response.content_part.added", json!({"content_index": index, "part": empty})));
                let piece = |piece| (delta, json!({"content_index": index, "delta": piece}));
                all.extend(written(&part[name]).into_iter().map(piece));
                all.push((done, json!({"content_index": index, name: part[name]})));
                all.push(("response.content_part.done", json!({"content_index": index, "part": part})));
            }
        }
        "reasoning" => {
            for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
                let mut empty = part.clone();
                empty["text"] = "".into();
                all.push(("response.reasoning_summary_part.added", json!({"summary_index": index, "part": empty})));
                let delta = "response.reasoning_summary_text.delta";
                let piece = |piece| (delta, json!({"summary_index": index, "delta": piece}));
                all.extend(written(&part["text"]).into_iter().map(piece));
                let done = json!({"summary_index": index, "text": part["text"]});
                all.push(("response.reasoning_summary_text.done", done));
                all.push(("response.reasoning_summary_part.done", json!({"summary_index": index, "part": part})));
            }
        }
        "function_call" => {
            let delta = "response.function_call_arguments.delta";
            all.extend(written(&item["arguments"]).into_iter().map(|piece| (delta, json!({"delta": piece}))));
            let done = json!({"name": item["name"], "arguments": item["arguments"]});
            all.push(("response.function_call_arguments.done", done));
        }
        "custom_tool_call" => {
            let delta = "response.custom_tool_call_input.delta";
            all.extend(written(&item["input"]).into_iter().map(|piece| (delta, json!({"delta": piece}))));
            all.push(("response.custom_tool_call_input.done", json!({"input": item["input"]})));
        }
        "web_search_call" => {
            let names = [
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
            ];
            all.extend(names.map(|name| (name, json!({}))));
        }
        _ => {}
    }
    all
}
