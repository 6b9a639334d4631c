//! Marks for the cache, of which a request may have only a few.

use super::{
    super::{
        AnthropicMessages,
        cache_control::{self, NAME, may_have_some},
    },
    element::{Block, Element, Kind},
};
use crate::{json::Object, message::Message};

impl AnthropicMessages {
    /// The largest number of marks for the cache (`cache_control`) that the API accepts in a request, as of November
    /// 2026.
    pub const MAX_CACHE_MARKS: usize = 4;

    /// Returns `false` only if a message has no mark for the cache. `true` may be wrong. For a message of this dialect,
    /// the answer is known since the message was read, so this is faster than [`cache_marks`](Self::cache_marks).
    #[must_use]
    pub fn may_have_cache_marks(message: &Message) -> bool {
        let is_known = message.dialect().is_some_and(|dialect| dialect.name() == Self::NAME);
        if is_known { message.index().may_have_cache_marks } else { may_have_some(message.json()) }
    }

    /// Returns `false` only if JSON, such as a list of blocks or tools, has no mark for the cache. `true` may be wrong.
    /// Use it to avoid a parser, because nearly no JSON has a mark.
    #[must_use]
    pub fn json_may_have_cache_marks(json: &str) -> bool {
        may_have_some(json)
    }

    /// Returns the number of marks for the cache in the blocks of a message, also in the blocks of their contents.
    #[must_use]
    pub fn cache_marks(message: &Message) -> usize {
        if !may_have_some(message.json()) {
            return 0;
        }
        let Ok(element) = Element::read(message.json()) else { return 0 };

        let mut marks = 0;
        for block in &element.blocks {
            marks += usize::from(has_mark(block.json));
            if block.levels() > 1 {
                let inner = Object::read(block.json).and_then(|block| block.entries("content")).unwrap_or_default();
                marks += inner.into_iter().filter(|json| has_mark(json)).count();
            }
        }
        marks
    }

    /// Returns the JSON of a message without marks for the cache, or `None` if it has none. Nothing else changes. A
    /// request with history can have the marks of many earlier requests, and the API refuses more than
    /// [four](Self::MAX_CACHE_MARKS).
    #[must_use]
    pub fn without_cache_marks(message: &Message) -> Option<String> {
        if Self::cache_marks(message) == 0 {
            return None;
        }
        let element = Element::read(message.json()).ok()?;
        let blocks: Vec<_> = element.blocks.iter().map(|it| cache_control::without(it.json, it.levels())).collect();
        Some(element.with_blocks(blocks.iter().map(|json| &**json)))
    }
}

fn has_mark(json: &str) -> bool {
    Object::read(json).is_some_and(|block| block.get(NAME).is_some())
}

impl Block<'_> {
    /// Returns the number of levels at which the block can have marks. The content of a result has blocks, and so has
    /// that of some other blocks, such as `search_result`.
    pub(super) fn levels(&self) -> usize {
        let has_blocks = match self.kind {
            Kind::Result(_) | Kind::Orphan => true,
            Kind::ServerResult(_) | Kind::Other { .. } if may_have_some(self.json) => {
                Object::read(self.json).is_some_and(|block| block.entries("content").is_some())
            }
            _ => false,
        };
        if has_blocks { 3 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ChatCompletions;

    const MARKED: &str = r#"{"role":"user","content":[{"type":"text","text":"t","cache_control":{}}]}"#;
    const UNMARKED: &str = r#"{"role":"user","content":[{"type":"text","text":"t"}]}"#;

    #[test]
    fn marks_are_noticed_in_messages_of_every_dialect_and_of_none() {
        for (json, has_marks) in [(MARKED, true), (UNMARKED, false)] {
            for message in [
                Message::in_dialect(&AnthropicMessages, json).unwrap(),
                Message::in_dialect(&ChatCompletions, json).unwrap(),
                Message::unread(json.into()),
            ] {
                assert_eq!(AnthropicMessages::may_have_cache_marks(&message), has_marks, "{:?}", message.dialect());
                assert_eq!(AnthropicMessages::cache_marks(&message), usize::from(has_marks), "{:?}", message.dialect());
            }
        }
    }
}
