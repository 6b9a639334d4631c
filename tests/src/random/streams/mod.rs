//! Replies, whole and in pieces, through every integration. The stored reply must be the provider's.

mod integrations;
mod reply;

use serde_json::{Map, Value};
use tokio::runtime::Builder;
use tower_chat_history::{ConversationId, Engine, HistoryStoreExt as _, MemoryStore, Message, TurnInput};

use self::{
    integrations::{CallResult, Integration, call},
    reply::{Oddity, ProviderReply},
};
use super::{
    Checked, Figures, Ingredients,
    outcome::{Violation, holds},
    rules::{check_prompt, shorten},
};
use crate::rng::SeededRng;

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = SeededRng::new(seed);
        let mut figures = Figures::default();
        for _ in 0..8 {
            let provided = ProviderReply::any(&mut rng, ingredients);
            for integration in Integration::ALL {
                if !integration.can_express(provided.oddity) {
                    continue;
                }
                one(integration, &provided, &mut rng, &mut figures).await?;
            }
        }
        Ok(figures)
    })
}

async fn one(
    integration: Integration,
    provided: &ProviderReply,
    rng: &mut SeededRng,
    figures: &mut Figures,
) -> Checked {
    let store = MemoryStore::new();
    let in_context = |violation: Violation| {
        Violation::new("one reply, one message", format!("{integration:?} {:?}: {violation}", provided.oddity))
    };
    if rng.once_in(3) {
        let result = call(integration, &store, provided, &[provided.whole(rng)], None, rng).await;
        figures.count("whole replies");
        return check(integration, provided, &store, &result, true).await.map_err(in_context);
    }
    let (pieces, complete) = provided.pieces(rng);
    let end = if rng.once_in(3) { Some(rng.index(complete)) } else { None };
    let sent = &pieces[..end.unwrap_or(pieces.len())];
    let result = call(integration, &store, provided, sent, Some(end.is_none()), rng).await;
    if end.is_some() {
        figures.count("interrupted streams");
        let stored = messages(&store).await;
        return holds(
            stored.is_empty() && result.outcome != "stored",
            "an interrupted reply is not stored as complete",
            || {
                format!(
                    "{integration:?} {:?}: {} with {}",
                    provided.oddity,
                    result.outcome,
                    stored.iter().map(shorten).collect::<Vec<_>>().join(", ")
                )
            },
        );
    }
    figures.count("streams");
    check(integration, provided, &store, &result, false).await.map_err(in_context)
}

async fn messages(store: &MemoryStore) -> Vec<Message> {
    store.conversation(&id()).messages().await.unwrap()
}

fn id() -> ConversationId {
    ConversationId::new(["c"]).unwrap()
}

/// Checks that the stored reply is the provider's, and that the conversation can go on.
async fn check(
    integration: Integration,
    provided: &ProviderReply,
    store: &MemoryStore,
    result: &CallResult,
    whole: bool,
) -> Checked {
    holds(result.unchanged, "the caller gets the unchanged response", String::new)?;
    let stored = messages(store).await;
    let reply = stored.get(1).filter(|_| stored.len() == 2 && result.outcome == "stored");
    let Some(reply) = reply else {
        return Err(Violation::new(
            "a complete reply is stored",
            format!("{} with {} messages", result.outcome, stored.len()),
        ));
    };
    let json: Map<String, Value> =
        serde_json::from_str(reply.json()).map_err(|error| Violation::new("a message is JSON", error.to_string()))?;
    holds(json.get("role").is_some_and(|role| role == "assistant"), "a reply is the assistant's", || shorten(reply))?;
    if provided.oddity != Oddity::MissingId {
        let (was, is) =
            (normal(&provided.message, provided, integration, whole), normal(&json, provided, integration, whole));
        holds(was == is, "the stored message is the provider's", || {
            let shown = |fields: &Map<String, Value>| {
                Value::from(fields.clone()).to_string().chars().take(500).collect::<String>()
            };
            format!("whole {whole}: sent {}, stored {}", shown(&was), shown(&is))
        })?;
    }
    // Whatever was stored, the next prompt must be valid.
    let engine = Engine::new(store.clone());
    let next = engine.begin(TurnInput::new(id(), [Message::user("and?")])).await;
    let turn = next.map_err(|error| Violation::new("a conversation goes on", error.to_string()))?;
    check_prompt(turn.context())
}

/// Returns a message without the parts that may differ: nulls, the types of function calls, and fields that
/// typed responses cannot carry.
fn normal(
    fields: &Map<String, Value>,
    provided: &ProviderReply,
    integration: Integration,
    whole: bool,
) -> Map<String, Value> {
    let mut fields = fields.clone();
    fields.retain(|_, value| !value.is_null());
    if fields.get("content").is_some_and(|content| content == "") {
        fields.remove("content");
    }
    fields.remove("role");
    for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.remove("type");
            if provided.oddity == Oddity::WholeCalls && !whole {
                call.remove("id");
            }
        }
    }
    if integration == Integration::Typed {
        fields.retain(|name, _| matches!(name.as_str(), "content" | "tool_calls" | "refusal"));
    }
    fields
}
