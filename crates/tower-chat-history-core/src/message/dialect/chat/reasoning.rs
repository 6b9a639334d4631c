//! The reasoning in a reply: the fields in which providers send it, and the parts of it that they have signed or
//! encrypted. The names are those that the providers document, as of November 2026.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::index::{decoded, is_string};
use crate::message::dialect::{Bound, Part};

/// The fields of a reply in which reasoning and signatures arrive, as JSON.
#[derive(Default)]
pub(super) struct ReasoningFields<'a> {
    /// DeepSeek, Moonshot, vLLM and LiteLLM: a text.
    reasoning_content: Option<&'a RawValue>,
    /// OpenRouter, Groq and vLLM: a text.
    reasoning: Option<&'a RawValue>,
    /// OpenRouter: a list of texts, summaries and encrypted data.
    reasoning_details: Option<&'a RawValue>,
    /// LiteLLM: a list of Anthropic's blocks.
    thinking_blocks: Option<&'a RawValue>,
    /// Google: an object with a signature.
    extra_content: Option<&'a RawValue>,
    /// LiteLLM: an object with signatures, and with copies of other fields.
    provider_specific_fields: Option<&'a RawValue>,
}

impl<'a> ReasoningFields<'a> {
    /// The names of the fields.
    pub(super) const NAMES: [&'static str; 6] = [
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "thinking_blocks",
        "extra_content",
        "provider_specific_fields",
    ];

    /// Sets the field with this name. Other names change nothing.
    pub(super) fn set(&mut self, name: &str, value: Option<&'a RawValue>) {
        match name {
            "reasoning_content" => self.reasoning_content = value,
            "reasoning" => self.reasoning = value,
            "reasoning_details" => self.reasoning_details = value,
            "thinking_blocks" => self.thinking_blocks = value,
            "extra_content" => self.extra_content = value,
            "provider_specific_fields" => self.provider_specific_fields = value,
            _ => {}
        }
    }

    /// Returns the conditions under which the fields may be sent again.
    pub(super) fn bound(&self) -> Bound {
        let lists = [self.reasoning_details, self.thinking_blocks].into_iter().flatten().map(bound_of_list);
        let objects = [self.extra_content, self.provider_specific_fields].into_iter().flatten().map(bound_of_object);
        lists.chain(objects).fold(Bound::NONE, Bound::or)
    }

    /// Visits the reasoning once, although some providers send it in several fields, and then the signatures.
    pub(super) fn visit(&self, visit: &mut dyn FnMut(Part<'a>)) {
        let specific = self.provider_specific_fields.map(object).unwrap_or_default();
        let blocks = self.thinking_blocks.or_else(|| specific.get("thinking_blocks").copied());
        let structured: Vec<Element<'a>> =
            [self.reasoning_details, blocks].into_iter().flatten().flat_map(elements).collect();
        if !structured.iter().any(Element::has_text) {
            let text = [self.reasoning_content, self.reasoning].into_iter().flatten().map(decoded);
            text.filter(|text| !text.is_empty()).take(1).for_each(|text| visit(Part::Reasoning(text)));
        }
        structured.iter().for_each(|element| element.visit(visit));
        let objects = [self.extra_content, self.provider_specific_fields].into_iter().flatten();
        objects.flat_map(signatures).for_each(|signature| visit(Part::Sealed(signature.len())));
    }
}

/// Returns the conditions under which a list of calls may be sent again.
pub(super) fn bound_of_calls(calls: &RawValue) -> Bound {
    if signatures_of_calls(calls).is_empty() { Bound::NONE } else { Bound::TO_ORIGIN }
}

/// Returns the signatures in a list of calls, without their quotes.
pub(super) fn signatures_of_calls(calls: &RawValue) -> Vec<&str> {
    let entries: Vec<&RawValue> = serde_json::from_str(calls.get()).unwrap_or_default();
    entries.into_iter().flat_map(signatures).collect()
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
                let list: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_else(|_| vec![value]);
                found.extend(list.into_iter().filter_map(nonempty));
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

/// Returns the elements of a list that are objects.
fn elements(list: &RawValue) -> Vec<Element<'_>> {
    // Nearly all lists have nothing but objects. Such a list is read in one pass.
    if let Ok(elements) = serde_json::from_str(list.get()) {
        return elements;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    elements.into_iter().filter_map(|element| serde_json::from_str(element.get()).ok()).collect()
}

/// Returns the fields of an object. Returns none for another value.
pub(super) fn object(json: &RawValue) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(json.get()).unwrap_or_default()
}

/// An element of a list of reasoning, with the fields of all formats.
#[derive(Deserialize)]
struct Element<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "reasoningText")]
    reasoning_text: Option<ReasoningText<'a>>,
    #[serde(borrow, rename = "redactedContent")]
    redacted_content: Option<&'a RawValue>,
}

/// The text and signature of one of Bedrock's blocks.
#[derive(Deserialize)]
struct ReasoningText<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
}

impl<'a> Element<'a> {
    fn texts(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let inner = self.reasoning_text.as_ref().and_then(|inner| inner.text);
        let texts = [self.thinking, self.text, self.summary, inner];
        texts.into_iter().flatten().filter(|json| nonempty(json).is_some()).map(decoded)
    }

    fn has_text(&self) -> bool {
        self.texts().next().is_some()
    }

    /// Returns the signatures and the encrypted data, without their quotes.
    fn sealed(&self) -> impl Iterator<Item = &'a str> {
        let inner = self.reasoning_text.as_ref().and_then(|inner| inner.signature);
        [self.signature, self.data, inner, self.redacted_content].into_iter().flatten().filter_map(nonempty)
    }

    fn visit(&self, visit: &mut dyn FnMut(Part<'a>)) {
        self.texts().for_each(|text| visit(Part::Reasoning(text)));
        self.sealed().for_each(|sealed| visit(Part::Sealed(sealed.len())));
    }

    /// Returns the conditions of the element. Anthropic binds what it has signed or encrypted to everything before it.
    /// Other providers only read their own data.
    fn bound(&self) -> Bound {
        if self.sealed().next().is_none() {
            return Bound::NONE;
        }
        if self.is_anthropic() { Bound::TO_PREFIX } else { Bound::TO_ORIGIN }
    }

    /// Returns `true` if the element is Anthropic's. In OpenRouter's list, the format says it; if there is none, only a
    /// signed text is, because no other provider signs text. LiteLLM's lists have blocks of Anthropic and Bedrock.
    fn is_anthropic(&self) -> bool {
        let name = |json: Option<&'a RawValue>| json.map(decoded).unwrap_or_default();
        let (kind, format) = (name(self.r#type), name(self.format));
        if !kind.starts_with("reasoning.") {
            return true;
        }
        match &*format {
            "" | "unknown" => self.signature.and_then(nonempty).is_some(),
            format => format.starts_with("anthropic"),
        }
    }
}

/// Returns the escaped text of a string that is not empty, without its quotes.
fn nonempty(json: &RawValue) -> Option<&str> {
    let text = is_string(json).then(|| json.get())?;
    text.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.is_empty())
}
