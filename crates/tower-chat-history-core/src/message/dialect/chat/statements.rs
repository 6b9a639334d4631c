//! The statements of chat messages.

use std::borrow::Cow;

use super::Content;
use crate::{
    message::{
        Message,
        dialect::{
            Media,
            members::Members,
            statement::{LeftOut, Source, StatedContent, StatedId, Statement, of_parts, of_url},
        },
    },
    role::Role,
};

/// Returns the statements of a message. The content of the user and of results is read here, because the parts do not
/// have URLs and media types.
pub(super) fn of<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
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
    let Ok(members) = Members::read(reply.json()) else { return [0; 2] };
    let len = |name: &str| members.entries(name).map_or(0, |entries| entries.len());
    let audio = || members.get("audio").and_then(|audio| Members::read(audio).ok()?.text("transcript"));
    [len("images") + usize::from(audio().is_some()), len("tool_calls").saturating_sub(reply.tool_calls().len())]
}

/// Returns a part of a content, or `None` if its kind is unknown.
fn part<'m>(json: &'m str, left_out: &mut LeftOut) -> Option<StatedContent<'m>> {
    let Ok(part) = Members::read(json) else {
        // Some providers allow a bare string, which is a text.
        let text = crate::lossy::text(json);
        left_out.other += usize::from(text.is_none());
        return text.map(StatedContent::Text);
    };
    let kind = part.text("type").unwrap_or_default();
    let (media, source, name) = match &*kind {
        "text" | "input_text" => return part.text("text").map(StatedContent::Text),
        "image_url" => {
            let (url, detail) = url_in(&part, "image_url");
            let is_low = detail.or_else(|| part.text("detail")).is_some_and(|detail| detail == "low");
            (if is_low { Media::ImageLowDetail } else { Media::Image }, url, None)
        }
        "video_url" => (Media::Video, url_in(&part, "video_url").0, None),
        "audio_url" => (Media::Audio, url_in(&part, "audio_url").0, None),
        "input_audio" => (Media::Audio, audio(&part), None),
        "file" => {
            let file = part.get("file").and_then(|file| Members::read(file).ok());
            let text = |name: &str| file.as_ref().and_then(|file| file.text(name));
            (Media::File, text("file_data").map_or(Source::Unavailable, of_url), text("filename"))
        }
        _ => {
            let text = part.text("text");
            left_out.other += usize::from(text.is_none());
            return text.map(StatedContent::Text);
        }
    };
    Some(StatedContent::Media { media, source, name })
}

/// Returns the URL in a field of a part, and the detail. Some providers allow the URL in place of an object.
fn url_in<'m>(part: &Members<'m>, name: &str) -> (Source<'m>, Option<Cow<'m, str>>) {
    if let Some(url) = part.text(name) {
        return (of_url(url), None);
    }
    let Some(object) = part.get(name).and_then(|object| Members::read(object).ok()) else {
        return (Source::Unavailable, None);
    };
    (object.text("url").map_or(Source::Unavailable, of_url), object.text("detail"))
}

fn audio<'m>(part: &Members<'m>) -> Source<'m> {
    let Some(audio) = part.get("input_audio").and_then(|audio| Members::read(audio).ok()) else {
        return Source::Unavailable;
    };
    match (audio.text("data"), audio.text("format")) {
        (Some(base64), Some(format)) => Source::Data { kind: Cow::Owned(format!("audio/{format}")), base64 },
        _ => Source::Unavailable,
    }
}
