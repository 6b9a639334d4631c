//! `import --from langchain-redis` with a server.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use test_servers::{python, redis};

/// Imports from a server into a file of the folder.
fn import(folder: &Path, source: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chat-history"));
    command.args(["--store", "sqlite:chat.db", "import", "--from", "langchain-redis", source]).args(args);
    command.current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn report(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn show(folder: &Path, id: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chat-history"));
    let output = command.args(["--store", "sqlite:chat.db", "show", id]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn lists_of_a_server_are_imported() {
    let (server, folder) = (redis::Server::start(), tempfile::tempdir().unwrap());
    let mut connection = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let message = |kind: &str, text: &str| format!(r#"{{"type":"{kind}","data":{{"content":"{text}"}}}}"#);
    // More than the server names per call.
    for number in 0..1_200 {
        let key = format!("message_store:user-{number}");
        let mut push = ::redis::cmd("LPUSH");
        push.arg(key).arg(message("human", "Hi")).arg(message("ai", &format!("Hello {number}")));
        push.exec(&mut connection).unwrap();
    }
    let mut wrong = ::redis::cmd("LPUSH");
    wrong.arg("message_store:damaged").arg(&b"\xff"[..]).exec(&mut connection).unwrap();
    // These are none of LangChain's lists.
    for key in ["message_store:text", "other"] {
        ::redis::cmd("SET").arg(key).arg("x").exec(&mut connection).unwrap();
    }
    ::redis::cmd("LPUSH").arg("message_stores").arg("x").exec(&mut connection).unwrap();
    let source = server.url().replacen("unix:", "redis+unix:", 1);
    let output = import(folder.path(), &source, &["--into", "acme", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["stored"], &found["skipped"]), (Some(1), &1_200.into(), &1.into()));
    assert!(show(folder.path(), "acme/user-1199").contains("Hello 1199"));
    let again = import(folder.path(), &source, &["--into", "acme", "--json"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["stored"], &again["present"]), (&0.into(), &1_200.into()));
    drop(server);
    let gone = import(folder.path(), &source.replacen("redis+unix:///", "redis+unix:///nobody:secret@/", 1), &[]);
    let error = String::from_utf8(gone.stderr).unwrap();
    assert!(error.starts_with("chat-history: the Redis server: ") && !error.contains("secret"), "{error}");
    assert_eq!((gone.status.code(), error.lines().count()), (Some(1), 1), "{error}");
}

/// If Python or its package index cannot be reached, this does nothing.
pub(crate) fn langchain_wrote_into_a_server() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-redis");
    let Some(python) = python::python(&folder, &["langchain-community", "redis"], "langchain_community, redis") else {
        return;
    };
    let (server, folder) = (redis::Server::start(), tempfile::tempdir().unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/langchain/write.py");
    assert!(python::is_done(Command::new(python).args(["-W", "ignore"]).arg(script).arg(server.url())));
    let source = server.url().replacen("unix:", "redis+unix:", 1);
    let found = report(&import(folder.path(), &source, &["--into", "acme", "--separator", ":", "--json"]));
    assert_eq!((&found["conversations"], &found["stored"], &found["left_out"]), (&2.into(), &3.into(), &0.into()));
    let shown = show(folder.path(), "acme/user-42/support");
    for text in ["Weather in Paris?", r#"weather({"city":"Paris"}) [call_1]"#, "[call_1] 18 °C", "It is warm."] {
        assert!(shown.contains(text), "{shown}");
    }
    let other = report(&import(folder.path(), &source, &["--keys", "message*", "--into", "acme", "--json"]));
    assert_eq!((&other["conversations"], &other["stored"]), (&1.into(), &1.into()), "a wildcard is a character");
    assert!(show(folder.path(), "acme/user-44").contains("Hello"));
}
