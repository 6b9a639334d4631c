//! The parts of a message.

use std::borrow::Cow;

use super::{
    super::{CallId, Part},
    AnthropicMessages,
    element::{Block, Element, Kind, Speaker},
    source,
};
use crate::{json::Object, message::Message};

/// Visits the blocks in order. Each can have several parts.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let Ok(element) = Element::read(message.json()) else { return };
    if let Speaker::Unknown(role) = element.speaker {
        return visit(Part::Other { kind: Cow::Owned(role), text: Cow::Borrowed(message.json()) });
    }
    let (mut calls, mut answers) = (message.tool_calls().iter(), message.answers().iter());
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
    let mut said = |text| visit(Part::Result { call, text });
    let Some(blocks) = block.entries("content") else { return said(block.text_or_json("content")) };
    let text = |json: &'m str| {
        let block = Object::read(json)?;
        block.text("text").filter(|_| block.text("type").as_deref() == Some("text"))
    };
    let (texts, others): (Vec<_>, Vec<_>) =
        blocks.into_iter().map(|json| (json, text(json))).partition(|(_, text)| text.is_some());
    if texts.is_empty() {
        said(Cow::Borrowed(""));
    }
    texts.into_iter().filter_map(|(_, text)| text).for_each(said);
    others.into_iter().for_each(|(json, _)| other(json, visit));
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
        "mcp_tool_result" => source::content("mcp_tool_result", block.get("content").unwrap_or_default(), visit),
        "compaction" => {
            source::content("compaction", block.get("content").unwrap_or_default(), visit);
            sealed(&block, &["encrypted_content"], visit);
        }
        name if source::visit(name, &block, visit) => {}
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
                source::texts(KIND, &page, &["title", "url", "page_age"], visit);
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
            source::texts(KIND, &page, &["url"], visit);
            source::visit("document", &document, visit);
        }
        _ => visit(Part::Other { kind: Cow::Borrowed(KIND), text: Cow::Borrowed(json) }),
    }
}
