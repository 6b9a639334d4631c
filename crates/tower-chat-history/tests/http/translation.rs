//! Conversations whose caller changes the API, and resends its list in the format of the new one.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use test_providers::formats::Api;
use tower_chat_history::{
    BoxError, HistoryError, HistoryOptions, HistoryStoreExt as _, Policies,
    error::TranscriptError,
    http::{CONVERSATION_ID, HttpHistory},
    policy::OnOtherDialect,
    store::Seq,
};

use super::support::{History, JSON, Sent, answer, id, text};

/// Makes a call with this list, and this reply.
async fn call(history: &History, api: Api, list: &[String], reply: &str, reason: &str) -> Result<Sent, BoxError> {
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let request = Request::post(api.path()).header(CONVERSATION_ID, id().as_str());
    let request = request.body(Full::<Bytes>::from(api.body(&list, false))).unwrap();
    let (sent, response) = history.call(request, answer(JSON, api.whole(reply, reason))).await;
    text(response?).await;
    Ok(sent.unwrap())
}

/// Returns the list of a caller after a turn with two calls, which have the ids of the caller.
fn list(api: Api, ids: [&str; 2], results: [&str; 2]) -> Vec<String> {
    let [one, other] = ids.map(|id| api.call(id));
    let calls = match api {
        // Parallel calls are in one message.
        Api::Chat | Api::Messages => {
            let (list, end) = if api == Api::Chat { (r#""tool_calls":["#, "]}") } else { (r#""content":["#, "]}") };
            let second = other.split_once(list).unwrap().1;
            vec![format!("{},{second}", one.strip_suffix(end).unwrap())]
        }
        Api::Responses => vec![one, other],
    };
    let results = ids.into_iter().zip(results).map(|(id, text)| api.result(id, text));
    let said = [Api::user("u0")].into_iter().chain(calls);
    said.chain(results).chain([api.said("a0")]).collect()
}

#[tokio::test]
async fn a_caller_that_changes_the_api_resends_its_list_with_ids_of_its_own() {
    for from in Api::ALL {
        for to in Api::ALL.into_iter().filter(|to| *to != from) {
            let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
            let history = History::of(HttpHistory::new(), HistoryOptions::new().policies(policies));
            let first = list(from, ["x", "y"], ["1", "2"]);
            let asked = first.iter().position(|message| message.contains(r#""1""#)).unwrap();
            if from == Api::Responses {
                // A response with both calls.
                let calls = first[1..asked].join(",");
                call(&history, from, &first[..1], &calls, from.stop_for_calls()).await.unwrap();
            } else {
                call(&history, from, &first[..1], &first[1], from.stop_for_calls()).await.unwrap();
            }
            let (reply, before) = first.split_last().unwrap();
            call(&history, from, before, reply, from.stop()).await.unwrap();

            let mut resent = list(to, ["own_1", "own_2"], ["1", "2"]);
            resent.push(Api::user("u1"));
            let sent = call(&history, to, &resent, &to.said("a1"), to.stop()).await.unwrap();
            for text in ["u0", "a0", "u1", r#""1""#, r#""2""#] {
                assert_eq!(sent.body.matches(text).count(), 1, "{from:?} to {to:?}: {text} in {}", sent.body);
            }
            assert!(!sent.body.contains("own_"), "the calls of the log are sent: {}", sent.body);
            let log = history.store.conversation(&id()).exchanges().await.unwrap();
            assert_eq!(log.len(), 3, "{from:?} to {to:?}");
            assert_eq!(log[2].exchange.messages.len(), 2);

            // The next list has the exchange in the new format, too.
            resent.extend([to.said("a1"), Api::user("u2")]);
            call(&history, to, &resent, &to.said("a2"), to.stop()).await.unwrap();

            // A list in which the results are exchanged is another conversation.
            let mut other = list(to, ["own_1", "own_2"], ["2", "1"]);
            let differs = other.len() - 2;
            other.push(Api::user("u1"));
            history.store.conversation(&id()).truncate(Seq::new(2)).await.unwrap();
            let error = call(&history, to, &other, &to.said("a1"), to.stop()).await.unwrap_err();
            let Some(HistoryError::Transcript(TranscriptError { position, .. })) = error.downcast_ref() else {
                panic!("{error}")
            };
            assert_eq!(*position, differs, "{from:?} to {to:?}");
        }
    }
}
