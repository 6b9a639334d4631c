//! The statements of items.

use std::borrow::Cow;

use super::{
    item::{Item, Kind},
    kind::CallKind,
};
use crate::{
    json::{self, Object, entries},
    message::Message,
    message::dialect::{
        CallId, Media,
        statement::{LeftOut, Source, StatedContent, StatedId, Statement, of_parts, of_url},
    },
    role::Role,
};

/// Returns the statements of an item.
pub(super) fn of<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let Ok(item) = Item::read(message.json()) else { return Vec::new() };
    match (&item.kind, message.answers().first()) {
        (Kind::Message(Role::User), _) => {
            let content = contents(item.fields.get("content").unwrap_or_default(), left_out);
            if content.is_empty() { Vec::new() } else { vec![Statement::User(content)] }
        }
        (Kind::Compaction, _) => {
            left_out.compactions += 1;
            Vec::new()
        }
        (Kind::OfServer, _) => {
            left_out.provider_calls += 1;
            Vec::new()
        }
        (Kind::Reasoning, _) => {
            left_out.reasoning += 1;
            Vec::new()
        }
        // It asks for a compaction, and says nothing.
        (Kind::Trigger, _) => Vec::new(),
        (Kind::Unknown | Kind::Output(_), None) => {
            left_out.other += 1;
            Vec::new()
        }
        (Kind::Output(CallKind::Function | CallKind::Custom | CallKind::Computer), Some(call)) => {
            vec![output(call, &item, left_out)]
        }
        (Kind::Output(CallKind::McpApproval), Some(call)) => {
            let approves = item.fields.get("approve") == Some("true");
            let text = StatedContent::Text(Cow::Borrowed(if approves { "approved" } else { "not approved" }));
            vec![Statement::Result { call: StatedId::new(call), content: vec![text], is_error: false }]
        }
        _ => of_parts(message, left_out),
    }
}

fn output<'m>(call: &'m CallId, item: &Item<'m>, left_out: &mut LeftOut) -> Statement<'m> {
    let json = item.fields.get("output").unwrap_or_default();
    let content = if json.starts_with('[') {
        contents(json, left_out)
    } else if json.starts_with('{') {
        // The screenshot of a computer.
        content(json, left_out).into_iter().collect()
    } else {
        vec![StatedContent::Text(json::text_or_json(json))]
    };
    Statement::Result { call: StatedId::new(call), content, is_error: false }
}

/// Returns a content: a text, or a list of parts.
fn contents<'m>(json: &'m str, left_out: &mut LeftOut) -> Vec<StatedContent<'m>> {
    if let Some(text) = json::text(json) {
        return if text.is_empty() { Vec::new() } else { vec![StatedContent::Text(text)] };
    }
    entries(json).unwrap_or_default().into_iter().filter_map(|json| content(json, left_out)).collect()
}

/// Returns a part of a content, or `None` if its kind is unknown.
fn content<'m>(json: &'m str, left_out: &mut LeftOut) -> Option<StatedContent<'m>> {
    let Some(part) = Object::read(json) else {
        left_out.other += 1;
        return None;
    };
    let kind = part.text("type").unwrap_or_default();
    let url = |name: &str| part.text(name).map(of_url);
    let (media, source) = match &*kind {
        "input_image" | "computer_screenshot" => {
            let is_low = part.text("detail").is_some_and(|detail| detail == "low");
            (if is_low { Media::ImageLowDetail } else { Media::Image }, url("image_url"))
        }
        "input_file" => (Media::File, url("file_data").or_else(|| url("file_url"))),
        "input_audio" => (Media::Audio, None),
        "input_video" => (Media::Video, None),
        _ => {
            let text = part.text("text").or_else(|| part.text("refusal"));
            left_out.other += usize::from(text.is_none());
            return text.filter(|text| !text.is_empty()).map(StatedContent::Text);
        }
    };
    let source = source.unwrap_or(Source::Unavailable);
    Some(StatedContent::Media { media, source, name: part.text("filename") })
}
