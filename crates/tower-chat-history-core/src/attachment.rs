//! Data that is derived from a range of a log.

use std::{fmt, ops::Range, sync::Arc};

use crate::seq::Seq;

/// Data that is derived from a range of a log, such as a part of a search index. Stores keep it next to the log. See
/// [`Attach`](crate::Attach).
///
/// `Debug` shows the name, the range and the size.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attachment {
    /// The name. A conversation can have several attachments of the same name, whose ranges begin at different
    /// positions.
    pub name: AttachmentName,
    /// The positions of the exchanges from which the data is derived. It is not empty.
    pub range: Range<Seq>,
    /// The data: at most [`MAX_BYTES`](Self::MAX_BYTES).
    pub body: Arc<[u8]>,
}

impl Attachment {
    /// The maximum size of the data, in bytes: 4 MiB.
    pub const MAX_BYTES: usize = 4 << 20;

    /// The maximum size of the data that stores accept, in bytes. It is larger than [`MAX_BYTES`](Self::MAX_BYTES), so
    /// that a wrapper can encrypt data of that size.
    pub const MAX_STORED_BYTES: usize = Self::MAX_BYTES + 64;

    /// Creates an attachment to the exchanges of this range.
    #[must_use]
    pub fn new(name: AttachmentName, range: Range<Seq>, body: impl Into<Arc<[u8]>>) -> Self {
        Self { name, range, body: body.into() }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> AttachmentKey {
        AttachmentKey { name: self.name.clone(), start: self.range.start }
    }

    /// Checks that this attachment can be stored next to a log whose next exchange gets the position `next`. Stores
    /// call this within the write.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or reaches beyond the log, or if the data is too large.
    pub fn check(&self, next: Seq) -> Result<(), AttachmentError> {
        let Self { range: Range { start, end }, body, .. } = self;
        if start >= end {
            return Err(AttachmentError::EmptyRange { start: *start });
        }
        if *end > next {
            return Err(AttachmentError::BeyondLog { end: *end, len: next.get() });
        }
        if body.len() > Self::MAX_STORED_BYTES {
            return Err(AttachmentError::TooLarge { bytes: body.len() });
        }
        Ok(())
    }

    /// Returns `true` if the attachment stays when the log is [truncated](crate::Truncate) to its first `len`
    /// exchanges.
    #[must_use]
    pub fn survives_truncation(&self, len: u64) -> bool {
        self.range.end.get() <= len
    }

    /// Returns `true` if the attachment stays when derived data is [erased](crate::Derived::Erase) from a log that
    /// begins at `first`.
    #[must_use]
    pub fn survives_erasure(&self, first: Seq) -> bool {
        self.range.start >= first
    }

    /// Returns an estimate of the memory that this attachment takes, in bytes: its data and name, and a constant.
    #[must_use]
    pub fn memory(&self) -> usize {
        let shared = crate::memory::shared;
        size_of::<Self>() + shared(self.body.len()) + shared(self.name.as_str().len())
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, range: Range { start, end }, body } = self;
        write!(f, "Attachment({name:?}, {start}..{end}, {} bytes)", body.len())
    }
}

/// The identity of an attachment within its conversation: its name, and the position at which its range begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentKey {
    /// The name.
    pub name: AttachmentName,
    /// The first position of the range.
    pub start: Seq,
}

/// The name of an attachment: 1 to 64 bytes of visible ASCII. Names are compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentName(Arc<str>);

impl AttachmentName {
    /// The maximum length of a name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Creates a name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty, longer than [`MAX_LEN`](Self::MAX_LEN) bytes, or contains anything but
    /// visible ASCII.
    pub fn new(name: impl AsRef<str>) -> Result<Self, AttachmentNameError> {
        let name = name.as_ref();
        let legal = !name.is_empty() && name.len() <= Self::MAX_LEN && name.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(name.into())) } else { Err(AttachmentNameError { len: name.len() }) }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AttachmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for an invalid name of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid attachment name: expected 1 to {max} bytes of visible ASCII, got {len} bytes",
    max = AttachmentName::MAX_LEN
)]
pub struct AttachmentNameError {
    len: usize,
}

/// A violation of the rules for attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// The range has no positions.
    #[error("the range from {start} is empty")]
    EmptyRange {
        /// The start of the range.
        start: Seq,
    },
    /// The range ends after the end of the log.
    #[error("the range ends at {end}, but the next position of the log is {len}")]
    BeyondLog {
        /// The end of the range.
        end: Seq,
        /// The position of the log's next exchange.
        len: u64,
    },
    /// The data is larger than the limit.
    #[error("the data has {bytes} bytes, and the limit is {max} bytes", max = Attachment::MAX_BYTES)]
    TooLarge {
        /// The size of the data in bytes.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(start: u64, end: u64, bytes: usize) -> Attachment {
        Attachment::new(AttachmentName::new("n").unwrap(), Seq::new(start)..Seq::new(end), vec![0; bytes])
    }

    #[test]
    fn a_range_is_within_the_log_and_the_data_within_its_limit() {
        assert_eq!(attachment(1, 3, Attachment::MAX_STORED_BYTES).check(Seq::new(3)), Ok(()));
        let empty = Err(AttachmentError::EmptyRange { start: Seq::new(3) });
        assert_eq!(attachment(3, 3, 0).check(Seq::new(9)), empty);
        let beyond = Err(AttachmentError::BeyondLog { end: Seq::new(4), len: 3 });
        assert_eq!(attachment(1, 4, 0).check(Seq::new(3)), beyond);
        let bytes = Attachment::MAX_STORED_BYTES + 1;
        assert_eq!(attachment(1, 3, bytes).check(Seq::new(3)), Err(AttachmentError::TooLarge { bytes }));
    }

    #[test]
    fn an_attachment_is_removed_with_any_exchange_of_its_range() {
        let attachment = attachment(2, 4, 0);
        assert_eq!([3, 4, 5].map(|len| attachment.survives_truncation(len)), [false, true, true]);
        assert_eq!([1, 2, 3].map(|first| attachment.survives_erasure(Seq::new(first))), [true, true, false]);
    }

    #[test]
    fn names_are_visible_ascii() {
        assert!(AttachmentName::new("terms/all").is_ok() && AttachmentName::new("x".repeat(64)).is_ok());
        for name in ["", "a b", "ä", "a\n", &"x".repeat(65)] {
            let error = AttachmentName::new(name).unwrap_err().to_string();
            assert!(error.ends_with(&format!("got {} bytes", name.len())), "{error}");
        }
    }
}
