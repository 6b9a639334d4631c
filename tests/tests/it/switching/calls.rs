//! The calls of a conversation, with their results, and those of a prompt.

use tower_chat_history::{
    Message,
    dialect::{CallId, Part, ToolCall},
};

/// The calls of all stored replies, in order.
#[derive(Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// The number of calls before the window.
    before: usize,
}

/// A call.
#[derive(Clone)]
struct Call {
    name: String,
    /// The text of the result, if there is a result with a text.
    result: Option<String>,
}

impl Calls {
    pub(super) fn add(&mut self, calls: &[&ToolCall]) {
        let call = |call: &&ToolCall| Call { name: name(call), result: None };
        self.all.extend(calls.iter().map(call));
    }

    /// Sets the texts of the results of the newest calls, of which `open` have none yet. Not every kind of result has a
    /// text.
    pub(super) fn answer(&mut self, open: usize, texts: &[String], results: &[Message]) {
        let json: String = results.iter().map(Message::json).collect();
        let first = self.all.len() - open;
        for (call, text) in self.all[first..].iter_mut().zip(texts) {
            call.result = Some(text.clone()).filter(|text| json.contains(text.as_str()));
        }
    }

    /// Removes the calls that are not in these messages, the beginning of the log, and results that are not.
    pub(super) fn truncate<'m>(&mut self, log: impl Iterator<Item = &'m Message> + Clone) {
        self.all.truncate(number_of(log.clone()));
        let json: String = log.map(Message::json).collect();
        for call in &mut self.all {
            call.result = call.result.take().filter(|text| json.contains(text.as_str()));
        }
    }

    /// Sets the messages of the window, the end of the log.
    pub(super) fn set_window<'m>(&mut self, window: impl Iterator<Item = &'m Message>) {
        self.before = self.all.len() - number_of(window);
    }

    /// Returns the number of calls in the window.
    pub(super) const fn len(&self) -> usize {
        self.all.len() - self.before
    }

    /// Checks that a prompt has all calls, in order, each with its result. Calls without a result were abandoned.
    pub(super) fn check(&self, prompt: &[Message]) -> Result<(), String> {
        let found = calls(prompt)?;
        if found.len() != self.len() {
            return Err(format!("{} calls in place of {}", found.len(), self.len()));
        }
        for (at, (expected, (name, result))) in self.all[self.before..].iter().zip(found).enumerate() {
            let has_own = expected.result.as_ref().is_none_or(|text| result.contains(text.as_str()));
            // The texts of results are `r1.0;`, for example.
            let has_other = expected.result.is_none() && result.starts_with('r') && result.ends_with(';');
            if expected.name != name || !has_own || has_other {
                return Err(format!(
                    "call {at}, of {}: {:?}, found {name}: {result:?}",
                    expected.name, expected.result
                ));
            }
        }
        Ok(())
    }
}

fn number_of<'m>(messages: impl Iterator<Item = &'m Message>) -> usize {
    messages.map(|message| message.tool_calls().len()).sum()
}

/// Returns the name in a form that all APIs accept.
fn name(call: &ToolCall) -> String {
    call.name().replace('.', "_")
}

/// Returns the calls of a prompt with the texts of their results. Each result answers the first open call with its id.
fn calls(prompt: &[Message]) -> Result<Vec<(String, String)>, String> {
    let mut calls = Vec::new();
    let mut open: Vec<(&CallId, usize)> = Vec::new();
    for message in prompt {
        let mut answered = Vec::new();
        for id in message.answers() {
            let found = open.iter().position(|(call, _)| *call == id);
            answered.push((id, open.remove(found.ok_or_else(|| format!("{id:?} answers no call"))?).1));
        }
        let mut last = None;
        message.parts(&mut |part| {
            let Part::Result { call, text } = part else { return };
            // The parts of a result follow each other.
            if last.is_none_or(|(last, _)| last != call) {
                last = answered.iter().position(|(id, _)| *id == call).map(|at| (call, answered.remove(at).1));
            }
            if let Some((_, at)) = last {
                let (_, result): &mut (String, String) = &mut calls[at];
                result.push_str(&text);
            }
        });
        for call in message.tool_calls() {
            open.push((call.call_id(), calls.len()));
            calls.push((name(call), String::new()));
        }
    }
    if open.is_empty() { Ok(calls) } else { Err(format!("{open:?} have no result")) }
}
