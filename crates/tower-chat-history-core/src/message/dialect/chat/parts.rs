//! The parts of a chat message.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Content, index::Fields, inline, reasoning::signatures_of_calls};
use crate::{
    lossy::Lossy,
    message::Message,
    message::dialect::{CallId, Media, Part},
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

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow)]
    r#type: Option<Lossy<'a>>,
    #[serde(borrow)]
    text: Option<Lossy<'a>>,
    #[serde(borrow)]
    refusal: Option<Lossy<'a>>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<Lossy<'a>>,
}

fn content_part<'m>(json: &'m str, answers: Option<&'m CallId>) -> Part<'m> {
    let Ok(part) = serde_json::from_str::<ContentPart<'m>>(json) else {
        // Some providers allow a bare string, which is a text.
        let text = serde_json::from_str::<Lossy<'m>>(json).map_or(Cow::Borrowed(json), |text| text.0);
        return Part::Other { kind: Cow::Borrowed(""), text };
    };
    let media = part.media();
    let ContentPart { r#type, text, refusal, .. } = part;
    let kind = r#type.map(|kind| kind.0).unwrap_or_default();
    match (media, text, refusal) {
        (Some(media), ..) => Part::Media { media, kind, words: None, data: inline::data(json) },
        (None, Some(text), _) if kind == "text" => said(text.0, answers),
        (None, Some(text), _) => Part::Other { kind, text: text.0 },
        (None, None, Some(refusal)) => Part::Refusal(refusal.0),
        (None, None, None) => Part::Other { kind, text: Cow::Borrowed(json) },
    }
}

impl ContentPart<'_> {
    fn media(&self) -> Option<Media> {
        let is = |kind: &str| self.r#type.as_ref().is_some_and(|name| name.0.contains(kind));
        if is("image") {
            return Some(if self.has_low_detail() { Media::ImageLowDetail } else { Media::Image });
        }
        if is("audio") {
            return Some(Media::Audio);
        }
        if is("video") {
            return Some(Media::Video);
        }
        (is("file") || is("document")).then_some(Media::File)
    }

    fn has_low_detail(&self) -> bool {
        #[derive(Deserialize)]
        struct ImageUrl<'a> {
            #[serde(borrow)]
            detail: Option<Lossy<'a>>,
        }
        let is_low = |detail: &Lossy<'_>| detail.0 == "low";
        match (&self.detail, self.image_url) {
            (Some(detail), _) => is_low(detail),
            (None, Some(image)) => {
                let image = serde_json::from_str::<ImageUrl<'_>>(image.get());
                image.is_ok_and(|image| image.detail.as_ref().is_some_and(is_low))
            }
            (None, None) => false,
        }
    }
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
