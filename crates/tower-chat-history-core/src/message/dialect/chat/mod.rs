//! Chat completions, the format of OpenAI's first chat API, which most providers offer.

mod adapted;
mod content;
mod express;
mod foreign;
mod index;
mod media_part;
mod parts;
mod reasoning;
#[cfg(test)]
mod reasoning_tests;
mod thoughts;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

pub(crate) use self::index::{plain_index, plain_index_at_start, sendable_calls, tool_index};
pub(crate) use self::thoughts::may_have_some as may_have_thoughts;
pub use self::{content::Content, foreign::ForeignShape};
use self::{
    index::{needs_no_escapes, sound_calls},
    reasoning::{BLOCKS, MAX_DEPTH, SIGNATURES, SIGNED, bound_of_calls, bound_of_list, bound_of_object, object},
};
use super::{CallId, Dialect, Expressed, Index, LeftOut, Media, Part, Statement, agree, cache_control};
use crate::{
    compat::{Compat, MadeBy},
    digest::Digest,
    json,
    message::{Message, MessageError, Role},
    provenance::Origin,
};

/// The result of a call that was abandoned. It is constant, so that it never changes a part of a prompt that was
/// already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// The number of levels at which `cache_control` occurs: in a message, a content part, a call, a tool and a function.
const CACHE_CONTROL_LEVELS: usize = 4;

/// The chat-completions format: messages with a `role`, whose calls and results have ids in one space.
///
/// Some providers sign or encrypt reasoning and require it in later requests. A reply with such fields is
/// [bound](Index::bound), as of November 2026:
///
/// | field | provider | bound to |
/// |---|---|---|
/// | `extra_content` of a call or a message, with a `thought_signature` | Google | its origin |
/// | `reasoning_details` with a signature or encrypted data | OpenRouter | its origin; Anthropic's also to its prompt |
/// | `thinking_blocks` with a signature or encrypted data | LiteLLM | its prompt and its origin |
/// | `provider_specific_fields` with a signature, or with a copy of the blocks | LiteLLM | as what it contains |
///
/// `reasoning_content` is bound to nothing. DeepSeek and Moonshot require it for calls. Readers that do not require it
/// get it [without](Dialect::without_reasoning) that of old turns, if a program wants that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChatCompletions;

impl ChatCompletions {
    /// The name of this dialect.
    pub const NAME: &'static str = "chat_completions";

    /// Returns `true` if this provider refuses tool calls without the field `reasoning_content`, as DeepSeek and
    /// Moonshot do (as of November 2026). The field may be empty. The provider is named as in OpenTelemetry, or by one
    /// of its usual names, in any case of letters.
    #[must_use]
    pub fn requires_reasoning_content(provider: &str) -> bool {
        let name = provider.to_ascii_lowercase();
        matches!(&*name, "deepseek" | "moonshot" | "moonshotai" | "moonshot_ai" | "kimi")
    }
}

impl Dialect for ChatCompletions {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        index::parse(json)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        parts::visit(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        plain_json(role, text)
    }

    fn abandoned(&self, call: &CallId) -> String {
        tool_json(call.as_str(), ABANDONED)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        let cleared = message.answers().first().is_some_and(clears);
        if !cleared {
            return None;
        }
        // Replacing JSON by JSON leaves a valid message of this dialect.
        message.with_text(placeholder).ok().map(|message| message.json().to_owned())
    }

    /// Returns the message with a text in place of parts of its content.
    fn without_media(
        &self,
        message: &Message,
        leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool,
    ) -> Option<String> {
        let place = message.index().chat.content.as_ref().filter(|place| !place.is_plain_text)?.range.clone();
        let json = message.json();
        let content = json::with_entries(&json[place.clone()], |part| media_part::left_out(part, leaves_out))?;
        Some([&json[..place.start], &content, &json[place.end..]].concat())
    }

    /// Returns the message with only the valid entries of `tool_calls`, and without the field if no call is left. The
    /// arguments of each call are the JSON of an object. The content of a reply is a text, a list of parts, or null.
    fn sendable(&self, message: &Message) -> String {
        let sendable = message.with_sendable_content().and_then(|message| message.with_sendable_calls());
        sendable.unwrap_or_else(|_| message.clone()).json().to_owned()
    }

    fn adapted(&self, message: &Message, compat: &Compat, made_by: MadeBy) -> Option<Vec<String>> {
        adapted::adapted(message, compat, made_by)
    }

    /// Returns the message without signed and encrypted reasoning. Reasoning without a signature stays, except the
    /// text that repeats the signed one.
    fn unbound(&self, message: &Message) -> Option<String> {
        unbound(message)
    }

    /// Returns the message without `reasoning_content` and the other fields with reasoning, and without
    /// `<think>…</think>` at the beginning of its text. A message with a signature or with encrypted data stays as it
    /// is.
    fn without_reasoning(&self, message: &Message) -> Option<String> {
        thoughts::without(message)
    }

    /// Returns the digest of the JSON without `cache_control`, because providers do not compare it.
    fn digest(&self, json: &str) -> Digest {
        Digest::of(cache_control::without(json, CACHE_CONTROL_LEVELS).as_bytes())
    }

    fn statements<'m>(&self, message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
        parts::statements(message, left_out)
    }

    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        express::messages(statements, expressed)
    }

    /// Returns `true` if provider, route and account are the same, as far as they are known. If both models have a
    /// vendor in their name, such as `anthropic/`, the vendors must be the same, too. Words of a path, such as
    /// `models/`, are no vendors.
    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        reads(made_by, reader)
    }
}

/// Returns the JSON of a message with this text.
pub(crate) fn plain_json(role: &Role, text: &str) -> String {
    let role = role.as_str();
    if needs_no_escapes(text) {
        [r#"{"role":""#, role, r#"","content":""#, text, r#""}"#].concat()
    } else {
        [r#"{"role":""#, role, r#"","content":"#, &Value::from(text).to_string(), "}"].concat()
    }
}

/// Returns the JSON of a result with this text.
pub(crate) fn tool_json(call_id: &str, text: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, Value::from(call_id), Value::from(text))
}

type Fields<'a> = BTreeMap<String, Cow<'a, RawValue>>;

/// Returns the message without signed and encrypted reasoning, or `None` if nothing is left.
///
/// A list with a signed element goes as a whole, because providers refuse a part of it. `reasoning` repeats the texts
/// of `reasoning_details` and goes with it: a gateway that makes unsigned thinking of it would cause a refusal.
/// `reasoning_content` always stays: DeepSeek and Moonshot require it, and it is never signed.
fn unbound(message: &Message) -> Option<String> {
    let mut fields: Fields<'_> =
        message.fields().ok()?.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect();
    if fields.get("reasoning_details").is_some_and(|list| bound_of_list(list).can_be_removed()) {
        fields.remove("reasoning_details");
        fields.remove("reasoning");
    }
    remove_signed(&mut fields, 0)?;
    if let Some(calls) = fields.get("tool_calls").filter(|calls| bound_of_calls(&sound_calls(calls)).can_be_removed()) {
        let calls = calls_without_signatures(calls)?;
        fields.insert("tool_calls".to_owned(), Cow::Owned(calls));
    }
    let message = Message::from_serialize(&fields).ok()?;
    (!message.is_blank()).then(|| message.json().to_owned())
}

/// Returns a list of calls without their signatures. Entries that are not objects stay as they are.
fn calls_without_signatures(calls: &RawValue) -> Option<Box<RawValue>> {
    let calls = json::raw_entries(calls.get()).unwrap_or_default();
    let calls: Option<Vec<Cow<'_, RawValue>>> = calls.into_iter().map(|call| without_signatures(call, 0)).collect();
    to_raw_value(&calls?).ok()
}

/// Returns an object without its signatures. Another value, and an object without signatures, stay as they are.
fn without_signatures(json: &RawValue, depth: usize) -> Option<Cow<'_, RawValue>> {
    if !bound_of_object(json).can_be_removed() {
        return Some(Cow::Borrowed(json));
    }
    let mut fields = object(json).into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect();
    remove_signed(&mut fields, depth)?;
    to_raw_value(&fields).ok().map(Cow::Owned)
}

/// Removes the signatures and signed lists from the fields of an object and of the objects in it. An object that then
/// has no fields is removed, too.
fn remove_signed(fields: &mut Fields<'_>, depth: usize) -> Option<()> {
    fields.retain(|name, value| {
        let is_signed_list = BLOCKS.contains(&&**name) && bound_of_list(value).can_be_removed();
        !(is_signed_list || SIGNATURES.contains(&&**name))
    });
    if depth >= MAX_DEPTH {
        return Some(());
    }
    for name in SIGNED {
        let Some(value) = fields.get(name) else { continue };
        let Cow::Owned(less) = without_signatures(value, depth + 1)? else { continue };
        if object(&less).is_empty() {
            fields.remove(name);
        } else {
            fields.insert(name.to_owned(), Cow::Owned(less));
        }
    }
    Some(())
}

/// Returns `true` if `reader` can read what `made_by` sealed.
///
/// An unknown value is taken for the same as any other: a program that never names its provider calls the same one
/// most of the time, and a required field that is left out is refused as surely as a foreign one.
pub(in crate::message::dialect) fn reads(made_by: &Origin, reader: &Origin) -> bool {
    agree(made_by.provider.as_deref(), reader.provider.as_deref())
        && agree(made_by.route.as_deref(), reader.route.as_deref())
        && agree(made_by.account.as_deref(), reader.account.as_deref())
        // Equal names have the same vendor.
        && (made_by.model == reader.model
            || agree(made_by.model.as_deref().and_then(vendor), reader.model.as_deref().and_then(vendor)))
}

/// The first words of paths that name a model, such as `models/gemini-3-pro`. They are no vendors.
const PATHS: [&str; 7] = ["models", "tunedModels", "projects", "locations", "accounts", "deployments", "endpoints"];

/// Returns the vendor in the name of a gateway's model: `anthropic` for `anthropic/claude-sonnet-4.5`. In one of
/// Google's paths, it is the publisher: `google` for `publishers/google/models/gemini-3-pro`. Other paths have none.
fn vendor(model: &str) -> Option<&str> {
    let mut words = model.split('/');
    if words.by_ref().any(|word| word == "publishers") {
        return words.next();
    }
    let (first, _) = model.split_once('/')?;
    (!PATHS.contains(&first)).then(|| first.trim_start_matches('~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::unknown().provider("p").route("r").account("a").model("v/m")
    }

    #[test]
    fn another_provider_route_account_or_vendor_cannot_read_it() {
        assert!(reads(&origin(), &origin()));
        assert!(reads(&origin(), &origin().model("~v/other")));
        for other in [origin().provider("q"), origin().route("s"), origin().account("b"), origin().model("w/m")] {
            assert!(!reads(&origin(), &other) && !reads(&other, &origin()), "{other:?}");
        }
    }

    #[test]
    fn words_of_a_path_are_no_vendors() {
        for model in ["models/gemini-3-pro", "tunedModels/mine", "accounts/a/models/m", "gemini-3-pro"] {
            assert_eq!(vendor(model), None, "{model}");
            assert!(reads(&origin().model(model), &origin().model("google/gemini-3-pro")), "{model}");
        }
        let whole = "projects/p/locations/global/publishers/google/models/gemini-3-pro";
        for model in [whole, "publishers/google/models/gemini-3-pro", "google/gemini-3-pro"] {
            assert_eq!(vendor(model), Some("google"), "{model}");
            assert!(!reads(&origin().model(model), &origin().model("publishers/anthropic/models/m")), "{model}");
        }
    }

    #[test]
    fn an_unknown_value_is_the_same_as_any_other() {
        let unknown = Origin::unknown();
        assert!(reads(&unknown, &unknown) && reads(&origin(), &unknown) && reads(&unknown, &origin()));
        assert!(reads(&Origin::unknown().provider("p"), &origin()));
        assert!(reads(&origin(), &Origin::unknown().model("m")), "a model without a vendor");
    }
}
