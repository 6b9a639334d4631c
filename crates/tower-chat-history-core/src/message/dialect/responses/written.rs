//! The items that history writes, and the changes of stored items.

use super::item::{CallKind, Item, Kind};
use crate::{
    json::quoted,
    message::{
        Role,
        dialect::{
            CallId, Media,
            statement::{Expressed, LeftOut, Source, StatedContent, StatedId, Statement, as_note, data_url, image_url},
        },
    },
};

/// The result of a call that was abandoned. It is constant, so that it never changes a part of a prompt that was
/// already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// A transparent image of one pixel, in place of a screenshot.
const SCREENSHOT: &str = concat!(
    r#"{"type":"computer_screenshot","image_url":"data:image/png;base64,"#,
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
    r#""}"#
);

/// Returns a message with this text.
pub(super) fn message(role: &Role, text: &str) -> String {
    let role = match role {
        Role::Assistant | Role::System | Role::Developer => role.as_str(),
        _ => "user",
    };
    format!(r#"{{"type":"message","role":"{role}","content":{}}}"#, quoted(text))
}

/// Returns the constant output of a call that was abandoned.
pub(super) fn abandoned(call: &CallId) -> String {
    let kind = CallKind::of_space(call.space());
    let text = quoted(ABANDONED);
    let rest = match kind {
        CallKind::Function | CallKind::Custom | CallKind::LocalShell => format!(r#""output":{text}"#),
        CallKind::ToolSearch => r#""execution":"client","status":"completed","tools":[]"#.to_owned(),
        CallKind::Shell => format!(r#""output":[{{"stdout":"","stderr":{text},"outcome":{{"type":"timeout"}}}}]"#),
        CallKind::Computer => format!(r#""output":{SCREENSHOT}"#),
        CallKind::ApplyPatch => format!(r#""status":"failed","output":{text}"#),
        CallKind::McpApproval => r#""approve":false"#.to_owned(),
    };
    let name = kind.output_type();
    let field = kind.answer_field();
    let id = quoted(call.as_str());
    format!(r#"{{"type":"{name}","{field}":{id},{rest}}}"#)
}

/// Returns the output with this text in place of its own one, or `None` if it must stay.
pub(super) fn cleared(json: &str, placeholder: &str) -> Option<String> {
    let item = Item::read(json).ok()?;
    let Kind::Output(kind) = item.kind else { return None };
    let text = quoted(placeholder);
    let output = match kind {
        CallKind::Function | CallKind::Custom | CallKind::LocalShell | CallKind::ApplyPatch => text,
        CallKind::Shell => {
            format!(r#"[{{"stdout":{text},"stderr":"","outcome":{{"type":"exit","exit_code":0}}}}]"#)
        }
        CallKind::Computer => SCREENSHOT.to_owned(),
        CallKind::ToolSearch | CallKind::McpApproval => return None,
    };
    Some(item.fields.with("output", &output))
}

/// Returns the item without everything that only its origin accepts, or `None` if nothing is left.
pub(super) fn unbound(json: &str) -> Option<String> {
    let item = Item::read(json).ok()?;
    match item.kind {
        Kind::Message(_) | Kind::Call(_) => {
            // The provider knows by the id that reasoning came before the item, and requires it.
            let without = item.fields.without("id");
            let is_blank = Item::read(&without).map_or(true, |item| item.is_blank());
            (!is_blank).then_some(without)
        }
        // The format requires the ids of items that the provider made for itself.
        _ => None,
    }
}

/// The maximum length of a call's id, in bytes.
const MAX_ID: usize = 64;

/// Returns the items that say this.
pub(super) fn items(statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
    let left_out = &mut expressed.left_out;
    let mut items = Vec::new();

    for statement in statements {
        match statement {
            Statement::Instruction(text) => items.extend(said(&Role::System, text)),
            Statement::Model(text) => items.extend(said(&Role::Assistant, text)),
            Statement::User(content) => items.extend(user(content, left_out)),
            Statement::Call(call) => {
                let id = id(&call.id);
                let name = quoted(&call.name());
                let arguments = quoted(&call.arguments());
                let item =
                    format!(r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":{arguments}}}"#);
                items.push(item);
            }
            Statement::Result { call, content, .. } => items.push(output(call, content, left_out)),
        }
    }

    items
}

fn said(role: &Role, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| message(role, text))
}

/// Returns the message of the user, or `None` if it says nothing.
fn user(content: &[StatedContent<'_>], left_out: &mut LeftOut) -> Option<String> {
    if let [StatedContent::Text(text)] = content {
        return said(&Role::User, text);
    }
    let parts = parts(content, left_out);
    (!parts.is_empty()).then(|| format!(r#"{{"type":"message","role":"user","content":[{}]}}"#, parts.join(",")))
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
    match content {
        StatedContent::Text(words) => (!words.is_empty()).then(|| text_part(words)),
        media => Some(media_part(media).unwrap_or_else(|| text_part(&as_note(media, left_out)))),
    }
}

fn text_part(text: &str) -> String {
    format!(r#"{{"type":"input_text","text":{}}}"#, quoted(text))
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
