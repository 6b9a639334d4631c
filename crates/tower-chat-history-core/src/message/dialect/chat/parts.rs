//! The parts and the statements of a chat message.

use std::borrow::Cow;

use super::{Content, content::ContentPart, index::sound_calls, reasoning};
use crate::{
    json::Object,
    message::{
        Message, Role,
        dialect::{
            CallId, Media, Part,
            statement::{LeftOut, StatedContent, StatedId, Statement, of_parts},
        },
    },
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
        reasoning::signatures_of_calls(&sound_calls(calls))
            .into_iter()
            .for_each(|sealed| visit(Part::Sealed(sealed.len())));
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

/// Returns the statements of a message. The content of the user and of results is read here, because the parts do not
/// have URLs and media types.
pub(super) fn statements<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    if message.is_reply() {
        let [media, other] = not_in_parts(message);
        left_out.media += media;
        left_out.other += other;
    }
    let answers = message.answers().first();
    if !matches!((message.role(), answers), (Role::User, _) | (Role::Tool, Some(_))) {
        return of_parts(message, left_out);
    }
    left_out.other += usize::from(message.name().is_some());
    let mut content = Vec::new();
    match message.content() {
        Content::None => {}
        Content::Text(text) => content.push(StatedContent::Text(text)),
        Content::Parts(parts) => content.extend(parts.into_iter().filter_map(|json| part(json, left_out))),
        Content::Other(json) => content.push(StatedContent::Text(Cow::Borrowed(json))),
    }
    match answers {
        Some(call) => vec![Statement::Result { call: StatedId::new(call), content, is_error: false }],
        None if content.is_empty() => Vec::new(),
        None => vec![Statement::User(content)],
    }
}

/// Returns the numbers of images and audio, and of calls that no result can answer, which a reply has besides its
/// statements. The words of audio are a statement.
fn not_in_parts(reply: &Message) -> [usize; 2] {
    let Some(members) = Object::read(reply.json()) else { return [0; 2] };
    let images = members.entries("images").map_or(0, |images| images.len());
    let has_words = members.object("audio").is_some_and(|audio| audio.text("transcript").is_some());
    let calls = members.entries("tool_calls").map_or(0, |calls| calls.len());
    [images + usize::from(has_words), calls.saturating_sub(reply.tool_calls().len())]
}

/// Returns a part of a content, or `None` if its kind is unknown and it has no text.
fn part<'m>(json: &'m str, left_out: &mut LeftOut) -> Option<StatedContent<'m>> {
    match ContentPart::read(json) {
        ContentPart::Text(text) | ContentPart::Refusal(text) => Some(StatedContent::Text(text)),
        ContentPart::Media(part) => Some(part.into_stated()),
        ContentPart::Other { text, .. } => {
            left_out.other += usize::from(text.is_none());
            text.map(StatedContent::Text)
        }
    }
}
