//! Tests of the program `proxy`, over HTTP.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
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
        Self::spawn(command().args(["--store", store]))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
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

    /// Sends these lines of a request, and returns the first line of the response.
    fn raw(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        let request = format!("{}\r\nhost: proxy.test\r\nconnection: close\r\n\r\n", lines.join("\r\n"));
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status).unwrap();
        status.trim().to_owned()
    }

    /// Sends this signal to the program, and waits for its end.
    fn end(mut self, signal: &str) -> bool {
        let kill = format!("kill -{signal} {}", self.process.id());
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

/// Returns the program with a memory store, without keys.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proxy"));
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"] {
        command.env_remove(name);
    }
    command
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

#[test]
fn tunnels_and_paths_with_dot_segments_are_refused() {
    let proxy = Proxy::start("memory:");
    assert_eq!(proxy.raw(&["GET /v1/models HTTP/1.1"]), "HTTP/1.1 200 OK");
    for method in ["CONNECT provider.test:443", "TRACE /v1/models"] {
        assert_eq!(proxy.raw(&[&format!("{method} HTTP/1.1")]), "HTTP/1.1 405 Method Not Allowed", "{method}");
    }
    for path in ["/v1/../v1/models", "/v1/./models", "/v1/%2E%2e/models", "/v1/x\\..\\models"] {
        assert_eq!(proxy.raw(&[&format!("GET {path} HTTP/1.1")]), "HTTP/1.1 400 Bad Request", "{path}");
    }
}

/// Answers one request, and returns its head.
fn answer_one(provider: &TcpListener) -> String {
    let (mut stream, _) = provider.accept().unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        head.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    String::from_utf8(head).unwrap()
}

#[test]
fn headers_of_one_connection_are_not_forwarded() {
    let provider = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", provider.local_addr().unwrap());
    let mut command = command();
    command.args(["--store", "memory:"]).env("OPENAI_API_KEY", "own").env("OPENAI_BASE_URL", url);
    let proxy = Proxy::spawn(command.env("NO_PROXY", "127.0.0.1"));
    let head = std::thread::spawn(move || answer_one(&provider));
    let hops = [
        "connection: x-hop, x-other",
        "x-hop: 1",
        "keep-alive: timeout=5",
        "proxy-authorization: secret",
        "upgrade: h2c",
    ];
    let request = ["GET /v1/models HTTP/1.0", "x-kept: 1", hops[0], hops[1], hops[2], hops[3], hops[4]];
    assert!(proxy.raw(&request).ends_with("200 OK"));
    let head = head.join().unwrap().to_ascii_lowercase();
    assert!(head.starts_with("get /v1/models http/1.1\r\n"), "{head}");
    assert!(head.contains("x-kept: 1") && head.contains("authorization: bearer own"), "{head}");
    for name in ["x-hop", "keep-alive", "proxy-authorization", "upgrade", "proxy.test"] {
        assert!(!head.contains(name), "{name}: {head}");
    }
}

#[test]
fn a_base_url_without_a_scheme_or_with_a_query_is_an_error_at_the_start() {
    for url in ["provider.test/v1", "https://provider.test/v1?x=1"] {
        let mut command = command();
        let output = command.env("OPENAI_API_KEY", "own").env("OPENAI_BASE_URL", url).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{url}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("must have a scheme"), "{url}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_asked_to_end_ends_well_and_the_next_one_continues() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM"] {
        let store = format!("sqlite:{}", dir.path().join(signal).display());
        let proxy = Proxy::start(&store);
        proxy.ask(Format::Messages, "demo/1", "my name is Nemo", true).await;
        assert!(proxy.end(signal), "{signal}");
        let proxy = Proxy::start(&store);
        assert_eq!(proxy.ask(Format::Messages, "demo/1", "what is my name?", false).await, "Your name is Nemo.");
    }
}
