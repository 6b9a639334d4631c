//! Splitting a text between tokens.

#[cfg(test)]
mod tests;

use std::iter;

/// The largest number of bytes that are counted at once. For ordinary texts, any bound of at least 1 KiB takes the same
/// time. For runs without a place to split, a larger bound takes longer, and a smaller one is less exact.
pub(super) const PIECE: usize = 16 << 10;

/// Splits a text into pieces of at most `bound` bytes, or of a single character. The pieces joined are the text.
///
/// A piece ends at the last place within the bound at which both encodings always begin a new token, whatever the
/// surrounding text is. The tokens of the pieces are then those of the text. If there is no such place, the piece
/// ends at the bound, which can change the count by a few tokens.
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

/// Returns the last boundary of tokens at or before `end`, in bytes.
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

/// Returns `true` if a token always ends between these two characters, in `o200k_base` and in `cl100k_base`.
///
/// Both encodings first split a text with a regular expression, and no token extends across such a split. The
/// alternatives of the two expressions match:
///
/// - letters (in o200k with marks), after at most one character other than a letter, digit, CR or LF. In o200k, a
///   contraction (`'s`) may follow; in cl100k, a contraction is a separate alternative.
/// - up to three digits.
/// - other characters except white space, after at most one space. CR and LF may follow, in o200k also `/`.
/// - white space: up to its last CR or LF, or up to the end of the text, or without its last character if another
///   character follows.
///
/// A place is a boundary if no alternative matches across it, and if the match before it would be the same if the text
/// ended there. Only the alternatives for white space look ahead, and none looks behind.
fn is_boundary(before: char, after: char) -> bool {
    match (before, after) {
        // A space is the first character of a match, or follows white space. There is no white space before this place
        // whose match could change.
        (_, ' ') => !before.is_whitespace(),
        // A match of white space contains nothing else, and no match has an LF before letters. After punctuation and an
        // LF, a match can continue only with `/`. White space before this place matches up to its last LF, which is the
        // character `before`. At the end of a text it would match as a whole, with the same result.
        ('\n', _) => !after.is_whitespace() && after != '/',
        // Within a match, only letters, marks and `'` follow letters, and only digits follow digits.
        _ => before.is_ascii_alphanumeric() && after.is_ascii_punctuation() && after != '\'',
    }
}
