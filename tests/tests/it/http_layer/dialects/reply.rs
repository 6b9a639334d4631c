//! Replies.

use test_providers::formats::Api;
use tests::{Storage, exchanges, over_every_store};
use tower_chat_history::report::{NotStored, ResponseShape, TurnOutcome};

use super::{Answer, Talk, no_reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_reply_is_stored_once_and_sent_again,
    an_error_status,
    a_response_that_cannot_be_read,
    an_empty_reply,
    a_reply_that_ends_early,
}

async fn a_reply_is_stored_once_and_sent_again(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let mut log: Vec<String> = Vec::new();
        for (turn, streams) in [false, true, true, false].into_iter().enumerate() {
            let (question, answer) = (format!("u{turn}"), format!("a{turn}"));
            let received = talk.ask(streams, &question, &answer).await;
            assert!(matches!(received.report().outcome, TurnOutcome::Stored { moved: false, .. }), "{api:?}");
            assert!(received.status == 200 && received.error.is_none() && !received.text.is_empty());
            log.push(Api::user(&question));
            talk.check_sent(streams, &log);
            log.push(api.said(&answer));
        }
        talk.check_log(&storage.replica().await, &log).await;
        let stored = exchanges(&storage.store, &talk.id).await;
        assert!(stored.iter().all(|recorded| recorded.exchange.finish_reason.as_deref() == Some(api.stop())));
    }
}

async fn an_error_status(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        for status in [400, 429, 500, 529] {
            let whole = api.whole(&api.said("a"), api.stop());
            let received = talk.call(&[&Api::user("u")], Answer::Whole(status, whole.clone())).await.unwrap();
            assert_eq!((received.status, received.text), (status, whole));
            assert!(received.report.is_none(), "the call has failed");
        }
        talk.check_log(&storage, &[]).await;
    }
}

async fn a_response_that_cannot_be_read(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let others = Api::ALL.into_iter().filter(|other| *other != api);
        let others = others.map(|other| other.whole(&other.said("a"), other.stop()));
        for text in others.chain(["<html>".into(), String::new(), r#"{"error":{"message":"busy"}}"#.into()]) {
            let received = talk.call(&[&Api::user("u")], Answer::Whole(200, text.clone())).await.unwrap();
            assert_eq!(received.text, text);
            let is_unreadable = matches!(received.report().outcome, TurnOutcome::NotStored(NotStored::UnreadableReply(shape)) if {
                shape != ResponseShape::TooLarge
            });
            assert!(is_unreadable, "{api:?} {text} {:?}", received.report().outcome);
        }
        talk.check_log(&storage, &[]).await;
    }
}

async fn an_empty_reply(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        let empty = match api {
            Api::Chat => r#"{"role":"assistant","content":""}"#,
            Api::Messages => r#"{"role":"assistant","content":[]}"#,
            Api::Responses => "",
        };
        let received = talk.call(&[&Api::user("u0")], Answer::Whole(200, api.whole(empty, api.stop()))).await.unwrap();
        let mut log = match received.report().outcome {
            TurnOutcome::Stored { .. } => vec![Api::user("u0"), empty.to_owned()],
            // Without items, there is no reply.
            TurnOutcome::NotStored(NotStored::NoReply) if api == Api::Responses => Vec::new(),
            ref other => panic!("{api:?} {other:?}"),
        };
        talk.ask(false, "u1", "a1").await;
        let mut sent = log[..log.len().min(1)].to_vec();
        if !sent.is_empty() {
            sent.push(no_reply(api));
        }
        sent.push(Api::user("u1"));
        talk.check_sent(false, &sent);
        log.extend(talk.turn("u1", "a1"));
        talk.check_log(&storage, &log).await;
    }
}

async fn a_reply_that_ends_early(storage: Storage) {
    for (api, reason) in [(Api::Chat, "length"), (Api::Messages, "max_tokens"), (Api::Responses, "max_output_tokens")] {
        let talk = Talk::new(api, &storage);
        let whole = Answer::Whole(200, api.whole(&api.said("a"), reason));
        for answer in [whole, Answer::Events(api.events_to(&["a"], reason))] {
            talk.call(&[&Api::user("u")], answer).await.unwrap();
        }
        let turn = talk.turn("u", "a");
        talk.check_log(&storage, &[turn.clone(), turn].concat()).await;
        let stored = exchanges(&storage.store, &talk.id).await;
        assert!(stored.iter().all(|recorded| recorded.exchange.finish_reason.as_deref() == Some(reason)));
    }
}
