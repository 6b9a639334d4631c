//! Images, documents and search results.

use std::borrow::Cow;

use super::super::{Media, Part};
use crate::json::{self, Object};

/// Visits the parts of a block that is a medium or a text of another kind: an image, a document, a search result.
/// Returns `false` if it is none of these.
pub(super) fn visit<'m>(kind: &str, block: &Object<'m>, visit: &mut dyn FnMut(Part<'m>)) -> bool {
    match kind {
        "image" => {
            let data = block.get("source").and_then(data);
            visit(Part::Media { media: Media::Image, kind: Cow::Borrowed("image"), words: None, data });
        }
        "document" => {
            texts("document", block, &["title", "context"], visit);
            document(block.get("source").unwrap_or_default(), visit);
        }
        "search_result" => {
            texts("search_result", block, &["title", "source"], visit);
            content("search_result", block.get("content").unwrap_or_default(), visit);
        }
        _ => return false,
    }
    true
}

/// Visits the fields of a block that are texts.
pub(super) fn texts<'m>(kind: &'static str, block: &Object<'m>, names: &[&str], visit: &mut dyn FnMut(Part<'m>)) {
    for text in names.iter().filter_map(|name| block.text(name)) {
        visit(Part::Other { kind: Cow::Borrowed(kind), text });
    }
}

/// Visits a content within another block: a text, or a list of texts and images. Blocks of other types in it are
/// visited as they are written.
pub(super) fn content<'m>(kind: &'static str, content: &'m str, visit: &mut dyn FnMut(Part<'m>)) {
    if let Some(text) = json::text(content) {
        return visit(Part::Other { kind: Cow::Borrowed(kind), text });
    }
    for json in json::entries(content).unwrap_or_default() {
        let block = Object::read(json);
        let name = block.as_ref().and_then(|block| block.text("type")).unwrap_or_default();
        match block {
            Some(block) if name == "image" => {
                self::visit("image", &block, visit);
            }
            block => {
                let text = block.filter(|_| name == "text").and_then(|block| block.text("text"));
                visit(Part::Other { kind: Cow::Borrowed(kind), text: text.unwrap_or(Cow::Borrowed(json)) });
            }
        }
    }
}

/// Visits the source of a document: a text, a list of blocks, or a file.
fn document<'m>(source: &'m str, visit: &mut dyn FnMut(Part<'m>)) {
    let Some(fields) = Object::read(source) else {
        return visit(Part::Media { media: Media::File, kind: Cow::Borrowed("document"), words: None, data: None });
    };
    match fields.text("type").as_deref() {
        Some("text") => texts("document", &fields, &["data"], visit),
        Some("content") => content("document", fields.get("content").unwrap_or_default(), visit),
        _ => {
            visit(Part::Media { media: Media::File, kind: Cow::Borrowed("document"), words: None, data: data(source) });
        }
    }
}

/// Returns the data of a source: base64. A source with a URL or a file id has none.
fn data(source: &str) -> Option<Cow<'_, str>> {
    let source = Object::read(source)?;
    source.text("data").or_else(|| source.text("url").filter(|url| url.starts_with("data:")))
}
