//! Signatures of thinking, which are bound to the prompt as a model sees it: without reasoning, cache marks and
//! differences of spelling.

use serde_json::{Map, Value, json};
use tower_chat_history_core::{Digest, Message};

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// The prompt of a piece of thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The digest of instructions, tools, and everything else before the thinking, without other thinking.
    pub(crate) prompt: Digest,
    /// The seal of the thinking before it, if there is any.
    pub(crate) seal: Option<String>,
}

/// The fault of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not a signature of this thinking by this provider.
    Invalid,
    /// It was made for another prompt.
    OtherPrompt,
}

/// Returns the signature of thinking: the prompt's digest, the earlier seal, and its own seal, which is keyed by the
/// secret. The parts tell the reason of a mismatch.
pub(crate) fn sign(secret: Digest, before: &Before, thinking: &str) -> String {
    let earlier = before.seal.clone().unwrap_or_else(|| Digest::default().to_string());
    signed(secret, &before.prompt.to_string(), &earlier, thinking)
}

fn signed(secret: Digest, prompt: &str, earlier: &str, thinking: &str) -> String {
    let parts = [prompt.as_bytes(), earlier.as_bytes(), thinking.as_bytes()];
    let seal = parts.into_iter().fold(secret, |seal, part| seal.then(Digest::of(part)));
    format!("{prompt}{earlier}{}", seal.then(secret))
}

/// Checks a signature, and returns its seal.
pub(crate) fn check<'s>(secret: Digest, signature: &'s str, before: &Before, thinking: &str) -> Result<&'s str, Fault> {
    let prompt = part(signature, 0).ok_or(Fault::Invalid)?;
    let earlier = part(signature, 1).ok_or(Fault::Invalid)?;
    let seal = part(signature, 2).ok_or(Fault::Invalid)?;
    if signature != signed(secret, prompt, earlier, thinking) {
        return Err(Fault::Invalid);
    }
    // The first thinking of a prompt may have lost the thinking before it.
    let follows = before.seal.as_ref().is_none_or(|last| last == earlier);
    if prompt == before.prompt.to_string() && follows { Ok(seal) } else { Err(Fault::OtherPrompt) }
}

/// Returns the digest at this place of a signature.
fn part(signature: &str, at: usize) -> Option<&str> {
    signature.get(at * DIGITS..(at + 1) * DIGITS)
}

/// Returns the seal of a signature that may be of another prompt.
pub(crate) fn seal(signature: &str) -> Option<&str> {
    signature.get(2 * DIGITS..)
}

/// Returns the JSON of a message, or a text that has the whole message if it is nested too deeply.
pub(crate) fn value(message: &Message) -> Value {
    serde_json::from_str(message.json()).unwrap_or_else(|_| json!({ "content": message.json() }))
}

/// Returns the digest of a message, without its reasoning.
pub(crate) fn digest(message: &Value) -> Digest {
    let role = match message["role"].as_str() {
        Some("developer") => "system",
        Some(role) => role,
        None => "",
    };
    let calls: Vec<Value> = calls(message).iter().map(call).collect();
    let seen =
        json!({ "role": role, "content": blocks(message), "calls": calls, "answers": message["tool_call_id"].clone() });
    digest_of(&seen)
}

/// Returns the digest of a call: its id, its name and its arguments.
pub(crate) fn call_digest(json: &Value) -> Digest {
    digest_of(&call(json))
}

/// Returns the digest of a request's tools.
pub(crate) fn tools_digest(tools: Option<&str>) -> Digest {
    match tools.map(serde_json::from_str::<Value>) {
        None | Some(Ok(Value::Null)) => Digest::of(b"[]"),
        Some(Ok(tools)) => digest_of(&tools),
        Some(Err(_)) => Digest::of(tools.unwrap_or_default().as_bytes()),
    }
}

/// Returns the parts of the content. A text is one part.
pub(crate) fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(parts) => parts.clone(),
        other => vec![other.clone()],
    }
}

/// Returns the calls of a message.
pub(crate) fn calls(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

fn call(call: &Value) -> Value {
    let parts = if call["custom"].is_object() { &call["custom"] } else { &call["function"] };
    let input = if call["custom"].is_object() { &parts["input"] } else { &parts["arguments"] };
    let parsed = input.as_str().and_then(|input| serde_json::from_str(input).ok());
    json!({ "id": call["id"].clone(), "name": parts["name"].clone(), "input": parsed.unwrap_or_else(|| input.clone()) })
}

/// Returns the digest of a value, whatever the order of its fields, without `cache_control`.
pub(crate) fn digest_of(value: &Value) -> Digest {
    Digest::of(sorted(value).to_string().as_bytes())
}

/// Returns the value with sorted fields, and without `cache_control`. The value was parsed, so it has at most 128
/// levels and a few more of this file.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().filter(|name| *name != "cache_control").collect();
            names.sort_unstable();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect::<Map<_, _>>())
        }
        Value::Array(elements) => elements.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
