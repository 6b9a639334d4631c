//! Tests of the program `server`, over HTTP.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_server"))
            .args(["--listen", "127.0.0.1:0", "--store", "memory:"])
            .env_remove("OPENAI_API_KEY")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, url }
    }

    async fn ask(&self, user: &str, conversation: &str, text: &str, key: Option<&str>) -> (StatusCode, String) {
        let url = format!("{}/conversations/{conversation}/messages", self.url);
        let mut request = client().post(url).header("x-user", user).json(&json!({ "text": text }));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    async fn messages(&self, user: &str, conversation: &str) -> Vec<Value> {
        let url = format!("{}/conversations/{conversation}/messages", self.url);
        client().get(url).header("x-user", user).send().await.unwrap().json().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

/// Returns the text of all events.
fn text(events: &str) -> String {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str::<Value>(data).unwrap()["text"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn users_do_not_share_conversations() {
    let server = Server::start();
    let (status, events) = server.ask("nemo", "demo", "my name is Nemo", None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(events.contains("event: saved"), "{events}");
    let (_, events) = server.ask("nemo", "demo", "what is my name?", None).await;
    assert!(text(&events).contains("Nemo"), "{events}");
    let (_, events) = server.ask("dory", "demo", "what is my name?", None).await;
    assert!(!text(&events).contains("Nemo"), "{events}");
    assert_eq!(server.messages("nemo", "demo").await.len(), 4);
    assert_eq!(server.messages("dory", "demo").await.len(), 2);

    let url = format!("{}/conversations/demo", server.url);
    let deleted = client().delete(url).header("x-user", "nemo").send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert!(server.messages("nemo", "demo").await.is_empty());
}

#[tokio::test]
async fn a_repeated_request_is_answered_from_the_log() {
    let server = Server::start();
    let (_, first) = server.ask("nemo", "demo", "my name is Nemo", Some("key-1")).await;
    let (status, second) = server.ask("nemo", "demo", "my name is Nemo", Some("key-1")).await;
    assert_eq!((status, text(&second)), (StatusCode::OK, text(&first)));
    assert_eq!(server.messages("nemo", "demo").await.len(), 2);
}

#[tokio::test]
async fn requests_with_invalid_ids_are_refused() {
    let server = Server::start();
    assert_eq!(server.ask("", "demo", "hi", None).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.ask("nemo", &"x".repeat(2000), "hi", None).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.ask("nemo", "demo", "hi", Some(&"x".repeat(200))).await.0, StatusCode::BAD_REQUEST);
}
