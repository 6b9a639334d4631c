//! The content of messages and outputs.

use std::borrow::Cow;

use crate::{
    json::{self, Object, entries},
    message::PartKinds,
    message::dialect::{Media, Part},
};

/// Visits a content: a text, or a list of parts. `said` makes a part of a text.
pub(super) fn visit<'m>(
    json: &'m str,
    said: impl Fn(Cow<'m, str>) -> Part<'m>,
    visit: &mut (impl FnMut(Part<'m>) + ?Sized),
) {
    if let Some(text) = json::text(json) {
        return visit(said(text));
    }
    match entries(json) {
        Some(parts) => parts.into_iter().for_each(|json| visit(part(json, &said))),
        None => visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) }),
    }
}

fn part<'m>(json: &'m str, said: impl Fn(Cow<'m, str>) -> Part<'m>) -> Part<'m> {
    let Some(fields) = Object::read(json) else {
        return Part::Other { kind: Cow::Borrowed(""), text: json::text_or_json(json) };
    };
    let kind = fields.text("type").unwrap_or_default();
    let is_text = matches!(&*kind, "input_text" | "output_text" | "text");
    if let Some(text) = fields.text("text").filter(|_| is_text) {
        return said(text);
    }
    if let Some(media) = media(&kind, &fields) {
        return Part::Media { media, kind, words: None, data: data(&fields) };
    }
    match (&*kind, fields.text("text"), fields.text("refusal")) {
        ("refusal", _, Some(refusal)) => Part::Refusal(refusal),
        (_, Some(text), _) => Part::Other { kind, text },
        (_, None, _) => Part::Other { kind, text: Cow::Borrowed(json) },
    }
}

fn media(kind: &str, fields: &Object<'_>) -> Option<Media> {
    let is = |word: &str| kind.contains(word);
    match () {
        () if is("image") || is("screenshot") => {
            let is_low = fields.text("detail").is_some_and(|detail| detail == "low");
            Some(if is_low { Media::ImageLowDetail } else { Media::Image })
        }
        () if is("audio") => Some(Media::Audio),
        () if is("video") => Some(Media::Video),
        () if is("file") => Some(Media::File),
        () => None,
    }
}

/// Returns the data of a part: base64, or a URL that begins with `data:`.
fn data<'m>(fields: &Object<'m>) -> Option<Cow<'m, str>> {
    let url = || fields.text("image_url").filter(|url| url.starts_with("data:"));
    let audio = || fields.object("input_audio")?.text("data");
    fields.text("file_data").or_else(url).or_else(audio)
}

/// Returns the image of a computer's output, or the output's JSON if it is not an image.
pub(super) fn screenshot(json: &str) -> Part<'_> {
    match part(json, Part::Text) {
        media @ Part::Media { .. } => media,
        _ => Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) },
    }
}

/// Returns the kinds of the parts of a content.
pub(super) fn part_kinds(json: Option<&str>) -> PartKinds {
    let mut kinds = PartKinds::default();
    // A text has no parts of these kinds.
    if let Some(json) = json.filter(|json| !json.starts_with('"')) {
        visit(json, Part::Text, &mut |part| kinds.add(&part));
    }
    kinds
}

/// Returns `true` if a content has no part, or only empty texts and refusals.
pub(super) fn is_blank(json: Option<&str>) -> bool {
    let mut is_blank = true;
    if let Some(json) = json {
        visit(json, Part::Text, &mut |part| {
            is_blank &= matches!(part, Part::Text(text) | Part::Refusal(text) if text.is_empty());
        });
    }
    is_blank
}
