//! Streams: read to the end, dropped, interrupted, stalled.

use std::{pin::pin, time::Duration};

use futures_util::poll;
use http_body_util::BodyExt as _;
use test_providers::formats::Api;
use tests::{Storage, exchanges, over_every_store};
use tower_chat_history::{
    CallOptions, HistoryOptions, Policies,
    error::StreamStalled,
    policy::OnInterruption,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::Op;

use super::{Answer, Talk};

over_every_store! {
    #[tokio::test(start_paused = true)]
    the_end_waits_for_the_save,
    is_dropped_after_its_last_event_but_one,
    is_dropped_and_handled_by_policy,
    is_interrupted_and_handled_by_policy,
    stalls,
}

const POLICIES: [OnInterruption; 3] = [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach];

fn by(api: Api, storage: &Storage, policy: OnInterruption) -> Talk {
    let options = HistoryOptions::new()
        .policies(Policies::new().on_interruption(policy))
        .stream_idle_timeout(Duration::from_secs(30));
    Talk::with_options(api, storage, options)
}

/// Returns the events before that which ends the text "ab".
fn begun(api: Api) -> Vec<String> {
    let events = api.events(&["a", "b"]);
    let at = events.iter().position(|event| event.contains("\"b\"")).unwrap();
    events[..at].to_vec()
}

async fn the_end_waits_for_the_save(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let held = storage.store.hold(Op::Append);
        let events = api.events(&["a", "b"]);
        let body = api.body(&[&Api::user("u")], true);
        let request = talk.request(body, CallOptions::new());
        let mut body = talk.send(request, Answer::Events(events.clone())).await.unwrap().into_body();
        for event in &events[..events.len() - 1] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), *event);
        }
        {
            let mut end = pin!(body.frame());
            for _ in 0..9 {
                assert!(poll!(&mut end).is_pending(), "{api:?}: the end waits for the save");
                tokio::task::yield_now().await;
            }
            held.release();
            assert_eq!(end.await.unwrap().unwrap().into_data().unwrap(), *events.last().unwrap());
        }
        assert!(body.frame().await.is_none());
        talk.check_log(&storage, &talk.turn("u", "ab")).await;
    }
}

/// Reads this many events of a stream, and drops the rest. Returns the outcome.
async fn dropped(talk: &Talk, answer: Answer, events: usize) -> TurnOutcome {
    let (options, report) = CallOptions::new().with_report();
    let request = talk.request(talk.api.body(&[&Api::user("u")], true), options);
    let mut body = talk.send(request, answer).await.unwrap().into_body();
    for _ in 0..events {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    talk.layer.engine().drain(Duration::from_secs(60)).await.unwrap();
    report.await.unwrap().outcome.clone()
}

async fn is_dropped_after_its_last_event_but_one(storage: Storage) {
    // The event before the last one completes the reply. In the Responses API, only the last one does.
    for api in [Api::Chat, Api::Messages] {
        let talk = Talk::new(api, &storage);
        let events = api.events(&["a", "b"]);
        let outcome = dropped(&talk, Answer::Events(events.clone()), events.len() - 1).await;
        assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{api:?} {outcome:?}");
        talk.check_log(&storage, &talk.turn("u", "ab")).await;
    }
}

async fn is_dropped_and_handled_by_policy(storage: Storage) {
    for api in Api::ALL {
        for policy in POLICIES {
            let talk = by(api, &storage, policy);
            let outcome = dropped(&talk, talk.streamed("ab"), begun(api).len()).await;
            let log = match policy {
                OnInterruption::Detach => talk.turn("u", "ab").to_vec(),
                // The Responses API has only finished items.
                OnInterruption::KeepText if api != Api::Responses => talk.turn("u", "a").to_vec(),
                _ => Vec::new(),
            };
            assert_eq!(
                matches!(outcome, TurnOutcome::Stored { .. }),
                !log.is_empty(),
                "{api:?} {policy:?} {outcome:?}"
            );
            talk.check_log(&storage, &log).await;
            talk.ask(true, "next", "so").await;
            talk.check_sent(true, &[&log[..], &[Api::user("next")]].concat());
        }
    }
}

async fn is_interrupted_and_handled_by_policy(storage: Storage) {
    for api in Api::ALL {
        let failed = [begun(api), vec![api.error_event()]].concat();
        for policy in POLICIES {
            for answer in [Answer::Events(begun(api)), Answer::Broken(begun(api)), Answer::Events(failed.clone())] {
                let talk = by(api, &storage, policy);
                let is_broken = matches!(answer, Answer::Broken(_));
                let received = talk.call(&[&Api::user("u")], answer).await.unwrap();
                assert_eq!(received.error.is_some(), is_broken);
                assert!(received.text.starts_with(&begun(api).concat()), "{api:?}");
                let keeps = policy == OnInterruption::KeepText && api != Api::Responses;
                let outcome = &received.report().outcome;
                if keeps {
                    assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{api:?} {outcome:?}");
                    assert!(exchanges(&storage.store, &talk.id).await[0].exchange.incomplete);
                    talk.check_log(&storage, &talk.turn("u", "a")).await;
                } else {
                    assert!(matches!(outcome, TurnOutcome::NotStored(NotStored::Interrupted)), "{api:?} {outcome:?}");
                    talk.check_log(&storage, &[]).await;
                }
            }
        }
    }
}

async fn stalls(storage: Storage) {
    for api in Api::ALL {
        let talk = by(api, &storage, OnInterruption::Discard);
        let received = talk.call(&[&Api::user("u")], Answer::Stalled(begun(api))).await.unwrap();
        assert_eq!(received.text, begun(api).concat());
        assert!(received.error.as_ref().unwrap().is::<StreamStalled>());
        assert!(matches!(received.report().outcome, TurnOutcome::NotStored(NotStored::Stalled)));
        talk.check_log(&storage, &[]).await;
    }
}
