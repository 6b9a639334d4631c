//! A part of the message that fits no longer.

use tower_chat_history_core::{Content, Message};

use super::{
    Trim,
    fit::{Looked, most},
};
use crate::tokens::CountMessages;

/// What of the next message fits beside those that do, if the trim allows for that.
pub(super) fn partial<S, C: CountMessages + ?Sized>(
    list: &Looked,
    max_tokens: u64,
    trim: &Trim<S>,
    counter: &C,
) -> Option<Message> {
    let splitter = trim.splitter.as_ref()?;
    let next = list.next()?;
    // Half a call whose results are cut off, or half a result without its call, is a pair torn apart.
    if trim.keep_tool_pairs && (!next.tool_calls().is_empty() || next.is_tool_result()) {
        return None;
    }
    let room =
        Room { front: list.that_fit(), from_end: list.from_end, max_tokens, counter, exact: trim.keep_tool_pairs };
    let some_text = |text: &str| if text.is_empty() { None } else { room.some_text(next, &splitter(text)) };
    let part = match next.content() {
        Content::Text(text) => some_text(&text),
        Content::Parts(parts) => room.some_parts(next, &parts).or_else(|| {
            let remaining = if list.from_end { parts.last() } else { parts.first() };
            some_text(&part_text(remaining?)?)
        }),
        _ => None,
    }?;
    // LangChain keeps a message of an empty line. Providers refuse it.
    let says_nothing = matches!(part.content(), Content::Text(text) if text.is_empty());
    (!trim.keep_tool_pairs || !says_nothing).then_some(part)
}

/// What is left beside the messages that fit.
struct Room<'a, C: ?Sized> {
    front: &'a [Message],
    from_end: bool,
    max_tokens: u64,
    counter: &'a C,
    /// LangChain counts the last pieces of a text with the last one in front: another text, which may have a few tokens more
    /// or less.
    exact: bool,
}

impl<C: CountMessages + ?Sized> Room<'_, C> {
    /// As many parts as fit, but not all.
    fn some_parts(&self, message: &Message, parts: &[&str]) -> Option<Message> {
        let before = self.counter.count(self.front);
        let tokens = |part: &Message| match self.counter.count_one(part) {
            Some(tokens) => before.saturating_add(tokens),
            None => {
                let part = std::slice::from_ref(part);
                self.counter.count(&if self.from_end {
                    [part, self.front].concat()
                } else {
                    [self.front, part].concat()
                })
            }
        };
        let shorter = (1..parts.len()).rev().filter_map(|count| message.with_parts(self.some(parts, count)).ok());
        { shorter }.find(|part| tokens(part) <= self.max_tokens)
    }

    /// As many pieces of the text as fit. Where the content was a list of parts, it is a text now.
    fn some_text(&self, message: &Message, pieces: &[String]) -> Option<Message> {
        let before = self.counter.count(self.front);
        let fits = |count: usize| {
            let kept = self.some(pieces, count);
            let reversed = self.from_end && !self.exact;
            let text = if reversed { kept.iter().rev().map(String::as_str).collect() } else { kept.concat() };
            let part = message.with_text(&text);
            // The whole message remembers its count.
            let part = if part == *message { message } else { &part };
            before.saturating_add(self.counter.count(std::slice::from_ref(part))) <= self.max_tokens
        };
        let count = most(pieces.len(), fits);
        (count > 0).then(|| message.with_text(&self.some(pieces, count).concat()))
    }

    /// So many of them, from the end that is kept.
    fn some<'p, T>(&self, pieces: &'p [T], count: usize) -> &'p [T] {
        if self.from_end { &pieces[pieces.len() - count..] } else { &pieces[..count] }
    }
}

/// The text of a part that is one: a bare string, or of type `text`.
fn part_text(json: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Part {
        r#type: String,
        text: String,
    }
    let bare = serde_json::from_str::<String>(json).ok();
    bare.or_else(|| serde_json::from_str::<Part>(json).ok().filter(|part| part.r#type == "text").map(|part| part.text))
}
