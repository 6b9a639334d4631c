//! The parts of an item.

use std::borrow::Cow;

use super::{
    content,
    item::{Item, Kind},
    kind::CallKind,
};
use crate::{
    json::{self, Object, entries},
    message::Message,
    message::dialect::{CallId, Media, Part},
    role::Role,
};

/// Visits the parts of an item.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let json = message.json();
    let Ok(item) = Item::read(json) else { return };
    let whole = |kind: Cow<'m, str>| Part::Other { kind, text: Cow::Borrowed(json) };
    match (&item.kind, message.answers().first()) {
        (Kind::Message(Role::Other(role)), _) => visit(whole(Cow::Owned(role.to_string()))),
        (Kind::Message(_), _) => {
            if let Some(json) = item.fields.get("content") {
                content::visit(json, Part::Text, visit);
            }
        }
        (Kind::Reasoning, _) => visit_reasoning(&item, visit),
        (Kind::Compaction, _) => item.sealed().into_iter().for_each(|sealed| visit(Part::Sealed(sealed.len()))),
        (Kind::Call(_), _) => message.tool_calls().iter().for_each(|call| visit(Part::Call(call))),
        (Kind::Output(kind), Some(call)) => visit_output(*kind, call, &item, visit),
        (Kind::OfServer, _) => visit(of_server(item, json)),
        (Kind::Output(_), None) | (Kind::Trigger | Kind::Unknown, _) => visit(whole(item.name)),
    }
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
            Some(json) if json.starts_with('[') => content::visit(json, result, visit),
            _ => visit(result(item.fields.text_or_json("output"))),
        },
        CallKind::LocalShell | CallKind::ApplyPatch => visit(result(item.fields.text_or_json("output"))),
        CallKind::Shell => visit_commands(output.unwrap_or_default(), result, visit),
        CallKind::Computer => visit(content::screenshot(output.unwrap_or_default())),
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
