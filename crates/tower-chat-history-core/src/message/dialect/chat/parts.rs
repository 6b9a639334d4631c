//! The parts of a chat message.

use std::borrow::Cow;

use super::{Content, content_part::ContentPart, reasoning};
use crate::{
    json::Object,
    message::Message,
    message::dialect::{CallId, Media, Part},
};

/// Visits the name, the reasoning, the content, the rare fields of a reply, the calls, and their signatures.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    if let Some(name) = message.name() {
        visit(Part::Name(name));
    }
    let has_reasoning = message.index().chat.has_reasoning;
    let fields = if has_reasoning { Object::read(message.json()) } else { None };
    if let Some(fields) = &fields {
        reasoning::visit(fields, visit);
    }
    let answers = message.answers().first();
    match message.content() {
        Content::None => {}
        Content::Text(text) => visit(said(text, answers)),
        Content::Parts(parts) => parts.into_iter().for_each(|json| visit(content_part(json, answers))),
        Content::Other(json) => visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) }),
    }
    if message.has_refusal_audio_or_function_call() {
        visit_rare_fields(message, visit);
    }
    message.tool_calls().iter().for_each(|call| visit(Part::Call(call)));
    if let Some(calls) = fields.and_then(|fields| fields.raw("tool_calls")) {
        reasoning::signatures_of_calls(calls).into_iter().for_each(|sealed| visit(Part::Sealed(sealed.len())));
    }
}

fn said<'m>(text: Cow<'m, str>, answers: Option<&'m CallId>) -> Part<'m> {
    match answers {
        Some(call) => Part::Result { call, text },
        None => Part::Text(text),
    }
}

fn content_part<'m>(json: &'m str, answers: Option<&'m CallId>) -> Part<'m> {
    match ContentPart::read(json) {
        ContentPart::Text(text) => said(text, answers),
        ContentPart::Refusal(text) => Part::Refusal(text),
        ContentPart::Media(part) => part.into_part(),
        ContentPart::Other { kind, text } => Part::Other { kind, text: text.unwrap_or(Cow::Borrowed(json)) },
    }
}

/// Visits the fields that few replies have. If one of them does not have the form that the format defines, the whole
/// message stands for it.
fn visit_rare_fields<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let json = message.json();
    if visit_known_fields(json, visit).is_none() {
        visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) });
    }
}

/// Returns `None`, and visits nothing, if one of the fields does not have the form that the format defines.
fn visit_known_fields<'m>(json: &'m str, visit: &mut dyn FnMut(Part<'m>)) -> Option<()> {
    let message = Object::read(json)?;
    let refusal = message.text_if_any("refusal").ok()?;
    let call = match message.get("function_call") {
        Some(call) => {
            let call = Object::read(call)?;
            Some((call.text("name")?, call.text("arguments")?))
        }
        None => None,
    };
    if let Some(refusal) = refusal {
        visit(Part::Refusal(refusal));
    }
    if let Some(audio) = message.get("audio") {
        let words = Object::read(audio).and_then(|audio| audio.text("transcript"));
        visit(Part::Media { media: Media::Audio, kind: Cow::Borrowed("audio"), words, data: None });
    }
    if let Some((name, arguments)) = call {
        visit(Part::OtherCall { name, arguments });
    }
    Some(())
}
