//! Sizes of images, audio and documents that a message contains as base64.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The bytes of an image's beginning that are decoded. They contain the size in pixels, unless a photo has a larger
/// preview before it.
const HEADER_BYTES: usize = 48 << 10;

/// The data, and its type if it is known.
struct Data<'a> {
    mime: Option<&'a str>,
    /// True if the content is base64. Otherwise it is a text with percent signs.
    is_base64: bool,
    content: &'a str,
}

impl<'a> Data<'a> {
    /// Splits a `data:` URL. Other data is base64 without a type.
    fn of(data: &'a str) -> Self {
        let url = data.strip_prefix("data:").and_then(|url| url.split_once(','));
        let Some((head, content)) = url else { return Self { mime: None, is_base64: true, content: data } };
        let mime = head.split(';').next().filter(|mime| !mime.is_empty());
        Self { mime, is_base64: head.ends_with(";base64"), content }
    }
}

/// Returns the number of bytes.
pub(super) fn bytes(data: &str) -> usize {
    let Data { is_base64, content, .. } = Data::of(data);
    if is_base64 { content.trim_end_matches('=').len() / 4 * 3 } else { content.len() }
}

/// Returns the text, if the data has a type of text.
pub(super) fn text(data: &str) -> Option<Cow<'_, str>> {
    let Data { mime, is_base64, content } = Data::of(data);
    let is_text = |mime: &str| mime.starts_with("text/") || mime == "application/json";
    mime.filter(|mime| is_text(mime))?;
    if !is_base64 {
        return Some(Cow::Borrowed(content));
    }
    String::from_utf8(STANDARD.decode(content).ok()?).ok().map(Cow::Owned)
}

/// Returns the width and the height of an image in pixels, if its header has them.
pub(super) fn pixels(data: &str) -> Option<(u64, u64)> {
    let Data { is_base64, content, .. } = Data::of(data);
    if !is_base64 {
        return None;
    }
    let content = content.trim_end_matches('=').as_bytes();
    let whole = content.len().min(HEADER_BYTES / 3 * 4) / 4 * 4;
    let header = STANDARD.decode(&content[..whole]).ok()?;
    let size = imagesize::blob_size(&header).ok()?;
    Some((size.width as u64, size.height as u64))
}

#[cfg(test)]
pub(in crate::context::tokens) mod tests {
    use super::*;

    /// Returns the `data:` URL of the beginning of a PNG image with this size.
    pub(in crate::context::tokens) fn png(width: u32, height: u32) -> String {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        png.extend([8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        format!("data:image/png;base64,{}", STANDARD.encode(png))
    }

    #[test]
    fn the_size_of_an_image_is_read_from_its_header() {
        assert_eq!(pixels(&png(1_920, 1_080)), Some((1_920, 1_080)));
        let png = png(7, 9);
        assert_eq!(pixels(png.split_once(',').unwrap().1), Some((7, 9)), "base64 without a type");
        let gif = STANDARD.encode(b"GIF89a\x0a\0\x14\0\0\0\0");
        assert_eq!(pixels(&gif), Some((10, 20)));
        let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\0\x20\0\x40\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        assert_eq!(pixels(&STANDARD.encode(jpeg)), Some((64, 32)));
        for data in ["", "data:", "data:,", "data:image/png,x", "=", "AAAA", "not base64", "data:image/png;base64,*"] {
            assert_eq!(pixels(data), None, "{data}");
        }
    }

    #[test]
    fn the_bytes_of_data_are_those_after_decoding() {
        for (data, expected) in [("", 0), ("AAAA", 3), ("data:a/b;base64,AAAAAAAA", 6), ("data:a/b,abc", 3)] {
            assert_eq!(bytes(data), expected, "{data}");
        }
    }

    #[test]
    fn only_types_of_text_have_a_text() {
        let url = |mime: &str| format!("data:{mime};base64,{}", STANDARD.encode("some text"));
        for mime in ["text/plain", "text/csv;charset=utf-8", "application/json"] {
            assert_eq!(text(&url(mime)).as_deref(), Some("some text"), "{mime}");
        }
        assert_eq!(text("data:text/plain,a%20b").as_deref(), Some("a%20b"));
        for data in [url("application/pdf"), url(""), STANDARD.encode("some text"), "data:text/plain;base64,*".into()] {
            assert_eq!(text(&data), None, "{data}");
        }
    }
}
