//! Tests of the program `replay`.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

fn run(options: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_replay"))
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // After a usage error the program ends without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn lines(options: &[&str], input: &str) -> Vec<String> {
    let output = run(options, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns one line per call, and the totals.
fn replayed(options: &[&str], input: &str) -> (Vec<Value>, Value) {
    let lines = lines(&[&["--json"], options].concat(), input);
    let mut lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().unwrap();
    (lines, last)
}

fn column(lines: &[Value], name: &str) -> Vec<u64> {
    lines.iter().map(|line| line[name].as_u64().unwrap()).collect()
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// A conversation with a system message and this many turns. Each turn is a question, two parallel tool calls, one more
/// tool call, and an answer.
fn agent(id: &str, turns: usize) -> Value {
    let call = |id: String| json!({"id": id, "type": "function", "function": {"name": "look_up", "arguments": "{}"}});
    let result = |id: String| json!({"role": "tool", "tool_call_id": id, "content": "one two three ".repeat(20)});
    let calls = |ids: &[String]| {
        let calls: Vec<Value> = ids.iter().cloned().map(call).collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    };
    let mut messages = vec![message("system", "Be brief.")];
    for turn in 0..turns {
        let ids = ["a", "b", "c"].map(|name| format!("{name}{turn}"));
        messages.push(message("user", &format!("question {turn}")));
        messages.push(calls(&ids[..2]));
        messages.extend([result(ids[1].clone()), result(ids[0].clone())]);
        messages.push(calls(&ids[2..]));
        messages.push(result(ids[2].clone()));
        messages.push(message("assistant", &format!("answer {turn}")));
    }
    messages.push(message("user", "never answered"));
    json!({"id": id, "set": "synthetic", "messages": messages})
}

#[test]
fn a_synthetic_conversation_stays_within_its_limit_and_mostly_cached() {
    let options = ["--synthetic", "150", "--head", "1000", "--context", "4100", "--reserve", "100"];
    let (calls, last) = replayed(&options, "");
    assert_eq!(calls.len(), 150);
    let sent = column(&calls, "sent");
    assert!(sent[0] > 1_000 && sent[0] < 1_000 + 300, "{}", sent[0]);
    for call in &calls {
        assert!(call["sent"].as_u64() <= call["limit"].as_u64(), "{call}");
        assert_eq!(
            call["before"].as_u64().unwrap() - call["evicted"].as_u64().unwrap(),
            call["sent"].as_u64().unwrap()
        );
        assert_eq!(
            (&call["limit"], &call["reserve"], &call["conversation"]),
            (&json!(4_000), &json!(100), &json!("synthetic"))
        );
    }
    let (totals, sliding) = (&last["totals"], &last["sliding"]);
    assert_eq!((&totals["requests"], &totals["infeasible"]), (&json!(150), &json!(0)));
    assert_eq!(totals["input_tokens"], sent.iter().sum::<u64>());
    assert_eq!(totals["cached_tokens"], column(&calls, "cached").iter().sum::<u64>());
    let compactions = calls.iter().filter(|call| call["compacted"] == true).count();
    assert_eq!(totals["compactions"], compactions);
    assert!(compactions > 5 && 2 * compactions < usize::try_from(sliding["compactions"].as_u64().unwrap()).unwrap());
    assert!(totals["cached_prefix_ratio"].as_f64().unwrap() > 0.8, "{totals}");
    assert!(totals["input_cost_of_sliding"].as_f64().unwrap() < 0.7, "{totals}");
    assert_eq!(replayed(&options, ""), (calls, last), "the same seed generates the same conversation");
}

#[test]
fn summaries_are_made_between_calls_and_counted_in_the_cost() {
    let options = ["--synthetic", "150", "--head", "1000", "--context", "4000", "--summarize=200"];
    let (calls, last) = replayed(&options, "");
    assert_eq!(replayed(&options, ""), (calls.clone(), last.clone()), "the same seed gives the same run");
    for call in &calls {
        assert!(call["sent"].as_u64() <= call["limit"].as_u64(), "{call}");
    }
    let (totals, sliding) = (&last["totals"], &last["sliding"]);
    let summaries = &totals["summaries"];
    let [stored, tokens_in, tokens_out] =
        ["stored", "input_tokens", "output_tokens"].map(|name| summaries[name].as_u64().unwrap());
    assert!(stored > 5 && summaries["not_stored"] == 0 && summaries["calls"] == stored, "{summaries}");
    assert!(tokens_in > 1_000 * stored && tokens_out > 0 && tokens_out <= 200 * stored, "{summaries}");
    assert_eq!(sliding["summaries"]["calls"], 0, "a sliding window makes no summaries");
    assert_eq!(totals["waited"], calls.iter().filter(|call| call["waited"] == true).count());

    // The summarizer's input is uncached, and its output costs four times as much.
    let number = |totals: &Value, name: &str| totals[name].as_f64().unwrap();
    let input = |totals| number(totals, "input_tokens") - 0.75 * number(totals, "cached_tokens");
    let spent = number(summaries, "input_tokens") + 4.0 * number(summaries, "output_tokens");
    let cost = (input(totals) + spent) / input(sliding);
    assert!((number(totals, "input_cost_of_sliding") - cost).abs() < 1e-9, "{totals}, {cost}");
    assert!(cost < 1.0, "{cost}");

    let text = lines(&options, "");
    let cost = format!("{tokens_in} uncached input tokens and {tokens_out} output tokens at 4 times their price");
    assert!(text.iter().any(|line| line.starts_with("summaries ") && line.ends_with(&cost)), "{cost}");
}

#[test]
fn back_to_back_calls_may_wait_for_a_summary() {
    let options = ["--synthetic", "100", "--head", "1000", "--context", "4000", "--summarize=200"];
    let waited = |options: &[&str]| replayed(options, "").1["totals"]["waited"].as_u64().unwrap();
    let paced = waited(&options);
    let at_once = waited(&[&options[..], &["--back-to-back"]].concat());
    assert!(paced < at_once && at_once > 3, "{paced} {at_once}");
}

#[test]
fn the_cached_prefix_is_the_beginning_of_an_earlier_prompt() {
    let messages = ["system", "user", "assistant", "user", "assistant"].map(|role| message(role, role));
    let one = json!({"id": "one", "messages": messages});
    let other = json!({"id": 2, "messages": [message("system", "system"), message("user", "other"), messages[2]]});
    // Objects may be pretty-printed or not; one without messages is skipped.
    let input = format!("{one:#}{one}\n{{\"id\":1}}\n{other}");
    let options = ["--context", "100", "--counter", "messages"];
    let (calls, last) = replayed(&options, &input);
    // The 3 tokens that prime the reply are never cached.
    assert_eq!(column(&calls, "sent"), [2, 4, 2, 4, 2].map(|messages| messages + 3));
    assert_eq!(column(&calls, "cached"), [0, 2, 2, 4, 1]);
    assert_eq!(column(&calls, "call"), [1, 2, 1, 2, 1]);
    assert_eq!(calls[4]["conversation"], "2");
    assert_eq!(last["totals"]["input_cost_of_sliding"], 1.0, "policies do not differ if nothing is left out");
    let (calls, _) = replayed(&[&options[..], &["--provider-cache"]].concat(), &input);
    assert_eq!(column(&calls, "cached"), [0; 5], "OpenAI does not cache short prefixes");
}

#[test]
fn agents_are_replayed_under_every_policy() {
    let input = format!("{}\n{}\n", agent("first", 6), agent("second", 3));
    for policy in [
        &[][..],
        &["--watermarks", "90/50"],
        &["--sliding"],
        &["--last-messages", "10"],
        &["--last-turns", "2"],
        &["--keep-recent", "4"],
        &["--clear-results"],
        &["--clear-results=0", "--shrink-reply-to", "50", "--reserve", "150"],
        &["--summarize=100", "--watermarks", "100/50"],
    ] {
        // The model refuses invalid prompts, which would make the program fail.
        let (calls, last) = replayed(&[&["--head-plus", "700"], policy].concat(), &input);
        assert_eq!(calls.len(), (6 + 3) * 3, "{policy:?}");
        assert_eq!((&last["totals"]["requests"], &last["totals"]["malformed"]), (&json!(27), &json!(0)), "{policy:?}");
        let compactions = last["totals"]["compactions"].as_u64().unwrap();
        assert!(compactions + last["totals"]["summaries"]["stored"].as_u64().unwrap() > 0, "{policy:?}");
        let is_sliding = policy == ["--sliding"];
        assert_eq!(last["totals"]["input_cost_of_sliding"] == 1.0, is_sliding, "{policy:?}: {last}");
    }
}

#[test]
fn a_call_that_cannot_fit_is_skipped_and_the_conversation_goes_on() {
    let mut agent = agent("large", 3);
    agent["messages"][10]["content"] = "too much ".repeat(1_000).into();
    let (calls, last) = replayed(&["--head-plus", "700"], &agent.to_string());
    let skipped: Vec<u64> =
        calls.iter().filter(|call| call["infeasible"] == true).map(|call| call["call"].as_u64().unwrap()).collect();
    assert_eq!(skipped, [5], "{calls:?}");
    assert_eq!((&last["totals"]["requests"], &last["totals"]["infeasible"]), (&json!(8), &json!(1)));
    assert!(calls[4]["error"].as_str().unwrap().starts_with("the prompt does not fit: head "));
    assert!(calls[5]["evicted"].as_u64().unwrap() > 2_000, "the next call leaves the results out: {}", calls[5]);

    let text = lines(&["--head-plus", "700"], &agent.to_string());
    assert!(text[4].starts_with("large #5: infeasible, skipped: the prompt does not fit"), "{}", text[4]);
    assert!(text.iter().any(|line| line.starts_with("requests") && line.contains("8 sent, 1 infeasible")), "{text:?}");
}

#[test]
fn invalid_calls_are_skipped_and_replies_without_a_question_are_kept() {
    let messages = [
        message("assistant", "hello"),
        message("assistant", "and welcome"),
        message("user", "q"),
        message("assistant", "a"),
        json!({"role": "tool", "tool_call_id": "unknown", "content": "r"}),
        message("assistant", "b"),
        message("user", "p"),
        message("assistant", "c"),
    ];
    let input = json!({"messages": messages}).to_string();
    let (calls, last) = replayed(&["--context", "100", "--counter", "messages"], &input);
    assert_eq!(calls.iter().map(|call| call["infeasible"] == false).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(last["totals"]["malformed"], 1);
    assert_eq!(calls[0]["sent"], 3 + 3, "both greetings and the question");
    assert_eq!(calls[2]["sent"], 6 + 3, "all messages but the orphaned result");
}

#[test]
fn the_plot_has_a_panel_for_the_policy_and_one_for_the_sliding_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay.svg");
    let options = ["--synthetic", "20", "--context", "4000", "--plot", path.to_str().unwrap()];
    let text = lines(&options, "");
    assert_eq!(text.len(), 20 + 7);
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let percent = |line: &str| line.rsplit(' ').next().unwrap().trim_end_matches("%)").parse::<f64>().unwrap();
    let cached = text.iter().find(|line| line.starts_with("cached prefix")).unwrap();
    for part in [
        "cached prefix\n",
        "rest of the prompt\n",
        "limit of the prompt\n",
        "prompt tokens\n",
        "call\n",
        "watermarks 100/75: ",
        &format!("sliding window: {:.0}% of all prompt tokens are in the cached prefix", percent(cached)),
        "fill=\"#1F5AA6\"",
        "fill=\"#F2A65A\"",
    ] {
        assert!(svg.contains(part), "{part}");
    }

    lines(&[&options[..], &["--sliding"]].concat(), "");
    let svg = std::fs::read_to_string(path).unwrap();
    assert_eq!(svg.matches("% of all prompt tokens").count(), 1, "a sliding window is not compared with itself");
}

#[test]
fn files_are_read_in_order_and_errors_quote_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for name in ["b", "a"] {
        let path = folder.path().join(name);
        std::fs::write(&path, agent(name, 1).to_string()).unwrap();
        paths.push(path.to_str().unwrap().to_owned());
    }
    let (calls, _) = replayed(&["--context", "4000", &paths[0], &paths[1]], "");
    assert_eq!(calls.iter().map(|call| call["conversation"].as_str().unwrap()).collect::<String>(), "bbbaaa");

    for bad in ["{\"id\":1,\"messages\":[{\"role\":\"secret", "secret", "{\"messages\":\"secret\"}", "[\"secret\"]"] {
        let output = run(&["--context", "4000"], bad);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains("stdin: invalid conversation at line 1"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let missing = folder.path().join("c");
    assert_eq!(run(&["--context", "4000", missing.to_str().unwrap()], "").status.code(), Some(1));
}

#[test]
fn invalid_options_are_usage_errors() {
    for options in [
        &[][..],
        &["--context", "1000", "--head-plus", "1000"],
        &["--context", "1000", "--sliding", "--watermarks", "100/75"],
        &["--context", "1000", "--last-turns", "3", "--last-messages", "3"],
        &["--context", "1000", "--watermarks", "75/100"],
        &["--context", "1000", "--watermarks", "75"],
        &["--context", "1000", "--watermarks", "a/b"],
        &["--context", "1000", "--cached-price", "2"],
        &["--context", "1000", "--head", "10"],
        &["--context", "1000", "--synthetic", "3", "file"],
        &["--context", "1000", "--counter", "words"],
        &["--context", "1000", "--counter", "messages", "--summarize"],
        &["--context", "1000", "--back-to-back"],
    ] {
        let output = run(options, "");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{options:?}");
    }
    let (calls, last) = replayed(&["--context", "1000"], "");
    assert!(calls.is_empty() && last["totals"]["requests"] == 0, "an empty input has no calls");
}
