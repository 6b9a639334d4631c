//! Recall through the layer: the place of the recalled messages in the request.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{BoxError, ChatHistoryLayer, HistoryStoreExt as _, InConversation, MemoryStore, adapt::Json};

use super::support::{ScriptedRecall, id, options};

#[tokio::test]
async fn in_a_json_request_recalled_messages_follow_head_and_window_and_precede_the_input() {
    let (store, recall) = (MemoryStore::new(), ScriptedRecall::numbered());
    let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
    let llm = model(&sent);
    let layer = ChatHistoryLayer::with_options(store.clone(), Json::new(), options(&recall));
    let question =
        |number: usize| json!({"role": "user", "content": format!("q {number} {}", "q".repeat(400)), "name": "n"});
    let head = json!({"role": "system", "content": "Be brief."});
    for number in 0..16 {
        let request = json!({"model": "m", "messages": [head, question(number)]});
        layer.layer(llm.clone()).oneshot(InConversation::new(id(), request)).await.unwrap();
    }
    let exchanges = store.conversation(&id()).exchanges().await.unwrap();
    let with_recalled: Vec<usize> = (0..16).filter(|at| exchanges[*at].exchange.recalled.is_some()).collect();
    assert!(with_recalled.len() > 5);
    for number in with_recalled {
        let messages = sent.lock().unwrap()[number]["messages"].as_array().unwrap().clone();
        let [first, window @ .., recalled, reply, input] = &messages[..] else { panic!("four messages") };
        assert_eq!((first, input), (&head, &question(number)));
        assert_eq!(window.last().unwrap()["role"], "assistant");
        let stored = exchanges[number].exchange.recalled.as_ref().unwrap();
        assert_eq!(recalled, &serde_json::from_str::<Value>(stored.message.json()).unwrap());
        assert_eq!((&recalled["role"], &reply["role"]), (&json!("user"), &json!("assistant")));
    }
}

/// A model that answers, and collects its requests.
fn model(
    requests: &Arc<Mutex<Vec<Value>>>,
) -> impl tower::Service<Value, Response = Value, Error = BoxError, Future: Send> + Clone + use<> {
    let requests = Arc::clone(requests);
    service_fn(move |request: Value| {
        requests.lock().unwrap().push(request);
        let message = json!({"role": "assistant", "content": "a".repeat(400)});
        async move { Ok::<_, BoxError>(json!({"choices": [{"message": message}]})) }
    })
}

#[tokio::test]
async fn few_shot_messages_stay_before_the_window_and_recalled_messages_after_it() {
    let (recall, sent) = (ScriptedRecall::numbered(), Arc::default());
    let layer = ChatHistoryLayer::with_options(MemoryStore::new(), Json::new(), options(&recall));
    let head = [
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "2 + 2?"}),
        json!({"role": "assistant", "content": "4"}),
    ];
    let mut shown = 0;
    for number in 0..16 {
        let input = json!({"role": "user", "content": format!("q {number} {}", "q".repeat(400))});
        let messages: Vec<&Value> = head.iter().chain([&input]).collect();
        let call = InConversation::new(id(), json!({"messages": messages})).few_shot_messages(2);
        layer.layer(model(&sent)).oneshot(call).await.unwrap();
        let request = sent.lock().unwrap().pop().unwrap();
        let messages = request["messages"].as_array().unwrap();
        assert!(messages.starts_with(&head) && messages.last() == Some(&input));
        if recall.searches().len() > shown {
            shown = recall.searches().len();
            let recalled = messages[messages.len() - 3]["content"].as_str().unwrap();
            assert!(recalled.starts_with("recalled"));
        }
    }
    assert!(shown > 5, "{shown}");
}
