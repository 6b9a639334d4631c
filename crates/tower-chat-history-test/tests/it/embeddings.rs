//! The embeddings of `MockServer`, read without a client library.

use serde_json::{Value, json};
use tower_chat_history_test::{ApiFailure, MockEmbeddings, MockServer, Replies};

use crate::wire::exchange;

async fn server() -> MockServer {
    MockServer::start(Replies::script([])).await.unwrap()
}

/// Sends a body, and returns the status and the answer.
async fn post(server: &MockServer, body: &Value) -> (String, Value) {
    let (head, answer) = exchange(server, "POST /v1/embeddings", &body.to_string()).await;
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_str(&answer).unwrap())
}

async fn vectors(server: &MockServer, body: &Value) -> Vec<Vec<f64>> {
    let (status, answer) = post(server, body).await;
    assert_eq!((status.as_str(), &answer["object"], &answer["model"]), ("200", &json!("list"), &json!("m")));
    let data = answer["data"].as_array().unwrap();
    let indexes: Vec<u64> = data.iter().map(|item| item["index"].as_u64().unwrap()).collect();
    assert!(indexes.iter().copied().eq(0..data.len() as u64));
    data.iter().map(|item| serde_json::from_value(item["embedding"].clone()).unwrap()).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn texts_with_common_words_are_near_each_other() {
    let server = server().await;
    let input = ["My dog is called Rex.", "Rex is MY dog", "Bonds pay interest"];
    let found = vectors(&server, &json!({ "model": "m", "input": input })).await;
    assert!(found.iter().all(|vector| vector.len() == MockEmbeddings::DIMENSIONS));
    assert!(cosine(&found[0], &found[1]) > 0.8 && cosine(&found[0], &found[2]) < 0.3);
    let again = vectors(&self::server().await, &json!({ "model": "m", "input": input[0] })).await;
    assert_eq!(again, found[..1], "the same on each server, and one text needs no list");
}

#[tokio::test]
async fn synonyms_count_as_one_word() {
    let server = server().await;
    let body = json!({ "model": "m", "input": ["dog", "puppy", "hound", "cat"] });
    let near = async || {
        let found = vectors(&server, &body).await;
        [1, 2, 3].map(|other| cosine(&found[0], &found[other]) > 0.99)
    };
    assert_eq!(near().await, [false, false, false]);
    server.embeddings().synonyms(["Dog", "puppy"]);
    server.embeddings().synonyms(["hound", "cat"]);
    assert_eq!(near().await, [true, false, false]);
    server.embeddings().synonyms(["cat", "dog"]);
    assert_eq!(near().await, [true, true, true]);
}

#[tokio::test]
async fn dimensions_encodings_and_tokens_are_obeyed() {
    let server = server().await;
    let request = |more: Value| {
        let mut body = json!({ "model": "m", "input": ["one two", "three"], "dimensions": 5 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let floats = vectors(&server, &request(json!({ "encoding_format": "float", "user": "u" }))).await;
    assert!(floats.len() == 2 && floats.iter().all(|vector| vector.len() == 5));
    let (_, answer) = post(&server, &request(json!({ "encoding_format": "base64" }))).await;
    assert_eq!(answer["data"][0]["embedding"].as_str().unwrap().len(), 28, "20 bytes, with padding");
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 4, "total_tokens": 4 }));

    let lists = vectors(&server, &request(json!({ "input": [[17, 4], [4, 17]] }))).await;
    assert_eq!(lists[0], lists[1]);
    let (_, answer) = post(&server, &request(json!({ "input": [17, 4, 9] }))).await;
    assert_eq!((&answer["usage"]["prompt_tokens"], answer["data"].as_array().unwrap().len()), (&json!(3), 1));
    assert_eq!((server.embeddings().requests().len(), server.requests().len()), (4, 0));
}

#[tokio::test]
async fn azure_deployments_have_embeddings() {
    let server = server().await;
    let body = json!({ "model": "m", "input": "a" }).to_string();
    let (head, _) = exchange(&server, "POST /openai/deployments/d/embeddings?api-version=v1", &body).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let requests = server.embeddings().requests();
    assert_eq!((requests[0].path(), requests[0].body()), ("/openai/deployments/d/embeddings", body.as_str()));
    assert!(!format!("{:?}", server.embeddings()).contains("input"));
}

#[tokio::test]
async fn invalid_requests_have_openais_errors() {
    let server = server().await;
    let long = "a".repeat(4 * 8_192);
    for (body, param) in [
        (json!({ "input": "a" }), Value::Null),
        (json!({ "model": 1, "input": "a" }), Value::Null),
        (json!([]), Value::Null),
        (json!({ "model": "m" }), json!("input")),
        (json!({ "model": "m", "input": "" }), json!("input")),
        (json!({ "model": "m", "input": [] }), json!("input")),
        (json!({ "model": "m", "input": ["a", ""] }), json!("input")),
        (json!({ "model": "m", "input": ["a", 1] }), json!("input")),
        (json!({ "model": "m", "input": [[]] }), json!("input")),
        (json!({ "model": "m", "input": { "text": "a" } }), json!("input")),
        (json!({ "model": "m", "input": vec!["a"; 2_049] }), json!("input")),
        (json!({ "model": "m", "input": format!("{long}a") }), json!("input")),
        (json!({ "model": "m", "input": vec![&long; 37] }), json!("input")),
        (json!({ "model": "m", "input": "a", "dimensions": 0 }), json!("dimensions")),
        (json!({ "model": "m", "input": "a", "dimensions": 3_073 }), json!("dimensions")),
        (json!({ "model": "m", "input": "a", "dimensions": "64" }), json!("dimensions")),
        (json!({ "model": "m", "input": "a", "encoding_format": "hex" }), json!("encoding_format")),
    ] {
        let (status, answer) = post(&server, &body).await;
        let error = &answer["error"];
        assert_eq!(
            (status.as_str(), &error["param"], &error["type"]),
            ("400", &param, &json!("invalid_request_error"))
        );
        assert!(error["message"].is_string());
    }
    assert_eq!(vectors(&server, &json!({ "model": "m", "input": vec![&long; 36] })).await.len(), 36);
}

#[tokio::test]
async fn requests_fail_by_a_rule() {
    let server = server().await;
    let body = |text: &str| json!({ "model": "m", "input": [text] });
    server
        .embeddings()
        .fail_if(|texts| (texts[0] == "storm").then(|| ApiFailure::rate_limited(std::time::Duration::ZERO)));
    let (status, answer) = post(&server, &body("storm")).await;
    assert_eq!((status.as_str(), &answer["error"]["code"]), ("429", &json!("rate_limit_exceeded")));
    assert_eq!(post(&server, &body("sun")).await.0, "200");
    server.embeddings().fail_if(|_| Some(ApiFailure::server_error()));
    assert_eq!(post(&server, &body("sun")).await.0, "500");
    server.embeddings().fail_if(|_| None);
    assert_eq!(post(&server, &body("storm")).await.0, "200");
    assert_eq!(server.embeddings().requests().len(), 4);
}

#[tokio::test]
async fn answers_can_be_slow() {
    let server = server().await;
    let latency = std::time::Duration::from_millis(30);
    server.embeddings().latency(latency);
    let begun = std::time::Instant::now();
    assert_eq!(post(&server, &json!({ "model": "m", "input": "a" })).await.0, "200");
    assert!(begun.elapsed() >= latency);
}
