//! Compactions that a provider makes, which stand for everything before them.

use futures_util::future;
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tests::{Storage, over_every_store};
use tower_chat_history::{
    HistoryOptions, Message, Reply,
    dialect::{CallId, OpenAiResponses, Space},
    store::{Origin, Role},
};

use super::{Talk, element, said};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_compaction_that_the_caller_asked_for_begins_prompts_of_the_same_origin,
    a_compaction_that_another_exchange_overtook_is_left_out,
    a_compaction_in_a_turn_with_bound_reasoning_begins_prompts_after_the_turn,
}

fn compaction() -> Message {
    element(&OpenAiResponses, r#"{"type":"compaction","id":"c","encrypted_content":"e"}"#)
}

fn of(provider: &str) -> HistoryOptions {
    HistoryOptions::new().origin(Origin::unknown().provider(provider))
}

fn answer() -> Message {
    said(&OpenAiResponses, &Role::Assistant, "a")
}

async fn a_compaction_that_the_caller_asked_for_begins_prompts_of_the_same_origin(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(of("one"));
    talk.ask(&engine, &OpenAiResponses, "t0").await;
    let input = talk.input([compaction(), said(&OpenAiResponses, &Role::User, "t1")]);
    talk.turn(&engine, input, vec![answer()]).await;
    let (prompt, report) = talk.ask(&engine, &OpenAiResponses, "t2").await;
    assert!(prompt[0].contains("compaction") && prompt.len() == 4, "{prompt:?}");
    assert!(report.begins_with_compaction && report.abridged);
    let (prompt, report) = talk.ask(&talk.engine(of("two")), &OpenAiResponses, "t3").await;
    assert!(prompt.len() == 7 && !prompt.iter().any(|json| json.contains("compaction")), "{prompt:?}");
    assert!(!report.begins_with_compaction);
}

async fn a_compaction_that_another_exchange_overtook_is_left_out(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(of("one"));
    talk.ask(&engine, &OpenAiResponses, "t0").await;
    let question = |text| talk.input([said(&OpenAiResponses, &Role::User, text)]);
    let (first, second) = future::join(engine.begin(question("t1")), engine.begin(question("t2"))).await;
    first.unwrap().commit(Reply::new(answer())).await.unwrap();
    second.unwrap().commit(Reply::of([compaction(), answer()])).await.unwrap();
    let (prompt, report) = talk.ask(&engine, &OpenAiResponses, "t3").await;
    assert!(prompt.len() == 7 && !prompt.iter().any(|json| json.contains("compaction")), "{prompt:?}");
    assert!(!report.begins_with_compaction);
    assert_eq!(talk.log().await[2].exchange.messages.len(), 3, "the log has it");
}

async fn a_compaction_in_a_turn_with_bound_reasoning_begins_prompts_after_the_turn(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(of("one"));
    let mut provider = SigningProvider::new("one");
    let call = |id: &str| Say::Call { space: Space::DEFAULT, id: id.into() };
    let result = |id: &str| {
        let results = SigningDialect::results([(&CallId::new(Space::DEFAULT, id), "r")], None);
        element(&SigningDialect, &results)
    };
    let user = |text| said(&SigningDialect, &Role::User, text);
    let says = |text: &str| vec![Say::Text(text.into())];
    let mut begins = Vec::new();
    for (input, script) in [
        (user("t0"), says("a")),
        (user("t1"), vec![Say::Thought("hm".into()), call("x")]),
        (result("x"), vec![Say::Compaction("so far".into()), call("y")]),
        (result("y"), says("b")),
        (user("t2"), says("c")),
    ] {
        let input = talk.input([input]);
        let (head, turn) = (input.request.digest(), engine.begin(input).await.unwrap());
        let reply = provider.reply(head, turn.context(), &script).unwrap();
        let first = turn.context()[0].json().contains("so far");
        let report = turn.commit(Reply::of(reply)).await.unwrap();
        begins.push((first, report.begins_with_compaction));
    }
    assert_eq!(begins, [false, false, false, false, true].map(|begins| (begins, begins)));
}
