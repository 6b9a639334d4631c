//! Tests of the program `proxy`, over HTTP.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

struct Proxy {
    process: Child,
    url: String,
}

impl Proxy {
    fn start(store: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_proxy"))
            .args(["--listen", "127.0.0.1:0", "--store", store])
            .env_remove("OPENAI_API_KEY")
            .env_remove("ANTHROPIC_API_KEY")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, url }
    }

    fn post(&self, format: Format, text: &str, streams: bool) -> RequestBuilder {
        let mut body = format.body(text);
        body["stream"] = streams.into();
        let client = Client::builder().no_proxy().build().unwrap();
        client.post(format!("{}{}", self.url, format.path())).header("anthropic-version", "2023-06-01").json(&body)
    }

    /// Asks in a conversation, and returns the text of the reply.
    async fn ask(&self, format: Format, conversation: &str, text: &str, streams: bool) -> String {
        let request = self.post(format, text, streams).header("x-chat-history-conversation", conversation);
        let response = request.send().await.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!((response.status(), kind.contains("event-stream")), (StatusCode::OK, streams));
        let body = response.text().await.unwrap();
        if streams {
            let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
            data.filter_map(|data| format.delta(&serde_json::from_str(data).unwrap_or_default())).collect()
        } else {
            let body: Value = serde_json::from_str(&body).unwrap();
            body.pointer(format.text()).unwrap().as_str().unwrap().to_owned()
        }
    }

    /// Interrupts the program, and waits for its end.
    fn interrupt(mut self) -> bool {
        let kill = format!("kill -INT {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        self.process.wait().unwrap().success()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Chat,
    Messages,
    Responses,
}

const FORMATS: [Format; 3] = [Format::Chat, Format::Messages, Format::Responses];

impl Format {
    const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }

    fn body(self, text: &str) -> Value {
        let messages = json!([{ "role": "user", "content": text }]);
        match self {
            Self::Chat => json!({ "model": "gpt-5.5", "messages": messages }),
            Self::Messages => json!({ "model": "claude-haiku-5-5", "max_tokens": 99, "messages": messages }),
            Self::Responses => json!({ "model": "gpt-5.5", "store": false, "input": text }),
        }
    }

    /// Returns the place of the text in a whole response.
    const fn text(self) -> &'static str {
        match self {
            Self::Chat => "/choices/0/message/content",
            Self::Messages => "/content/0/text",
            Self::Responses => "/output/0/content/0/text",
        }
    }

    /// Returns the text in an event.
    fn delta(self, event: &Value) -> Option<String> {
        let place = match self {
            Self::Chat => "/choices/0/delta/content",
            Self::Messages => "/delta/text",
            Self::Responses => "/delta",
        };
        event.pointer(place)?.as_str().map(str::to_owned)
    }
}

#[tokio::test]
async fn conversations_of_all_formats_are_remembered_whole_and_streamed() {
    let proxy = Proxy::start("memory:");
    for format in FORMATS {
        let id = format!("demo/{format:?}");
        for (streams, name) in [(false, "Nemo"), (true, "Dory")] {
            let told = proxy.ask(format, &id, &format!("my name is {name}"), streams).await;
            assert_eq!(told, format!("Nice to meet you, {name}!"), "{format:?}");
            for streams in [false, true] {
                let answer = proxy.ask(format, &id, "what is my name?", streams).await;
                assert_eq!(answer, format!("Your name is {name}."), "{format:?}");
            }
        }
        let other = proxy.ask(format, &format!("other/{format:?}"), "what is my name?", false).await;
        assert_eq!(other, "I do not know your name.");
    }
}

#[tokio::test]
async fn errors_of_the_layer_and_of_the_provider_have_the_form_of_the_api() {
    let proxy = Proxy::start("memory:");
    for format in FORMATS {
        let response = proxy.post(format, "hi", false).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let body: Value = response.json().await.unwrap();
        assert!(body["error"]["message"].as_str().unwrap().contains("conversation"), "{body}");
        assert_eq!(body["type"] == "error", matches!(format, Format::Messages), "{body}");
    }
    proxy.ask(Format::Chat, "demo/mixed", "my name is Nemo", false).await;
    let mixed = proxy.post(Format::Messages, "hi", false).header("x-chat-history-conversation", "demo/mixed");
    let response = mixed.send().await.unwrap();
    assert!(!response.status().is_success());
    assert_eq!(response.json::<Value>().await.unwrap()["type"], "error");
    // The provider refuses an empty message, and its answer is passed on.
    let empty = proxy.post(Format::Messages, "", false).header("x-chat-history-conversation", "demo/empty");
    let response = empty.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(response.text().await.unwrap().contains("all messages must have non-empty content"));
}

#[tokio::test]
async fn other_requests_pass_through() {
    let proxy = Proxy::start("memory:");
    let client = Client::builder().no_proxy().build().unwrap();
    let models: Value = client.get(format!("{}/v1/models", proxy.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(models["data"][0]["id"], "mock");
    let unknown = client.get(format!("{}/v1/unknown?x=1", proxy.url)).send().await.unwrap();
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_interrupted_proxy_ends_well_and_the_next_one_continues() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("proxy.db").display());
    let proxy = Proxy::start(&store);
    proxy.ask(Format::Messages, "demo/1", "my name is Nemo", true).await;
    assert!(proxy.interrupt());
    let proxy = Proxy::start(&store);
    assert_eq!(proxy.ask(Format::Messages, "demo/1", "what is my name?", false).await, "Your name is Nemo.");
}
