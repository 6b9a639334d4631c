//! Lists of byte strings in one byte string. Each is preceded by its length, so no two lists have the same form.

/// Adds a field: its length in 4 bytes, and its bytes.
pub(crate) fn push(out: &mut Vec<u8>, field: &[u8]) {
    // No field has 4 GiB: all of them are ids, names and labels.
    out.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(field);
}

/// Returns the first field and the rest, or `None` if there is no whole field.
pub(crate) fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_back() {
        let mut out = Vec::new();
        for field in [&b"a"[..], b"", b"bc"] {
            push(&mut out, field);
        }
        let (first, rest) = take(&out).unwrap();
        let (second, rest) = take(rest).unwrap();
        let (third, rest) = take(rest).unwrap();
        assert_eq!((first, second, third, rest), (&b"a"[..], &b""[..], &b"bc"[..], &b""[..]));
        assert_eq!((take(b""), take(&[0, 0, 0, 2, 1])), (None, None));
    }
}
