//! Options as data.

mod refused;

use std::time::Duration;

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, CachedStore, ContextBudget, ContextOptions, HistoryError, HistoryOptions, MemoryStore, Message, Policies,
    Reply, Retention, Summaries, Telemetry, TurnInput,
    budget::{ClearResults, ModelLimits, Watermark, Watermarks},
    compat::{Compat, MediaCompat, ReaderRow, Readers, SystemMessages},
    config::{CacheConfig, ConfigError, HistoryConfig, HistorySetup, MemoryConfig, Parts, read},
    engine::InputMode,
    limits::{ConversationQuota, LimitKind, LimitRules, Limits},
    policy::{
        DetachLimits, OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, OnOtherDialect, OnSaveFailure,
        OnTranscriptMismatch, QueueLimits,
    },
    store::{LoadLimit, Prefix, Profile},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
    telemetry::CaptureContent,
    tokens::ByteEstimate,
};

/// A summarizer that is never called.
#[derive(Debug)]
struct Never;

#[async_trait]
impl Summarizer for Never {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Err("nothing is summarized".into())
    }
}

fn config(toml: &str) -> Result<HistoryConfig, ConfigError> {
    read(toml::from_str::<toml::Table>(toml).unwrap())
}

fn build(toml: &str) -> Result<HistorySetup, ConfigError> {
    config(toml)?.build(Parts::new())
}

/// Asserts that the settings lead to these options.
#[track_caller]
fn assert_builds(toml: &str, expected: &HistoryOptions) {
    let setup = build(toml).unwrap();
    assert_eq!(format!("{:#?}", setup.options), format!("{expected:#?}"));
}

#[tokio::test]
async fn missing_settings_have_the_defaults_of_the_options() {
    assert_builds("", &HistoryOptions::new());
    let groups = "[context.budget]\n[context.watermarks]\n[context.load_limit]\n[policies.detach_limits]\n[limits.all]\n\
                  [telemetry]";
    assert_builds(groups, &HistoryOptions::new());
    let setup = build("").unwrap();
    assert_eq!((setup.retention, setup.input_mode), (None, InputMode::New));
    assert_eq!(MemoryConfig::default().build().limit(), MemoryStore::new().limit());
    let clear = "[context.clear_results]";
    assert_builds(clear, &HistoryOptions::new().context(ContextOptions::new().clear_results(ClearResults::new())));
    let queue = "policies.on_conflict.serialize = {}";
    let serialize = Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default()));
    assert_builds(queue, &HistoryOptions::new().policies(serialize));
}

#[tokio::test]
async fn all_settings_of_a_context_are_used() {
    let budget = ContextBudget::by_model()
        .model("acme", ModelLimits::new(9_000).input(8_000).output(2_000))
        .unknown(ModelLimits::new(5_000))
        .reply_reserve(900)
        .shrink_reply_to(200)
        .calibrate(false);
    let clear = ClearResults::new().keep(1).clear_at_least(50).exclude_tools(["search"]).placeholder("-");
    let context = ContextOptions::new()
        .budget(budget)
        .watermarks(Watermarks::new(Watermark::Turns(40), Watermark::Percent(50)).unwrap())
        .load_limit(LoadLimit::new(100, 9_999).unwrap().with_media_bytes(77_777))
        .clear_results(clear)
        .old_reasoning(2)
        .profile(Profile::new("small").unwrap());
    let toml = r#"
        [context]
        profile = "small"
        old_reasoning_turns = 2
        load_limit = { messages = 100, bytes = 9_999, media_bytes = 77_777 }
        watermarks = { high = { turns = 40 }, low = { percent = 50 } }
        clear_results = { keep = 1, clear_at_least_tokens = 50, exclude_tools = ["search"], placeholder = "-" }

        [context.budget]
        models.acme = { context_tokens = 9_000, prompt_tokens = 8_000, reply_tokens = 2_000 }
        unknown = { context_tokens = 5_000 }
        reply_reserve_tokens = 900
        shrink_reply_to_tokens = 200
        calibrate = false
    "#;
    assert_builds(toml, &HistoryOptions::new().context(context));
    for (toml, budget) in [
        ("window.tokens = 8_192", ContextBudget::tokens(8_192)),
        ("window.of_model = \"gpt-4o\"", ContextBudget::for_model("gpt-4o").unwrap()),
        ("window = \"unlimited\"", ContextBudget::unlimited()),
    ] {
        assert_builds(&format!("[context.budget]\n{toml}"), &HistoryOptions::new().context(budget));
    }
}

#[tokio::test]
async fn all_policies_and_other_settings_are_used() {
    let policies = Policies::new()
        .on_conflict(OnConflict::Serialize(QueueLimits::new(3, Duration::from_secs(4))))
        .on_open_turn(OnOpenTurn::Reject)
        .on_transcript_mismatch(OnTranscriptMismatch::TrustLog)
        .on_other_dialect(OnOtherDialect::Translate)
        .on_load_failure(OnLoadFailure::CallWithoutHistory)
        .on_save_failure(OnSaveFailure::Report)
        .on_interruption(OnInterruption::KeepText)
        .detach_limits(DetachLimits::new().max_streams(5).max_per_conversation(2).timeout(None));
    let options = HistoryOptions::new()
        .policies(policies)
        .telemetry(
            Telemetry::new().spans(false).chat_span(false).raw_conversation_ids().content(CaptureContent::SpanOnly),
        )
        .store_timeout(None)
        .save_attempts(7)
        .stream_idle_timeout(Duration::from_millis(1_500));
    let toml = r#"
        store_timeout_ms = "none"
        save_attempts = 7
        stream_idle_timeout_ms = 1_500
        telemetry = { spans = false, chat_span = false, conversation_ids = "raw", content = "SPAN_ONLY" }

        [policies]
        on_conflict = { serialize = { max_waiting = 3, timeout_ms = 4_000 } }
        on_open_turn = "reject"
        on_transcript_mismatch = "trust_log"
        on_other_dialect = "translate"
        on_load_failure = "call_without_history"
        on_save_failure = "report"
        on_interruption = "keep_text"
        detach_limits = { max_streams = 5, max_per_conversation = 2, timeout_ms = "none" }
    "#;
    assert_builds(toml, &options);
    let setup = build("retain_last_turns = 9\ninput_mode = \"transcript\"").unwrap();
    assert_eq!((setup.retention, setup.input_mode), (Some(Retention::LastTurns(9)), InputMode::Transcript));
}

#[tokio::test]
async fn all_limits_are_used() {
    let all = Limits::new()
        .max_message_bytes(1)
        .max_input_bytes(2)
        .max_tool_rounds(0)
        .max_exchanges(4)
        .max_conversation_bytes(5)
        .calls_per_minute(6)
        .calls_per_minute_under(0, 7)
        .calls_per_minute_under(2, 8);
    let blocked = Limits::new().calls_per_minute(0);
    let rules = LimitRules::from(all).under("acme/user-42".parse().unwrap(), blocked);
    let store = MemoryStore::new();
    let quota = ConversationQuota::new(std::sync::Arc::new(store.clone())).under(Prefix::all(), 1, 100).under(
        "acme".parse().unwrap(),
        2,
        10,
    );
    let toml = r#"
        [limits.all]
        max_message_bytes = 1
        max_input_bytes = 2
        max_tool_rounds = 0
        max_exchanges = 4
        max_conversation_bytes = 5
        calls_per_minute = 6
        calls_per_minute_under = [{ parts = 0, calls = 7 }, { parts = 2, calls = 8 }]

        [limits.under."acme/user-42"]
        calls_per_minute = 0

        [[limits.conversations]]
        parts = 1
        max = 100

        [[limits.conversations]]
        prefix = "acme"
        parts = 2
        max = 10
    "#;
    let setup = config(toml).unwrap().build(Parts::new().store(store)).unwrap();
    let expected = HistoryOptions::new().limits(rules).conversation_quota(quota);
    assert_eq!(format!("{:#?}", setup.options), format!("{expected:#?}"));
}

#[tokio::test]
async fn the_settings_of_summaries_are_used_with_a_summarizer() {
    let expected = |set: fn(Summaries) -> Summaries| HistoryOptions::new().summaries(set(Summaries::new(Never)));
    let cases: [(&str, fn(Summaries) -> Summaries); 3] = [
        ("", |summaries| summaries),
        ("when = \"before_every_call\"", |summaries| summaries.when(SummarizeWhen::BeforeEveryCall)),
        (
            "when.after_reply_at_percent = 80\nmax_tokens = 300\nleast_room_tokens = 20\nchunk_tokens = 1_200\n\
             timeout_ms = 5_000",
            |summaries| {
                summaries
                    .when(SummarizeWhen::AfterReply { percent: 80 })
                    .max_tokens(300)
                    .least_room(20)
                    .chunk_tokens(1_200)
                    .timeout(Duration::from_secs(5))
            },
        ),
    ];
    for (toml, set) in cases {
        let config = config(&format!("[summaries]\n{toml}")).unwrap();
        let setup = config.build(Parts::new().summarizer(Never)).unwrap();
        assert_eq!(format!("{:#?}", setup.options), format!("{:#?}", expected(set)));
    }
    // A summarizer without settings makes no summaries.
    let setup = config("").unwrap().build(Parts::new().summarizer(Never)).unwrap();
    assert_eq!(format!("{:?}", setup.options), format!("{:?}", HistoryOptions::new()));
}

#[test]
fn stores_have_the_limits_of_their_settings() {
    let memory: MemoryConfig = read(toml::from_str::<toml::Table>("limit_bytes = 1_000").unwrap()).unwrap();
    assert_eq!(memory.build().limit(), 1_000);
    let cache: CacheConfig = read(toml::from_str::<toml::Table>("limit_bytes = 1_000").unwrap()).unwrap();
    assert_eq!(cache.build(MemoryStore::new()).limit(), 1_000);
    let default = CacheConfig::default().build(MemoryStore::new());
    assert_eq!(default.limit(), CachedStore::<MemoryStore>::DEFAULT_LIMIT);
    let error = read::<CacheConfig, _>(toml::from_str::<toml::Table>("limit_bytes = 0").unwrap()).unwrap_err();
    assert_eq!(error.path, "limit_bytes");
}

#[tokio::test]
async fn rows_of_readers_are_added_and_replaced() {
    let toml = r#"
        [readers.our-vllm]
        hosts = ["vllm.acme.test"]
        compat = { system = "first", alternates = true, media = { images = 2 } }
        source = "our template"
        month = "2026-11"

        [readers.groq]
        providers = ["groq"]
        hosted = true
    "#;
    let readers = build(toml).unwrap().options;
    let compat = Compat::new().system(SystemMessages::First).alternates().media(MediaCompat::new().images(2));
    let row = ReaderRow::new("our-vllm", compat).host("vllm.acme.test").source("our template", "2026-11");
    let groq = ReaderRow::new("groq", Compat::new()).provider("groq").hosted();
    let expected = HistoryOptions::new().readers(Readers::new().with(groq).with(row));
    assert_eq!(format!("{readers:?}"), format!("{expected:?}"));
    for wrong in
        ["[readers.x]", "[readers.x]\nhost = []", "[readers.x]\nhosts = [\"a\"]\ncompat = { alternate = true }"]
    {
        assert!(build(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn code_can_add_what_is_not_data() {
    let mut config = config("context.budget.window.tokens = 8_192").unwrap();
    config.context = config.context.token_counter(ByteEstimate::new());
    let expected = ContextOptions::new().budget(ContextBudget::tokens(8_192)).token_counter(ByteEstimate::new());
    let setup = config.build(Parts::new()).unwrap();
    assert_eq!(format!("{:?}", setup.options), format!("{:?}", HistoryOptions::new().context(expected)));
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_the_longest_prefix_apply_whole() {
    let toml = r#"
        [limits.all]
        max_message_bytes = 1
        calls_per_minute = 1
        calls_per_minute_under = [{ parts = 0, calls = 1 }]

        [limits.under.vip]
        calls_per_minute_under = [{ parts = 2, calls = 3 }]
    "#;
    let engine = build(toml).unwrap().engine(MemoryStore::new());
    let call = async |id: &str| {
        let turn = engine.begin(TurnInput::new(id.parse().unwrap(), [Message::user("u")])).await?;
        turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
        Ok::<_, HistoryError>(())
    };
    for _ in 0..3 {
        call("vip/user/1").await.unwrap();
    }
    assert!(matches!(call("vip/user/2").await, Err(HistoryError::Limit(limit)) if limit.parts == Some(2)));
    assert!(matches!(call("other").await, Err(HistoryError::Limit(limit)) if limit.kind == LimitKind::MessageBytes));
}

#[test]
fn settings_are_read_from_a_format_with_signed_integers_only() {
    let direct = "store_timeout_ms = 10_000\nlimits.all.max_exchanges = 4";
    let read_directly = toml::from_str::<HistoryConfig>(direct).unwrap();
    assert_eq!(format!("{read_directly:?}"), format!("{:?}", config(direct).unwrap()));
    assert!(toml::from_str::<HistoryConfig>("store_timeout_ms = -1").is_err());
}

#[tokio::test]
async fn the_engine_of_built_settings_prunes_by_the_retention() {
    let engine = build("retain_last_turns = 2").unwrap().engine(MemoryStore::new());
    assert!(format!("{engine:?}").contains("LastTurns(2)"), "{engine:?}");
}
