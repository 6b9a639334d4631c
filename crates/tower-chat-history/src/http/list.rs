//! The list of messages in a body, and the place of the window in it.

use std::ops::Range;

use crate::http::splice::Gap;

/// Returns the place of the window: between the head and the input, where the transcript is.
pub(crate) fn gap(array: &Range<usize>, messages: &[Range<usize>], resent: &Range<usize>) -> Gap {
    let (head, input) = (messages[..resent.start].last(), messages.get(resent.end));
    let start = head.map_or(array.start + 1, |last| last.end);
    let end = input.map_or(array.end - 1, |first| first.start);
    let comma = |is_needed| if is_needed { "," } else { "" };
    let empty = (!resent.is_empty()).then(|| comma(head.is_some() && input.is_some()));
    Gap { range: start..end, before: comma(head.is_some()), after: comma(input.is_some()), empty }
}
