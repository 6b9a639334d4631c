//! Settings that cannot be used.

use super::*;

/// Asserts that the settings are refused with this path.
#[track_caller]
fn assert_refused(toml: &str, path: &str) -> String {
    let ConfigError { path: found, reason, .. } = build(toml).unwrap_err();
    assert_eq!(found, path, "{reason}");
    assert!(!reason.is_empty());
    reason
}

#[test]
fn budgets_without_room() {
    for (toml, path) in [
        ("window.tokens = 0", "window.tokens"),
        ("unknown.context_tokens = 0", "unknown.context_tokens"),
        ("models.acme.context_tokens = 0", "models.acme.context_tokens"),
        ("models.acme = { context_tokens = 9, reply_tokens = 10 }", "models.acme.reply_tokens"),
        ("models.acme = { context_tokens = 9, prompt_tokens = 0 }", "models.acme.prompt_tokens"),
        ("window.tokens = 100\nreply_reserve_tokens = 100", "reply_reserve_tokens"),
        ("window.tokens = 100\nreply_reserve_tokens = 0", "reply_reserve_tokens"),
        ("window.tokens = 100\nshrink_reply_to_tokens = 100", "shrink_reply_to_tokens"),
        ("reply_reserve_tokens = 10\nshrink_reply_to_tokens = 11", "shrink_reply_to_tokens"),
        ("window.of_model = \"gpt-4o\"\nreply_reserve_tokens = 1_000_000", "reply_reserve_tokens"),
        ("unknown.context_tokens = 100\nreply_reserve_tokens = 100", "reply_reserve_tokens"),
        ("models.acme.context_tokens = 100\nreply_reserve_tokens = 100", "reply_reserve_tokens"),
        ("reply_reserve_tokens = 4_000_000_000", "reply_reserve_tokens"),
        ("shrink_reply_to_tokens = 4_000_000_000", "shrink_reply_to_tokens"),
    ] {
        assert_refused(&format!("[context.budget]\n{toml}"), &format!("context.budget.{path}"));
    }
    let reason = assert_refused(
        "context.budget = { window.tokens = 4_000, reply_reserve_tokens = 5_000 }",
        "context.budget.reply_reserve_tokens",
    );
    assert_eq!(reason, "it must be less than each context window, and one has 4000 tokens");
}

#[test]
fn budgets_that_contradict_themselves() {
    for (toml, path) in [
        ("window = { tokens = 9, of_model = \"gpt-4o\" }", "window"),
        ("window.tokens = 9\nunknown.context_tokens = 9", "unknown"),
        ("window = \"unlimited\"\nmodels.acme.context_tokens = 9", "models"),
        ("window = \"unlimited\"\nreply_reserve_tokens = 9", "reply_reserve_tokens"),
        ("window.of_model = \"a-model-of-mine\"", "window.of_model"),
    ] {
        assert_refused(&format!("[context.budget]\n{toml}"), &format!("context.budget.{path}"));
    }
}

#[test]
fn watermarks_that_are_never_reached() {
    for (toml, path) in [
        ("watermarks.high.percent = 0", "high"),
        ("watermarks.high.percent = 101", "high"),
        ("watermarks.low.messages = 0", "low"),
        ("watermarks.high.turns = 0", "high"),
        ("watermarks.high.percent = 50", "high"),
        ("watermarks = { high = { percent = 50 }, low = { percent = 51 } }", "low"),
        ("watermarks = { high = { messages = 5 }, low = { messages = 6 } }", "low"),
        ("watermarks.high.messages = 1_000", "high"),
        ("watermarks.high.turns = 1_000", "high"),
        ("watermarks.high.messages = 10\nload_limit.messages = 10", "high"),
        ("watermarks.high.percent = 90\nbudget.window = \"unlimited\"", "high"),
        ("watermarks.low.percent = 50\nbudget.window = \"unlimited\"", "low"),
        ("watermarks.low.messages = 10\nbudget.window = \"unlimited\"", "low"),
        ("watermarks = { high = { messages = 10 }, low = { percent = 50 } }\nbudget.window = \"unlimited\"", "low"),
    ] {
        assert_refused(&format!("[context]\n{toml}"), &format!("context.watermarks.{path}"));
    }
    drop(build("[context]\nwatermarks.high.messages = 999").unwrap());
    drop(build("[context]\nwatermarks.high.messages = 10\nbudget.window = \"unlimited\"").unwrap());
}

#[test]
fn limits_that_cannot_be_used() {
    for (toml, path) in [
        ("all.max_message_bytes = 0", "all.max_message_bytes"),
        ("under.acme.max_exchanges = 0", "under.acme.max_exchanges"),
        (
            "all.calls_per_minute_under = [{ parts = 1, calls = 1 }, { parts = 1, calls = 2 }]",
            "all.calls_per_minute_under",
        ),
        ("under.\"acme//x\".max_exchanges = 1", "under.acme//x"),
        ("conversations = [{ parts = 1, max = 1 }]", "conversations"),
        ("under.\"\".max_exchanges = 1", "under"),
        ("all.max_exchanges = inf", "all.max_exchanges"),
        ("all.calls_per_minute = 4_294_967_296", "all.calls_per_minute"),
        ("all.max_message_byts = 1", "all.max_message_byts"),
    ] {
        assert_refused(&format!("[limits]\n{toml}"), &format!("limits.{path}"));
    }
    let toml = "[limits]\nconversations = [{ parts = 1, max = 1 }, { parts = 1, max = 2 }]";
    let refused = config(toml).unwrap().build(Parts::new().store(MemoryStore::new())).unwrap_err();
    assert_eq!(refused.path, "limits.conversations[1]");
    let toml = "[limits]\nconversations = [{ prefix = \"/\", parts = 1, max = 1 }]";
    assert_eq!(config(toml).unwrap_err().path, "limits.conversations[0].prefix");
}

#[test]
fn summaries_that_cannot_be_made() {
    assert_refused("[summaries]", "summaries");
    for (toml, path) in [
        ("when.after_reply_at_percent = 0", "when.after_reply_at_percent"),
        ("max_tokens = 0", "max_tokens"),
        ("max_tokens = 2_001", "max_tokens"),
        ("chunk_tokens = 1_599", "chunk_tokens"),
        ("timeout_ms = 0", "timeout_ms"),
    ] {
        let config = config(&format!("[summaries]\n{toml}"));
        let refused = config.and_then(|config| config.build(Parts::new().summarizer(Never))).unwrap_err();
        assert_eq!(refused.path, format!("summaries.{path}"));
    }
    let toml = "context.budget.unknown = { context_tokens = 9_000, prompt_tokens = 300 }\n[summaries]";
    let refused = config(toml).unwrap().build(Parts::new().summarizer(Never)).unwrap_err();
    assert_eq!(refused.path, "summaries.max_tokens");
    let toml = "context.budget = { window.tokens = 900, reply_reserve_tokens = 500 }\n[summaries]";
    let refused = config(toml).unwrap().build(Parts::new().summarizer(Never)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "summaries.max_tokens: it must be less than the largest prompt, which has 400 tokens"
    );
}

#[test]
fn other_settings_that_cannot_be_used() {
    for (toml, path) in [
        ("store_timeout_ms = 0", "store_timeout_ms"),
        ("store_timeout_ms = \"never\"", "store_timeout_ms"),
        ("store_timeout = 5", "store_timeout"),
        ("save_attempts = 0", "save_attempts"),
        ("retain_last_turns = 0", "retain_last_turns"),
        ("context.profile = \"\"", "context.profile"),
        ("context.load_limit.bytes = 0", "context.load_limit.bytes"),
        ("policies.on_conflict = \"retry\"", "policies.on_conflict"),
        ("policies.on_conflict.serialize.max_waiting = 0", "policies.on_conflict.serialize.max_waiting"),
        ("policies.on_conflict.serialize.timeout_ms = 0", "policies.on_conflict.serialize.timeout_ms"),
        ("policies.detach_limits.max_streams = 0", "policies.detach_limits.max_streams"),
        ("telemetry.content = \"all\"", "telemetry.content"),
        ("telemetry.conversation_ids.hashed_with_key = \"\"", "telemetry.conversation_ids.hashed_with_key"),
    ] {
        assert_refused(toml, path);
    }
}

#[test]
fn limits_of_exchanges_that_are_reached_before_a_prune() {
    for (toml, path) in [
        ("limits.all.max_exchanges = 625", "all"),
        ("limits.under.acme.max_exchanges = 625", "under.acme"),
        ("limits = { all.max_exchanges = 600, under.acme.max_exchanges = 626 }", "all"),
    ] {
        assert_refused(&format!("retain_last_turns = 500\n{toml}"), &format!("limits.{path}.max_exchanges"));
    }
    config("retain_last_turns = 500\nlimits.all.max_exchanges = 626").unwrap().build(Parts::new()).map(drop).unwrap();
}

#[test]
fn a_memory_without_room() {
    let error = read::<MemoryConfig, _>(serde_json::json!({"limit_bytes": 0})).unwrap_err();
    assert_eq!(error.path, "limit_bytes");
}

#[test]
fn a_key_is_never_shown() {
    let shown = config("telemetry.conversation_ids.hashed_with_key = \"opensesame\"").unwrap();
    assert!(!format!("{shown:?}").contains("opensesame"));
    let setup = shown.build(Parts::new()).unwrap();
    assert!(!format!("{setup:?}").contains("opensesame"));
    let error = config("telemetry.conversation_ids = { hashed = \"opensesame\" }").unwrap_err();
    assert!(!error.to_string().contains("opensesame"), "{error}");
}
