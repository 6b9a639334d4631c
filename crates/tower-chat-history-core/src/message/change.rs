//! Forms of a message: without a part of it, or with another text in its place.

use std::borrow::Cow;

use super::{CallId, Dialect, Message};

impl Message {
    /// Returns this message in a form that providers accept. For chat completions, this is the message without the
    /// entries of `tool_calls` that are not [calls](Self::tool_calls), and without the field if no call is left.
    ///
    /// All other messages are returned unchanged. The result depends only on this message.
    #[must_use]
    pub fn sendable(&self) -> Cow<'_, Self> {
        if !self.index().is_rewritten {
            return Cow::Borrowed(self);
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
        let unbound = || self.changed(|dialect| dialect.unbound_from_prompt(self));
        self.0.unbound_from_prompt.get_or_init(unbound).as_ref()
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

    /// Returns the message that the dialect makes of this one.
    fn changed(&self, change: impl FnOnce(&'static dyn Dialect) -> Option<String>) -> Option<Self> {
        let dialect = self.dialect()?;
        // A dialect reads what it writes. If it does not, the part is left out.
        Self::in_dialect(dialect, change(dialect)?).ok()
    }
}
