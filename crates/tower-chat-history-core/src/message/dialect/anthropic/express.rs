//! Statements of other dialects as messages.

use super::super::{
    Media,
    statement::{Expressed, LeftOut, Source, StatedContent, StatedId, Statement, as_note},
};
use crate::json::quoted;

/// The text of a failed result that has none. The API requires one.
const FAILED: &str = "[the call failed, and returned no text]";

/// The media types of images that the API takes.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The maximum length of a call's id that is kept, in bytes.
const MAX_ID: usize = 64;

/// Returns the messages that say this.
pub(super) fn messages(statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
    let left_out = &mut expressed.left_out;
    let mut messages = Vec::new();
    for run in statements.chunk_by(|one, next| kind(one) == kind(next)) {
        let (role, blocks): (&str, Vec<String>) = match run {
            [Statement::Result { .. }, ..] => {
                ("user", run.iter().map(|statement| result(statement, left_out)).collect())
            }
            [first, ..] if first.is_of_model() => ("assistant", reply(run)),
            _ => {
                // Each message of the user stays one.
                messages.extend(run.iter().filter_map(|statement| user(statement, left_out)));
                continue;
            }
        };
        if !blocks.is_empty() {
            messages.push(format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")));
        }
    }
    messages
}

/// Returns a number that is the same for statements of one message.
const fn kind(statement: &Statement<'_>) -> u8 {
    match statement {
        Statement::Model(_) | Statement::Call(_) => 0,
        Statement::Result { .. } => 1,
        Statement::User(_) | Statement::Instruction(_) => 2,
    }
}

fn id(id: &StatedId<'_>) -> String {
    quoted(&id.unique(is_legal_id))
}

fn is_legal_id(id: &str) -> bool {
    id.len() <= MAX_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the blocks of a reply: its texts, and then its calls.
fn reply(statements: &[Statement<'_>]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut calls = Vec::new();

    for statement in statements {
        match statement {
            Statement::Model(words) => blocks.extend(text(words)),
            Statement::Call(call) => {
                let id = id(&call.id);
                let name = quoted(&call.name());
                let input = call.arguments();
                calls.push(format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#));
            }
            _ => {}
        }
    }

    blocks.append(&mut calls);
    blocks
}

/// Returns the block of a text, or `None` for white space, which the API does not count as a text.
fn text(words: &str) -> Option<String> {
    (!words.trim().is_empty()).then(|| format!(r#"{{"type":"text","text":{}}}"#, quoted(words)))
}

/// Returns the message for what the user says, or for an instruction. It is said by the user, too, because a system
/// message may stand only in few places of the list.
fn user(statement: &Statement<'_>, left_out: &mut LeftOut) -> Option<String> {
    match statement {
        Statement::Instruction(words) => user_text(words),
        Statement::User(content) => match content.as_slice() {
            [StatedContent::Text(words)] => user_text(words),
            content => {
                let blocks: Vec<String> = content.iter().filter_map(|content| block(content, left_out)).collect();
                (!blocks.is_empty()).then(|| format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(",")))
            }
        },
        _ => None,
    }
}

fn user_text(words: &str) -> Option<String> {
    (!words.trim().is_empty()).then(|| format!(r#"{{"role":"user","content":{}}}"#, quoted(words)))
}

/// Returns the block of a text, an image or a document. Anything else becomes a text.
fn block(content: &StatedContent<'_>, left_out: &mut LeftOut) -> Option<String> {
    match content {
        StatedContent::Text(words) => text(words),
        media => media_block(media).or_else(|| text(&as_note(media, left_out))),
    }
}

fn media_block(content: &StatedContent<'_>) -> Option<String> {
    let StatedContent::Media { media, source, name } = content else { return None };
    let (block, source) = match (media, source) {
        (Media::Image | Media::ImageLowDetail, Source::Data { kind, base64: data }) => {
            IMAGES.contains(&&**kind).then(|| ("image", base64_source(kind, data)))?
        }
        (Media::File, Source::Data { kind, base64: data }) => {
            (kind == "application/pdf").then(|| ("document", base64_source(kind, data)))?
        }
        (Media::Image | Media::ImageLowDetail, Source::Url(url)) => ("image", of_url(url)?),
        (Media::File, Source::Url(url)) if is_pdf(url) => ("document", of_url(url)?),
        _ => return None,
    };
    let title = name.as_ref().filter(|_| block == "document" && !name.as_deref().unwrap_or_default().is_empty());
    let title = title.map_or_else(String::new, |title| format!(r#","title":{}"#, quoted(title)));
    Some(format!(r#"{{"type":"{block}","source":{source}{title}}}"#))
}

fn base64_source(kind: &str, base64: &str) -> String {
    format!(r#"{{"type":"base64","media_type":{},"data":{}}}"#, quoted(kind), quoted(base64))
}

/// Returns the source with this URL. The API fetches only what is encrypted on its way.
fn of_url(url: &str) -> Option<String> {
    url.starts_with("https://").then(|| format!(r#"{{"type":"url","url":{}}}"#, quoted(url)))
}

fn is_pdf(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.to_ascii_lowercase().ends_with(".pdf")
}

fn result(statement: &Statement<'_>, left_out: &mut LeftOut) -> String {
    let Statement::Result { call, content, is_error } = statement else { return String::new() };
    let mut said: Vec<&StatedContent<'_>> = content.iter().collect();
    said.retain(|content| !matches!(content, StatedContent::Text(text) if text.is_empty()));

    let content = match said.as_slice() {
        [] => quoted(if *is_error { FAILED } else { "" }),
        [StatedContent::Text(words)] => quoted(words),
        said => {
            let mut blocks = Vec::new();
            for content in said {
                blocks.push(match content {
                    StatedContent::Text(words) => format!(r#"{{"type":"text","text":{}}}"#, quoted(words)),
                    media => block(media, left_out).unwrap_or_default(),
                });
            }
            format!("[{}]", blocks.join(","))
        }
    };

    let error = if *is_error { r#","is_error":true"# } else { "" };
    format!(r#"{{"type":"tool_result","tool_use_id":{},"content":{content}{error}}}"#, id(call))
}
