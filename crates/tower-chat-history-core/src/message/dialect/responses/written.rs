//! The items that history writes, and the changes of stored items.

use super::item::{CallKind, Item, Kind, content_part, screenshot};
use crate::{
    compat::{CallIdForm, Compat, SystemMessages},
    json::{self, Object, quoted},
    message::{
        Message, Role,
        dialect::{
            CallId, Media, Part, placeholder_part,
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

/// Returns the item in the form that servers accept: the arguments of a function are an object.
pub(super) fn sendable(json: &str) -> String {
    let call = Item::read(json).ok().filter(|item| !item.has_sendable_arguments());
    let sendable = call.and_then(|item| {
        let arguments = quoted(&CallKind::Function.call(&item.fields)?.arguments_object());
        Some(item.fields.with("arguments", &arguments))
    });
    sendable.unwrap_or_else(|| json.to_owned())
}

/// Returns the item with a text in place of the media for which `leaves_out` returns `true`. Returns `None` if there
/// are none.
pub(super) fn without_media(json: &str, leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool) -> Option<String> {
    let item = Item::read(json).ok()?;
    let name = match item.kind {
        Kind::Message(Role::User | Role::System | Role::Developer) => "content",
        Kind::Output(CallKind::Function | CallKind::Custom) => "output",
        Kind::Output(CallKind::Computer) => {
            let output = item.fields.get("output").filter(|output| *output != SCREENSHOT)?;
            let Part::Media { media, data, .. } = screenshot(output) else { return None };
            return leaves_out(media, data.as_deref()).then(|| item.fields.with("output", SCREENSHOT));
        }
        _ => return None,
    };

    let content = json::with_entries(item.fields.get(name)?, |part| {
        let fields = Object::read(part).filter(|fields| fields.get("text").is_none())?;
        let Part::Media { media, data, .. } = content_part(part, Part::Text) else { return None };
        leaves_out(media, data.as_deref()).then(|| placeholder_part("input_text", media, &fields))
    })?;
    Some(item.fields.with(name, &content))
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

/// Returns the item in the form that the reader accepts, or `None` if it stays as it is.
pub(super) fn adapted(message: &Message, compat: &Compat) -> Option<String> {
    let form = compat.call_ids;
    let role = match message.role() {
        Role::System | Role::Developer if compat.system != SystemMessages::Anywhere => Some("\"user\""),
        Role::Developer if compat.no_developer => Some("\"system\""),
        _ => None,
    };
    if role.is_none() && form == CallIdForm::Any {
        return None;
    }

    let item = Item::read(message.json()).ok()?;
    let mut json = role.map(|role| item.fields.with("role", role));
    if let Some(name) = call_field(&item)
        && let Some(id) = item.fields.text(name).filter(|id| !form.accepts(id))
    {
        json = Some(item.fields.with(name, &quoted(&form.fit(&id))));
    }

    // The id of an item only says that it's the provider's own. Items that the provider executed need theirs.
    let may_lack_id = matches!(item.kind, Kind::Message(_) | Kind::Reasoning | Kind::Output(_))
        || matches!(item.kind, Kind::Call(kind) if kind != CallKind::McpApproval);
    let own = item.fields.text("id").filter(|id| !id.is_empty() && !form.accepts(id));
    if may_lack_id && call_field(&item) != Some("id") && own.is_some() {
        let with_id = json.as_deref().unwrap_or(message.json());
        json = Some(Object::read(with_id)?.without("id"));
    }
    json
}

/// Returns the field with the id of the call of a call or an output.
fn call_field(item: &Item<'_>) -> Option<&'static str> {
    match item.kind {
        Kind::Call(CallKind::McpApproval) => Some("id"),
        Kind::Call(_) => Some("call_id"),
        Kind::Output(CallKind::LocalShell) if item.fields.get("call_id").is_none() => Some("id"),
        Kind::Output(kind) => Some(kind.answer_field()),
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
