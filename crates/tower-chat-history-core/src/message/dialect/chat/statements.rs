//! The statements of chat messages.

use std::borrow::Cow;

use super::{Content, content_part::ContentPart};
use crate::{
    json::Object,
    message::{
        Message,
        dialect::statement::{LeftOut, StatedContent, StatedId, Statement, of_parts},
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
    let Some(members) = Object::read(reply.json()) else { return [0; 2] };
    let len = |name: &str| members.entries(name).map_or(0, |entries| entries.len());
    let audio = || members.object("audio")?.text("transcript");
    [len("images") + usize::from(audio().is_some()), len("tool_calls").saturating_sub(reply.tool_calls().len())]
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
