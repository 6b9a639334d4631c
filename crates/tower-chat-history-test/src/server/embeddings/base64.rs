//! Vectors as text, for requests with the encoding `base64`.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the numbers in little-endian order, in base64 with padding.
pub(super) fn of_floats(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    of_bytes(&bytes)
}

fn of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(chunk.get(at).copied().unwrap_or_default()));
        for at in 0..4 {
            let digit = if at <= chunk.len() { DIGITS[bits >> (18 - 6 * at) & 63] } else { b'=' };
            text.push(char::from(digit));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
            ("abcde", "YWJjZGU="),
            ("abcdef", "YWJjZGVm"),
        ] {
            assert_eq!(of_bytes(bytes.as_bytes()), text);
        }
        assert_eq!(of_bytes(&[0xfb, 0xff, 0xfe]), "+//+");
        assert_eq!(of_floats(&[1.0]), "AACAPw==");
    }
}
