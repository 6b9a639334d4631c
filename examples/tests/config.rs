//! The files in `config/`.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::path::PathBuf;

use serde::Deserialize;
use tower_chat_history::{
    BoxError, CachedStore, HistoryError, HistoryOptions, MemoryStore, Message, TurnInput,
    config::{CacheConfig, ConfigError, HistoryConfig, MemoryConfig, Parts, Secret, read},
    limits::{LimitKind, Limits},
    summary::{Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisOptions;
use tower_chat_history_sqlite::SqliteOptions;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    history: HistoryConfig,
    store: Stores,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stores {
    memory: Option<MemoryConfig>,
    sqlite: Option<File>,
    postgres: Option<Server<PostgresOptions>>,
    redis: Option<Server<RedisOptions>>,
    cache: Option<CacheConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: PathBuf,
    #[serde(default)]
    options: SqliteOptions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server<O> {
    url: Secret,
    options: O,
}

fn settings(text: &str) -> Result<Settings, ConfigError> {
    read(toml::from_str::<toml::Table>(text).unwrap())
}

#[derive(Debug)]
struct Unused;

#[async_trait::async_trait]
impl Summarizer for Unused {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Err("nothing is summarized".into())
    }
}

/// Returns the file with all settings that are in comments as well.
fn uncommented(text: &str) -> String {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.-".contains(&byte));
    let is_setting =
        |line: &str| line.starts_with('[') || line.split_once(" = ").is_some_and(|(name, _)| is_name(name));
    let line = |line: &str| line.strip_prefix("# ").filter(|rest| is_setting(rest)).unwrap_or(line).to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const DEFAULTS: &str = include_str!("../config/defaults.toml");

#[tokio::test]
async fn the_defaults_are_those_of_the_options() {
    let Settings { history, store } = settings(DEFAULTS).unwrap();
    let setup = history.build(Parts::new()).unwrap();
    assert_eq!(format!("{:#?}", setup.options), format!("{:#?}", HistoryOptions::new()));
    assert_eq!(format!("{:?}", store.sqlite.unwrap().options), format!("{:?}", SqliteOptions::new()));
    let postgres = store.postgres.unwrap();
    assert_eq!(format!("{:?}", postgres.options), format!("{:?}", PostgresOptions::new()));
    assert_eq!(postgres.url.expose(), "postgres://chat@db.internal/app");
    let redis = store.redis.unwrap();
    assert_eq!(format!("{:?}", redis.options), format!("{:?}", RedisOptions::new()));
    assert_eq!(redis.url.expose(), "redis://127.0.0.1/");
    assert_eq!(store.memory.unwrap().limit_bytes, MemoryStore::DEFAULT_LIMIT);
    assert_eq!(store.cache.unwrap().limit_bytes, CachedStore::<MemoryStore>::DEFAULT_LIMIT);
}

#[tokio::test]
async fn the_settings_in_comments_can_be_used() {
    let text = uncommented(DEFAULTS);
    assert!(text.contains("\nmax_tool_rounds = 20") && text.contains("\nkeep = 3"), "{text}");
    let Settings { history, .. } = settings(&text).unwrap();
    let setup = history.build(Parts::new().summarizer(Unused)).unwrap();
    assert!(setup.retention.is_some());
}

#[tokio::test]
async fn the_limits_of_the_service_apply_to_its_tenants() {
    let Settings { history, store } = settings(include_str!("../config/service.toml")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let sqlite = store.sqlite.unwrap();
    let store = sqlite.options.open(directory.path().join(&sqlite.path)).await.unwrap();
    let setup = history.build(Parts::new().summarizer(Unused).store(store.clone())).unwrap();
    let engine = setup.engine(store);
    let begin = async |id: &str, bytes: usize| {
        engine.begin(TurnInput::new(id.parse().unwrap(), [Message::user("x".repeat(bytes))])).await.map(drop)
    };
    begin("acme/user/chat", 20_000).await.unwrap();
    let Err(HistoryError::Limit(exceeded)) = begin("trial/user/chat", 20_000).await else { panic!() };
    assert_eq!((exceeded.kind, exceeded.limit), (LimitKind::MessageBytes, 16_384));
}

#[tokio::test]
async fn the_trial_has_all_limits_and_none_is_looser_than_that_of_others() {
    let Settings { history, .. } = settings(include_str!("../config/service.toml")).unwrap();
    let parts = Parts::new().summarizer(Unused).store(MemoryStore::new());
    let options = history.build(parts).unwrap().options;
    let trial = Limits::new()
        .max_message_bytes(16_384)
        .max_input_bytes(65_536)
        .max_tool_rounds(5)
        .max_exchanges(100)
        .max_conversation_bytes(1_048_576)
        .calls_per_minute(10)
        .calls_per_minute_under(1, 60)
        .calls_per_minute_under(2, 30);
    assert!(format!("{options:?}").contains(&format!("{trial:?}")), "{options:?}");
}

#[test]
fn an_error_names_the_setting() {
    let text = DEFAULTS.replace("connections = 10", "connections = 0");
    let error = settings(&text).unwrap_err();
    assert_eq!(error.to_string(), "store.postgres.options.connections: expected a number from 1 to 262143");
    let text = DEFAULTS.replace("save_attempts = 3", "save_attempts = \"three\"");
    assert_eq!(settings(&text).unwrap_err().to_string(), "history.save_attempts: expected u32");
}
