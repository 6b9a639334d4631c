//! Requests.

use http::Request;
use serde_json::{Value, json};
use test_providers::formats::Api;
use tests::{Storage, history_error, input_error, over_every_store};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    CallOptions, ContextBudget, ExchangeId, HistoryError, HistoryOptions, MissingConversation, Policies,
    adapt::CallScope,
    dialect::{CallId, Dialect},
    error::{DialectPlace, InputError},
    http::{Routes, Wire, error_response},
    policy::OnOpenTurn,
    store::Seq,
};

use super::{Answer, Talk, no_reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    without_a_conversation_or_stateless,
    a_resent_list,
    a_repeated_exchange_id,
    a_new_question_while_calls_are_open,
    results_for_no_call,
    a_prompt_over_the_budget,
    a_tool_loop_over_the_budget,
    a_message_of_1_mb,
    another_dialect_than_that_of_the_conversation,
}

async fn without_a_conversation_or_stateless(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let body = api.body(&[&Api::user("u")], false);
        let unnamed = Request::post(format!("https://llm.test{}", api.path())).body(body.clone()).unwrap();
        let error = talk.send(unnamed, talk.whole("a")).await.unwrap_err();
        assert!(error.is::<MissingConversation>() && talk.calls() == 0);
        let mut stateless = talk.request(body.clone(), CallOptions::new());
        stateless.extensions_mut().insert(CallScope::Stateless);
        talk.send(stateless, talk.whole("a")).await.unwrap();
        assert_eq!(talk.upstream.requests(), [body]);
        talk.check_log(&storage, &[]).await;
    }
}

async fn a_resent_list(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        talk.ask(false, "u0", "a0").await;
        let (turn, next) = (talk.turn("u0", "a0"), Api::user("u1"));
        let list = [turn[0].as_str(), &turn[1], &next];
        let error = talk.call(&[&Api::user("edited"), &turn[1], &next], talk.whole("a1")).await.err().unwrap();
        assert!(matches!(history_error(&error), HistoryError::Transcript(error) if error.position == 0));
        assert_eq!(talk.calls(), 1);
        talk.call(&list, talk.whole("a1")).await.unwrap();
        talk.check_sent(false, &list.map(str::to_owned));
        talk.check_log(&storage, &[turn, talk.turn("u1", "a1")].concat()).await;
    }
}

async fn a_repeated_exchange_id(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let options = || CallOptions::new().exchange(ExchangeId::new("m-1").unwrap());
        talk.call_with(&[&Api::user("u")], options(), talk.streamed("a")).await.unwrap();
        let error = talk.call_with(&[&Api::user("u")], options(), talk.whole("b")).await.err().unwrap();
        let HistoryError::AlreadyRecorded(recorded) = history_error(&error) else { panic!("{error}") };
        assert_eq!(recorded.exchange.messages[1].json(), api.said("a"));
        talk.check_log(&storage, &talk.turn("u", "a")).await;
        assert_eq!(talk.calls(), 1);
    }
}

/// Returns the response with a call.
fn calls(api: Api) -> Answer {
    Answer::Whole(200, api.whole(&api.call("x"), api.stop_for_calls()))
}

async fn a_new_question_while_calls_are_open(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        talk.call(&[&Api::user("u0")], calls(api)).await.unwrap();
        talk.ask(true, "u1", "a1").await;
        let abandoned = dialect(api).abandoned(&CallId::new(space(api), "x"));
        let log = [Api::user("u0"), api.call("x")];
        talk.check_sent(true, &[&log[..], &[abandoned, no_reply(api), Api::user("u1")]].concat());
        talk.check_log(&storage, &[log, talk.turn("u1", "a1")].concat()).await;

        let options = HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject));
        let talk = Talk::with_options(api, &storage, options);
        talk.call(&[&Api::user("u0")], calls(api)).await.unwrap();
        let error = talk.call(&[&Api::user("u1")], talk.whole("a1")).await.err().unwrap();
        assert!(matches!(input_error(&error), InputError::TurnOpen { .. }), "{api:?} {error}");
        let result = api.result("x", "r");
        talk.call(&[&result], talk.whole("a1")).await.unwrap();
        let log = [Api::user("u0"), api.call("x"), result, api.said("a1")];
        talk.check_sent(false, &log[..3]);
        talk.check_log(&storage, &log).await;
    }
}

fn wire(api: Api) -> &'static dyn Wire {
    Routes::new().find(&http::Method::POST, &api.path().parse().unwrap()).unwrap()
}

pub(super) fn dialect(api: Api) -> &'static dyn Dialect {
    wire(api).dialect()
}

/// Returns the id space of the call.
fn space(api: Api) -> tower_chat_history::dialect::Space {
    let call = tower_chat_history::Message::in_dialect(dialect(api), api.call("x")).unwrap();
    call.tool_calls()[0].call_id().space()
}

async fn results_for_no_call(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        talk.call(&[&Api::user("u0")], calls(api)).await.unwrap();
        let error = talk.call(&[&api.result("y", "r")], talk.whole("a1")).await.err().unwrap();
        assert!(matches!(input_error(&error), InputError::UnexpectedResult { .. }), "{api:?} {error}");
        assert_eq!(talk.calls(), 1);
        talk.check_log(&storage, &[Api::user("u0"), api.call("x")]).await;
    }
}

async fn a_prompt_over_the_budget(storage: Storage) {
    for api in Api::ALL {
        let budget = ContextBudget::tokens(1_000).reply_reserve(100).calibrate(false);
        let talk = Talk::with_options(api, &storage, HistoryOptions::new().context(budget));
        let long = "word ".repeat(40);
        let mut log = Vec::new();
        for turn in 0..20 {
            let question = format!("{turn} {long}");
            assert!(talk.ask(turn % 2 == 0, &question, &long).await.report().save_error().is_none());
            log.extend(talk.turn(&question, &long));
        }
        talk.check_log(&storage, &log).await;
        let last = talk.upstream.requests().pop().unwrap();
        assert!(last.contains("19 word") && !last.contains("\"0 word"), "{api:?}: older turns are left out");
        let large = Api::user(&"word ".repeat(5_000));
        let error = talk.call(&[&large], talk.whole("a")).await.err().unwrap();
        assert!(matches!(history_error(&error), HistoryError::DoesNotFit(_)), "{api:?} {error}");
        talk.check_log(&storage, &log).await;
    }
}

/// In chat completions and Messages, the reasoning of the replies is bound to everything before it, so nothing can be
/// left out within the loop. In Responses it is not, so earlier rounds are left out.
async fn a_tool_loop_over_the_budget(storage: Storage) {
    let budget = ContextBudget::tokens(1_000).reply_reserve(100).calibrate(false);
    for (api, streams) in Api::ALL.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let talk = Talk::with_options(api, &storage, HistoryOptions::new().context(budget.clone()));
        let asks = |round: usize| {
            let id = format!("x{round}");
            Answer::Whole(200, api.whole(&api.reasoned_call(&id), api.stop_for_calls()))
        };
        talk.call(&[&Api::user("u")], asks(0)).await.unwrap();
        let mut refused = None;
        for round in 0..20 {
            let result = api.result(&format!("x{round}"), &"word ".repeat(80));
            if let Err(error) = talk.call(&[&result], asks(round + 1)).await {
                refused = Some((round, result, error));
                break;
            }
        }
        let Some((round, result, _)) = refused else {
            assert_eq!(api, Api::Responses);
            assert!(!talk.upstream.requests().last().unwrap().contains(r#""call_id":"x0""#));
            continue;
        };
        assert!(api != Api::Responses && round > 3, "{api:?}");
        let calls = talk.calls();
        let request = talk.request(api.body(&[&result], streams), CallOptions::new());
        let error = talk.send(request, talk.whole("a")).await.err().unwrap();
        assert!(matches!(history_error(&error), HistoryError::DoesNotFit(error) if error.turn_is_bound), "{error}");
        assert_eq!(talk.calls(), calls, "the provider is not called");
        let response = error_response(&*error, wire(api));
        assert_eq!(response.status(), 413);
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        let text = body["error"]["message"].as_str().unwrap();
        assert!(text.contains("bound to the whole prompt") && text.contains("`drop_block`"), "{text}");
        assert!(!text.contains("word"), "{text}");
        let expected = match api {
            Api::Messages => json!({"type": "error", "error": {"type": "request_too_large", "message": text}}),
            _ => {
                json!({"error": {"message": text, "type": "invalid_request_error", "param": null, "code": "does_not_fit"}})
            }
        };
        assert_eq!(body, expected);
        // A new question ends the turn.
        talk.ask(streams, "u1", "a1").await;
    }
}

/// The other dialects are tested over the memory store only, because such messages take long.
async fn a_message_of_1_mb(storage: Storage) {
    send_1_mb(Api::Chat, &storage).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_1_mb_in_every_dialect() {
    let storage = Storage::memory().await.unwrap();
    for api in Api::ALL {
        send_1_mb(api, &storage).await;
    }
}

async fn send_1_mb(api: Api, storage: &Storage) {
    let talk = Talk::new(api, storage);
    let large = "ä\u{1f41f}\"\\\u{0}".repeat(1_000_000 / 9);
    talk.ask(false, &large, &large).await;
    talk.ask(true, "u", "a").await;
    let log = talk.turn(&large, &large);
    talk.check_sent(true, &[&log[..], &[Api::user("u")]].concat());
    talk.check_log(storage, &[log, talk.turn("u", "a")].concat()).await;
}

async fn another_dialect_than_that_of_the_conversation(storage: Storage) {
    for (one, other) in
        Api::ALL.into_iter().flat_map(|one| Api::ALL.map(|other| (one, other))).filter(|(one, other)| one != other)
    {
        let talk = Talk::new(one, &storage);
        talk.ask(false, "u0", "a0").await;
        let mut changed = talk.request(other.body(&[&Api::user("u1")], false), CallOptions::new());
        *changed.uri_mut() = other.path().parse().unwrap();
        let error = talk.layer.layer(talk.upstream.clone()).oneshot(changed).await.unwrap_err();
        let HistoryError::OtherDialect(error) = history_error(&error) else { panic!("{error}") };
        assert_eq!(error.place, DialectPlace::Stored(Seq::FIRST), "{one:?} {other:?}");
        assert_eq!(talk.calls(), 1);
        talk.check_log(&storage, &talk.turn("u0", "a0")).await;
    }
}
