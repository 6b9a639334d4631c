//! The parts of a chat message.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Content, index::Fields, inline, reasoning::signatures_of_calls};
use crate::{
    lossy::{self, Lossy},
    message::Message,
    message::dialect::{CallId, Media, Part, members::Members},
};

/// Visits the name, the reasoning, the content, the rare fields of a reply, the calls, and their signatures.
pub(super) fn visit<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    if let Some(name) = message.name() {
        visit(Part::Name(name));
    }
    let has_reasoning = message.index().chat.has_reasoning;
    let fields = has_reasoning.then(|| serde_json::from_str::<Fields<'m>>(message.json()).ok()).flatten();
    fields.iter().filter_map(|fields| fields.reasoning.as_ref()).for_each(|reasoning| reasoning.visit(visit));
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
    let calls = fields.and_then(|fields| fields.tool_calls);
    let signatures = calls.into_iter().flat_map(signatures_of_calls);
    signatures.for_each(|signature| visit(Part::Sealed(signature.len())));
}

fn said<'m>(text: Cow<'m, str>, answers: Option<&'m CallId>) -> Part<'m> {
    match answers {
        Some(call) => Part::Result { call, text },
        None => Part::Text(text),
    }
}

fn content_part<'m>(json: &'m str, answers: Option<&'m CallId>) -> Part<'m> {
    let Ok(part) = Members::read(json) else {
        // Some providers allow a bare string, which is a text.
        let text = lossy::text(json).unwrap_or(Cow::Borrowed(json));
        return Part::Other { kind: Cow::Borrowed(""), text };
    };
    let kind = part.text("type").unwrap_or_default();
    if let Some(media) = media(&part, &kind) {
        return Part::Media { media, kind, words: None, data: inline::data(json) };
    }
    match (part.text("text"), part.text("refusal")) {
        (Some(text), _) if kind == "text" => said(text, answers),
        (Some(text), _) => Part::Other { kind, text },
        (None, Some(refusal)) => Part::Refusal(refusal),
        (None, None) => Part::Other { kind, text: Cow::Borrowed(json) },
    }
}

fn media(part: &Members<'_>, kind: &str) -> Option<Media> {
    if kind.contains("image") {
        return Some(if has_low_detail(part) { Media::ImageLowDetail } else { Media::Image });
    }
    if kind.contains("audio") {
        return Some(Media::Audio);
    }
    if kind.contains("video") {
        return Some(Media::Video);
    }
    (kind.contains("file") || kind.contains("document")).then_some(Media::File)
}

fn has_low_detail(part: &Members<'_>) -> bool {
    let of_url = || Members::read(part.get("image_url")?).ok()?.text("detail");
    part.text("detail").or_else(of_url).is_some_and(|detail| detail == "low")
}

/// The fields that few replies have.
#[derive(Deserialize)]
struct RareFields<'a> {
    #[serde(borrow)]
    refusal: Option<Lossy<'a>>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow)]
    name: Lossy<'a>,
    #[serde(borrow)]
    arguments: Lossy<'a>,
}

#[derive(Deserialize)]
struct Audio<'a> {
    #[serde(borrow)]
    transcript: Option<Lossy<'a>>,
}

fn visit_rare_fields<'m>(message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
    let json = message.json();
    let Ok(RareFields { refusal, audio, function_call }) = serde_json::from_str::<RareFields<'m>>(json) else {
        // If one of the fields does not have the form that the format defines, the whole message stands for it.
        return visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) });
    };
    if let Some(Lossy(refusal)) = refusal {
        visit(Part::Refusal(refusal));
    }
    if let Some(audio) = audio.filter(|audio| audio.get() != "null") {
        let words = serde_json::from_str::<Audio<'m>>(audio.get()).ok().and_then(|audio| audio.transcript);
        let words = words.map(|words| words.0);
        visit(Part::Media { media: Media::Audio, kind: Cow::Borrowed("audio"), words, data: None });
    }
    if let Some(FunctionCall { name, arguments }) = function_call {
        visit(Part::OtherCall { name: name.0, arguments: arguments.0 });
    }
}
