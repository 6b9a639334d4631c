//! The reasoning in a reply: the fields in which providers send it, and the parts of it that they have signed or
//! encrypted. The names are those that the providers document, as of November 2026.
//!
//! If in doubt, a reply is bound: reasoning that is left out costs little, but a provider refuses a prompt with
//! reasoning that it signed for another one.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

use crate::{
    json::{self, Object, text_or_json},
    message::dialect::{Bound, Part},
};

/// The fields of a reply in which reasoning arrives as a text. The first is that of DeepSeek, Moonshot, vLLM and
/// LiteLLM, the second that of OpenRouter, Groq and vLLM.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The fields with a list: OpenRouter's texts, summaries and encrypted data, and Anthropic's blocks from LiteLLM.
const LISTS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// The fields with an object that has signatures: Google's, and LiteLLM's, which also has copies of other fields.
const OBJECTS: [&str; 2] = ["extra_content", "provider_specific_fields"];

/// The fields with nothing but reasoning.
pub(super) const NAMES: [&str; 4] = [TEXTS[0], TEXTS[1], LISTS[0], LISTS[1]];

/// Returns `true` if a reply has one of these fields.
pub(super) fn has_some(reply: &Object<'_>) -> bool {
    [TEXTS, LISTS, OBJECTS].as_flattened().iter().any(|name| reply.raw(name).is_some())
}

/// Returns the conditions under which these fields of a reply may be sent again.
pub(super) fn bound(reply: &Object<'_>) -> Bound {
    let lists = LISTS.iter().filter_map(|name| reply.raw(name)).map(bound_of_list);
    let objects = OBJECTS.iter().filter_map(|name| reply.raw(name)).map(bound_of_object);
    lists.chain(objects).fold(Bound::NONE, Bound::or)
}

/// Visits the reasoning of a reply once, although some providers send it in several fields, and then the signatures.
pub(super) fn visit<'a>(reply: &Object<'a>, visit: &mut dyn FnMut(Part<'a>)) {
    let [details, blocks] = LISTS.map(|name| reply.raw(name));
    let blocks = blocks.or_else(|| reply.object("provider_specific_fields")?.raw("thinking_blocks"));
    let lists = [details, blocks];
    let structured: Vec<Element<'a>> = lists.into_iter().flatten().flat_map(elements).collect();
    if !structured.iter().any(Element::has_text) {
        let text = TEXTS.iter().filter_map(|name| reply.get(name)).map(text_or_json);
        text.filter(|text| !text.is_empty()).take(1).for_each(|text| visit(Part::Reasoning(text)));
    }
    structured.iter().for_each(|element| element.visit(visit));
    let objects = OBJECTS.iter().filter_map(|name| reply.raw(name));
    objects.flat_map(signatures).for_each(|signature| visit(Part::Sealed(signature.len())));
}

/// Returns the conditions under which the valid entries of a list of calls may be sent again.
pub(super) fn bound_of_calls(calls: &[&RawValue]) -> Bound {
    if signatures_of_calls(calls).is_empty() { Bound::NONE } else { Bound::TO_ORIGIN }
}

/// Returns the signatures in the valid entries of a list of calls, without their quotes. Other entries are not sent.
pub(super) fn signatures_of_calls<'a>(calls: &[&'a RawValue]) -> Vec<&'a str> {
    calls.iter().copied().flat_map(signatures).collect()
}

/// The fields with a provider's signature in a call, in its function, or in a message.
pub(super) const SIGNATURES: [&str; 2] = ["thought_signature", "thought_signatures"];

/// The objects that may contain a signature.
pub(super) const SIGNED: [&str; 5] = ["extra_content", "provider_specific_fields", "function", "google", "vertex"];

/// Returns the signatures in an object, without their quotes.
fn signatures(json: &RawValue) -> Vec<&str> {
    let mut found = Vec::new();
    let mut left = vec![(json, 0)];
    while let Some((json, depth)) = left.pop() {
        for (name, value) in object(json) {
            if SIGNATURES.contains(&&*name) {
                let list = json::raw_entries(value.get()).unwrap_or_else(|| vec![value]);
                found.extend(list.into_iter().map(RawValue::get).filter_map(sealed));
            } else if depth < MAX_DEPTH && SIGNED.contains(&&*name) {
                left.push((value, depth + 1));
            }
        }
    }
    found
}

/// The largest number of objects around a signature: a function, its provider's fields, and the vendor.
pub(super) const MAX_DEPTH: usize = 3;

/// Returns the conditions of an object with signatures, or with a copy of a list of blocks.
pub(super) fn bound_of_object(json: &RawValue) -> Bound {
    let blocks = object(json).into_iter().filter(|(name, _)| BLOCKS.contains(&&**name));
    let bound = blocks.map(|(_, value)| bound_of_list(value)).fold(Bound::NONE, Bound::or);
    if signatures(json).is_empty() { bound } else { bound.or(Bound::TO_ORIGIN) }
}

/// The lists of blocks that LiteLLM copies from the provider: Anthropic's, and those of Bedrock.
pub(super) const BLOCKS: [&str; 2] = ["thinking_blocks", "reasoningContentBlocks"];

/// Returns the conditions of a list of reasoning: those of all its elements, because it is only valid as a whole.
pub(super) fn bound_of_list(list: &RawValue) -> Bound {
    elements(list).iter().map(Element::bound).fold(Bound::NONE, Bound::or)
}

/// Returns the fields of an object. Returns none for another value.
pub(super) fn object(json: &RawValue) -> BTreeMap<String, &RawValue> {
    json::fields(json.get()).unwrap_or_default()
}

/// Returns a signature or encrypted data: the escaped text of a string without its quotes, or the JSON of a value of
/// another type. Returns `None` for null and for an empty string.
pub(super) fn sealed(json: &str) -> Option<&str> {
    match json {
        "null" => None,
        json if json.starts_with('"') => json.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.is_empty()),
        json => Some(json),
    }
}

/// Returns the elements of a list that are objects. An object in place of a list is its only element.
fn elements(list: &RawValue) -> Vec<Element<'_>> {
    let list = list.get();
    let elements = json::entries(list).unwrap_or_else(|| vec![list]);
    elements.into_iter().filter_map(Object::read).map(Element).collect()
}

/// An element of a list of reasoning, with the fields of all formats. Every object can be read: if a field occurs
/// twice, the last one counts, and fields can have values of any type.
struct Element<'a>(Object<'a>);

/// The field with the text and the signature of one of Bedrock's blocks.
const BEDROCK: &str = "reasoningText";

impl<'a> Element<'a> {
    fn texts(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let inner = self.0.object(BEDROCK).and_then(|inner| inner.text("text"));
        let inner = inner.or_else(|| self.0.text(BEDROCK));
        let texts = [self.0.text("thinking"), self.0.text("text"), self.0.text("summary"), inner];
        texts.into_iter().flatten().filter(|text| !text.is_empty())
    }

    fn has_text(&self) -> bool {
        self.texts().next().is_some()
    }

    /// Returns the signatures and the encrypted data, without their quotes.
    fn sealed(&self) -> impl Iterator<Item = &'a str> {
        let inner = self.0.object(BEDROCK).and_then(|inner| inner.get("signature"));
        let fields = [self.0.get("signature"), self.0.get("data"), inner, self.0.get("redactedContent")];
        fields.into_iter().flatten().filter_map(sealed)
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(Part<'a>)) {
        self.texts().for_each(|text| visit(Part::Reasoning(text)));
        self.sealed().for_each(|sealed| visit(Part::Sealed(sealed.len())));
    }

    /// Returns the conditions of the element. Anthropic binds what it has signed or encrypted to everything before it.
    /// Other providers only read their own data.
    pub(super) fn bound(&self) -> Bound {
        if self.sealed().next().is_none() {
            return Bound::NONE;
        }
        if self.is_anthropic() { Bound::TO_PREFIX } else { Bound::TO_ORIGIN }
    }

    /// Returns `true` if the element is Anthropic's. In OpenRouter's list, the format says it; if there is none, only a
    /// signed text is, because no other provider signs text. LiteLLM's lists have blocks of Anthropic and Bedrock. A
    /// format or a type that is not a string counts as Anthropic's.
    fn is_anthropic(&self) -> bool {
        let Ok(format) = self.0.text_if_any("format") else { return true };
        if !self.0.text_or_json("type").starts_with("reasoning.") {
            return true;
        }
        match &*format.unwrap_or_default() {
            "" | "unknown" => self.0.get("signature").and_then(sealed).is_some(),
            format => format.starts_with("anthropic"),
        }
    }
}
