//! Lines of bounded length, from pieces of bytes.

use crate::transfer::line::LineError;

/// Splits pieces of bytes into lines. It keeps at most one line.
#[derive(Debug)]
pub(super) struct Splitter {
    limit: usize,
    line: Vec<u8>,
    /// The line exceeded the limit, and the rest of it is dropped.
    is_too_long: bool,
    lines: u64,
}

impl Splitter {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), is_too_long: false, lines: 0 }
    }

    /// Returns the number of lines so far.
    pub(super) const fn lines(&self) -> u64 {
        self.lines
    }

    /// Takes bytes from the front of the piece. Returns a line if it is complete.
    pub(super) fn next(&mut self, piece: &mut &[u8]) -> Option<Result<String, LineError>> {
        let end = piece.iter().position(|byte| *byte == b'\n');
        let (of_line, rest) = end.map_or((*piece, &[][..]), |end| (&piece[..end], &piece[end + 1..]));
        *piece = rest;
        self.take(of_line);
        end.map(|_| self.complete())
    }

    /// Returns the last line, if it has no line break at its end.
    pub(super) fn last(&mut self) -> Option<Result<String, LineError>> {
        (self.is_too_long || !self.line.is_empty()).then(|| self.complete())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.line.len() + bytes.len() > self.limit;
        if self.is_too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn complete(&mut self) -> Result<String, LineError> {
        self.lines += 1;
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return Err(LineError::TooLong { limit: self.limit });
        }
        String::from_utf8(line).map_err(|_| LineError::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]], limit: usize) -> Vec<Option<String>> {
        let mut splitter = Splitter::new(limit);
        let mut lines = Vec::new();
        for piece in pieces {
            let mut piece = *piece;
            while !piece.is_empty() {
                lines.extend(splitter.next(&mut piece).map(Result::ok));
            }
        }
        lines.extend(splitter.last().map(Result::ok));
        assert_eq!(splitter.lines(), lines.len() as u64);
        lines
    }

    #[test]
    fn lines_over_the_limit_are_dropped_and_counted() {
        let lines = split(&[b"abc\nab", b"cd\n\xff\nx"], 3);
        assert_eq!(lines, [Some("abc".into()), None, None, Some("x".into())]);
    }

    proptest! {
        #[test]
        fn the_pieces_make_no_difference(text in "[ab\n]{0,40}", sizes in prop::collection::vec(1_usize..9, 0..40)) {
            let (mut rest, mut pieces) = (text.as_bytes(), Vec::new());
            for size in sizes {
                let (piece, others) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = others;
            }
            pieces.push(rest);
            prop_assert_eq!(split(&pieces, 5), split(&[text.as_bytes()], 5));
        }
    }
}
