//! A response that the provider made.

use serde_json::{Value, json, value::RawValue};

/// A response that a [`ResponsesProvider`](super::ResponsesProvider) made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeResponse {
    /// The id of the response.
    pub id: String,
    /// The JSON of each item of `output`.
    pub output: Vec<String>,
}

impl MadeResponse {
    /// Returns the body of the response. The items have the same bytes as in [`output`](Self::output).
    #[must_use]
    pub fn body(&self) -> String {
        let before = json!({"id": self.id, "object": "response", "created_at": 0, "status": "completed"}).to_string();
        let usage =
            json!({"input_tokens": 1, "output_tokens": self.output.len(), "total_tokens": self.output.len() + 1});
        let before = before.trim_end_matches('}');
        format!(r#"{before},"output":[{}],"usage":{usage}}}"#, self.output.join(","))
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
        items.filter_map(|item| super::output::answer(&item, text)).collect()
    }
}
