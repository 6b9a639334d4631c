//! Images, audio, videos and files in another dialect.

use std::{borrow::Cow, fmt};

use super::{LeftOut, StatedContent};
use crate::message::dialect::Media;

/// The place of the data of an image, audio, a video or a file.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Source<'a> {
    /// A URL that a provider can fetch.
    Url(Cow<'a, str>),
    /// The data itself.
    Data {
        /// The media type, such as `image/png`.
        kind: Cow<'a, str>,
        /// The data, in base64.
        base64: Cow<'a, str>,
    },
    /// The provider keeps the data under an id of its own, or their form is unknown.
    Unavailable,
}

impl Source<'_> {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Url(text) | Self::Data { base64: text, .. } => text.len(),
            Self::Unavailable => 0,
        }
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(_) => write!(f, "Url({} bytes)", self.bytes()),
            Self::Data { kind, .. } => write!(f, "Data({kind}, {} bytes)", self.bytes()),
            Self::Unavailable => f.write_str("Unavailable"),
        }
    }
}

/// Returns the place of data with this URL, which can contain them.
pub(in crate::message::dialect) fn of_url(url: Cow<'_, str>) -> Source<'_> {
    if !is_data(&url) {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        return if is_web { Source::Url(url) } else { Source::Unavailable };
    }
    let found = url[DATA.len()..].split_once(',').and_then(|(kind, base64)| {
        let kind = kind.to_ascii_lowercase();
        let kind = kind.strip_suffix(";base64")?.split(';').next().unwrap_or_default();
        is_base64(base64).then(|| (registered(kind).to_owned(), base64.to_owned()))
    });
    match found {
        Some((kind, base64)) => Source::Data { kind: Cow::Owned(kind), base64: Cow::Owned(base64) },
        None => Source::Unavailable,
    }
}

/// The scheme of a URL that contains data.
const DATA: &str = "data:";

/// Returns `true` if a URL contains data.
pub(in crate::message::dialect) fn is_data(url: &str) -> bool {
    url.get(..DATA.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(DATA))
}

/// Returns the registered name of a media type.
fn registered(kind: &str) -> &str {
    if kind == "image/jpg" { "image/jpeg" } else { kind }
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

/// Returns the URL of an image, for dialects that take images by URL only. Returns `None` if it has none.
pub(in crate::message::dialect) fn image_url<'a>(source: &'a Source<'_>) -> Option<Cow<'a, str>> {
    match source {
        Source::Url(url) => Some(Cow::Borrowed(url)),
        Source::Data { kind, base64 } if kind.starts_with("image/") => Some(Cow::Owned(data_url(kind, base64))),
        _ => None,
    }
}

/// Returns the URL that contains these data.
pub(in crate::message::dialect) fn data_url(kind: &str, base64: &str) -> String {
    format!("data:{kind};base64,{base64}")
}

/// Returns the note in place of a part for which a dialect has no form, and counts the part.
pub(in crate::message::dialect) fn as_note(content: &StatedContent<'_>, left_out: &mut LeftOut) -> String {
    let StatedContent::Media { media, source, name } = content else { return String::new() };
    left_out.media += 1;
    let kind = match media {
        Media::Image | Media::ImageLowDetail => "image",
        Media::Audio => "audio",
        Media::Video => "video",
        Media::File => "file",
    };
    let url = if let Source::Url(url) = source { Some(url) } else { None };
    match name.as_ref().or(url) {
        Some(name) => format!("[{kind} that cannot be shown: {name}]"),
        None => format!("[{kind} that cannot be shown]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_data() {
        let data = |kind: &str| Source::Data { kind: kind.to_owned().into(), base64: "AA==".into() };
        for (url, expected) in [
            ("https://example.com/a.png", Source::Url("https://example.com/a.png".into())),
            ("http://example.com/a.png", Source::Url("http://example.com/a.png".into())),
            ("data:image/png;base64,AA==", data("image/png")),
            ("data:IMAGE/PNG;name=a.png;base64,AA==", data("image/png")),
            ("DATA:image/jpg;BASE64,AA==", data("image/jpeg")),
            ("data:image/png,AA", Source::Unavailable),
            ("data:image/png;base64,", Source::Unavailable),
            ("data:image/png;base64,\"", Source::Unavailable),
            ("data:", Source::Unavailable),
            ("däta:", Source::Unavailable),
            ("file:///etc/passwd", Source::Unavailable),
            ("", Source::Unavailable),
        ] {
            assert!(of_url(url.into()) == expected, "{url}");
        }
    }
}
