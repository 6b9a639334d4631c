//! The parts of a message.

use std::borrow::Cow;

use super::{
    AnthropicMessages,
    element::{Block, Element, Kind, Speaker},
};
use crate::{
    json::{self, Object},
    message::{
        Message,
        dialect::{CallId, Media, Part, placeholder_part},
    },
};

/// Visits the blocks in order. Each can have several parts.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let Ok(element) = Element::read(message.json()) else { return };
    if let Speaker::Unknown(role) = element.speaker {
        return visit(Part::Other { kind: Cow::Owned(role), text: Cow::Borrowed(message.json()) });
    }

    let mut calls = message.tool_calls().iter();
    let mut answers = message.answers().iter();
    for Block { json, kind } in element.blocks {
        match kind {
            Kind::Text(text) => visit(Part::Text(text)),
            Kind::Call(_) => calls.by_ref().take(1).for_each(|call| visit(Part::Call(call))),
            Kind::Result(_) => answers.by_ref().take(1).for_each(|call| result(call, json, visit)),
            Kind::Thinking { .. } => thinking(json, visit),
            _ => other(json, visit),
        }
    }
}

fn thinking<'m>(json: &'m str, visit: &mut dyn FnMut(Part<'m>)) {
    let Some(block) = Object::read(json) else { return };
    if let Some(text) = block.text("thinking").filter(|text| !text.is_empty()) {
        visit(Part::Reasoning(text));
    }
    sealed(&block, &["signature", "data"], visit);
}

/// Visits the fields that only the provider can read, by their size.
fn sealed<'m>(block: &Object<'m>, names: &[&str], visit: &mut dyn FnMut(Part<'m>)) {
    for name in names {
        let bytes = block.get(name).map_or(0, |json| json.trim_matches('"').len());
        if bytes > 0 {
            visit(Part::Sealed(bytes));
        }
    }
}

/// Visits the content of a result. The first part is its text, even if it is empty.
fn result<'m>(call: &'m CallId, json: &'m str, visit: &mut dyn FnMut(Part<'m>)) {
    let Some(block) = Object::read(json) else { return };
    let Some(blocks) = block.entries("content") else {
        return visit(Part::Result { call, text: block.text_or_json("content") });
    };

    let mut texts = Vec::new();
    let mut others = Vec::new();
    for json in blocks {
        match text_of(json) {
            Some(text) => texts.push(text),
            None => others.push(json),
        }
    }
    if texts.is_empty() {
        texts.push(Cow::Borrowed(""));
    }

    for text in texts {
        visit(Part::Result { call, text });
    }
    for json in others {
        other(json, visit);
    }
}

/// Returns the text of a block if it is of type `text`.
fn text_of(json: &str) -> Option<Cow<'_, str>> {
    let block = Object::read(json)?;
    block.text("text").filter(|_| block.text("type").as_deref() == Some("text"))
}

/// Visits a block of another type.
fn other<'m>(json: &'m str, visit: &mut dyn FnMut(Part<'m>)) {
    let Some(block) = Object::read(json) else {
        return visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) });
    };
    let kind = block.text("type").unwrap_or_default();
    match &*kind {
        kind if AnthropicMessages::is_server_call(kind) => {
            visit(Part::OtherCall { name: block.text_or_json("name"), arguments: block.text_or_json("input") });
        }
        "web_search_tool_result" => search_results(&block, visit),
        "web_fetch_tool_result" => fetched(json, &block, visit),
        "mcp_tool_result" => content("mcp_tool_result", block.get("content").unwrap_or_default(), visit),
        "compaction" => {
            content("compaction", block.get("content").unwrap_or_default(), visit);
            sealed(&block, &["encrypted_content"], visit);
        }
        name if medium(name, &block, visit) => {}
        _ => visit(Part::Other { text: Cow::Borrowed(json), kind }),
    }
}

/// Visits the pages that the provider found. Their contents are encrypted.
fn search_results<'m>(block: &Object<'m>, visit: &mut dyn FnMut(Part<'m>)) {
    const KIND: &str = "web_search_tool_result";
    let Some(pages) = block.entries("content") else {
        return visit(Part::Other { kind: Cow::Borrowed(KIND), text: block.text_or_json("content") });
    };
    for page in pages {
        match Object::read(page) {
            Some(page) => {
                texts(KIND, &page, &["title", "url", "page_age"], visit);
                sealed(&page, &["encrypted_content"], visit);
            }
            None => visit(Part::Other { kind: Cow::Borrowed(KIND), text: Cow::Borrowed(page) }),
        }
    }
}

/// Visits a page that the provider fetched: a document.
fn fetched<'m>(json: &'m str, block: &Object<'m>, visit: &mut dyn FnMut(Part<'m>)) {
    const KIND: &str = "web_fetch_tool_result";
    let page = block.object("content");
    let document = page.as_ref().and_then(|page| page.object("content"));
    match (page, document) {
        (Some(page), Some(document)) => {
            texts(KIND, &page, &["url"], visit);
            medium("document", &document, visit);
        }
        _ => visit(Part::Other { kind: Cow::Borrowed(KIND), text: Cow::Borrowed(json) }),
    }
}

/// Visits the parts of a block that is a medium or a text of another kind: an image, a document, a search result.
/// Returns `false` if it is none of these.
fn medium<'m>(kind: &str, block: &Object<'m>, visit: &mut dyn FnMut(Part<'m>)) -> bool {
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
                medium("image", &block, visit);
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

/// Returns the message with a text in place of the images and documents for which `leaves_out` returns `true`. Returns
/// `None` if there are none.
pub(super) fn without_media(json: &str, leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool) -> Option<String> {
    let message = Object::read(json)?;
    let content = json::with_entries(message.get("content")?, |json| {
        let block = Object::read(json)?;
        if block.text("type")? != "tool_result" {
            return medium_left_out(&block, leaves_out);
        }
        let content =
            json::with_entries(block.get("content")?, |json| medium_left_out(&Object::read(json)?, leaves_out))?;
        Some(block.with("content", &content))
    })?;
    Some(message.with("content", &content))
}

/// Returns the text in place of this block, if it is an image or a document for which `leaves_out` returns `true`.
/// Documents that are texts stay.
fn medium_left_out(block: &Object<'_>, leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool) -> Option<String> {
    let source = block.get("source").unwrap_or_default();
    let media = match &*block.text("type")? {
        "image" => Media::Image,
        "document" => {
            let kind = Object::read(source).and_then(|source| source.text("type"));
            if matches!(kind.as_deref(), Some("text" | "content")) {
                return None;
            }
            Media::File
        }
        _ => return None,
    };
    leaves_out(media, data(source).as_deref()).then(|| placeholder_part("text", media, block))
}
