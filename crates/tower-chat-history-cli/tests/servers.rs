//! The program, over servers. It is a process of its own, because the servers end with it.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[cfg(feature = "redis")]
mod langchain;

use std::{
    io::Write as _,
    process::{Command, ExitCode, Stdio},
};

use test_servers::{postgres, redis};

/// An export whose log begins at a later position.
const EXPORT: &str = r#"{"type":"header","format":"tower-chat-history","version":1}
{"type":"conversation","id":"acme/user-1/a","first":3,"created_at":1735689600000,"updated_at":1735689600000,"labels":{"title":"Nemo"}}
{"type":"exchange","seq":3,"record":{"v":1,"id":"e1","at":1735689600000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}}
{"type":"end","exchanges":1}
{"type":"conversation","id":"acme/user-10"}
{"type":"exchange","seq":0,"record":{"v":1,"id":"e1","at":1735689600000,"messages":[{"role":"user","content":"x"}]}}
{"type":"end","exchanges":1}
{"type":"done","conversations":2}
"#;

fn main() -> ExitCode {
    let redis_tests = if cfg!(feature = "redis") {
        vec![
            test_servers::blocking_test("redis", || {
                let server = redis::Server::start();
                works_with(&server.url().replacen("unix:", "redis+unix:", 1));
            }),
            #[cfg(feature = "redis")]
            test_servers::blocking_test("lists_of_a_server_are_imported", langchain::lists_of_a_server_are_imported),
            #[cfg(feature = "redis")]
            test_servers::blocking_test("langchain_wrote_into_a_server", langchain::langchain_wrote_into_a_server),
        ]
    } else {
        Vec::new()
    };
    let postgres_tests = if cfg!(feature = "postgres") {
        vec![test_servers::test("postgres", || async {
            works_with(&postgres::shared().database().await);
        })]
    } else {
        Vec::new()
    };
    test_servers::run_groups([
        (Some((redis::NAME, redis::is_available())), redis_tests),
        (Some((postgres::NAME, postgres::is_available())), postgres_tests),
    ])
}

/// Runs the program. Returns its standard output.
fn run(store: &str, args: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_chat-history"))
        .args(["--store", store])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Only an import reads it.
    drop(child.stdin.take().unwrap().write_all(EXPORT.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn works_with(store: &str) {
    assert_eq!(json(&run(store, &["import", "--json"]))["stored"], 2);
    assert_eq!(json(&run(store, &["import", "--json"]))["present"], 2);
    let exported = run(store, &["export"]);
    assert!(exported.contains("\"first\":3") && exported.contains("Nemo"), "{exported}");
    assert!(run(store, &["show", "acme/user-1/a"]).contains("Hello"));
    assert_eq!(run(store, &["verify"]), "");
    assert!(run(store, &["stats"]).contains("exchanges                  2"));
    let expired = json(&run(store, &["expire", "acme", "--idle", "30d", "--dry-run"]));
    assert_eq!((&expired["due"], &expired["examined"]), (&2.into(), &2.into()));
    let receipt = json(&run(store, &["erase", "acme/user-1", "--yes", "--scrub"]));
    assert!(receipt["scrubbed"]["done"].is_array(), "{receipt}");
    let listed = run(store, &["list", "--json"]);
    assert!(listed.lines().count() == 1 && listed.contains("acme/user-10"), "{listed}");
}
