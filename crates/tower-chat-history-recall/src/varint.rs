//! Numbers in bytes: seven bits a byte, the lowest first.

/// The error for bytes that are not a record of the index or of vectors: they are damaged, or of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid record of recall: {reason} (at byte {at})")]
pub struct DecodeError {
    reason: &'static str,
    at: usize,
}

/// Writes numbers.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Writes a length and the bytes.
    pub(crate) fn section(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads numbers. It never reads beyond the bytes and never allocates.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) const fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError { reason, at: self.at }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(self.error("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the version of a record's format, which must be this one.
    pub(crate) fn version(&mut self, version: u8) -> Result<(), DecodeError> {
        if self.byte()? == version { Ok(()) } else { Err(self.error("it has another version")) }
    }

    pub(crate) fn number(&mut self) -> Result<u64, DecodeError> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(self.error("a number is too large"));
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    pub(crate) fn small(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| self.error("a number is too large"))
    }

    /// Reads the number of items that follow, each of at least one byte. So the number is bounded by the bytes.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.number()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count).ok().filter(|&count| count <= left).ok_or(self.error("it counts more than it has"))
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(self.error("it ends too early"))?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    /// Reads what [`Writer::section`] wrote.
    pub(crate) fn section(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.count()?;
        self.take(len)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let bytes = &self.bytes[self.at..];
        self.at = self.bytes.len();
        bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { Err(self.error("it has more than it should")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_written(numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0..300_u64], 0..20)) {
            let mut writer = Writer::default();
            numbers.iter().for_each(|&number| writer.number(number));
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes);
            for number in numbers {
                prop_assert_eq!(reader.number(), Ok(number));
            }
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while reader.number().is_ok() {}
            let mut reader = Reader::new(&bytes);
            if let Ok(section) = reader.section() {
                prop_assert!(section.len() < bytes.len());
            }
        }
    }
}
