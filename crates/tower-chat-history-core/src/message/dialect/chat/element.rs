//! The elements of a list of reasoning.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    index::{decoded, is_string},
    reasoning::{object, sealed},
};
use crate::{
    lossy::Lossy,
    message::dialect::{Bound, Part},
};

/// Returns the elements of a list that are objects. An object in place of a list is its only element.
pub(super) fn elements(list: &RawValue) -> Vec<Element<'_>> {
    let list = list.get();
    if list.starts_with('{') {
        return serde_json::from_str(list).into_iter().collect();
    }
    // Nearly all lists have nothing but objects. Such a list is read in one pass.
    if let Ok(elements) = serde_json::from_str(list) {
        return elements;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    elements.into_iter().filter_map(|element| serde_json::from_str(element.get()).ok()).collect()
}

/// An element of a list of reasoning, with the fields of all formats. Every object can be read: if a field occurs
/// twice, the last one counts, and fields can have values of any type.
#[derive(Default)]
pub(super) struct Element<'a> {
    kind: Option<&'a RawValue>,
    format: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    signature: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    /// The text and the signature of one of Bedrock's blocks.
    reasoning_text: Option<&'a RawValue>,
    redacted_content: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Element<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an element of a list of reasoning")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut element = Element::default();
        while let Some(Lossy(name)) = map.next_key()? {
            let field = match &*name {
                "type" => &mut element.kind,
                "format" => &mut element.format,
                "text" => &mut element.text,
                "summary" => &mut element.summary,
                "thinking" => &mut element.thinking,
                "signature" => &mut element.signature,
                "data" => &mut element.data,
                "reasoningText" => &mut element.reasoning_text,
                "redactedContent" => &mut element.redacted_content,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = map.next_value()?;
        }
        Ok(element)
    }
}

impl<'a> Element<'a> {
    fn texts(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let inner = self.reasoning_text.map(|json| if is_string(json) { Some(json) } else { inner(json, "text") });
        let texts = [self.thinking, self.text, self.summary, inner.flatten()];
        texts.into_iter().flatten().filter(|json| is_string(json)).map(decoded).filter(|text| !text.is_empty())
    }

    pub(super) fn has_text(&self) -> bool {
        self.texts().next().is_some()
    }

    /// Returns the signatures and the encrypted data, without their quotes.
    fn sealed(&self) -> impl Iterator<Item = &'a str> {
        let inner = self.reasoning_text.and_then(|json| inner(json, "signature"));
        [self.signature, self.data, inner, self.redacted_content].into_iter().flatten().filter_map(sealed)
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
        let kind = self.kind.map(decoded).unwrap_or_default();
        if !kind.starts_with("reasoning.") || self.format.is_some_and(|format| !is_string(format)) {
            return true;
        }
        match &*self.format.map(decoded).unwrap_or_default() {
            "" | "unknown" => self.signature.and_then(sealed).is_some(),
            format => format.starts_with("anthropic"),
        }
    }
}

/// Returns a field of an object in an element.
fn inner<'a>(json: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    object(json).remove(name)
}
