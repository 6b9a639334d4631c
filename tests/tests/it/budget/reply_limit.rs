//! A reply limit that is lowered so that the prompt fits.

use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextBudget, ContextOptions, ConversationId, HistoryOptions, InConversation,
    MemoryStore, Message, adapt::Custom, engine::RequestInfo, tokens::ByteEstimate,
};

use super::{
    call_spec::{ADAPTERS, CallSpec},
    stack::{Stack, does_not_fit},
    steps::text,
};

fn id() -> ConversationId {
    ConversationId::new(["replies"]).unwrap()
}

/// Returns a call with a prompt of 3 + 4 + 2 * 80 tokens, for a window of 200.
fn spec(limit: Option<(&'static str, u32)>) -> CallSpec {
    let mut spec = CallSpec::new(id(), [Message::user(text(80))]);
    spec.limit = limit;
    spec
}

fn with(budget: ContextBudget) -> HistoryOptions {
    HistoryOptions::new().context(ContextOptions::new().token_counter(ByteEstimate::new()).budget(budget))
}

fn shrinking() -> HistoryOptions {
    with(ContextBudget::tokens(200).shrink_reply_to(20))
}

#[tokio::test]
async fn the_reply_limit_is_lowered_in_its_own_field() {
    for integration in ADAPTERS {
        for field in ["max_completion_tokens", "max_tokens"] {
            let stack = Stack::new(shrinking());
            let spec = spec(Some((field, 120)));
            stack.call(0, integration, &spec).await.unwrap();
            let received = stack.model.last();
            assert_eq!(received.number(field), Some(33), "{integration:?}: {}", received.body);
            let other = if field == "max_tokens" { "max_completion_tokens" } else { "max_tokens" };
            assert_eq!(received.number(other), None);
            let tokens = stack.report(&spec.exchange).unwrap().tokens.unwrap();
            assert_eq!((tokens.reply_limit, tokens.reply_reserve, tokens.limit), (Some(33), 120, 80));
            if let super::call_spec::Integration::Client(_) = integration {
                assert_eq!(received.body, spec.body().replace(": 120,", ": 33,"), "no other byte changed");
            }
        }
    }
}

#[tokio::test]
async fn a_limit_that_leaves_room_is_unchanged() {
    for integration in ADAPTERS {
        let stack = Stack::new(shrinking());
        stack.call(0, integration, &spec(Some(("max_tokens", 33)))).await.unwrap();
        assert_eq!(stack.model.last().number("max_tokens"), Some(33));
    }
}

#[tokio::test]
async fn no_limit_is_added_to_a_request_without_one() {
    for integration in ADAPTERS {
        let stack = Stack::new(shrinking());
        let spec = spec(None);
        stack.call(0, integration, &spec).await.unwrap();
        let received = stack.model.last();
        assert_eq!((received.number("max_completion_tokens"), received.number("max_tokens")), (None, None));
        let tokens = stack.report(&spec.exchange).unwrap().tokens.unwrap();
        assert_eq!((tokens.reply_reserve, tokens.reply_limit), (50, Some(33)), "the room for the reply is reported");
    }
}

#[tokio::test]
async fn the_limit_is_not_lowered_below_the_minimum_or_without_permission() {
    let too_far = with(ContextBudget::tokens(200).shrink_reply_to(34));
    for options in [with(ContextBudget::tokens(200)), too_far] {
        for integration in ADAPTERS {
            let stack = Stack::new(options.clone());
            let refused = stack.call(0, integration, &spec(Some(("max_tokens", 120)))).await.unwrap_err();
            assert!([120, 34].contains(&does_not_fit(&refused).reply_reserve));
            assert_eq!(stack.model.calls(), 0);
        }
    }
}

/// A closure cannot state in which field the limit is.
#[tokio::test]
async fn a_limit_from_a_closure_is_not_lowered() {
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|answer: &Message| answer.clone());
    let stating = adapter.clone().request_info(|_| {
        let mut info = RequestInfo::new();
        info.max_output = Some(120);
        info
    });
    let llm = service_fn(|messages: Vec<Message>| async move {
        Ok::<_, BoxError>(Message::assistant(messages.len().to_string()))
    });
    let call = || InConversation::new(id(), vec![Message::user(text(80))]);
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), stating, shrinking()).layer(llm);
    assert_eq!(does_not_fit(&chat.oneshot(call()).await.unwrap_err()).reply_reserve, 120);
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), adapter, shrinking()).layer(llm);
    assert_eq!(chat.oneshot(call()).await.unwrap().text(), "1");
}

/// No message is left out as long as the reply limit can be lowered.
#[tokio::test]
async fn the_reply_limit_is_lowered_before_messages_are_left_out() {
    for integration in ADAPTERS {
        let stack = Stack::new(shrinking());
        let (short, mut next) =
            (CallSpec::new(id(), [Message::user(text(40))]), CallSpec::new(id(), [Message::user(text(20))]));
        stack.call(0, integration, &short).await.unwrap();
        next.limit = Some(("max_tokens", 90));
        stack.call(0, integration, &next).await.unwrap();
        let tokens = stack.report(&next.exchange).unwrap().tokens.unwrap();
        assert_eq!((tokens.evicted_messages, tokens.compacted, tokens.prompt.window), (0, false, 84 + 5));
        assert_eq!(stack.model.last().number("max_tokens"), Some(200 - 84 - 5 - 44 - 3));
        assert_eq!(stack.model.last().messages.len(), 3);
    }
}
