//! Data that the Python packages themselves wrote. If Python or its package index cannot be reached, these tests do
//! nothing and print a line.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use test_servers::python::{is_done, python};
use tower_chat_history::transfer::foreign::{agents_sqlite, langchain_redis, langchain_sqlite, langgraph_sqlite};

use super::{import_twice, stored};

/// The packages that write the data.
const PACKAGES: [&str; 6] =
    ["greenlet", "langchain-community", "langgraph", "langgraph-checkpoint-sqlite", "openai-agents", "sqlalchemy"];

/// The folder with the data, or `None` if it could not be written.
static WRITTEN: LazyLock<Option<PathBuf>> = LazyLock::new(written);

fn written() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    std::fs::create_dir_all(&folder).ok()?;
    let python = python(&folder, &PACKAGES, "agents, langgraph.checkpoint.sqlite, sqlalchemy.ext.asyncio")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transfer/foreign/write.py");
    is_done(Command::new(&python).args(["-W", "ignore"]).arg(script).current_dir(&folder)).then_some(folder)
}

/// The conversation that the script writes, as chat completions.
const CHAT: [&str; 3] = [
    r#"{"content":"Weather in Paris?","name":"nemo","role":"user"} {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"city\":\"Paris\"}","name":"weather"},"id":"call_1","type":"function"}]}"#,
    r#"continues {"content":"18 °C","role":"tool","tool_call_id":"call_1"} {"content":[{"text":"It is ","type":"text"},{"text":"warm.","type":"text"}],"role":"assistant"}"#,
    r#"{"content":[{"text":"look","type":"text"},{"image_url":{"url":"data:image/png;base64,AA=="},"type":"image_url"}],"role":"user"} {"content":"A boat.","role":"assistant"}"#,
];

#[tokio::test]
async fn langchain_wrote_a_table() {
    let Some(folder) = &*WRITTEN else { return };
    let (store, report) = import_twice(|| langchain_sqlite(&folder.join("langchain.db")).unwrap()).await;
    assert_eq!((report.conversations, report.instructions, report.skipped), (2, 1, 0), "{report:?}");
    let stored = stored(&store).await;
    assert_eq!((stored[0].0.as_str(), stored[0].1.len()), ("in/other", 1));
    assert_eq!((stored[1].0.as_str(), &*stored[1].1), ("in/user-42%2Fsupport", &CHAT.map(String::from)[..]));
    let first = &store.logs()["in/user-42%2Fsupport"].exchanges[0].exchange;
    assert_eq!((first.model.as_deref(), first.finish_reason.as_deref()), (Some("gpt-4o"), Some("tool_calls")));
    assert_eq!(first.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((10, 5)));
}

#[tokio::test]
async fn langchain_wrote_a_list_for_redis() {
    let Some(folder) = &*WRITTEN else { return };
    let file = std::fs::read(folder.join("redis.jsonl")).unwrap();
    let (store, report) = import_twice(|| langchain_redis(&*file)).await;
    assert_eq!((report.conversations, report.skipped), (1, 0), "{report:?}");
    assert_eq!(stored(&store).await[0], ("in/user-42".into(), CHAT.map(String::from).to_vec()));
}

#[tokio::test]
async fn langgraph_wrote_checkpoints() {
    let Some(folder) = &*WRITTEN else { return };
    let (store, report) = import_twice(|| langgraph_sqlite(&folder.join("langgraph.db")).unwrap()).await;
    assert_eq!((report.conversations, report.instructions, report.skipped), (2, 1, 0), "{report:?}");
    let stored = stored(&store).await;
    assert_eq!((stored[0].0.as_str(), &*stored[0].1), ("in/t%2F1", &CHAT.map(String::from)[..]));
    assert!(store.logs()["in/t%2F1"].updated_at.as_unix_millis() > 1_700_000_000_000, "the time of the checkpoint");
}

#[tokio::test]
async fn openai_agents_wrote_a_session() {
    let Some(folder) = &*WRITTEN else { return };
    let (store, report) = import_twice(|| agents_sqlite(&folder.join("agents.db")).unwrap()).await;
    assert_eq!((report.conversations, report.skipped), (2, 0), "{report:?}");
    let logs = store.logs();
    let log = &logs["in/s-1"];
    let messages: Vec<_> = log.exchanges.iter().flat_map(|one| one.exchange.messages.clone()).collect();
    let items: Vec<serde_json::Value> =
        messages.iter().map(|item| serde_json::from_str(item.json()).unwrap()).collect();
    assert_eq!((&items[0]["content"], &items[1]["type"]), (&"Weather?".into(), &"function_call".into()));
    assert_eq!((items.len(), messages[3].text().as_ref()), (4, "It is warm."));
    assert_eq!(log.exchanges.len(), 2, "the results continue the turn");
    assert_eq!(log.exchanges[0].exchange.dialect.as_str(), "openai_responses");
    assert!(log.updated_at.as_unix_millis() > 1_700_000_000_000);
}
