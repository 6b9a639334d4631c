//! The results of calls: their content, and the form that the API accepts.

use std::borrow::Cow;

use crate::json::{self, Object, quoted};

/// The content of a failed result that has none.
const FAILED: &str = "[the call failed, and returned no text]";

/// Returns a result in the form that the API accepts: without empty texts in its content, and with a text if the call
/// failed.
pub(super) fn sendable(json: &str) -> Cow<'_, str> {
    let Some(result) = Object::read(json) else { return Cow::Borrowed(json) };
    let content = result.get("content").unwrap_or_default();
    let entries = json::entries(content);
    let kept: Option<Vec<&str>> =
        entries.as_ref().map(|entries| entries.iter().copied().filter(|entry| !is_empty_text(entry)).collect());
    let is_empty = kept.as_ref().map_or(matches!(content, "" | "\"\""), Vec::is_empty);
    if is_empty && result.get("is_error") == Some("true") {
        return Cow::Owned(result.with("content", &quoted(FAILED)));
    }
    match kept {
        Some(kept) if kept.len() < entries.map_or(0, |entries| entries.len()) => {
            // The API takes an empty text as the whole content.
            let content = if kept.is_empty() { "\"\"".to_owned() } else { format!("[{}]", kept.join(",")) };
            Cow::Owned(result.with("content", &content))
        }
        _ => Cow::Borrowed(json),
    }
}

fn is_empty_text(json: &str) -> bool {
    let block = Object::read(json);
    block.is_some_and(|block| {
        block.text("type").as_deref() == Some("text") && block.text("text").is_some_and(|text| text.is_empty())
    })
}
