//! Cutting a text where no token goes across.

use std::iter;

/// The bytes that are counted at once. Ordinary texts take the same time with any bound from 1 KiB up; runs without a place
/// to split take the longer the larger it is, and less is exact the smaller it is.
pub(super) const PIECE: usize = 16 << 10;

/// The pieces of a text, which put together are the text. Each has at most `bound` bytes, or is a single character.
///
/// A piece ends at the last place within the bound where both encodings always begin a new token, whatever stands around it:
/// so the tokens of the pieces are those of the text. Where there is no such place, it ends at the bound: that can change
/// the count by a few tokens.
pub(super) fn pieces(text: &str, bound: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(piece_len(rest, bound));
        rest = after;
        Some(piece)
    })
}

fn piece_len(text: &str, bound: usize) -> usize {
    if text.len() <= bound {
        return text.len();
    }
    let mut end = bound;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match last_boundary(text, end) {
        Some(boundary) => boundary,
        None if end > 0 => end,
        None => text.chars().next().map_or(0, char::len_utf8),
    }
}

/// The last boundary of tokens at or before `end`, in bytes.
fn last_boundary(text: &str, end: usize) -> Option<usize> {
    let mut after = text[end..].chars().next()?;
    for (start, before) in text[..end].char_indices().rev() {
        if is_boundary(before, after) {
            return Some(start + before.len_utf8());
        }
        after = before;
    }
    None
}

/// Returns whether a token always ends between these two characters, in `o200k_base` and in `cl100k_base`.
///
/// Both encodings first split a text by a regular expression, and no token goes across such a split. The alternatives of the
/// two expressions match:
///
/// - letters (with marks, in o200k), with one character before them that is no letter, digit, CR or LF; in o200k a
///   contraction (`'s`) may follow, in cl100k it is an alternative of its own;
/// - up to three digits;
/// - other characters that are no white space, with one space before them; CR and LF may follow, and `/` in o200k;
/// - white space: up to its last CR or LF, or at the end of the text, or without its last character if something follows.
///
/// A place is a boundary if no alternative matches across it, and if the end of the text there would not change what
/// matches before it. Only the alternatives for white space look at what follows; none looks at what precedes.
pub(super) fn is_boundary(before: char, after: char) -> bool {
    match (before, after) {
        // A space stands first in a match, or after white space. There is no white space before the cut that could match
        // otherwise.
        (_, ' ') => !before.is_whitespace(),
        // White space does not match beyond itself, and an LF stands before letters in no match. LFs that follow
        // punctuation end with a `/` at most. White space before the cut matches up to its last LF, which is there, and at
        // the end of a text it matches as a whole, which is the same.
        ('\n', _) => !after.is_whitespace() && after != '/',
        // In a match, letters are followed by letters, marks and `'`; digits by digits.
        _ => before.is_ascii_alphanumeric() && after.is_ascii_punctuation() && after != '\'',
    }
}
