//! Bad input in each of the three formats: the outcome is that of `docs/cases.md`. Afterwards, the conversation goes
//! on, and has each exchange once.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use test_providers::formats::Api;
use tower_chat_history::{
    http::{CONVERSATION_ID, CallError},
    report::{NotStored, ResponseShape, TurnOutcome},
};

use super::{
    hostile::{MIB, hostile},
    support::{EVENTS, History, JSON, answer, answer_with, id, text},
};

fn ask<B>(api: Api, body: B) -> Request<B> {
    Request::post(api.path()).header(CONVERSATION_ID, id().as_str()).body(body).unwrap()
}

fn full(body: impl Into<Bytes>) -> Full<Bytes> {
    Full::new(body.into())
}

/// Makes a call that is stored. `before` is what the log has.
async fn goes_on(api: Api, history: &History, before: &[String]) {
    let (next, reply) = (Api::user("next"), api.said("so"));
    let body = api.body(&[&next], false);
    let (sent, response) = history.call(ask(api, full(body)), answer(JSON, api.whole(&reply, api.stop()))).await;
    response.unwrap();
    // Strict readers refuse a lone surrogate, so later prompts have none.
    let mended: Vec<String> = before.iter().map(|json| json.replace(r"\udc00", r"\ufffd")).collect();
    let messages: Vec<&str> = mended.iter().map(String::as_str).chain([next.as_str()]).collect();
    assert_eq!(sent.unwrap().body, api.body(&messages, false), "{api:?}");
    assert_eq!(history.log().await, [before, &[next, reply]].concat(), "{api:?}");
}

/// Answers a call with a response that is passed on byte for byte. Returns the outcome.
async fn outcome(api: Api, history: &History, kind: &str, response: &[u8]) -> TurnOutcome {
    let body = api.body(&[&Api::user("u")], kind == EVENTS);
    let response_body = Bytes::copy_from_slice(response);
    let (_, passed) = history.call(ask(api, full(body)), answer(kind, response_body)).await;
    let passed = passed.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(passed == response, "{api:?}");
    history.outcome()
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    for api in Api::ALL {
        let (history, list) = (History::new(), api.list());
        for body in [
            Vec::new(),
            b"secret".to_vec(),
            b"[".to_vec(),
            b"7".to_vec(),
            format!(r#"{{"{list}":[{}"#, Api::user("secret")).into(),
            format!(r#"{{"{list}":[{}]}}}}"#, Api::user("secret")).into(),
            [format!(r#"{{"{list}":[{{"role":"user","content":""#).as_bytes(), b"\xff\"}]}"].concat(),
            format!("{{\"a\nb\":1,\"{list}\":[{}]}}", Api::user("secret")).into(),
            [b"\xef\xbb\xbf", api.body(&[&Api::user("u")], false).as_bytes()].concat(),
        ] {
            let error = history.refused(ask(api, full(body.clone()))).await;
            let is_body = matches!(error.downcast_ref(), Some(CallError::Body { line: 1.., .. }));
            assert!(is_body, "{api:?} {} {error:?}", String::from_utf8_lossy(&body));
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        goes_on(api, &history, &[]).await;
    }
}

#[tokio::test]
async fn a_repeated_list_is_refused_and_of_another_field_the_last_value_counts() {
    for api in Api::ALL {
        let (history, list) = (History::new(), api.list());
        for second in [list, api.escaped_list()] {
            let user = Api::user("u");
            let body = format!(r#"{{"{list}":[{user}],"{second}":[{user}]}}"#);
            let error = history.refused(ask(api, full(body))).await;
            assert!(matches!(error.downcast_ref(), Some(CallError::Body { .. })), "{api:?} {error:?}");
        }
        let (user, reply) = (r#"{"role":"system","role":"user","content":"u","content":"v"}"#, api.said("a"));
        let body = format!(r#"{{"model":7,"{list}":[{user}],"x":{{"{list}":1,"{list}":2}},"model":"m"}}"#);
        let whole = api.whole(&reply, api.stop());
        let (sent, _) = history.call(ask(api, full(body.clone())), answer(JSON, whole)).await;
        assert_eq!(sent.unwrap().body, body, "{api:?}");
        goes_on(api, &history, &[user.into(), reply]).await;
    }
}

#[tokio::test]
async fn names_may_be_escaped() {
    for api in Api::ALL {
        let (history, user, reply) = (History::new(), r#"{"\u0072ole":"user","content":"u"}"#, api.said("a"));
        let body = format!(r#"{{"{}" : [ {user} ]}}"#, api.escaped_list());
        let whole = api.whole(&reply, api.stop());
        for before in [String::new(), format!("{user},{reply},")] {
            let (sent, _) = history.call(ask(api, full(body.clone())), answer(JSON, whole.clone())).await;
            let expected = if before.is_empty() { body.clone() } else { body.replace("[ ", &format!("[{before}")) };
            assert_eq!(sent.unwrap().body, expected, "{api:?}");
        }
        assert_eq!(history.log().await.len(), 4);
    }
}

#[tokio::test]
async fn names_need_not_be_unicode() {
    for api in Api::ALL {
        let (user, reply, list) = (r#"{"role":"user","\udc00":1,"content":"u"}"#, api.said("a"), api.list());
        let body = format!(r#"{{"\ud83d":1,"{list}":[{user}],"x":{{"\ud83d\ud83d":2}}}}"#);
        let whole = api.whole(&reply, api.stop()).replacen('{', r#"{"\ud83d":1,"#, 1);
        let events = api.events(&["a"]).concat().replace("data: {", r#"data: {"\ud83d":1,"#);
        for (kind, response) in [(JSON, whole), (EVENTS, events)] {
            let history = History::new();
            let (sent, got) = history.call(ask(api, full(body.clone())), answer(kind, response.clone())).await;
            assert_eq!(sent.unwrap().body, body, "{api:?}");
            assert_eq!(text(got.unwrap()).await, response);
            goes_on(api, &history, &[user.into(), reply.clone()]).await;
        }
    }
}

#[tokio::test]
async fn unknown_types_are_stored_and_sent_byte_for_byte() {
    for api in Api::ALL {
        let history = History::new();
        let part = r#"{"type":"next_year", "level":1.50,"level":[ ]}"#;
        let input = match api {
            Api::Chat | Api::Messages => vec![format!(r#"{{"role":"user","content":[{part}],"new":{{}}}}"#)],
            Api::Responses => vec![Api::user("u"), part.into()],
        };
        let reply = match api {
            Api::Chat => format!(r#"{{"role":"assistant","content":"a","parts":[{part}]}}"#),
            Api::Messages => format!(r#"{{"role":"assistant","content":[{part},{{"type":"text","text":"a"}}]}}"#),
            Api::Responses => r#"{"type":"of_the_model","level":1.50}"#.into(),
        };
        let input: Vec<&str> = input.iter().map(String::as_str).collect();
        let body = api.body(&input, false);
        let whole = api.whole(&reply, api.stop());
        let (sent, _) = history.call(ask(api, full(body.clone())), answer(JSON, whole)).await;
        assert_eq!(sent.unwrap().body, body, "{api:?}");
        let log: Vec<String> = input.into_iter().chain([reply.as_str()]).map(str::to_owned).collect();
        goes_on(api, &history, &log).await;
    }
}

#[tokio::test]
async fn a_request_of_100_mb_is_refused() {
    for api in Api::ALL {
        let history = History::new();
        let begin = api.body(&[&Api::user("u")], false);
        let error = history.refused(ask(api, hostile(begin, b' ', "\n"))).await;
        assert!(matches!(error.downcast_ref(), Some(CallError::TooLarge { .. })), "{api:?} {error:?}");
        goes_on(api, &history, &[]).await;
    }
}

#[tokio::test]
async fn a_response_of_100_mb_is_passed_on_and_not_stored() {
    for api in Api::ALL {
        let (history, body) = (History::new(), api.body(&[&Api::user("u")], false));
        let whole = api.whole(&api.said("a"), api.stop());
        let large = answer_with(JSON, hostile(whole.clone(), b' ', "\n"));
        let (_, response) = history.call(ask(api, full(body)), large).await;
        let passed = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(passed.len() == whole.len() + 100 * MIB + 1 && passed.starts_with(whole.as_bytes()), "{api:?}");
        let too_large = NotStored::UnreadableReply(ResponseShape::TooLarge);
        assert!(
            matches!(history.outcome(), TurnOutcome::NotStored(why) if why == too_large),
            "{:?}",
            history.outcome()
        );
        goes_on(api, &history, &[]).await;
    }
}

#[tokio::test]
async fn an_event_of_100_mb_is_passed_on_and_not_stored() {
    for api in Api::ALL {
        let history = History::new();
        let events = api.events(&["a", "b"]);
        let begin = format!("{}data: ", events[0]);
        let end = format!("\n\n{}", events[1..].concat());
        let body = api.body(&[&Api::user("u")], true);
        let large = answer_with(EVENTS, hostile(begin.clone(), b'x', end.clone()));
        let (_, response) = history.call(ask(api, full(body)), large).await;
        let passed = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(passed.len(), begin.len() + 100 * MIB + end.len());
        assert!(passed.starts_with(begin.as_bytes()) && passed.ends_with(end.as_bytes()));
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(NotStored::Interrupted)), "{:?}", history.outcome());
        goes_on(api, &history, &[]).await;
    }
}

#[tokio::test]
async fn a_response_that_is_not_json_in_utf_8_is_passed_on_and_not_stored() {
    for api in Api::ALL {
        let history = History::new();
        let whole = api.whole(&api.said("a"), api.stop());
        let broken = [whole.as_bytes(), b"\xff"].concat();
        let within = whole.replace("\"a\"", "\"\u{1}\"").into_bytes();
        for response in [&broken, &within, &b""[..], b"<html>", &whole.as_bytes()[..whole.len() - 1]] {
            let outcome = outcome(api, &history, JSON, response).await;
            let not_json = NotStored::UnreadableReply(ResponseShape::NotJson);
            assert!(matches!(&outcome, TurnOutcome::NotStored(why) if *why == not_json), "{api:?} {outcome:?}");
        }
        goes_on(api, &history, &[]).await;
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_interrupts_a_reply_that_needs_it() {
    for api in Api::ALL {
        let events = api.events(&["a", "b"]);
        let last = events.len() - 1;
        for bad in [&b"data: {\"\xff\":1}\n\n"[..], b"data: {\n\n", b"data: \xff\n\n", b"data: [\n\n"] {
            let history = History::new();
            let stream = |replaced: usize| {
                let event = |at: usize| if at == replaced { bad } else { events[at].as_bytes() };
                (0..=last).flat_map(event).copied().collect::<Vec<u8>>()
            };
            // In the Responses API, only the last event counts. In the other ones, it says nothing new.
            let (needed, other) = if api == Api::Responses { (last, 1) } else { (1, last) };
            let needs = outcome(api, &history, EVENTS, &stream(needed)).await;
            assert!(matches!(needs, TurnOutcome::NotStored(NotStored::Interrupted)), "{api:?} {needs:?}");
            assert_eq!(history.log().await, [""; 0]);
            let needs_not = outcome(api, &history, EVENTS, &stream(other)).await;
            assert!(matches!(needs_not, TurnOutcome::Stored { .. }), "{api:?} {needs_not:?}");
            goes_on(api, &history, &[Api::user("u"), api.said("ab")]).await;
        }
    }
}

#[tokio::test]
async fn an_error_event_interrupts_a_reply() {
    for api in Api::ALL {
        let history = History::new();
        let stream = api.events(&["a", "b"])[..2].concat() + &api.error_event();
        let outcome = outcome(api, &history, EVENTS, stream.as_bytes()).await;
        assert!(matches!(outcome, TurnOutcome::NotStored(NotStored::Interrupted)), "{api:?} {outcome:?}");
        goes_on(api, &history, &[]).await;
    }
}
