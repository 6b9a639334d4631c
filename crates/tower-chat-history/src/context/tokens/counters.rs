//! Counters without a tokenizer, and counters made from closures.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use tower_chat_history_core::Message;

use super::{TokenCounter, count_of};

/// Estimates the tokens of a text by the UTF-8 bytes of its characters:
///
/// | characters | tokens |
/// |---|---|
/// | ASCII | 1 for every 4 |
/// | of two bytes (accented letters, Cyrillic, Arabic) | 1 for each |
/// | of three or four bytes (Chinese, Japanese, Korean, emoji) | 8 for every 5 |
///
/// The estimate is close for English. For prose in other scripts, it is at least the count of `cl100k_base`, the older
/// of OpenAI's two encodings. (That count is up to twice the count of the newer encoding.) Prompts in these scripts
/// therefore do not become too large. With an estimate by the number of characters, they would.
///
/// The counter needs no vocabulary and almost no time. The estimate is too low for texts other than prose: long
/// numbers, identifiers, base64, lists of rare names.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ByteEstimate;

static NAME: LazyLock<Arc<str>> = LazyLock::new(|| "utf8-bytes".into());

impl ByteEstimate {
    /// Creates the counter.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl TokenCounter for ByteEstimate {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&NAME)
    }

    fn count_text(&self, text: &str) -> u32 {
        let mut ascii = 0_usize;
        let mut short = 0_usize;
        let mut wide = 0_usize;
        for c in text.chars() {
            match c.len_utf8() {
                1 => ascii += 1,
                2 => short += 1,
                _ => wide += 1,
            }
        }
        count_of(ascii.div_ceil(4) + short + (wide * 8).div_ceil(5))
    }

    fn is_estimate(&self) -> bool {
        true
    }
}

/// Counts each message as one token, so that a budget limits messages instead of tokens. Set the [reply
/// reserve](crate::context::ContextBudget::reply_reserve) to 0. Otherwise the budget would reserve that many messages.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MessageCount;

impl MessageCount {
    /// Creates the counter.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl TokenCounter for MessageCount {
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    fn count_text(&self, _: &str) -> u32 {
        0
    }

    fn count_message(&self, _: &Message) -> u32 {
        1
    }

    fn reply_priming(&self) -> u32 {
        0
    }
}

/// Returns a counter that counts texts with a closure, such as `|text| tokenizer.encode(text).len()` for a tokenizer.
/// The other parts of a message have their [usual costs](super): its frame and role, names, tool calls, images, audio,
/// files.
///
/// The counts are remembered and stored under the counter's [name](TokenCounter::name), and
/// [corrected](crate::context::ContextBudget::calibrate) by the usage that the provider reports. The closure must
/// always return the same count for the same text. The engine counts large texts on threads for blocking work.
///
/// ```
/// use tower_chat_history::{Message, tokens::{TokenCounter, per_text}};
///
/// // Use the name of the vocabulary. Stored counts are found by this name,
/// // so change it if the closure's counts change.
/// let counter = per_text("words-1", |text: &str| text.split_whitespace().count());
/// assert_eq!(counter.count_text("one two three"), 3);
/// assert_eq!(counter.count_message(&Message::user("one two three")), 3 + 1 + 3);
/// ```
pub fn per_text<F>(name: &str, count: F) -> impl TokenCounter + use<F>
where
    F: Fn(&str) -> usize + Send + Sync + 'static,
{
    PerText { name: name.into(), count }
}

struct PerText<F> {
    name: Arc<str>,
    count: F,
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

/// Returns a counter that counts messages with a closure. The closure must count everything in a message. If it counts
/// only `message.text()`, it leaves out names, tool calls with their arguments, images and files, and prompts grow too
/// large. For a tokenizer, use [`per_text`], which counts these parts as the other counters do.
///
/// The counter has no name. Its counts are therefore neither stored nor
/// [corrected](crate::context::ContextBudget::calibrate) by the usage that the provider reports.
pub fn per_message<F>(count: F) -> impl TokenCounter
where
    F: Fn(&Message) -> u32 + Send + Sync + 'static,
{
    PerMessage(count)
}

struct PerMessage<F>(F);

impl<F> TokenCounter for PerMessage<F>
where
    F: Fn(&Message) -> u32 + Send + Sync + 'static,
{
    /// Returns `None`, because the closure may depend on more than the message.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    /// Counts the text as a user message.
    fn count_text(&self, text: &str) -> u32 {
        (self.0)(&Message::user(text))
    }

    fn count_message(&self, message: &Message) -> u32 {
        (self.0)(message)
    }
}

impl<F> fmt::Debug for PerMessage<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerMessage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tokens::{AUDIO, FILE, IMAGE_HIGH_DETAIL, tokens_of};

    fn tokens(json: &str) -> u32 {
        per_text("chars", |text: &str| text.chars().count()).count_message(&Message::from_json(json).unwrap())
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
        let counter = per_text("bytes", |text: &str| text.len());
        let message = Message::user("abc");
        assert_eq!((tokens_of(&counter, &message), message.tokens_by("bytes")), (7, Some(7)));
    }

    #[test]
    fn a_count_over_the_maximum_saturates() {
        assert_eq!(per_text("huge", |_: &str| usize::MAX).count_text("a"), u32::MAX);
    }

    /// The numbers for o200k_base and cl100k_base are the counts of tiktoken.
    #[test]
    fn other_scripts_are_not_underestimated() {
        for (text, o200k, cl100k) in [
            ("今天天气很好，我们一起去公园散步吧。路上可以买一些水果和面包。", 22, 35),
            ("臨江仙，滾滾長江東逝水，浪花淘盡英雄。是非成敗轉頭空，青山依舊在，幾度夕陽紅。", 45, 61),
            ("今日は天気がいいので、公園を散歩しましょう。", 14, 26),
            ("오늘은 날씨가 좋으니 공원에서 산책합시다.", 17, 29),
        ] {
            let counted = ByteEstimate::new().count_text(text);
            assert!(counted >= o200k.max(cl100k), "{counted}: {text}");
        }
        assert_eq!(ByteEstimate::new().count_text("ordinary English prose"), 6);
    }
}
