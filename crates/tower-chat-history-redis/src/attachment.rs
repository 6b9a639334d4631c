//! The stored form of an attachment's name, range and size (see `scripts/attached.lua`).

use std::ops::Range;

use tower_chat_history_core::{Attachment, AttachmentKey, AttachmentName, Seq};

/// The lengths of the parts of a member after the name and a space, in hexadecimal digits.
const POSITION: usize = 16;
const SIZE: usize = 8;

/// Returns the field of an attachment's data, which is the beginning of its member.
pub(crate) fn field(key: &AttachmentKey) -> String {
    format!("{} {:016x}", key.name, key.start.get())
}

/// Returns the rest of an attachment's member: the end of its range, and the size of its data.
pub(crate) fn end_and_size(attachment: &Attachment) -> String {
    format!("{:016x}{:08x}", attachment.range.end.get(), attachment.body.len())
}

/// Decodes an attachment. Returns `None` if the member is invalid, if the data has another size, or if the range is
/// not within a log of length `len`.
pub(crate) fn attachment(member: &[u8], body: Vec<u8>, len: u64) -> Option<Attachment> {
    let (name, numbers) = std::str::from_utf8(member).ok()?.rsplit_once(' ')?;
    let number = |range: Range<usize>| {
        let digits = numbers.get(range)?;
        let canonical = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        canonical.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let start = Seq::new(number(0..POSITION)?);
    let end = Seq::new(number(POSITION..2 * POSITION)?);
    let size = number(2 * POSITION..2 * POSITION + SIZE)?;
    if numbers.len() != 2 * POSITION + SIZE || body.len() as u64 != size {
        return None;
    }
    let attachment = Attachment::new(AttachmentName::new(name).ok()?, start..end, body);
    attachment.check(Seq::new(len)).ok()?;
    Some(attachment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_read_as_it_was_written() {
        for name in ["a", "terms/all", "a|b:{}", &"~".repeat(64)] {
            let name = AttachmentName::new(name).unwrap();
            let stored = Attachment::new(name, Seq::new(255)..Seq::new(1 << 32), b"body".as_slice());
            let member = field(&stored.key()) + &end_and_size(&stored);
            assert_eq!(attachment(member.as_bytes(), b"body".to_vec(), 1 << 32), Some(stored.clone()));
            assert_eq!(attachment(member.as_bytes(), b"body".to_vec(), (1 << 32) - 1), None, "beyond the log");
            assert_eq!(attachment(member.as_bytes(), b"other".to_vec(), 1 << 32), None, "another size");
            assert_eq!(attachment(member.to_uppercase().as_bytes(), b"body".to_vec(), 1 << 32), None);
            assert_eq!(attachment(&member.as_bytes()[..member.len() - 1], b"body".to_vec(), 1 << 32), None);
        }
        for member in [&b""[..], b"secret", b"\xff 0", b" 00000000000000000000000000000001000000000"] {
            assert_eq!(attachment(member, Vec::new(), 9), None);
        }
    }

    #[test]
    fn members_are_in_the_order_of_names_and_starts() {
        let member = |name: &str, start| {
            let name = AttachmentName::new(name).unwrap();
            field(&AttachmentKey { name, start: Seq::new(start) })
        };
        let ordered =
            [member("a", 9), member("a", 10), member("a", 256), member("a!", 0), member("a/b", 0), member("b", 0)];
        assert!(ordered.is_sorted());
    }
}
