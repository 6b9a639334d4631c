//! The texts of a message, in all dialects.

use std::borrow::Cow;

use super::{Content, Message, Part};

impl Message {
    /// Returns everything that the message says in words, joined without a separator: its texts and those of its
    /// results. It is empty if there are none. Names, refusals, reasoning and the arguments of calls are other
    /// [parts](Self::parts).
    ///
    /// As long as the [dialect](Self::dialect) is not known, it is empty.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if let Content::Text(text) = self.content() {
            return text;
        }
        let mut texts = self.texts();
        if texts.len() > 1 { Cow::Owned(texts.concat()) } else { texts.pop().unwrap_or_default() }
    }

    /// Returns the texts that [`text`](Self::text) joins, in order.
    #[must_use]
    pub fn texts(&self) -> Vec<Cow<'_, str>> {
        match self.content() {
            Content::Text(text) => vec![text],
            Content::Parts(parts) => parts.into_iter().filter_map(Content::text_of_part).map(Cow::Owned).collect(),
            // Messages of other dialects have no such content.
            Content::None | Content::Other(_) => {
                let mut texts = Vec::new();
                self.parts(&mut |part| {
                    if let Part::Text(text) | Part::Result { text, .. } = part {
                        texts.push(text);
                    }
                });
                texts
            }
        }
    }
}
