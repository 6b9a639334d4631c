//! Keeping a part of the first message that does not fit.

use tower_chat_history_core::{Content, Message};

use super::{
    options::{Splitter, Trim},
    scan::Scanned,
};
use crate::context::tokens::{TokenCounter, tokens_of};

/// Shortens the first message that does not fit whole, to the largest part of it that fits. Returns `None` if no part
/// fits, or if the trim allows no partial messages.
pub(super) fn partial<S, C: TokenCounter + ?Sized>(list: &Scanned, trim: &Trim<S>, counter: &C) -> Option<Message> {
    let splitter = trim.splitter.as_ref()?;
    let next = list.first_too_large()?;

    // A part of a message with calls, or of a result, would separate calls from their results.
    if trim.keep_tool_pairs && (!next.tool_calls().is_empty() || next.is_tool_result()) {
        return None;
    }

    let room = Room { from_end: list.from_end, left: list.left, counter, exact: trim.keep_tool_pairs };
    let part = match next.content() {
        Content::Text(text) => room.shorten_text(next, &text, splitter),
        Content::Parts(parts) => room.shorten_parts(next, &parts).or_else(|| {
            let remaining = if list.from_end { parts.last() } else { parts.first() };
            room.shorten_text(next, &part_text(remaining?)?, splitter)
        }),
        _ => None,
    }?;

    // LangChain keeps a message that consists of an empty line. Providers refuse it.
    let is_empty = matches!(part.content(), Content::Text(text) if text.is_empty());
    (!trim.keep_tool_pairs || !is_empty).then_some(part)
}

/// The budget that remains next to the messages that fit.
struct Room<'a, C: ?Sized> {
    from_end: bool,
    /// The tokens that remain.
    left: u64,
    counter: &'a C,
    /// False if pieces from the end of a text are joined in reverse order before they are counted, as LangChain does.
    /// The reversed text may have a few tokens more or less.
    exact: bool,
}

impl<C: TokenCounter + ?Sized> Room<'_, C> {
    /// Returns the message with as many of its parts as fit, but not all.
    fn shorten_parts(&self, message: &Message, parts: &[&str]) -> Option<Message> {
        let mut shorter = (1..parts.len()).rev().filter_map(|count| message.with_parts(self.kept(parts, count)).ok());
        shorter.find(|part| self.fits(part))
    }

    /// Returns the message with as many pieces of the text as fit. Its content is a text, even if it was a list of
    /// parts.
    fn shorten_text(&self, message: &Message, text: &str, splitter: &Splitter) -> Option<Message> {
        if text.is_empty() {
            return None;
        }

        // If a number of pieces fits, all smaller numbers fit, too.
        let pieces = splitter(text);
        let mut fitting = 0;
        let mut end = pieces.len();
        while fitting < end {
            let middle = (fitting + end).div_ceil(2);
            if self.fits_with(message, self.kept(&pieces, middle)) {
                fitting = middle;
            } else {
                end = middle - 1;
            }
        }

        if fitting == 0 {
            return None;
        }
        message.with_text(&self.kept(&pieces, fitting).concat()).ok()
    }

    /// Returns `true` if the message fits with these pieces of its text.
    fn fits_with(&self, message: &Message, pieces: &[String]) -> bool {
        let reversed = self.from_end && !self.exact;
        let text = if reversed { pieces.iter().rev().map(String::as_str).collect() } else { pieces.concat() };
        let Ok(part) = message.with_text(&text) else { return false };

        // The original message remembers its count.
        self.fits(if part == *message { message } else { &part })
    }

    fn fits(&self, part: &Message) -> bool {
        u64::from(tokens_of(self.counter, part)) <= self.left
    }

    /// Returns the `count` pieces at the side that is kept.
    fn kept<'p, T>(&self, pieces: &'p [T], count: usize) -> &'p [T] {
        if self.from_end { &pieces[pieces.len() - count..] } else { &pieces[..count] }
    }
}

/// Returns the text of a part that is a bare string or has the type `text`.
fn part_text(json: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Part {
        r#type: String,
        text: String,
    }

    if let Ok(bare) = serde_json::from_str::<String>(json) {
        return Some(bare);
    }
    let part = serde_json::from_str::<Part>(json).ok()?;
    (part.r#type == "text").then_some(part.text)
}
