//! The parts and the statements of an item.

use std::borrow::Cow;

use super::item::{CallKind, Item, Kind, screenshot, visit_content};
use crate::{
    json::{self, Object, entries},
    message::{
        Message, Role,
        dialect::{
            CallId, Media, Part,
            statement::{LeftOut, Source, StatedContent, StatedId, Statement, of_parts, of_url},
        },
    },
};

/// Visits the parts of an item.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let json = message.json();
    let Ok(item) = Item::read(json) else { return };
    match (&item.kind, message.answers().first()) {
        (Kind::Message(Role::Other(role)), _) => visit(whole(Cow::Owned(role.to_string()), json)),
        (Kind::Message(_), _) => {
            if let Some(json) = item.fields.get("content") {
                visit_content(json, Part::Text, visit);
            }
        }
        (Kind::Reasoning, _) => visit_reasoning(&item, visit),
        (Kind::Compaction, _) => item.sealed().into_iter().for_each(|sealed| visit(Part::Sealed(sealed.len()))),
        (Kind::Call(_), _) => message.tool_calls().iter().for_each(|call| visit(Part::Call(call))),
        (Kind::Output(kind), Some(call)) => visit_output(*kind, call, &item, visit),
        (Kind::OfServer, _) => visit(of_server(item, json)),
        (Kind::Output(_), None) | (Kind::Trigger | Kind::Unknown, _) => visit(whole(item.name, json)),
    }
}

/// Returns the part that stands for a whole item.
fn whole<'m>(kind: Cow<'m, str>, json: &'m str) -> Part<'m> {
    Part::Other { kind, text: Cow::Borrowed(json) }
}

fn visit_reasoning<'m>(item: &Item<'m>, visit: &mut dyn FnMut(Part<'m>)) {
    for json in ["summary", "content"].iter().filter_map(|name| item.fields.entries(name)).flatten() {
        let text = Object::read(json).and_then(|entry| entry.text("text"));
        visit(text.map_or(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) }, Part::Reasoning));
    }
    item.sealed().into_iter().for_each(|sealed| visit(Part::Sealed(sealed.len())));
}

fn visit_output<'m>(kind: CallKind, call: &'m CallId, item: &Item<'m>, visit: &mut dyn FnMut(Part<'m>)) {
    let result = |text| Part::Result { call, text };
    let output = item.fields.get("output");
    let name = item.name.clone();
    match kind {
        CallKind::Function | CallKind::Custom => match output {
            Some(json) if json.starts_with('[') => visit_content(json, result, visit),
            _ => visit(result(item.fields.text_or_json("output"))),
        },
        CallKind::LocalShell | CallKind::ApplyPatch => visit(result(item.fields.text_or_json("output"))),
        CallKind::Shell => visit_commands(output.unwrap_or_default(), result, visit),
        CallKind::Computer => visit(screenshot(output.unwrap_or_default())),
        // The tools must stay, because the model may call them.
        CallKind::ToolSearch => visit(Part::Other { kind: name, text: item.fields.text_or_json("tools") }),
        CallKind::McpApproval => visit(Part::Other { kind: name, text: item.fields.text_or_json("approve") }),
    }
}

/// Visits the outputs of commands. There is at least one result.
fn visit_commands<'m>(json: &'m str, result: impl Fn(Cow<'m, str>) -> Part<'m>, visit: &mut dyn FnMut(Part<'m>)) {
    let Some(commands) = entries(json) else {
        return visit(result(json::text_or_json(json)));
    };
    let mut texts = Vec::new();
    for json in commands {
        match Object::read(json) {
            Some(command) => texts.extend(["stdout", "stderr"].iter().filter_map(|name| command.text(name))),
            None => texts.push(json::text_or_json(json)),
        }
    }
    texts.retain(|text| !text.is_empty());
    if texts.is_empty() {
        texts.push(Cow::Borrowed(""));
    }
    texts.into_iter().for_each(|text| visit(result(text)));
}

/// Returns the part of a call that the provider executed. Its JSON has the call and the result.
fn of_server<'m>(item: Item<'m>, json: &'m str) -> Part<'m> {
    if item.name == "image_generation_call" {
        return Part::Media { media: Media::Image, kind: item.name, words: None, data: item.fields.text("result") };
    }
    Part::Other { kind: item.name, text: Cow::Borrowed(json) }
}

/// Returns the statements of an item.
pub(super) fn statements<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
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
    let (media, url) = match &*kind {
        "input_image" | "computer_screenshot" => {
            let is_low = part.text("detail").is_some_and(|detail| detail == "low");
            (if is_low { Media::ImageLowDetail } else { Media::Image }, part.text("image_url"))
        }
        "input_file" => (Media::File, part.text("file_data").or_else(|| part.text("file_url"))),
        "input_audio" => (Media::Audio, None),
        "input_video" => (Media::Video, None),
        _ => {
            let text = part.text("text").or_else(|| part.text("refusal"));
            left_out.other += usize::from(text.is_none());
            return text.filter(|text| !text.is_empty()).map(StatedContent::Text);
        }
    };
    let source = url.map_or(Source::Unavailable, of_url);
    Some(StatedContent::Media { media, source, name: part.text("filename") })
}
