//! Statements of other dialects as items.

use super::written;
use crate::{
    json::quoted,
    message::dialect::{
        Media,
        statement::{Expressed, LeftOut, Source, StatedContent, StatedId, Statement, as_note, data_url, image_url},
    },
    role::Role,
};

/// The maximum length of a call's id, in bytes.
const MAX_ID: usize = 64;

/// Returns the items that say this.
pub(super) fn items(statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
    let left_out = &mut expressed.left_out;
    let said = |role: Role, text: &str| (!text.is_empty()).then(|| written::message(&role, text));
    let item = |statement: &Statement<'_>| match statement {
        Statement::Instruction(text) => said(Role::System, text),
        Statement::Model(text) => said(Role::Assistant, text),
        Statement::User(content) => match content.as_slice() {
            [StatedContent::Text(text)] => said(Role::User, text),
            content => {
                let parts = parts(content, left_out);
                let item = || format!(r#"{{"type":"message","role":"user","content":[{}]}}"#, parts.join(","));
                (!parts.is_empty()).then(item)
            }
        },
        Statement::Call(call) => {
            let (id, name, arguments) = (id(&call.id), quoted(&call.name()), quoted(&call.arguments()));
            Some(format!(r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":{arguments}}}"#))
        }
        Statement::Result { call, content, .. } => Some(output(call, content, left_out)),
    };
    statements.iter().filter_map(item).collect()
}

fn id(id: &StatedId<'_>) -> String {
    quoted(&id.visible_ascii(MAX_ID))
}

fn output(call: &StatedId<'_>, content: &[StatedContent<'_>], left_out: &mut LeftOut) -> String {
    let output = match content {
        [StatedContent::Text(text)] => quoted(text),
        content => {
            let parts = parts(content, left_out);
            if parts.is_empty() { quoted("") } else { format!("[{}]", parts.join(",")) }
        }
    };
    format!(r#"{{"type":"function_call_output","call_id":{},"output":{output}}}"#, id(call))
}

fn parts(content: &[StatedContent<'_>], left_out: &mut LeftOut) -> Vec<String> {
    content.iter().filter_map(|content| part(content, left_out)).collect()
}

fn part(content: &StatedContent<'_>, left_out: &mut LeftOut) -> Option<String> {
    let text = |text: &str| format!(r#"{{"type":"input_text","text":{}}}"#, quoted(text));
    match content {
        StatedContent::Text(words) => (!words.is_empty()).then(|| text(words)),
        media => Some(media_part(media).unwrap_or_else(|| text(&as_note(media, left_out)))),
    }
}

/// Returns the part for an image or a file, or `None` if the format has none.
fn media_part(content: &StatedContent<'_>) -> Option<String> {
    let StatedContent::Media { media, source, name } = content else { return None };
    match (media, source) {
        (Media::Image | Media::ImageLowDetail, source) => {
            let url = quoted(&image_url(source)?);
            let detail = if *media == Media::ImageLowDetail { "low" } else { "auto" };
            Some(format!(r#"{{"type":"input_image","image_url":{url},"detail":"{detail}"}}"#))
        }
        (Media::File, Source::Url(url)) => Some(format!(r#"{{"type":"input_file","file_url":{}}}"#, quoted(url))),
        (Media::File, Source::Data { kind, base64 }) => {
            let name = quoted(name.as_deref().unwrap_or("document.pdf"));
            let data = quoted(&data_url(kind, base64));
            Some(format!(r#"{{"type":"input_file","filename":{name},"file_data":{data}}}"#))
        }
        _ => None,
    }
}
