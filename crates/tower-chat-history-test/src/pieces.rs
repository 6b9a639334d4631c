//! Texts in pieces, as streams send them.

/// Returns the text in pieces of this many characters, at least 1.
pub(crate) fn pieces(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars.max(1)).map(|piece| piece.iter().collect()).collect()
}
