//! Turns of a conversation with exchanges in another dialect.

use test_providers::signing::SigningDialect;
use tests::{Storage, over_every_store};
use tower_chat_history::{
    ContextBudget, HistoryOptions, Message, Reply,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    engine::ToolResults,
    error::{DialectPlace, StoreResultsError},
    store::{Role, Seq},
};
use tower_chat_history_test::messages::{MessagesProvider, Reason, Say};

use super::{Talk, element, other_dialect, said, translating};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_call_in_another_dialect_fails_or_is_translated,
    results_for_calls_of_another_dialect_are_refused,
    results_that_are_stored_one_by_one_answer_their_own_calls,
    a_question_after_calls_of_another_dialect_is_accepted_with_a_budget_for_thinking,
    results_are_refused_with_a_budget_if_the_thinking_of_their_turn_is_not_valid_any_more,
    a_report_counts_only_what_is_sent,
    a_report_counts_what_an_open_turn_has_under_its_own_cut,
    a_dialect_of_another_crate_must_be_known,
}

const DIALECTS: [&dyn Dialect; 3] = [&ChatCompletions, &AnthropicMessages, &OpenAiResponses];

/// A reply with two calls, which have one id.
fn calls() -> Message {
    let call = r#"{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    element(&ChatCompletions, &format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call},{call}]}}"#))
}

fn check(prompt: &[String]) {
    let thinking = r#""thinking":{"type":"enabled","budget_tokens":1024}"#;
    let body = format!(r#"{{"model":"claude","max_tokens":9,{thinking},"messages":[{}]}}"#, prompt.join(","));
    if let Err(refusal) = MessagesProvider::new("acme").check(&body) {
        panic!("{refusal}\n{body}");
    }
}

async fn a_call_in_another_dialect_fails_or_is_translated(storage: Storage) {
    let talk = Talk::new(storage);
    let (strict, engine) = (talk.engine(HistoryOptions::new()), talk.engine(translating()));
    talk.ask(&strict, &ChatCompletions, "t0").await;
    let input = talk.input([said(&AnthropicMessages, &Role::User, "t1")]);
    let error = other_dialect(talk.refused(&strict, input).await);
    assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST));
    let mut prompts = Vec::new();
    for (number, dialect) in (1..).zip(DIALECTS.into_iter().cycle().skip(1).take(8)) {
        let (prompt, report) = talk.ask(&engine, dialect, &format!("t{number}")).await;
        let texts: Vec<String> = prompt.iter().map(|json| element(dialect, json).text().into_owned()).collect();
        let before = (0..number).flat_map(|turn| [format!("t{turn}"), format!("t{turn}")]);
        assert_eq!(texts, before.chain([format!("t{number}")]).collect::<Vec<_>>());
        assert_eq!(report.translation.unwrap().exchanges, number - number / 3, "turn {number}");
        prompts.push(prompt);
    }
    for (number, prompt) in prompts.iter().enumerate().skip(3) {
        assert!(prompt.starts_with(&prompts[number - 3]), "the prompt of turn {number} begins with the one before it");
    }
    let names: Vec<String> = talk.log().await.iter().map(|found| found.exchange.dialect.as_str().to_owned()).collect();
    assert_eq!(names[..3], DIALECTS.map(Dialect::name));
}

async fn results_for_calls_of_another_dialect_are_refused(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    talk.turn(&engine, talk.input([Message::user("u")]), vec![calls()]).await;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
    let result = element(&AnthropicMessages, result);
    let error = other_dialect(talk.refused(&engine, talk.input([result.clone()])).await);
    assert_eq!(error.place, DialectPlace::OpenTurn(Seq::FIRST));
    let stored = engine.store_results(ToolResults::new(talk.id.clone(), [result])).await;
    let Err(StoreResultsError::History(error)) = stored else { panic!("{stored:?}") };
    assert_eq!(other_dialect(error).place, DialectPlace::OpenTurn(Seq::FIRST));
    for _ in 0..2 {
        let results = ToolResults::new(talk.id.clone(), [Message::tool("x", "1")]);
        engine.store_results(results).await.unwrap();
    }
    let empty = talk.input([]).dialect(&AnthropicMessages);
    let error = other_dialect(talk.refused(&engine, empty).await);
    assert_eq!(error.place, DialectPlace::OpenTurn(Seq::FIRST));
    engine.begin(talk.input([])).await.unwrap();
}

async fn results_that_are_stored_one_by_one_answer_their_own_calls(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    talk.turn(&engine, talk.input([Message::user("u")]), vec![calls()]).await;
    let results = ToolResults::new(talk.id.clone(), [Message::tool("x", "first")]);
    engine.store_results(results).await.unwrap();
    talk.turn(&engine, talk.input([Message::tool("x", "second")]), vec![Message::assistant("a")]).await;
    let mut prompts = Vec::new();
    for turn in 0..2 {
        let (prompt, _) = talk.ask(&talk.engine(translating()), &AnthropicMessages, &format!("t{turn}")).await;
        let messages: Vec<Message> = prompt.iter().map(|json| element(&AnthropicMessages, json)).collect();
        let called: Vec<&str> =
            messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id()).collect();
        let answered = messages.iter().flat_map(|message| message.answers()).map(|id| id.as_str());
        assert_eq!((called.len(), answered.collect::<Vec<_>>()), (2, called.clone()));
        assert!(prompt[2].contains("first") && prompt[3].contains("second"), "{prompt:?}");
        prompts.push(prompt);
    }
    assert!(prompts[1].starts_with(&prompts[0]));
}

async fn a_question_after_calls_of_another_dialect_is_accepted_with_a_budget_for_thinking(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    talk.turn(&engine, talk.input([Message::user("u")]), vec![calls()]).await;
    let question = |text: &str, thinks: bool| {
        let mut input = talk.input([said(&AnthropicMessages, &Role::User, text)]);
        input.request.thinks_with_budget = thinks;
        input
    };
    let answer = || vec![said(&AnthropicMessages, &Role::Assistant, "a")];
    let plain = engine.begin(question("q", false)).await.unwrap().context().len();
    let (prompt, _) = talk.turn(&engine, question("q", true), answer()).await;
    check(&prompt);
    assert_eq!((prompt.len(), prompt[4].contains("[no reply]")), (plain, true), "{prompt:?}");
    let (next, _) = talk.turn(&talk.engine(translating()), question("q2", true), answer()).await;
    check(&next);
    assert!(next.starts_with(&prompt), "the reply stays");
    // Calls of the same dialect, whose thinking is left out after a cut, are the same case.
    let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"y","name":"f","input":{}}]}"#;
    talk.turn(&engine, question("q3", true), vec![element(&AnthropicMessages, call)]).await;
    talk.summarize_all_but_the_last_turn().await;
    let (prompt, report) = talk.turn(&engine, question("q4", true), answer()).await;
    assert_eq!((report.reasoning_left_out, report.superseded_calls), (1, 1));
    check(&prompt);
}

async fn results_are_refused_with_a_budget_if_the_thinking_of_their_turn_is_not_valid_any_more(storage: Storage) {
    let talk = Talk::new(storage);
    let (engine, provider) = (talk.engine(translating()), MessagesProvider::new("acme"));
    let body = |prompt: &[Message], tools: &str| {
        let prompt: Vec<&str> = prompt.iter().map(Message::json).collect();
        let thinking = r#""thinking":{"type":"enabled","budget_tokens":1024}"#;
        format!(r#"{{"model":"claude","max_tokens":9,{thinking},"tools":{tools},"messages":[{}]}}"#, prompt.join(","))
    };
    let input = |json: &str, tools: &str| {
        let mut input = talk.input([element(&AnthropicMessages, json)]);
        (input.request.thinks_with_budget, input.request.tools) = (true, Some(tools.to_owned()));
        input
    };
    let turn = engine.begin(input(r#"{"role":"user","content":"q"}"#, "[]")).await.unwrap();
    let says = [Say::thinking("hm"), Say::call("y", "f", serde_json::json!({}))];
    let made = provider.reply(&body(turn.context(), "[]"), &says).unwrap();
    let reply = format!(r#"{{"role":"assistant","content":[{}]}}"#, made.content.join(","));
    turn.commit(Reply::new(element(&AnthropicMessages, &reply))).await.unwrap();
    let results = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"y","content":"1"}]}"#;
    let same = engine.begin(input(results, "[]")).await.unwrap();
    assert_eq!(provider.check(&body(same.context(), "[]")), Ok(()));
    let tools = r#"[{"name":"g"}]"#;
    let other = engine.begin(input(results, tools)).await.unwrap();
    let refusal = provider.check(&body(other.context(), tools)).unwrap_err();
    assert_eq!(refusal.reason(), &Reason::MissingThinking { message: 1 });
    // The way out: a new question.
    let question = engine.begin(input(r#"{"role":"user","content":"q"}"#, tools)).await.unwrap();
    assert_eq!(provider.check(&body(question.context(), tools)), Ok(()));
}

async fn a_report_counts_only_what_is_sent(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    // An instruction has a name, which is left out.
    let named = |text: String| {
        let named = format!(r#"{{"role":"user","name":"n","content":"{text}"}}"#);
        talk.input([element(&ChatCompletions, &named)])
    };
    for turn in 0..6 {
        let text = format!("question {turn} {}", "word ".repeat(40));
        talk.turn(&engine, named(text), vec![Message::assistant("a")]).await;
    }
    let budget = ContextBudget::tokens(200).reply_reserve(20).calibrate(false);
    for engine in [talk.engine(translating().context(budget)), talk.engine(translating())] {
        let turn = engine.begin(talk.input([said(&AnthropicMessages, &Role::User, "u")])).await.unwrap();
        let sent = turn.context().iter().filter(|message| message.json().contains("question")).count();
        let report = turn.commit(Reply::new(said(&AnthropicMessages, &Role::Assistant, "a")));
        let translation = report.await.unwrap().translation.unwrap();
        assert_eq!((translation.exchanges, translation.left_out.other), (sent, sent));
        assert!(sent > 0 && sent < 6, "the first engine stores its cut: {sent}");
    }
}

async fn a_report_counts_what_an_open_turn_has_under_its_own_cut(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    for turn in 0..3 {
        talk.ask(&engine, &ChatCompletions, &format!("t{turn}")).await;
    }
    let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"y","name":"f","input":{}}]}"#;
    let question = talk.input([said(&AnthropicMessages, &Role::User, "q")]);
    talk.turn(&engine, question, vec![element(&AnthropicMessages, call)]).await;
    talk.summarize_all_but_the_last_turn().await;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"y","content":"1"}]}"#;
    let answer = || vec![said(&AnthropicMessages, &Role::Assistant, "a")];
    let results = talk.input([element(&AnthropicMessages, result)]);
    let (prompt, report) = talk.turn(&engine, results, answer()).await;
    assert_eq!((prompt.len(), report.translation.map(|translation| translation.exchanges)), (9, Some(3)));
    let question = talk.input([said(&AnthropicMessages, &Role::User, "q")]);
    let (prompt, report) = talk.turn(&engine, question, answer()).await;
    assert_eq!((prompt.len(), report.translation), (7, None), "the summary and the reply to it stand for them");
}

async fn a_dialect_of_another_crate_must_be_known(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    talk.ask(&engine, &SigningDialect, "one").await;
    let error = other_dialect(talk.refused(&engine, talk.input([Message::user("two")])).await);
    assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST));
    let options = translating().dialects([&SigningDialect as &'static dyn Dialect]);
    let (prompt, _) = talk.ask(&talk.engine(options), &ChatCompletions, "two").await;
    assert_eq!(prompt[1], r#"{"role":"assistant","content":"one"}"#);
    let (prompt, _) = talk.ask(&engine, &SigningDialect, "three").await;
    assert_eq!(prompt[2], said(&SigningDialect, &Role::User, "two").json(), "the dialect of the call is enough");
}
