//! A response that the provider made.

use serde_json::{Map, Value, json, value::RawValue};
use tower_chat_history_core::Usage;

use super::events;

/// A response that a [`ResponsesProvider`](super::ResponsesProvider) made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeResponse {
    /// The id of the response.
    pub id: String,
    /// The name of the model.
    pub model: String,
    /// The JSON of each item of `output`.
    pub output: Vec<String>,
    /// The reason why the response is incomplete, such as `max_output_tokens`. By default, it is complete.
    pub incomplete: Option<String>,
    /// The usage.
    pub usage: Usage,
    /// Further fields of the body, besides `output`.
    pub fields: Map<String, Value>,
}

impl MadeResponse {
    /// Returns the body of the response. The items have the same bytes as in [`output`](Self::output).
    #[must_use]
    pub fn body(&self) -> String {
        let (status, details) = match &self.incomplete {
            Some(reason) => ("incomplete", json!({"reason": reason})),
            None => ("completed", Value::Null),
        };
        let Usage { input_tokens, output_tokens, cached_input_tokens, .. } = self.usage;
        let mut head = self.head(status);
        head["incomplete_details"] = details;
        head["usage"] = json!({
            "input_tokens": input_tokens, "output_tokens": output_tokens,
            "total_tokens": input_tokens.saturating_add(output_tokens),
            "input_tokens_details": {"cached_tokens": cached_input_tokens.unwrap_or_default()},
            "output_tokens_details": {"reasoning_tokens": 0},
        });
        let head = head.to_string();
        format!(r#"{{"output":[{}],{}"#, self.output.join(","), head.trim_start_matches('{'))
    }

    /// Returns the server-sent events of a stream with this response, each with its name and its data. A delta has at
    /// most `chars` characters. The last event has the whole response.
    #[must_use]
    pub fn events(&self, chars: usize) -> Vec<String> {
        let mut begun = self.head("in_progress");
        (begun["output"], begun["usage"]) = (json!([]), Value::Null);
        let last = if self.incomplete.is_some() { "response.incomplete" } else { "response.completed" };
        events::of(&begun, &self.output, last, &self.body(), chars)
    }

    /// Returns the items of a response's body, as they are written, or `None` if the body has no list of items.
    #[must_use]
    pub fn items(body: &str) -> Option<Vec<String>> {
        #[derive(serde::Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            output: Vec<&'a RawValue>,
        }
        let Body { output } = serde_json::from_str(body).ok()?;
        Some(output.into_iter().map(|item| item.get().to_owned()).collect())
    }

    /// Returns an output for each call of the response, in order: the JSON of items that answer the calls.
    #[must_use]
    pub fn answers(&self, text: &str) -> Vec<String> {
        let items = self.output.iter().filter_map(|json| serde_json::from_str::<Value>(json).ok());
        items.filter_map(|item| super::say::answer(&item, text)).collect()
    }

    /// Returns the response without its items and its usage.
    fn head(&self, status: &str) -> Value {
        let mut head = json!({
            "id": self.id, "object": "response", "created_at": 0, "model": self.model, "status": status,
            "error": null, "incomplete_details": null, "store": false,
        });
        let fields = self.fields.iter().filter(|(name, _)| *name != "output");
        fields.for_each(|(name, value)| head[name] = value.clone());
        head
    }
}
