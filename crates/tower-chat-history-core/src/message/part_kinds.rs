//! The kinds of parts that a message has.

use super::{Message, Part};

/// The kinds of [parts](Part) that a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartKinds {
    /// `true` if there is a part with [`Part::Reasoning`] or [`Part::Sealed`].
    pub has_reasoning: bool,
    /// `true` if there is a part with [`Part::Media`].
    pub has_media: bool,
}

impl PartKinds {
    /// Notes the kind of this part, if it is one of those above.
    pub const fn add(&mut self, part: &Part<'_>) {
        match part {
            Part::Reasoning(_) | Part::Sealed(_) => self.has_reasoning = true,
            Part::Media { .. } => self.has_media = true,
            _ => {}
        }
    }
}

impl Message {
    /// Returns the kinds of parts that the message has: those in its [index](super::Index::part_kinds), or those of its
    /// parts, which are then read once for all clones. As long as the [dialect](Self::dialect) is not known, there are
    /// none.
    #[inline]
    #[must_use]
    pub fn part_kinds(&self) -> PartKinds {
        self.index().part_kinds.unwrap_or_else(|| self.kinds_of_parts())
    }

    fn kinds_of_parts(&self) -> PartKinds {
        let Some(dialect) = self.dialect() else { return PartKinds::default() };
        *self.0.part_kinds.get_or_init(|| {
            let mut kinds = PartKinds::default();
            dialect.parts(self, &mut |part| kinds.add(&part));
            kinds
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AnthropicMessages, ChatCompletions, OpenAiResponses};

    const NONE: PartKinds = PartKinds { has_reasoning: false, has_media: false };
    const REASONING: PartKinds = PartKinds { has_reasoning: true, ..NONE };
    const MEDIA: PartKinds = PartKinds { has_media: true, ..NONE };

    #[test]
    fn reasoning_and_media_are_found_in_every_dialect() {
        let image = r#"{"type":"image","source":{"type":"url","url":"https://x.test/a.png"}}"#;
        let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
        let messages = |json: &str| Message::in_dialect(&AnthropicMessages, json).unwrap().part_kinds();
        let with = |blocks: &str| messages(&format!(r#"{{"role":"assistant","content":[{blocks}]}}"#));
        assert_eq!(messages(r#"{"role":"user","content":"thinking, image"}"#), NONE);
        assert_eq!(with(thinking), REASONING);
        assert_eq!(with(image), MEDIA);
        assert_eq!(with(&format!("{thinking},{image}")), PartKinds { has_reasoning: true, has_media: true });

        let responses = |json| Message::in_dialect(&OpenAiResponses, json).unwrap().part_kinds();
        assert_eq!(responses(r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#), REASONING);
        assert_eq!(
            responses(r#"{"role":"user","content":[{"type":"input_image","image_url":"https://x.test/a.png"}]}"#),
            MEDIA
        );

        let chat = |json| Message::in_dialect(&ChatCompletions, json).unwrap().part_kinds();
        assert_eq!(chat(r#"{"role":"assistant","content":"reasoning"}"#), NONE);
        assert_eq!(chat(r#"{"role":"assistant","content":"a","reasoning_content":"r"}"#), REASONING);
        assert_eq!(chat(r#"{"role":"assistant","audio":{"id":"x"}}"#), MEDIA);
    }

    #[test]
    fn the_kinds_are_read_again_when_the_dialect_becomes_known() {
        let json = r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#;
        let message = Message::unread(json.into());
        assert_eq!(message.part_kinds(), NONE);
        message.read_in(&OpenAiResponses).unwrap();
        assert_eq!(message.part_kinds(), REASONING);
    }
}
