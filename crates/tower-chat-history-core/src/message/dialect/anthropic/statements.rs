//! The statements of messages.

use std::borrow::Cow;

use super::{
    super::{
        Media,
        statement::{LeftOut, Source, StatedCall, StatedContent, StatedId, Statement, of_url},
    },
    AnthropicMessages,
    element::{Block, Element, Kind, Speaker},
};
use crate::{
    json::{self, Object},
    message::Message,
};

/// Returns the statements of a message, block by block.
pub(super) fn of<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let Ok(element) = Element::read(message.json()) else { return Vec::new() };
    match element.speaker {
        Speaker::Unknown(_) => {
            left_out.other += 1;
            Vec::new()
        }
        Speaker::System => instruction(element, left_out),
        Speaker::Model => reply(message, element, left_out),
        Speaker::User => user(message, element, left_out),
    }
}

fn instruction<'m>(element: Element<'m>, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut words = String::new();
    for Block { kind, .. } in element.blocks {
        match kind {
            Kind::Text(text) => words.push_str(&text),
            _ => left_out.other += 1,
        }
    }
    if words.is_empty() { Vec::new() } else { vec![Statement::Instruction(Cow::Owned(words))] }
}

fn reply<'m>(message: &'m Message, element: Element<'m>, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut said = Vec::new();
    let mut calls = message.tool_calls().iter();
    let mut has_reasoning = false;
    let mut follows_text = false;

    for Block { json, kind } in element.blocks {
        let mut is_text = false;
        match kind {
            Kind::Text(text) => {
                is_text = true;
                match said.last_mut() {
                    // A text with citations comes in several blocks.
                    Some(Statement::Model(words)) if follows_text => words.to_mut().push_str(&text),
                    _ => said.push(Statement::Model(text)),
                }
            }
            Kind::Call(_) => said.extend(calls.next().map(|call| Statement::Call(StatedCall::new(call)))),
            Kind::Thinking { .. } => has_reasoning = true,
            Kind::Compaction => left_out.compactions += 1,
            Kind::ServerCall(_) | Kind::ServerResult(_) => left_out.provider_calls += 1,
            Kind::Other { .. } if is_of_server(json) => left_out.provider_calls += 1,
            Kind::Other { .. } | Kind::Unsound | Kind::Result(_) | Kind::Orphan => left_out.other += 1,
        }
        follows_text = is_text;
    }

    left_out.reasoning += usize::from(has_reasoning);
    said.retain(|statement| !matches!(statement, Statement::Model(text) if text.trim().is_empty()));
    said
}

/// Returns `true` for a call that the provider executes, or its result.
fn is_of_server(json: &str) -> bool {
    let kind = Object::read(json).and_then(|block| block.text("type")).unwrap_or_default();
    AnthropicMessages::is_server_call(&kind) || AnthropicMessages::is_server_result(&kind)
}

/// Returns the results of a message, and then what the user says in it.
fn user<'m>(message: &'m Message, element: Element<'m>, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut results = Vec::new();
    let mut said = Vec::new();
    let mut answers = message.answers().iter();

    for Block { json, kind } in element.blocks {
        match kind {
            Kind::Text(text) if text.is_empty() => {}
            Kind::Text(text) => said.push(StatedContent::Text(text)),
            Kind::Result(_) => results.extend(answers.next().map(|call| result(StatedId::new(call), json, left_out))),
            _ => content(json, &mut said, left_out),
        }
    }

    if !said.is_empty() {
        results.push(Statement::User(said));
    }
    results
}

fn result<'m>(call: StatedId<'m>, json: &'m str, left_out: &mut LeftOut) -> Statement<'m> {
    let mut said = Vec::new();
    let mut is_error = false;
    if let Some(block) = Object::read(json) {
        is_error = block.get("is_error") == Some("true");
        match block.entries("content") {
            Some(blocks) => blocks.into_iter().for_each(|json| content(json, &mut said, left_out)),
            None => said.push(StatedContent::Text(block.text_or_json("content"))),
        }
    }
    Statement::Result { call, content: said, is_error }
}

/// Adds a block of a user's content or of a result.
fn content<'m>(json: &'m str, said: &mut Vec<StatedContent<'m>>, left_out: &mut LeftOut) {
    let Some(block) = Object::read(json) else {
        match json::text(json) {
            Some(text) => said.push(StatedContent::Text(text)),
            None => left_out.other += 1,
        }
        return;
    };

    match block.text("type").as_deref() {
        Some("text") => said.extend(nonempty(&block, "text").map(StatedContent::Text)),
        Some("image") => {
            let source = block.get("source").map_or(Source::Unavailable, source);
            said.push(StatedContent::Media { media: Media::Image, source, name: None });
        }
        Some("document") => document(&block, said, left_out),
        // A file that the provider keeps under an id.
        Some("container_upload") => {
            said.push(StatedContent::Media { media: Media::File, source: Source::Unavailable, name: None });
        }
        Some("search_result") => {
            said.extend(nonempty(&block, "title").map(StatedContent::Text));
            said.extend(nonempty(&block, "source").map(StatedContent::Text));
            inner(block.get("content").unwrap_or_default(), said, left_out);
        }
        _ => left_out.other += 1,
    }
}

/// Returns a member that is a text, unless it is empty.
fn nonempty<'m>(block: &Object<'m>, name: &str) -> Option<Cow<'m, str>> {
    block.text(name).filter(|text| !text.is_empty())
}

/// Adds the blocks within a block: a text, or a list of texts and images. Other blocks in it are left out, so that
/// nothing recurses.
fn inner<'m>(json: &'m str, said: &mut Vec<StatedContent<'m>>, left_out: &mut LeftOut) {
    if let Some(text) = json::text(json) {
        return said.push(StatedContent::Text(text));
    }
    for json in json::entries(json).unwrap_or_default() {
        let block = Object::read(json);
        let kind = block.as_ref().and_then(|block| block.text("type")).unwrap_or_default();
        match (&*kind, block) {
            ("text", Some(block)) => said.extend(block.text("text").map(StatedContent::Text)),
            ("image", Some(block)) => {
                let source = block.get("source").map_or(Source::Unavailable, source);
                said.push(StatedContent::Media { media: Media::Image, source, name: None });
            }
            _ => left_out.other += 1,
        }
    }
}

fn document<'m>(block: &Object<'m>, said: &mut Vec<StatedContent<'m>>, left_out: &mut LeftOut) {
    let json = block.get("source").unwrap_or_default();
    let title = nonempty(block, "title");
    let context = nonempty(block, "context");
    let fields = Object::read(json);
    let kind = fields.as_ref().and_then(|fields| fields.text("type")).unwrap_or_default();
    match (&*kind, fields) {
        ("text", Some(fields)) => {
            said.extend(title.into_iter().chain(context).chain(fields.text("data")).map(StatedContent::Text));
        }
        ("content", Some(fields)) => {
            said.extend(title.into_iter().chain(context).map(StatedContent::Text));
            inner(fields.get("content").unwrap_or_default(), said, left_out);
        }
        _ => {
            said.extend(context.map(StatedContent::Text));
            said.push(StatedContent::Media { media: Media::File, source: source(json), name: title });
        }
    }
}

/// Returns the place of the data of an image or a document.
fn source(json: &str) -> Source<'_> {
    let Some(source) = Object::read(json) else { return Source::Unavailable };
    match (source.text("type").as_deref(), source.text("url"), source.text("media_type"), source.text("data")) {
        (Some("url"), Some(url), ..) => of_url(url),
        (Some("base64"), _, Some(kind), Some(base64)) => Source::Data { kind, base64 },
        _ => Source::Unavailable,
    }
}
