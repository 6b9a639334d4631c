//! JSON values from a text, one in each line or one over many lines.

use std::io::{BufRead, ErrorKind, Read as _};

use serde_json::Value;

use crate::transfer::import::{ForeignError, Problem};

/// The maximum size of a line, in bytes.
pub(super) const MAX_LINE: usize = 128 << 20;

/// Reads JSON values: one in each line, or one over all lines. The values of a list are read one by one, if the list is
/// not a value of the format.
#[derive(Debug)]
pub(super) struct Records<R> {
    input: R,
    limit: usize,
    number: u64,
    /// True if a line with text was read.
    has_begun: bool,
    /// Further values of a list.
    rest: std::vec::IntoIter<Value>,
    has_ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, limit: MAX_LINE, number: 0, has_begun: false, rest: Vec::new().into_iter(), has_ended: false }
    }

    /// Returns the next value and its number. Lists for which `is_list` returns `true` are read one by one.
    pub(super) fn next(&mut self, is_list: fn(&[Value]) -> bool) -> Option<Result<(u64, Value), ForeignError>> {
        loop {
            if let Some(value) = self.rest.next() {
                self.number += 1;
                return Some(Ok((self.number, value)));
            }
            match self.value()? {
                Ok((_, Value::Array(values))) if is_list(&values) => {
                    self.number -= 1;
                    self.rest = values.into_iter();
                }
                value => return Some(value),
            }
        }
    }

    fn value(&mut self) -> Option<Result<(u64, Value), ForeignError>> {
        loop {
            let line = match self.line()? {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };

            let number = self.number;
            let is_first = !self.has_begun;
            self.has_begun = true;
            let value = match serde_json::from_str(&line) {
                // A value over several lines.
                Err(error) if error.is_eof() && is_first => self.whole(line),
                parsed => parsed.map_err(|error| self.problem(Problem::Json { column: error.column() })),
            };
            return Some(value.map(|value| (number, value)));
        }
    }

    /// Reads the rest of the text, which belongs to the value of the first line.
    fn whole(&mut self, mut text: String) -> Result<Value, ForeignError> {
        self.has_ended = true;
        let left = self.limit.saturating_sub(text.len()) as u64 + 1;
        let read = match self.input.by_ref().take(left).read_to_string(&mut text) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(self.problem(Problem::NotUtf8)),
            Err(error) => return Err(error.into()),
        };
        if read as u64 == left {
            return Err(self.problem(Problem::TooLong { limit: self.limit }));
        }
        serde_json::from_str(&text).map_err(|error| self.problem(Problem::Json { column: error.column() }))
    }

    /// Returns the next line with its line break. A line that is too long is skipped.
    pub(super) fn line(&mut self) -> Option<Result<String, ForeignError>> {
        if self.has_ended {
            return None;
        }

        let mut bytes = Vec::new();
        let len = match self.input.by_ref().take(self.limit as u64 + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(len) => len,
            Err(error) => {
                self.has_ended = true;
                return Some(Err(error.into()));
            }
        };
        self.number += 1;

        if len > self.limit && bytes.last() != Some(&b'\n') {
            if let Err(error) = self.skip_line() {
                self.has_ended = true;
                return Some(Err(error.into()));
            }
            return Some(Err(self.problem(Problem::TooLong { limit: self.limit })));
        }

        Some(String::from_utf8(bytes).map_err(|_| self.problem(Problem::NotUtf8)))
    }

    const fn problem(&self, problem: Problem) -> ForeignError {
        ForeignError::conversation(self.number, None, problem)
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let is_end = end.is_some() || buffer.is_empty();
            let len = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(len);
            if is_end {
                return Ok(());
            }
        }
    }
}

/// Returns `true` if all values are objects.
pub(super) fn are_objects(values: &[Value]) -> bool {
    values.iter().all(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], limit: usize) -> Vec<Option<(u64, String)>> {
        let mut records = Records { limit, ..Records::new(text) };
        std::iter::from_fn(|| records.next(are_objects))
            .map(|record| record.ok().map(|(number, value)| (number, value.to_string())))
            .collect()
    }

    fn some(number: u64, text: &str) -> Option<(u64, String)> {
        Some((number, text.to_owned()))
    }

    #[test]
    fn values_are_in_lines_or_in_a_list_or_over_many_lines() {
        assert_eq!(read(b"{\"a\":1}\n\n{\"b\":2}", 99), [some(1, "{\"a\":1}"), some(3, "{\"b\":2}")]);
        assert_eq!(read(b"[\n{\"a\":1},\n{\"b\":2}]\n", 99), [some(1, "{\"a\":1}"), some(2, "{\"b\":2}")]);
        assert_eq!(read(b"{\n\"a\":1\n}\n", 99), [some(1, "{\"a\":1}")]);
        assert_eq!(read(b"[1]\n", 99), [some(1, "[1]")]);
        assert_eq!(read(b"\n \n{\n\"a\":1\n}\n", 99), [some(3, "{\"a\":1}")]);
    }

    /// Text, and an error after it.
    struct Failing(&'static [u8]);

    impl std::io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() { Err(ErrorKind::ConnectionReset.into()) } else { self.0.read(buffer) }
        }
    }

    #[test]
    fn an_error_of_the_input_is_not_one_of_its_text() {
        for text in [&b"{\n"[..], b"{\n\"a\":", b"{}\n{"] {
            let mut records = Records::new(std::io::BufReader::new(Failing(text)));
            let last = std::iter::from_fn(|| records.next(are_objects)).last().unwrap();
            assert!(matches!(last, Err(ForeignError::Input(_))), "{last:?}");
        }
    }

    #[test]
    fn damaged_and_long_lines_are_skipped() {
        assert_eq!(read(b"{}\n{\"a\":12345678}\n\xff\n}\n{}\n", 9), [some(1, "{}"), None, None, None, some(5, "{}")]);
        assert_eq!(read(b"{\n\"a\":12345678\n}", 9), [None]);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(read(deep.as_bytes(), 1_000_000), [None]);
    }
}
