//! Statements of other dialects as chat messages.

use std::borrow::Cow;

use crate::{
    json::quoted,
    message::{
        Role,
        dialect::{
            Media,
            statement::{Expressed, LeftOut, Source, StatedContent, StatedId, Statement, as_note, data_url, image_url},
        },
    },
    provenance::Origin,
};

use super::{ChatCompletions, plain_json, tool_json};

/// The maximum length of a call's id that is kept, in bytes. OpenAI takes 64 as of September 2026, and took 40 before.
const MAX_ID: usize = 40;

/// Returns the messages that say this.
pub(super) fn messages(statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
    let mut messages = Vec::new();
    let mut rest = statements;
    while let Some(first) = rest.first() {
        let run = match first {
            Statement::Result { .. } => length(rest, |next| matches!(next, Statement::Result { .. })),
            first if first.is_of_model() => length(rest, Statement::is_of_model),
            _ => 1,
        };
        let (now, later) = rest.split_at(run);
        match first {
            Statement::Instruction(text) => messages.extend(said(&Role::System, text)),
            Statement::User(content) => messages.extend(user(content, &mut expressed.left_out)),
            Statement::Result { .. } => {
                let closes = expressed.is_followed || !later.is_empty();
                results(now, closes, &mut expressed.left_out, &mut messages);
            }
            _ => messages.extend(reply(now, expressed.reader)),
        }
        rest = later;
    }
    messages
}

/// Returns the number of statements at the beginning for which `is_of_run` returns `true`.
fn length<'a>(statements: &[Statement<'a>], is_of_run: impl Fn(&Statement<'a>) -> bool) -> usize {
    statements.iter().take_while(|next| is_of_run(next)).count()
}

fn said(role: &Role, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| plain_json(role, text))
}

fn id<'a>(id: &StatedId<'a>) -> Cow<'a, str> {
    id.visible_ascii(MAX_ID)
}

/// Returns the message of the model with these texts and calls, or `None` if it says nothing.
fn reply(statements: &[Statement<'_>], reader: &Origin) -> Option<String> {
    let mut texts: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for statement in statements {
        match statement {
            Statement::Model(text) if !text.is_empty() => texts.push(text),
            Statement::Call(call) => {
                let id = quoted(&id(&call.id));
                let name = quoted(&call.name());
                let arguments = quoted(&call.arguments());
                let function = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
                calls.push(format!(r#"{{"id":{id},"type":"function","function":{function}}}"#));
            }
            _ => {}
        }
    }

    let text = texts.join("\n\n");
    if calls.is_empty() {
        return said(&Role::Assistant, &text);
    }
    let content = if text.is_empty() { "null".to_owned() } else { quoted(&text) };
    let provider = reader.provider.as_deref().unwrap_or_default();
    let requires_reasoning = ChatCompletions::requires_reasoning_content(provider);
    let reasoning = if requires_reasoning { r#""reasoning_content":"","# } else { "" };
    let calls = calls.join(",");
    Some(format!(r#"{{"role":"assistant","content":{content},{reasoning}"tool_calls":[{calls}]}}"#))
}

/// Returns the message of the user, or `None` if it says nothing.
fn user(content: &[StatedContent<'_>], left_out: &mut LeftOut) -> Option<String> {
    if let [StatedContent::Text(text)] = content {
        return said(&Role::User, text);
    }
    let parts: Vec<String> = content.iter().filter_map(|content| part(content, left_out)).collect();
    (!parts.is_empty()).then(|| format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(",")))
}

/// Returns a part of the user's content.
fn part(content: &StatedContent<'_>, left_out: &mut LeftOut) -> Option<String> {
    match content {
        StatedContent::Text(text) => (!text.is_empty()).then(|| text_part(text)),
        media => Some(media_part(media).unwrap_or_else(|| text_part(&as_note(media, left_out)))),
    }
}

fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

/// Returns the part for an image or a PDF document, or `None` if the format has none.
fn media_part(content: &StatedContent<'_>) -> Option<String> {
    let StatedContent::Media { media, source, name } = content else { return None };
    match (media, source) {
        (Media::Image | Media::ImageLowDetail, source) => {
            let url = quoted(&image_url(source)?);
            let detail = if *media == Media::ImageLowDetail { r#","detail":"low""# } else { "" };
            Some(format!(r#"{{"type":"image_url","image_url":{{"url":{url}{detail}}}}}"#))
        }
        (Media::File, Source::Data { kind, base64 }) if kind == "application/pdf" => {
            let name = quoted(name.as_deref().unwrap_or("document.pdf"));
            let data = quoted(&data_url(kind, base64));
            Some(format!(r#"{{"type":"file","file":{{"filename":{name},"file_data":{data}}}}}"#))
        }
        _ => None,
    }
}

/// Adds the messages of results. The format allows only texts in them. If `closes` is `true`, images and files follow
/// in a message of the user. Otherwise it could stand between the results of parallel calls, which the format does not
/// allow.
fn results(statements: &[Statement<'_>], closes: bool, left_out: &mut LeftOut, messages: &mut Vec<String>) {
    let mut shown = Vec::new();
    for statement in statements {
        let Statement::Result { call, content, .. } = statement else { continue };
        let mut texts: Vec<String> = Vec::new();
        for content in content {
            match content {
                StatedContent::Text(text) => texts.push(text.to_string()),
                media => match media_part(media).filter(|_| closes) {
                    Some(part) => shown.push(part),
                    None => texts.push(as_note(media, left_out)),
                },
            }
        }
        texts.retain(|text| !text.is_empty());
        messages.push(tool_json(&id(call), &texts.join("\n")));
    }
    if !shown.is_empty() {
        let label = text_part("[shown by the results of the calls before this message]");
        messages.push(format!(r#"{{"role":"user","content":[{label},{}]}}"#, shown.join(",")));
    }
}
