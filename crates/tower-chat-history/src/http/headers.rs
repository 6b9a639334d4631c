//! The headers that set the options of a call. They never leave the process.

use http::{HeaderMap, HeaderName, Request};
use tower_chat_history_core::ExchangeId;

use crate::{
    adapt::{
        CallScope,
        extract::{ExtractScope, FromTask},
    },
    call::CallOptions,
    error::{BoxError, HeaderError},
};

/// The header that names a call's conversation. Its value is the `Display` form of a
/// [`ConversationId`](crate::ConversationId).
///
/// Without it, the call belongs to the conversation of the [running task](crate::in_conversation). If the
/// task has none, the call fails with [`MissingConversation`](crate::MissingConversation).
pub const CONVERSATION_ID: &str = "x-chat-history-conversation";

/// The header that names a call's exchange. Its value is an [`ExchangeId`]. If the call is repeated with the same id,
/// its exchange is stored only once. The default is a generated id.
pub const EXCHANGE_ID: &str = "x-chat-history-exchange";

/// The header that marks a chat call as stateless. With the value `true`, the call passes through without history, even
/// if another header names a conversation (for example, a header of the client's configuration). The default is
/// `false`.
pub const STATELESS: &str = "x-chat-history-stateless";

/// The header that disables storing for a chat call. With the value `true`, the history is sent, and nothing is stored
/// ([`dont_store`](crate::CallOptions::dont_store)). The default is `false`.
///
/// If the caller keeps its own list of messages, it must remove this call's input and reply from the list, because the
/// log does not have them.
pub const DONT_STORE: &str = "x-chat-history-dont-store";

/// The header that sets the number of few-shot messages of a call, as a decimal number. Few-shot messages follow the
/// leading system and developer messages. They are sent first and never stored. The default is that of the
/// [extractor](FromHeaders::few_shot_messages).
pub const FEW_SHOT_MESSAGES: &str = "x-chat-history-few-shot-messages";

/// All of these headers.
static OURS: [HeaderName; 5] =
    [name(CONVERSATION_ID), name(EXCHANGE_ID), name(STATELESS), name(DONT_STORE), name(FEW_SHOT_MESSAGES)];

/// Extracts the conversation and the options of a call from the headers of this module, or else the conversation of the
/// [running task](crate::in_conversation).
///
/// There is no default: a call without a conversation fails with
/// [`MissingConversation`](crate::MissingConversation). A header that cannot be used fails with
/// [`HeaderError`].
///
/// The sender of a request chooses its headers. If requests come from outside, first check that their sender may use
/// the conversation, or use another [extractor](crate::adapt::extract), such as
/// [`FromExtensions`](crate::adapt::extract::FromExtensions).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FromHeaders {
    few_shot_messages: usize,
}

impl FromHeaders {
    /// Creates the extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self { few_shot_messages: 0 }
    }

    /// Sets the number of few-shot messages of calls without the header [`FEW_SHOT_MESSAGES`]. The default is 0.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.few_shot_messages = messages;
        self
    }

    /// Reads the scope of a call from its headers.
    ///
    /// # Errors
    ///
    /// Returns [`MissingConversation`](crate::MissingConversation) or [`HeaderError`].
    pub fn scope(&self, headers: &HeaderMap) -> Result<CallScope, BoxError> {
        read(headers, self.few_shot_messages)
    }
}

impl<B: 'static> ExtractScope<Request<B>> for FromHeaders {
    type Call = Request<B>;

    fn extract(&self, call: Request<B>) -> Result<(CallScope, Request<B>), BoxError> {
        Ok((self.scope(call.headers())?, call))
    }
}

/// Reads the scope and the options of a call. `few_shot_messages` is the number that is used without the header.
fn read(headers: &HeaderMap, few_shot_messages: usize) -> Result<CallScope, BoxError> {
    if flag(headers, STATELESS)? {
        return Ok(CallScope::Stateless);
    }
    let mut options = CallOptions::new();
    let exchange = one(headers, EXCHANGE_ID)?.map(ExchangeId::new).transpose();
    options.exchange = exchange.map_err(|source| HeaderError::ExchangeId { name: name(EXCHANGE_ID), source })?;
    let own = one(headers, FEW_SHOT_MESSAGES)?.map(|text| number(text, FEW_SHOT_MESSAGES)).transpose()?;
    options.few_shot_messages = own.unwrap_or(few_shot_messages);
    if flag(headers, DONT_STORE)? {
        options = options.dont_store();
    }
    let conversation = match one(headers, CONVERSATION_ID)? {
        Some(id) => id.parse().map_err(|source| HeaderError::ConversationId { name: name(CONVERSATION_ID), source })?,
        None => match FromTask::new().extract(())? {
            (CallScope::Conversation(conversation, _), ()) => conversation,
            (CallScope::Stateless, ()) => return Ok(CallScope::Stateless),
        },
    };
    Ok(CallScope::Conversation(conversation, options))
}

/// Returns `true` if a call without history is marked as stateless. Its other headers are not read.
#[must_use]
pub fn is_stateless(headers: &HeaderMap) -> bool {
    flag(headers, STATELESS).unwrap_or(false)
}

/// Returns `true` if the header is `true`, and `false` without the header.
fn flag(headers: &HeaderMap, header: &'static str) -> Result<bool, HeaderError> {
    match one(headers, header)? {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(HeaderError::NotBoolean { name: name(header) }),
    }
}

/// Parses a decimal number that has only digits; `parse` would accept a plus sign too.
fn number(text: &str, header: &'static str) -> Result<usize, HeaderError> {
    let parsed = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
    parsed.ok_or_else(|| HeaderError::NotANumber { name: name(header) })
}

/// Returns the header's value. Two values are an error, because choosing one might choose another user's conversation.
fn one<'a>(headers: &'a HeaderMap, header: &'static str) -> Result<Option<&'a str>, HeaderError> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(HeaderError::Repeated { name: name(header) });
    }
    value.to_str().map(Some).map_err(|_| HeaderError::NotAscii { name: name(header) })
}

const fn name(header: &'static str) -> HeaderName {
    HeaderName::from_static(header)
}

/// Removes the headers of this module: ids may name users, and the provider does not need them.
pub fn strip(headers: &mut HeaderMap) {
    for name in &OURS {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use tower_chat_history_core::ConversationId;

    use super::*;
    use crate::error::MissingConversation;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    /// Reads the scope of a client that has 9 few-shot messages.
    fn read(headers: &HeaderMap) -> Result<String, BoxError> {
        super::read(headers, 9).map(|scope| format!("{scope:?}"))
    }

    fn call(conversation: &ConversationId, change: impl FnOnce(CallOptions) -> CallOptions) -> String {
        let options = change(CallOptions::new().few_shot_messages(9));
        format!("{:?}", CallScope::Conversation(conversation.clone(), options))
    }

    const STATELESS_CALL: &str = "Stateless";

    #[test]
    fn a_call_names_its_conversation_or_is_stateless() {
        let id: ConversationId = "acme/user%2042".parse().unwrap();
        let named = headers(&[(CONVERSATION_ID, id.as_str()), (EXCHANGE_ID, "m-1")]);
        let exchange = ExchangeId::new("m-1").unwrap();
        assert_eq!(read(&named).unwrap(), call(&id, |options| options.exchange(exchange)));
        let unnamed = headers(&[(CONVERSATION_ID, id.as_str()), (STATELESS, "false")]);
        assert_eq!(read(&unnamed).unwrap(), call(&id, |options| options));
        let stateless = headers(&[(CONVERSATION_ID, id.as_str()), (STATELESS, "true")]);
        assert_eq!(read(&stateless).unwrap(), STATELESS_CALL);
    }

    #[test]
    fn headers_set_the_options_of_a_call() {
        let id: ConversationId = "a".parse().unwrap();
        let asked = |name, value| read(&headers(&[(CONVERSATION_ID, "a"), (name, value)])).unwrap();
        for (text, few_shot_messages) in [("0", 0), ("2", 2), ("007", 7)] {
            assert_eq!(
                asked(FEW_SHOT_MESSAGES, text),
                call(&id, |options| options.few_shot_messages(few_shot_messages))
            );
        }
        assert_eq!(asked(DONT_STORE, "true"), call(&id, CallOptions::dont_store));
        assert_eq!(asked(DONT_STORE, "false"), call(&id, |options| options));
    }

    #[tokio::test]
    async fn the_scope_of_the_running_task_counts_if_no_header_names_a_conversation() {
        let [outer, named] = ["outer", "named"].map(|id| ConversationId::new([id]).unwrap());
        let none = HeaderMap::new();
        let read = |headers: HeaderMap| async move { read(&headers) };
        let scoped = crate::adapt::extract::in_conversation(outer.clone(), read(none.clone())).await;
        assert_eq!(scoped.unwrap(), call(&outer, |options| options));
        let both = headers(&[(CONVERSATION_ID, named.as_str())]);
        let both = crate::adapt::extract::in_conversation(outer.clone(), read(both)).await;
        assert_eq!(both.unwrap(), call(&named, |options| options));
        assert_eq!(crate::adapt::extract::stateless(read(none)).await.unwrap(), STATELESS_CALL);
    }

    #[test]
    fn missing_conversations_and_malformed_headers_are_errors() {
        assert!(read(&HeaderMap::new()).unwrap_err().is::<MissingConversation>());
        let refused =
            |lines: &[(&'static str, &str)]| *read(&headers(lines)).unwrap_err().downcast::<HeaderError>().unwrap();
        assert_eq!(refused(&[(STATELESS, "yes")]), HeaderError::NotBoolean { name: name(STATELESS) });
        let no_id = refused(&[(CONVERSATION_ID, "a b")]);
        assert!(matches!(no_id, HeaderError::ConversationId { name, .. } if name == CONVERSATION_ID));
        assert!(
            matches!(refused(&[(CONVERSATION_ID, "ä")]), HeaderError::NotAscii { name } if name == CONVERSATION_ID)
        );
        let wrong_exchange = refused(&[(CONVERSATION_ID, "a"), (EXCHANGE_ID, "b c")]);
        assert!(matches!(wrong_exchange, HeaderError::ExchangeId { name, .. } if name == EXCHANGE_ID));
        for wrong in ["", "yes", "True", "1"] {
            let refused = refused(&[(CONVERSATION_ID, "a"), (DONT_STORE, wrong)]);
            assert_eq!(refused, HeaderError::NotBoolean { name: name(DONT_STORE) });
        }
        for wrong in ["", "-1", "+1", "1.0", " 1", "two", "99999999999999999999999"] {
            let refused = refused(&[(CONVERSATION_ID, "a"), (FEW_SHOT_MESSAGES, wrong)]);
            assert_eq!(refused, HeaderError::NotANumber { name: name(FEW_SHOT_MESSAGES) });
        }
        for header in [CONVERSATION_ID, DONT_STORE, FEW_SHOT_MESSAGES] {
            assert_eq!(refused(&[(header, "1"), (header, "1")]), HeaderError::Repeated { name: name(header) });
        }
    }

    #[test]
    fn only_the_headers_of_this_crate_are_removed() {
        let ours = [CONVERSATION_ID, EXCHANGE_ID, STATELESS, DONT_STORE, FEW_SHOT_MESSAGES].map(|name| (name, "a"));
        let mut headers = headers(&[&ours[..], &[(CONVERSATION_ID, "b"), ("x-other", "c")]].concat());
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
    }
}
