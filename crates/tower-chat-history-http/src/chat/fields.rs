//! The fields of a body, as JSON.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The fields that history reads. Their values are not checked here; the provider checks them. If a field occurs twice,
/// the last value is used.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) messages: Option<&'a RawValue>,
    /// True if there are two lists of messages: it is unknown which of them is meant.
    pub(super) repeats_messages: bool,
    pub(super) n: Option<&'a RawValue>,
    pub(super) model: Option<&'a RawValue>,
    pub(super) tools: Option<&'a RawValue>,
    pub(super) response_format: Option<&'a RawValue>,
    pub(super) max_completion_tokens: Option<&'a RawValue>,
    pub(super) max_tokens: Option<&'a RawValue>,
    pub(super) temperature: Option<&'a RawValue>,
    pub(super) top_p: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        let mut fields = Fields::default();
        while let Some(Name(name)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            let field = match &*name {
                "messages" => {
                    fields.repeats_messages |= fields.messages.is_some();
                    &mut fields.messages
                }
                "n" => &mut fields.n,
                "model" => &mut fields.model,
                "tools" => &mut fields.tools,
                "response_format" => &mut fields.response_format,
                "max_completion_tokens" => &mut fields.max_completion_tokens,
                "max_tokens" => &mut fields.max_tokens,
                "temperature" => &mut fields.temperature,
                "top_p" => &mut fields.top_p,
                _ => continue,
            };
            *field = Some(value);
        }
        Ok(fields)
    }
}

impl<'a> Fields<'a> {
    /// Returns the JSON of the reply's limit, and its value. If both fields exist, it is that of the newer one,
    /// `max_completion_tokens`. Values over `u32::MAX` become `u32::MAX`.
    pub(super) fn reply_limit(&self) -> Option<(&'a str, u32)> {
        let limits = [self.max_completion_tokens, self.max_tokens].into_iter().flatten();
        let mut limits = limits.filter_map(|json| Some((json.get(), json.get().parse::<u64>().ok()?)));
        limits.next().map(|(json, tokens)| (json, u32::try_from(tokens).unwrap_or(u32::MAX)))
    }
}
