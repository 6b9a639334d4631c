//! The statements of a dialect that does not define them.

use std::borrow::Cow;

use super::{Expressed, LeftOut, Source, StatedCall, StatedContent, StatedId, Statement, as_note, of_url};
use crate::message::{
    Message, Role,
    dialect::{Dialect, Part},
};

/// Returns the statements of a message, as far as its parts show them.
pub(in crate::message::dialect) fn of_parts<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    if message.is_blank() {
        return Vec::new();
    }
    match message.role() {
        Role::Assistant => of_reply(message, left_out),
        Role::System | Role::Developer => vec![Statement::Instruction(words(message))],
        Role::User | Role::Tool if message.answers().is_empty() && message.is_tool_result() => {
            left_out.other += 1;
            Vec::new()
        }
        Role::User | Role::Tool => of_program(message, left_out),
        Role::Function | Role::Other(_) => {
            left_out.other += 1;
            Vec::new()
        }
    }
}

/// Returns the texts of a message.
fn words(message: &Message) -> Cow<'_, str> {
    let mut words = Cow::Borrowed("");
    message.parts(&mut |part| {
        if let Part::Text(text) = part {
            join(&mut words, text);
        }
    });
    words
}

fn join<'m>(words: &mut Cow<'m, str>, more: Cow<'m, str>) {
    if words.is_empty() { *words = more } else { words.to_mut().push_str(&more) }
}

fn of_reply<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut said = Vec::new();
    let mut has_reasoning = false;
    let mut follows_text = false;

    message.parts(&mut |part| {
        let mut is_text = false;
        match part {
            Part::Text(text) | Part::Refusal(text) => {
                is_text = true;
                match said.last_mut() {
                    // The texts of one message are parts of one text, unless there is something else between them.
                    Some(Statement::Model(words)) if follows_text => join(words, text),
                    _ => said.push(Statement::Model(text)),
                }
            }
            Part::Call(call) => said.push(Statement::Call(StatedCall::new(call))),
            Part::Media { words: Some(words), .. } => said.push(Statement::Model(words)),
            Part::Media { .. } => left_out.media += 1,
            Part::Reasoning(_) | Part::Sealed(_) => has_reasoning = true,
            Part::Name(_) | Part::OtherCall { .. } | Part::Result { .. } | Part::Other { .. } => left_out.other += 1,
        }
        follows_text = is_text;
    });

    left_out.reasoning += usize::from(has_reasoning);
    said.retain(|statement| !matches!(statement, Statement::Model(text) if text.is_empty()));
    said
}

/// Returns the results of a message, and then what the user says in it.
fn of_program<'m>(message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
    let mut results: Vec<Statement<'m>> = message.answers().iter().map(result).collect();
    let mut said = Vec::new();
    let mut newest = None;
    let has_only_results = message.is_tool_result();

    message.parts(&mut |part| {
        let content = match part {
            Part::Result { call, text } => {
                let answers = message.answers();
                let from = newest.unwrap_or(0);
                let at = answers.iter().skip(from).position(|answer| answer == call).map_or(from, |at| from + at);
                newest = Some(at);
                if let Some(Statement::Result { content, .. }) = results.get_mut(at) {
                    content.push(StatedContent::Text(text));
                }
                return;
            }
            Part::Text(text) => StatedContent::Text(text),
            Part::Media { media, data, words, .. } => match words {
                Some(words) => StatedContent::Text(words),
                None => StatedContent::Media { media, source: data.map_or(Source::Unavailable, of_url), name: None },
            },
            Part::Other { text, .. } if has_only_results => StatedContent::Text(text),
            _ => {
                left_out.other += 1;
                return;
            }
        };

        match results.get_mut(newest.unwrap_or(0)) {
            Some(Statement::Result { content: of_result, .. }) if has_only_results => of_result.push(content),
            _ => said.push(content),
        }
    });

    if !said.is_empty() {
        results.push(Statement::User(said));
    }
    results
}

fn result(call: &crate::message::dialect::CallId) -> Statement<'_> {
    Statement::Result { call: StatedId::new(call), content: Vec::new(), is_error: false }
}

/// Writes statements as texts: calls and results become texts, too.
pub(in crate::message::dialect) fn express<D: Dialect + ?Sized>(
    dialect: &D,
    statements: &[Statement<'_>],
    expressed: &mut Expressed<'_>,
) -> Vec<String> {
    let mut elements = Vec::new();
    for statement in statements {
        let (role, text) = match statement {
            Statement::User(content) => (Role::User, plain(content, &mut expressed.left_out)),
            Statement::Instruction(text) => (Role::System, text.to_string()),
            Statement::Model(text) => (Role::Assistant, text.to_string()),
            Statement::Call(call) => (Role::Assistant, format!("[call of {}: {}]", call.name(), call.arguments())),
            Statement::Result { content, .. } => {
                (Role::User, format!("[result of a call: {}]", plain(content, &mut expressed.left_out)))
            }
        };
        if !text.trim().is_empty() {
            elements.push(dialect.compose(&role, &text));
        }
    }
    elements
}

/// Returns a content as a text.
fn plain(content: &[StatedContent<'_>], left_out: &mut LeftOut) -> String {
    let mut plain = String::new();
    for content in content {
        match content {
            StatedContent::Text(text) => plain.push_str(text),
            media @ StatedContent::Media { .. } => plain.push_str(&as_note(media, left_out)),
        }
    }
    plain
}
