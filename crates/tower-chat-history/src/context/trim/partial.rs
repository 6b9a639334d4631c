//! Keeping a part of the first message that does not fit.

use tower_chat_history_core::{Content, Message};

use super::{Trim, scan::Scanned};
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
    let shorten_text = |text: &str| if text.is_empty() { None } else { room.shorten_text(next, &splitter(text)) };
    let part = match next.content() {
        Content::Text(text) => shorten_text(&text),
        Content::Parts(parts) => room.shorten_parts(next, &parts).or_else(|| {
            let remaining = if list.from_end { parts.last() } else { parts.first() };
            shorten_text(&part_text(remaining?)?)
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
    fn shorten_text(&self, message: &Message, pieces: &[String]) -> Option<Message> {
        let fits = |count: usize| {
            let kept = self.kept(pieces, count);
            let reversed = self.from_end && !self.exact;
            let text = if reversed { kept.iter().rev().map(String::as_str).collect() } else { kept.concat() };
            let Ok(part) = message.with_text(&text) else { return false };
            // The original message remembers its count.
            self.fits(if part == *message { message } else { &part })
        };
        let count = largest_fitting(pieces.len(), fits);
        if count == 0 {
            return None;
        }
        message.with_text(&self.kept(pieces, count).concat()).ok()
    }

    fn fits(&self, part: &Message) -> bool {
        u64::from(tokens_of(self.counter, part)) <= self.left
    }

    /// Returns the `count` pieces at the side that is kept.
    fn kept<'p, T>(&self, pieces: &'p [T], count: usize) -> &'p [T] {
        if self.from_end { &pieces[pieces.len() - count..] } else { &pieces[..count] }
    }
}

/// Returns the largest number in `0..=all` that fits. If a number fits, all smaller ones must fit too.
fn largest_fitting(all: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut end) = (0, all);
    while fitting < end {
        let middle = (fitting + end).div_ceil(2);
        if fits(middle) {
            fitting = middle;
        } else {
            end = middle - 1;
        }
    }
    fitting
}

/// Returns the text of a part that is a bare string or has the type `text`.
fn part_text(json: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Part {
        r#type: String,
        text: String,
    }
    let bare = serde_json::from_str::<String>(json).ok();
    bare.or_else(|| serde_json::from_str::<Part>(json).ok().filter(|part| part.r#type == "text").map(|part| part.text))
}
