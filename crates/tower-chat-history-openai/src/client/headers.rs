//! What a call says about its conversation, in headers that never leave the process.

use reqwest::header::HeaderMap;
use tower_chat_history::{
    ConversationId, ExchangeId,
    adapt::extract::{CallScope, ExtractPlace, FromTask},
};

use super::CallError;

/// The header that names a call's conversation, as [`ConversationId`]'s `Display` writes it.
pub const CONVERSATION_ID: &str = "x-chat-history-conversation";

/// The header that names a call's exchange, which makes the call repeatable ([`ExchangeId`]). The default is a generated id.
pub const EXCHANGE_ID: &str = "x-chat-history-exchange";

/// The header that says, by the value `true`, that a chat call has no memory: it passes through, whatever conversation is
/// named (by the client's configuration, say). `false` is the default.
pub const STATELESS: &str = "x-chat-history-stateless";

/// What a chat call asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Stateless,
    In(ConversationId, Option<ExchangeId>),
}

/// Reads what a chat call asks for: by header, or else by the [scope](tower_chat_history::in_conversation) that the running
/// task is in. There is no default: a call that says nothing is an error.
pub(super) fn read(headers: &HeaderMap) -> Result<Asked, CallError> {
    match one(headers, STATELESS)? {
        Some("true") => return Ok(Asked::Stateless),
        Some("false") | None => {}
        Some(_) => return Err(CallError::Stateless),
    }
    let exchange = one(headers, EXCHANGE_ID)?.map(ExchangeId::new).transpose().map_err(CallError::Exchange)?;
    match one(headers, CONVERSATION_ID)? {
        Some(conversation) => Ok(Asked::In(conversation.parse().map_err(CallError::Conversation)?, exchange)),
        None => match FromTask::new().extract(()) {
            Ok((CallScope::Conversation(place), ())) => Ok(Asked::In(place.conversation, exchange)),
            Ok((CallScope::Stateless, ())) => Ok(Asked::Stateless),
            Err(_) => Err(CallError::NoConversation),
        },
    }
}

/// The header's value. Of two values neither is the right one: another user's conversation must never be a guess away.
fn one<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, CallError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(CallError::Repeated { name });
    }
    value.to_str().map(Some).map_err(|_| CallError::NotAscii { name })
}

/// Removes these headers: they name users and are no provider's business.
pub(super) fn strip(headers: &mut HeaderMap) {
    for name in [CONVERSATION_ID, EXCHANGE_ID, STATELESS] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_call_names_its_conversation_or_says_that_it_has_none() {
        let id: ConversationId = "acme/user%2042".parse().unwrap();
        let named = headers(&[(CONVERSATION_ID, id.as_str()), (EXCHANGE_ID, "m-1")]);
        assert_eq!(read(&named).unwrap(), Asked::In(id.clone(), Some(ExchangeId::new("m-1").unwrap())));
        let unnamed = headers(&[(CONVERSATION_ID, id.as_str()), (STATELESS, "false")]);
        assert_eq!(read(&unnamed).unwrap(), Asked::In(id.clone(), None));
        let stateless = headers(&[(CONVERSATION_ID, id.as_str()), (STATELESS, "true")]);
        assert_eq!(read(&stateless).unwrap(), Asked::Stateless);
    }

    #[tokio::test]
    async fn the_running_task_s_scope_counts_where_no_header_does() {
        let [outer, named] = ["outer", "named"].map(|id| ConversationId::new([id]).unwrap());
        let none = HeaderMap::new();
        let read = |headers: HeaderMap| async move { super::read(&headers) };
        let scoped = tower_chat_history::in_conversation(outer.clone(), read(none.clone())).await;
        assert_eq!(scoped.unwrap(), Asked::In(outer.clone(), None));
        let both = headers(&[(CONVERSATION_ID, named.as_str())]);
        let both = tower_chat_history::in_conversation(outer, read(both)).await;
        assert_eq!(both.unwrap(), Asked::In(named, None));
        assert_eq!(tower_chat_history::stateless(read(none)).await.unwrap(), Asked::Stateless);
    }

    #[test]
    fn what_is_missing_or_malformed_is_an_error() {
        assert!(matches!(read(&HeaderMap::new()), Err(CallError::NoConversation)));
        assert!(matches!(read(&headers(&[(STATELESS, "yes")])), Err(CallError::Stateless)));
        assert!(matches!(read(&headers(&[(CONVERSATION_ID, "a b")])), Err(CallError::Conversation(_))));
        assert!(matches!(read(&headers(&[(CONVERSATION_ID, "ä")])), Err(CallError::NotAscii { .. })));
        let wrong_exchange = headers(&[(CONVERSATION_ID, "a"), (EXCHANGE_ID, "b c")]);
        assert!(matches!(read(&wrong_exchange), Err(CallError::Exchange(_))));
        let two = headers(&[(CONVERSATION_ID, "a"), (CONVERSATION_ID, "b")]);
        assert!(matches!(read(&two), Err(CallError::Repeated { name: CONVERSATION_ID })));
    }

    #[test]
    fn all_of_them_are_removed_and_no_others() {
        let mut headers = headers(&[
            (CONVERSATION_ID, "a"),
            (CONVERSATION_ID, "b"),
            (EXCHANGE_ID, "c"),
            (STATELESS, "d"),
            ("x-other", "e"),
        ]);
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
    }
}
