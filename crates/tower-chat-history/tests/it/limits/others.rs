//! A tenant that reaches a limit does not disturb the calls of another one.

#![allow(clippy::future_not_send)] // Each test runs on one thread, with async closures.

use std::time::Duration;

use tower_chat_history::{limits::ConversationQuota, store::Prefix};

use super::*;

/// The calls of a tenant that uses little: a question, results of a tool call, and another question, in three
/// conversations.
struct Modest {
    contexts: Vec<Vec<Message>>,
}

impl Modest {
    /// Makes the calls, with the calls of a hostile tenant before and after each of them.
    async fn among(engine: &Engine, mut hostile: impl AsyncFnMut()) -> Self {
        let mut contexts = Vec::new();
        for conversation in ["modest/u/1", "modest/u/2", "modest/u/3"] {
            let answer = || Message::assistant("a");
            for (input, reply) in [
                (Message::user("u0"), calls(&["x"])),
                (Message::tool("x", "r0"), answer()),
                (Message::user("u1"), answer()),
            ] {
                hostile().await;
                contexts.push(say(engine, conversation, input, reply).await.unwrap());
            }
        }
        hostile().await;
        Self { contexts }
    }

    /// Returns the prompts of the calls without limits and without the other tenant.
    async fn alone() -> Vec<Vec<Message>> {
        Self::among(&Engine::new(MemoryStore::new()), async || {}).await.contexts
    }
}

/// Asserts that the hostile calls reach the limit each time, and that the prompts of the other tenant are the same as
/// without them.
async fn assert_others_go_on(engine: Engine, kind: LimitKind, hostile: impl AsyncFn(&Engine) -> Option<LimitExceeded>) {
    let modest = Modest::among(&engine, async || {
        let exceeded = hostile(&engine).await.unwrap();
        assert_eq!(exceeded.kind, kind);
        assert!(exceeded.found > exceeded.limit, "{exceeded}");
    });
    assert_eq!(modest.await.contexts, Modest::alone().await);
}

/// Repeats a call until it is refused.
async fn until_refused(
    mut call: impl AsyncFnMut(usize) -> Result<Vec<Message>, LimitExceeded>,
) -> Option<LimitExceeded> {
    for attempt in 0..1_000 {
        if let Err(exceeded) = call(attempt).await {
            return Some(exceeded);
        }
    }
    None
}

#[tokio::test]
async fn large_messages() {
    let large = "x".repeat(1_000);
    let limits = Limits::new().max_message_bytes(1_000);
    assert_others_go_on(engine(limits), LimitKind::MessageBytes, async |engine| {
        let exceeded = ask(engine, "hostile/u/1", &large).await.unwrap_err();
        assert_eq!((exceeded.limit, exceeded.found), (1_000, Message::user(&large).bytes() as u64));
        assert!(log(engine, "hostile/u/1").await.is_empty());
        Some(exceeded)
    })
    .await;
}

#[tokio::test]
async fn large_inputs() {
    let limits = Limits::new().max_message_bytes(1_000).max_input_bytes(1_000);
    assert_others_go_on(engine(limits), LimitKind::InputBytes, async |engine| {
        let input = (0..30).map(|number| Message::user(format!("question {number}")));
        call(engine, TurnInput::new(id("hostile/u/1"), input), Message::assistant("a")).await.err()
    })
    .await;
}

#[tokio::test]
async fn long_tool_loops() {
    let limits = Limits::new().max_tool_rounds(3);
    assert_others_go_on(engine(limits), LimitKind::ToolRounds, async |engine| {
        let conversation = "hostile/u/1";
        say(engine, conversation, Message::user("loop"), calls(&["x"])).await.unwrap();
        for _ in 0..3 {
            say(engine, conversation, Message::tool("x", "again"), calls(&["x"])).await.unwrap();
        }
        let exceeded = say(engine, conversation, Message::tool("x", "again"), calls(&["x"])).await.unwrap_err();
        assert_eq!((exceeded.limit, exceeded.found), (3, 4));
        Some(exceeded)
    })
    .await;
}

#[tokio::test]
async fn long_conversations() {
    let limits = Limits::new().max_exchanges(20);
    assert_others_go_on(engine(limits), LimitKind::Exchanges, async |engine| {
        let exceeded = until_refused(async |_| ask(engine, "hostile/u/1", "u").await).await;
        assert_eq!(log(engine, "hostile/u/1").await.len(), 40);
        exceeded
    })
    .await;
}

#[tokio::test]
async fn large_conversations() {
    let limits = Limits::new().max_conversation_bytes(2_000);
    assert_others_go_on(engine(limits), LimitKind::ConversationBytes, async |engine| {
        until_refused(async |_| ask(engine, "hostile/u/1", &"x".repeat(100)).await).await
    })
    .await;
}

#[tokio::test]
async fn many_conversations() {
    let store = MemoryStore::new();
    let quota = ConversationQuota::new(store.clone()).under(Prefix::all(), 1, 50).under(Prefix::all(), 2, 10);
    let engine = Engine::with_options(store, HistoryOptions::new().conversation_quota(quota));
    assert_others_go_on(engine, LimitKind::Conversations, async |engine| {
        let of_user = until_refused(async |number| ask(engine, &format!("hostile/u/{number}"), "u").await).await;
        let of_user = of_user.unwrap();
        assert!([(Some(1), 50), (Some(2), 10)].contains(&(of_user.parts, of_user.limit)), "{of_user:?}");
        let of_tenant = until_refused(async |number| ask(engine, &format!("hostile/u{number}/c"), "u").await).await;
        assert_eq!((of_tenant?.parts, of_tenant?.limit, of_tenant?.found), (Some(1), 50, 51));
        of_tenant
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_calls_in_one_conversation() {
    let limits = Limits::new().calls_per_minute(20);
    assert_others_go_on(engine(limits), LimitKind::CallsPerMinute, async |engine| {
        let exceeded = until_refused(async |_| ask(engine, "hostile/u/1", "u").await).await?;
        assert_eq!((exceeded.parts, exceeded.retry_after), (None, Some(Duration::from_secs(3))));
        Some(exceeded)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_calls_of_one_tenant() {
    let limits = Limits::new().calls_per_minute_under(1, 20);
    assert_others_go_on(engine(limits), LimitKind::CallsPerMinute, async |engine| {
        let exceeded = until_refused(async |number| ask(engine, &format!("hostile/u{number}/1"), "u").await).await?;
        assert_eq!((exceeded.parts, exceeded.retry_after), (Some(1), Some(Duration::from_secs(3))));
        Some(exceeded)
    })
    .await;
}

#[tokio::test]
async fn a_tenant_without_any_calls() {
    let rules = LimitRules::new().under("hostile".parse().unwrap(), Limits::new().calls_per_minute(0));
    assert_others_go_on(engine(rules), LimitKind::CallsPerMinute, async |engine| {
        let exceeded = ask(engine, "hostile/u/1", "u").await.unwrap_err();
        assert_eq!(exceeded.retry_after, None);
        Some(exceeded)
    })
    .await;
}
