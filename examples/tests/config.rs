//! The files in `config/`.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::sync::Arc;

use serde::Deserialize;
use tower_chat_history::{
    BoxError, CachedStore, HistoryError, HistoryOptions, MemoryStore, Message, TurnInput,
    config::{CacheConfig, ConfigError, HistoryConfig, MemoryConfig, Parts, read},
    limits::LimitKind,
    store::List,
    summary::{Summarized, Summarizer, SummaryRequest},
};
use tower_chat_history_postgres::{PostgresConfig, PostgresOptions};
use tower_chat_history_redis::{RedisConfig, RedisOptions};
use tower_chat_history_sqlite::{SqliteConfig, SqliteOptions};

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
    sqlite: Option<SqliteConfig>,
    postgres: Option<PostgresConfig>,
    redis: Option<RedisConfig>,
    cache: Option<CacheConfig>,
}

fn settings(text: &str) -> Result<Settings, ConfigError> {
    read(toml::from_str::<toml::Table>(text).unwrap())
}

#[derive(Debug)]
struct Unused;

#[async_trait::async_trait]
impl Summarizer for Unused {
    async fn summarize(&self, _: SummaryRequest) -> Result<Summarized, BoxError> {
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
    let built = history.build(Parts::new()).unwrap();
    assert_eq!(format!("{:#?}", built.options), format!("{:#?}", HistoryOptions::new()));
    let sqlite = store.sqlite.unwrap().options().unwrap();
    assert_eq!(format!("{sqlite:?}"), format!("{:?}", SqliteOptions::new()));
    let postgres = store.postgres.unwrap().options().unwrap();
    assert_eq!(format!("{postgres:?}"), format!("{:?}", PostgresOptions::new()));
    let redis = store.redis.unwrap().options().unwrap();
    assert_eq!(format!("{redis:?}"), format!("{:?}", RedisOptions::new()));
    assert_eq!(store.memory.unwrap().limit_bytes, Some(MemoryStore::DEFAULT_LIMIT as u64));
    assert_eq!(store.cache.unwrap().limit_bytes, Some(CachedStore::<MemoryStore>::DEFAULT_LIMIT as u64));
}

#[tokio::test]
async fn the_settings_in_comments_can_be_used() {
    let text = uncommented(DEFAULTS);
    assert!(text.contains("\nmax_tool_rounds = 20") && text.contains("\nkeep = 3"), "{text}");
    let Settings { history, store } = settings(&text).unwrap();
    let built = history.build(Parts::new().summarizer(Unused)).unwrap();
    assert!(built.retention.is_some());
    store.sqlite.unwrap().options().unwrap();
    store.postgres.unwrap().options().unwrap();
    store.redis.unwrap().options().unwrap();
}

#[tokio::test]
async fn the_limits_of_the_service_apply_to_its_tenants() {
    let Settings { history, store } = settings(include_str!("../config/service.toml")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let sqlite = store.sqlite.unwrap();
    let store = sqlite.options().unwrap().open(directory.path().join(&sqlite.path)).await.unwrap();
    let built = history.build(Parts::new().summarizer(Unused).store(store.clone())).unwrap();
    let engine = built.engine(store);
    let begin = async |id: &str, bytes: usize| {
        engine.begin(TurnInput::new(id.parse().unwrap(), [Message::user("x".repeat(bytes))])).await.map(drop)
    };
    begin("acme/user/chat", 20_000).await.unwrap();
    let Err(HistoryError::Limit(exceeded)) = begin("trial/user/chat", 20_000).await else { panic!() };
    assert_eq!((exceeded.kind, exceeded.limit), (LimitKind::MessageBytes, 16_384));
}

#[test]
fn the_trial_has_all_limits_and_none_is_looser_than_that_of_others() {
    let Settings { history, .. } = settings(include_str!("../config/service.toml")).unwrap();
    let store: Arc<dyn List> = Arc::new(MemoryStore::new());
    let (rules, _) = history.limits.build(Some(&store)).unwrap();
    let expected = settings(
        "history.limits.all = { max_message_bytes = 16_384, max_input_bytes = 65_536, max_tool_rounds = 5, \
         max_exchanges = 100, max_conversation_bytes = 1_048_576, calls_per_minute = 10, calls_per_minute_under = \
         [{ parts = 1, calls = 60 }, { parts = 2, calls = 30 }] }\nstore = {}",
    );
    let (expected, _) = expected.unwrap().history.limits.build(None).unwrap();
    let trial = "trial/user/chat".parse().unwrap();
    assert_eq!(rules.of(&trial).unwrap(), expected.of(&trial).unwrap());
}

#[test]
fn an_error_names_the_setting() {
    let text = DEFAULTS.replace("connections = 10", "connections = 0");
    let error = settings(&text).unwrap().store.postgres.unwrap().options().unwrap_err();
    assert_eq!(error.within("store.postgres").to_string(), "store.postgres.connections: it must be from 1 to 262143");
    let text = DEFAULTS.replace("save_attempts = 3", "save_attempts = \"three\"");
    assert_eq!(settings(&text).unwrap_err().to_string(), "history.save_attempts: expected u32");
}
