//! Changed messages: without a part, with another text in its place, or with another field.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use serde_json::value::RawValue;

use super::{
    Adapted, CallId, Dialect, Media, Message, MessageError,
    dialect::{may_have_thoughts, sendable_calls},
};
use crate::{
    compat::{Compat, MadeBy},
    json,
};

impl Message {
    /// Returns this message in a form that providers accept. For chat completions, this is the message without the
    /// entries of `tool_calls` that are not [calls](Self::tool_calls), and without the field if no call is left. In all
    /// dialects, the arguments of each call of a function are an [object](super::ToolCall::arguments_object), and each
    /// lone surrogate is U+FFFD, because strict readers of JSON refuse a request that has one.
    ///
    /// All other messages are returned unchanged. The result depends only on this message.
    #[must_use]
    pub fn sendable(&self) -> Cow<'_, Self> {
        if !self.index().is_rewritten {
            return Cow::Borrowed(self);
        }
        // Nothing else of a message with a lone surrogate has to change.
        if let Some(json) = json::without_lone_surrogates(self.json()) {
            let readable = self.changed(|_| Some(json));
            return readable.map_or(Cow::Borrowed(self), |message| Cow::Owned(message.sendable().into_owned()));
        }
        self.changed(|dialect| Some(dialect.sendable(self))).map_or(Cow::Borrowed(self), Cow::Owned)
    }

    /// Returns this message without everything that is [bound](Self::bound) to a prompt or an origin, or `None` if
    /// nothing is left. The result is computed once.
    #[must_use]
    pub fn unbound(&self) -> Option<&Self> {
        if !self.bound().can_be_removed() {
            return Some(self);
        }
        self.0.unbound.get_or_init(|| self.changed(|dialect| dialect.unbound(self))).as_ref()
    }

    /// Returns this message without everything that is [bound](Self::bound) to its prompt, or `None` if nothing is left.
    /// Parts that are bound only to their origin stay. The result is computed once.
    #[must_use]
    pub fn unbound_from_prompt(&self) -> Option<&Self> {
        if !self.bound().to_prefix {
            return Some(self);
        }
        self.0.unbound_from_prompt.get_or_init(|| self.changed(|dialect| dialect.unbound_from_prompt(self))).as_ref()
    }

    /// Returns this message without the reasoning that is [bound](Self::bound) to nothing, or `None` if it has none. See
    /// [`Dialect::without_reasoning`]. The result is computed once.
    #[must_use]
    pub fn without_reasoning(&self) -> Option<&Self> {
        let changed = || self.changed(|dialect| dialect.without_reasoning(self));
        self.0.without_reasoning.get_or_init(changed).as_ref()
    }

    /// Returns this message with only the results of these calls, or `None` if nothing is left.
    #[must_use]
    pub fn answering(&self, kept: &[CallId]) -> Option<Self> {
        self.changed(|dialect| dialect.answering(self, kept))
    }

    /// Returns this message with only these of the calls that the provider executes itself, and only these of their
    /// results, or `None` if nothing is left. See [`Dialect::settled`].
    #[must_use]
    pub fn settled(&self, calls: &[CallId], results: &[CallId]) -> Option<Self> {
        self.changed(|dialect| dialect.settled(self, calls, results))
    }

    /// Returns this message with `placeholder` in place of the text of the results for which `clears` returns `true`,
    /// or `None` if there are none.
    #[must_use]
    pub fn cleared(&self, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<Self> {
        self.changed(|dialect| dialect.cleared(self, clears, placeholder))
    }

    /// Returns this message with a constant text in place of the media for which `leaves_out` returns `true`, or `None`
    /// if there are none. See [`Dialect::without_media`].
    #[must_use]
    pub fn without_media(&self, leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool) -> Option<Self> {
        self.changed(|dialect| dialect.without_media(self, leaves_out))
    }

    /// Returns the messages in which this one is sent to a reader that accepts less than the log has. `None` if it is
    /// sent as it is. See [`Dialect::adapted`]. The form for the last reader is kept.
    #[must_use]
    pub fn adapted(&self, compat: &Compat, made_by: MadeBy) -> Option<Arc<[Self]>> {
        if !self.keeps_adapted() {
            return self.adapt(compat, made_by);
        }

        let mut kept = self.0.adapted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_deref().filter(|kept| kept.made_by == made_by && kept.compat == *compat) {
            return Some(Arc::clone(&kept.messages));
        }
        let messages = self.adapt(compat, made_by)?;
        *kept = Some(Box::new(Adapted { compat: *compat, made_by, messages: Arc::clone(&messages) }));
        Some(messages)
    }

    fn adapt(&self, compat: &Compat, made_by: MadeBy) -> Option<Arc<[Self]>> {
        let dialect = self.dialect()?;
        let forms = dialect.adapted(self, compat, made_by)?;
        // A dialect reads what it writes. If it does not, the message stays as it is.
        forms.into_iter().map(|json| Self::in_dialect(dialect, json).ok()).collect()
    }

    /// Returns `true` if a form for a reader is kept. Other messages usually are sent as they are, and may be large.
    pub(super) fn keeps_adapted(&self) -> bool {
        let index = self.index();
        index.chat.has_fields_of_maker || !index.opens.is_empty() || !index.answers.is_empty()
    }

    /// Returns `true` if a copy without reasoning may be kept.
    pub(super) fn may_have_thoughts(&self) -> bool {
        may_have_thoughts(self)
    }

    /// Returns the message that the dialect makes of this one.
    fn changed(&self, change: impl FnOnce(&'static dyn Dialect) -> Option<String>) -> Option<Self> {
        let dialect = self.dialect()?;
        // A dialect reads what it writes. If it does not, the part is left out.
        Self::in_dialect(dialect, change(dialect)?).ok()
    }
}

impl Message {
    /// Returns this message with the field `name` of its JSON object set to `value`, which is JSON. An existing field
    /// of that name is replaced. All values stay as they are written. The fields are sorted by name. Their names are
    /// those of the message's [dialect](Self::dialect).
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not JSON, if the result is not a message of the dialect, or if the dialect is
    /// not known.
    pub fn with_field(&self, name: &str, value: &str) -> Result<Self, MessageError> {
        let value: &RawValue = serde_json::from_str(value).map_err(MessageError::from_json)?;
        let mut fields = self.fields()?;
        fields.insert(name.to_owned(), value);
        self.of_fields(&fields)
    }

    /// Returns this message without this field. The other fields are treated as in
    /// [`with_field`](Self::with_field).
    ///
    /// # Errors
    ///
    /// Returns an error if the rest is not a message of the dialect, or if the dialect is not known.
    pub fn without_field(&self, name: &str) -> Result<Self, MessageError> {
        let mut fields = self.fields()?;
        fields.remove(name);
        self.of_fields(&fields)
    }

    /// Creates the message of this dialect with these fields.
    fn of_fields(&self, fields: &BTreeMap<String, &RawValue>) -> Result<Self, MessageError> {
        let dialect = self.dialect().ok_or(MessageError::new("its dialect is not known"))?;
        Self::in_dialect(dialect, serde_json::to_string(fields).map_err(MessageError::from_json)?)
    }

    /// Returns this message with only the valid entries of its `tool_calls`, in the form in which servers accept them,
    /// or without the field if there are none.
    pub(crate) fn with_sendable_calls(&self) -> Result<Self, MessageError> {
        let fields = self.fields()?;
        let Some(written) = fields.get("tool_calls").filter(|calls| calls.get() != "null") else {
            return Ok(self.clone());
        };
        let calls = sendable_calls(written);
        if calls.is_empty() {
            return self.without_field("tool_calls");
        }
        let are_written = calls.iter().all(|call| matches!(call, Cow::Borrowed(_)));
        if are_written && json::entries(written.get()).is_some_and(|entries| entries.len() == calls.len()) {
            return Ok(self.clone());
        }
        self.with_field("tool_calls", &format!("[{}]", calls.join(",")))
    }

    /// Returns the JSON of all fields of the message's JSON object, by name. If a field occurs twice, the last one
    /// counts. Lone surrogates in names are read as U+FFFD.
    ///
    /// # Errors
    ///
    /// Returns an error if the JSON is not an object. A message of chat completions always is one.
    pub fn fields(&self) -> Result<BTreeMap<String, &RawValue>, MessageError> {
        json::fields(self.json()).map_err(MessageError::from_json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are_spelled() {
        let message = Message::from_json(r#"{"x": 1.50,"role":"user","content":"\u00e4"}"#).unwrap();
        let with = message.with_field("name", r#" "n" "#).unwrap();
        assert_eq!(with.json(), r#"{"content":"\u00e4","name":"n","role":"user","x":1.50}"#);
        assert_eq!(with.without_field("x").unwrap().json(), r#"{"content":"\u00e4","name":"n","role":"user"}"#);
        assert!(message.with_field("name", "n").is_err());
        assert!(message.with_field("role", "1").is_err());
        assert!(message.without_field("role").is_err());
    }

    #[test]
    fn a_message_of_an_unknown_dialect_is_not_changed() {
        let message = Message::unread("[1]".into());
        assert!(message.fields().is_err());
        let message = Message::unread(r#"{"role":"user"}"#.into());
        assert!(message.with_field("name", "1").is_err() && message.without_field("name").is_err());
        assert!(message.with_text("t").is_err() && message.with_parts(&["1"]).is_err());
    }

    #[test]
    fn names_with_lone_surrogates_are_read() {
        let message = Message::from_json(r#"{"\ud83d":"\ud83d","role":"tool","tool_call_id":"x"}"#).unwrap();
        let cleared = message.with_text("-").unwrap();
        assert_eq!((cleared.text().as_ref(), cleared.tool_call_id()), ("-", Some("x")));
        assert!(cleared.json().contains("\\ud83d"), "the value keeps its spelling");
    }
}
