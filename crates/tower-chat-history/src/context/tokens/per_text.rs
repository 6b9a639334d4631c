//! A counter made from a tokenizer's closure.

use std::{fmt, sync::Arc};

use super::{TokenCounter, count_of};

/// Counts texts with a closure, such as `|text| tokenizer.encode(text).len()` for a tokenizer. The other parts of a
/// message have their [usual costs](super): its frame and role, names, tool calls, images, audio, files.
///
/// The counts are remembered and stored under the counter's name, and
/// [corrected](crate::context::ContextBudget::calibrate) by the usage that the provider reports. The closure must always return
/// the same count for the same text. The engine counts large texts on threads for blocking work.
///
/// ```
/// use tower_chat_history::{Message, tokens::{PerText, TokenCounter}};
///
/// // Use the name of the vocabulary. Stored counts are found by this name,
/// // so change it if the closure's counts change.
/// let counter = PerText::named("words-1", |text: &str| text.split_whitespace().count());
/// assert_eq!(counter.count_text("one two three"), 3);
/// assert_eq!(counter.count_message(&Message::user("one two three")), 3 + 1 + 3);
/// ```
#[derive(Clone)]
pub struct PerText<F> {
    name: Arc<str>,
    count: F,
}

impl<F> PerText<F>
where
    F: Fn(&str) -> usize,
{
    /// Creates a counter from its [name](TokenCounter::name) and a closure.
    pub fn named(name: impl Into<Arc<str>>, count: F) -> Self {
        Self { name: name.into(), count }
    }
}

impl<F> TokenCounter for PerText<F>
where
    F: Fn(&str) -> usize + Send + Sync + 'static,
{
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn count_text(&self, text: &str) -> u32 {
        count_of((self.count)(text))
    }
}

impl<F> fmt::Debug for PerText<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerText").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::Message;

    use super::*;
    use crate::context::tokens::{AUDIO, FILE, IMAGE_HIGH_DETAIL, tokens_of};

    fn tokens(json: &str) -> u32 {
        PerText::named("chars", |text: &str| text.chars().count()).count_message(&Message::from_json(json).unwrap())
    }

    #[test]
    fn the_other_parts_of_a_message_have_their_usual_costs() {
        let calls = r#"[{"id":"x","type":"function","function":{"name":"1234","arguments":"12345678"}}]"#;
        assert_eq!(
            tokens(&format!(r#"{{"role":"assistant","content":"ab","tool_calls":{calls}}}"#)),
            4 + 2 + 3 + 4 + 8
        );
        assert_eq!(tokens(r#"{"role":"user","name":"ab","content":"abc"}"#), 4 + 2 + 1 + 3);
        let attached = r#"{"type":"image_url","image_url":{}},{"type":"input_audio"},{"type":"file"}"#;
        let parts = format!(r#"[{attached},{{"type":"text","text":"a"}}]"#);
        let fixed = IMAGE_HIGH_DETAIL + AUDIO + FILE;
        assert_eq!(tokens(&format!(r#"{{"role":"user","content":{parts}}}"#)), 4 + fixed + 1);
    }

    #[test]
    fn its_counts_are_remembered_under_its_name() {
        let (counter, message) = (PerText::named("bytes", |text: &str| text.len()), Message::user("abc"));
        assert_eq!((tokens_of(&counter, &message), message.tokens_by("bytes")), (7, Some(7)));
    }

    #[test]
    fn a_count_over_the_maximum_saturates() {
        assert_eq!(PerText::named("huge", |_: &str| usize::MAX).count_text("a"), u32::MAX);
    }
}
