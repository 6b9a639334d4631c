//! The elements of a list of reasoning.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::reasoning;
use crate::{
    json::{self, Object},
    message::dialect::{Bound, Part},
};

/// Returns the elements of a list that are objects. An object in place of a list is its only element.
pub(super) fn elements(list: &RawValue) -> Vec<Element<'_>> {
    let list = list.get();
    let elements = json::entries(list).unwrap_or_else(|| vec![list]);
    elements.into_iter().filter_map(Object::read).map(Element).collect()
}

/// An element of a list of reasoning, with the fields of all formats. Every object can be read: if a field occurs
/// twice, the last one counts, and fields can have values of any type.
pub(super) struct Element<'a>(Object<'a>);

/// The field with the text and the signature of one of Bedrock's blocks.
const BEDROCK: &str = "reasoningText";

impl<'a> Element<'a> {
    fn texts(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let inner = self.0.object(BEDROCK).and_then(|inner| inner.text("text"));
        let inner = inner.or_else(|| self.0.text(BEDROCK));
        let texts = [self.0.text("thinking"), self.0.text("text"), self.0.text("summary"), inner];
        texts.into_iter().flatten().filter(|text| !text.is_empty())
    }

    pub(super) fn has_text(&self) -> bool {
        self.texts().next().is_some()
    }

    /// Returns the signatures and the encrypted data, without their quotes.
    fn sealed(&self) -> impl Iterator<Item = &'a str> {
        let inner = self.0.object(BEDROCK).and_then(|inner| inner.get("signature"));
        let sealed = [self.0.get("signature"), self.0.get("data"), inner, self.0.get("redactedContent")];
        sealed.into_iter().flatten().filter_map(reasoning::sealed)
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
            "" | "unknown" => self.0.get("signature").and_then(reasoning::sealed).is_some(),
            format => format.starts_with("anthropic"),
        }
    }
}
