//! Citations as places of messages, and places as citations.

use tower_chat_history_core::{Citation, Message, Recorded};

use super::messages::Place;

/// The most messages of a citation that are read, so that a damaged one costs little.
const MAX_MESSAGES: usize = 1 << 16;

/// Returns the cited messages of an exchange, in order. It is empty if the citation is of another exchange.
///
/// ```
/// use tower_chat_history_core::{Citation, Message, Recorded, Seq};
/// use tower_chat_history::recall::cited;
///
/// let log = Recorded::log(vec![Message::user("My dog is called Rex.")]);
/// assert_eq!(cited(&Citation::new(Seq::FIRST, 0..9), &log[0])[0].text(), "My dog is called Rex.");
/// assert!(cited(&Citation::new(Seq::new(7), 0..9), &log[0]).is_empty());
/// ```
#[must_use]
pub fn cited<'a>(citation: &Citation, recorded: &'a Recorded) -> &'a [Message] {
    let messages = if recorded.seq == citation.seq { recorded.exchange.messages.as_slice() } else { &[] };
    let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX).min(messages.len());
    messages.get(at(citation.messages.start)..at(citation.messages.end)).unwrap_or_default()
}

/// Returns each cited message's place.
pub(crate) fn places(citations: &[Citation]) -> impl Iterator<Item = Place> {
    let of_one = |citation: &Citation| {
        let seq = citation.seq;
        citation.messages.clone().take(MAX_MESSAGES).map(move |message| (seq, message))
    };
    citations.iter().flat_map(of_one)
}

/// Returns the citations of places, which are in order.
pub(crate) fn citations(places: impl IntoIterator<Item = Place>) -> Vec<Citation> {
    let mut citations: Vec<Citation> = Vec::new();
    for (seq, message) in places {
        match citations.last_mut() {
            Some(last) if last.seq == seq && last.messages.end == message => {
                last.messages.end = message.saturating_add(1);
            }
            _ => citations.push(Citation::new(seq, message..message.saturating_add(1))),
        }
    }
    citations
}
