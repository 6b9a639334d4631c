//! Tests of the programs with every store that `--store` accepts. If a server is not installed, its test is listed as
//! ignored, and a line reports that. With `REQUIRE_SERVERS=1`, a server that is not installed is a failure.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, ExitCode, Output, Stdio},
};

use reqwest::Client;
use serde_json::{Value, json};
use test_servers::{cluster::Cluster, postgres, redis, run_groups, test, trials};

fn chat(store: &str, lines: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_chat"))
        .args(["--store", store])
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that failed does not read its input.
    drop(child.stdin.take().unwrap().write_all(lines.as_bytes()));
    child.wait_with_output().unwrap()
}

fn replies(store: &str, lines: &str) -> String {
    let output = chat(store, lines);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The program `server`, until it is dropped.
struct Server(Child, String);

impl Server {
    fn start(store: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_server"))
            .args(["--listen", "127.0.0.1:0", "--store", store])
            .env_remove("OPENAI_API_KEY")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(process, line.trim().strip_prefix("listening on ").unwrap().to_owned())
    }

    async fn ask(&self, text: &str) -> String {
        let client = Client::builder().no_proxy().build().unwrap();
        let url = format!("{}/conversations/demo/messages", self.1);
        let response = client.post(url).header("x-user", "nemo").json(&json!({ "text": text })).send().await.unwrap();
        text_of(&response.text().await.unwrap())
    }
}

/// Returns the text of all events. The text arrives in several events.
fn text_of(events: &str) -> String {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str::<Value>(data).unwrap()["text"].as_str().map(str::to_owned)).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Both programs remember a name after a restart, and do not share conversations.
async fn a_name_is_remembered_after_a_restart(store: &str) {
    assert!(!replies(store, "my name is Nemo\n").is_empty());
    assert!(replies(store, "what is my name?\n").contains("Nemo"));
    let server = Server::start(store);
    assert!(!server.ask("what is my name?").await.contains("Nemo"), "the programs do not share conversations");
    assert!(!server.ask("my name is Dory").await.is_empty());
    // This kills the server.
    drop(server);
    assert!(Server::start(store).ask("what is my name?").await.contains("Dory"));
}

async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", directory.path().join("chat.db").display());
    a_name_is_remembered_after_a_restart(&store).await;
}

async fn in_postgres() {
    a_name_is_remembered_after_a_restart(&postgres::shared().database().await).await;
}

async fn in_redis() {
    let server = redis::Server::start();
    a_name_is_remembered_after_a_restart(&format!("redis+{}", server.url())).await;
}

async fn in_a_cluster() {
    let cluster = Cluster::start();
    let nodes: Vec<String> = cluster.urls();
    let nodes = nodes.iter().map(|url| url.trim_start_matches("redis://").trim_end_matches('/'));
    let nodes: Vec<&str> = nodes.collect();
    a_name_is_remembered_after_a_restart(&format!("redis+cluster://{}", nodes.join(","))).await;
}

async fn no_password_is_shown() {
    // No server listens on port 1; the last one is not a store URL.
    let urls = [
        "postgres://u:secret@127.0.0.1:1/db?connect_timeout=2",
        "redis://u:secret@127.0.0.1:1",
        "redis+cluster://u:secret@127.0.0.1:1",
        "postgers://u:secret@127.0.0.1:1/db",
    ];
    for url in urls {
        for program in [env!("CARGO_BIN_EXE_chat"), env!("CARGO_BIN_EXE_server")] {
            let output = Command::new(program).args(["--store", url]).stdin(Stdio::null()).output().unwrap();
            let shown =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(!output.status.success() && !shown.is_empty() && !shown.contains("secret"), "{shown}");
        }
    }
}

fn main() -> ExitCode {
    let remembers = |store: &str| format!("{store}::a_name_is_remembered_after_a_restart");
    let mut groups = vec![(None, trials![no_password_is_shown])];
    groups.push((None, vec![test(remembers("sqlite"), sqlite)]));
    // A program without the driver only prints an error, which a unit test covers.
    if cfg!(feature = "postgres") {
        let server = (postgres::NAME, postgres::is_available());
        groups.push((Some(server), vec![test(remembers("postgres"), in_postgres)]));
    }
    if cfg!(feature = "redis") {
        let server = (redis::NAME, redis::is_available());
        let tests = vec![test(remembers("redis"), in_redis), test(remembers("redis_cluster"), in_a_cluster)];
        groups.push((Some(server), tests));
    }
    run_groups(groups)
}
