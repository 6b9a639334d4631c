//! What a call says about its conversation, in headers that never leave the process.

use reqwest::header::HeaderMap;
use tower_chat_history::{
    CallOptions, CallScope, ExchangeId,
    adapt::extract::{ExtractScope as _, FromTask},
};

use super::CallError;

/// The header that names a call's conversation, as [`ConversationId`](tower_chat_history::ConversationId)'s `Display` writes it.
pub const CONVERSATION_ID: &str = "x-chat-history-conversation";

/// The header that names a call's exchange, which makes the call repeatable ([`ExchangeId`]). The default is a generated id.
pub const EXCHANGE_ID: &str = "x-chat-history-exchange";

/// The header that says, by the value `true`, that a chat call has no memory: it passes through, whatever conversation is
/// named (by the client's configuration, say). `false` is the default.
pub const STATELESS: &str = "x-chat-history-stateless";

/// The header that says, by the value `true`, that a chat call sees the history and leaves no trace in it
/// ([`dont_store`](tower_chat_history::CallOptions::dont_store)). `false` is the default.
///
/// A caller that keeps its own list of messages keeps neither this call's input nor its reply: they are not in the log.
pub const DONT_STORE: &str = "x-chat-history-dont-store";

/// The header that says, as a decimal number, how many messages behind the leading system and developer messages are
/// few-shot examples: sent first, never stored. The default is the [client's](super::OpenAiHistory::few_shot_messages).
pub const FEW_SHOT_MESSAGES: &str = "x-chat-history-few-shot-messages";

/// All of them.
const OURS: [&str; 5] = [CONVERSATION_ID, EXCHANGE_ID, STATELESS, DONT_STORE, FEW_SHOT_MESSAGES];

/// Reads what a chat call asks for: by header, or else by the [scope](tower_chat_history::in_conversation) that the running
/// task is in. There is no default: a call that says nothing is an error. Without a header, `few_shot_messages` counts.
pub(super) fn read(headers: &HeaderMap, few_shot_messages: usize) -> Result<CallScope, CallError> {
    if flag(headers, STATELESS, CallError::Stateless)? {
        return Ok(CallScope::Stateless);
    }
    let mut options = CallOptions::new();
    options.exchange = one(headers, EXCHANGE_ID)?.map(ExchangeId::new).transpose().map_err(CallError::Exchange)?;
    let own = one(headers, FEW_SHOT_MESSAGES)?.map(|text| count(text).ok_or(CallError::FewShotMessages)).transpose()?;
    options.few_shot_messages = own.unwrap_or(few_shot_messages);
    if flag(headers, DONT_STORE, CallError::DontStore)? {
        options = options.dont_store();
    }
    let conversation = match one(headers, CONVERSATION_ID)? {
        Some(conversation) => conversation.parse().map_err(CallError::Conversation)?,
        None => match FromTask::new().extract(()) {
            Ok((CallScope::Conversation(conversation, _), ())) => conversation,
            Ok((CallScope::Stateless, ())) => return Ok(CallScope::Stateless),
            Err(_) => return Err(CallError::NoConversation),
        },
    };
    Ok(CallScope::Conversation(conversation, options))
}

/// Whether a call that is no chat call is marked as having no memory. What else its headers say is not looked at.
pub(super) fn is_stateless(headers: &HeaderMap) -> bool {
    flag(headers, STATELESS, CallError::Stateless).unwrap_or(false)
}

/// Returns whether the header says `true`. Without it, it is `false`.
fn flag(headers: &HeaderMap, name: &'static str, neither: CallError) -> Result<bool, CallError> {
    match one(headers, name)? {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(neither),
    }
}

/// A decimal number, of digits alone: `parse` would take a plus sign too.
fn count(text: &str) -> Option<usize> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
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
    for name in OURS {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use tower_chat_history::ConversationId;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    /// The scope that the headers name, where the client has 9 few-shot messages.
    fn read(headers: &HeaderMap) -> Result<String, CallError> {
        super::read(headers, 9).map(|scope| format!("{scope:?}"))
    }

    fn call(conversation: &ConversationId, change: impl FnOnce(CallOptions) -> CallOptions) -> String {
        let options = change(CallOptions::new().few_shot_messages(9));
        format!("{:?}", CallScope::Conversation(conversation.clone(), options))
    }

    const STATELESS_CALL: &str = "Stateless";

    #[test]
    fn a_call_names_its_conversation_or_says_that_it_has_none() {
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
    fn a_call_says_what_it_wants_otherwise() {
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
    async fn the_running_task_s_scope_counts_where_no_header_does() {
        let [outer, named] = ["outer", "named"].map(|id| ConversationId::new([id]).unwrap());
        let none = HeaderMap::new();
        let read = |headers: HeaderMap| async move { read(&headers) };
        let scoped = tower_chat_history::in_conversation(outer.clone(), read(none.clone())).await;
        assert_eq!(scoped.unwrap(), call(&outer, |options| options));
        let both = headers(&[(CONVERSATION_ID, named.as_str())]);
        let both = tower_chat_history::in_conversation(outer.clone(), read(both)).await;
        assert_eq!(both.unwrap(), call(&named, |options| options));
        assert_eq!(tower_chat_history::stateless(read(none)).await.unwrap(), STATELESS_CALL);
    }

    #[test]
    fn what_is_missing_or_malformed_is_an_error() {
        assert!(matches!(read(&HeaderMap::new()), Err(CallError::NoConversation)));
        assert!(matches!(read(&headers(&[(STATELESS, "yes")])), Err(CallError::Stateless)));
        assert!(matches!(read(&headers(&[(CONVERSATION_ID, "a b")])), Err(CallError::Conversation(_))));
        assert!(matches!(read(&headers(&[(CONVERSATION_ID, "ä")])), Err(CallError::NotAscii { .. })));
        let wrong_exchange = headers(&[(CONVERSATION_ID, "a"), (EXCHANGE_ID, "b c")]);
        assert!(matches!(read(&wrong_exchange), Err(CallError::Exchange(_))));
        for wrong in ["", "yes", "True", "1"] {
            let wrong = headers(&[(CONVERSATION_ID, "a"), (DONT_STORE, wrong)]);
            assert!(matches!(read(&wrong), Err(CallError::DontStore)));
        }
        for wrong in ["", "-1", "+1", "1.0", " 1", "two", "99999999999999999999999"] {
            let wrong = headers(&[(CONVERSATION_ID, "a"), (FEW_SHOT_MESSAGES, wrong)]);
            assert!(matches!(read(&wrong), Err(CallError::FewShotMessages)));
        }
        for name in [CONVERSATION_ID, DONT_STORE, FEW_SHOT_MESSAGES] {
            let two = headers(&[(name, "1"), (name, "1")]);
            assert!(matches!(read(&two), Err(CallError::Repeated { name: repeated }) if repeated == name));
        }
    }

    #[test]
    fn all_of_them_are_removed_and_no_others() {
        let ours = OURS.map(|name| (name, "a"));
        let mut headers = headers(&[&ours[..], &[(CONVERSATION_ID, "b"), ("x-other", "c")]].concat());
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
    }
}
