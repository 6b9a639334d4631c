//! Tests of the program `trim`, through its pipes.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

fn start(options: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trim"))
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(options: &[&str], input: impl Into<Vec<u8>>) -> Output {
    let (mut child, input) = (start(options), input.into());
    let mut stdin = child.stdin.take().unwrap();
    // The program answers while it reads, so both pipes must be served at the same time.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn lines(options: &[&str], input: impl Into<Vec<u8>>) -> Vec<String> {
    let output = run(options, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Adds `--mode langchain` to these options.
fn langchain<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["--mode", "langchain"], options].concat()
}

fn answer(options: &[&str], request: &str) -> Value {
    let lines = lines(options, request);
    assert_eq!(lines.len(), 1);
    serde_json::from_str(&lines[0]).unwrap()
}

/// Returns the contents of the kept messages and their tokens.
fn kept(options: &[&str], messages: &Value, max_tokens: u64) -> (Vec<String>, u64) {
    let answer = answer(options, &json!({"messages": messages, "max_tokens": max_tokens}).to_string());
    let content = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    (answer["messages"].as_array().unwrap().iter().map(content).collect(), answer["tokens"].as_u64().unwrap())
}

/// The example in LangChain's reference for trim_messages.
fn langchain_s_example() -> Value {
    json!([
        {"role": "system", "content": "you're a good assistant, you always respond with a joke."},
        {"role": "user", "content": "i wonder why it's called langchain"},
        {"role": "assistant", "content": "Well, I guess they thought \"WordRope\" and \"SentenceString\" just didn't have the same ring to it!"},
        {"role": "user", "content": "and who is harrison chasing anyways"},
        {"role": "assistant", "content": "Hmmm let me think.\n\nWhy, he's probably chasing after the last cup of coffee in the office!"},
        {"role": "user", "content": "what do you call a speechless parrot"},
    ])
}

fn tool_round() -> Value {
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": call},
        {"role": "tool", "tool_call_id": "c", "content": "result"},
        {"role": "assistant", "content": "a"},
    ])
}

#[test]
fn the_reference_example_has_the_documented_result() {
    let messages = langchain_s_example();
    let content = |position: usize| messages[position]["content"].as_str().unwrap().to_owned();
    let options = ["--strategy", "last", "--start-on", "human", "--include-system"];
    for counter in ["o200k", "cl100k"] {
        let (kept, tokens) = kept(&langchain(&[&options[..], &["--counter", counter]].concat()), &messages, 45);
        assert_eq!(kept, [content(0), content(5)], "{counter}");
        assert!((20..=45).contains(&tokens), "{counter}: {tokens}");
    }
    let by_count = kept(&langchain(&[&options[..], &["--counter", "messages"]].concat()), &messages, 4);
    assert_eq!(by_count, ([0, 3, 4, 5].map(content).to_vec(), 4));
}

#[test]
fn kept_messages_and_ids_are_unchanged_bytes() {
    let first =
        "{ \"z\":1.50, \"role\" : \"user\",\"content\":\"\\u00e4 \\ud83d\\ude00 ä\",\"x\":{\"b\":1,\"a\":1E400} }";
    let second = "{\"content\":[{\"type\":\"new\"}],\"role\":\"assistant\",\"role\":\"assistant\"}";
    let third = "{\"role\":\"user\",\"content\":\"\" }";
    for id in ["7", "1.50", "1e999", "\"a \\u00e4 \\ud83d\"", "null", "[ 1,{\"b\": 2,\"a\":3}]", "true", "{ }"] {
        let request =
            format!("{{ \"messages\" : [ {first} ,{second}\t,{third}], \"id\" : {id} , \"max_tokens\" : 1000 }}\r\n");
        let answer = [format!("{{\"id\":{id},\"messages\":[{first},{second},{third}],\"tokens\":3}}")];
        for mode in ["fit", "langchain"] {
            assert_eq!(lines(&["--mode", mode, "--counter", "messages"], &*request), answer, "{mode}");
        }
    }
    assert_eq!(
        lines(&langchain(&[]), r#"{"messages":[],"max_tokens":18446744073709551615,"feasible":true,"\ud800":1}"#),
        [r#"{"id":null,"messages":[],"tokens":0}"#]
    );
}

#[test]
fn an_invalid_line_gets_an_error_and_the_next_line_an_answer() {
    let bad: [(&[u8], &str); 16] = [
        (b"secret", "null"),
        (b"[]", "null"),
        (b"null", "null"),
        (b"{\"id\":1,\"messages\":[{\"role\":\"secret", "1"),
        (b"{\"id\":2,\"messages\":[],\"max_tokens\":1} secret", "2"),
        (b"{\"id\":3,\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}],\"max_tokens\":1}", "3"),
        (b"{\"id\":4,\"max_tokens\":1}", "4"),
        (b"{\"id\":5,\"messages\":\"secret\",\"max_tokens\":1}", "5"),
        (b"{\"id\":6,\"messages\":[\"secret\"],\"max_tokens\":1}", "6"),
        (b"{\"id\":7,\"messages\":[{\"role\":\"user\"},{\"content\":\"secret\"}],\"max_tokens\":1}", "7"),
        (b"{\"id\":8,\"messages\":[]}", "8"),
        (b"{\"id\":9,\"messages\":[],\"max_tokens\":-1}", "9"),
        (b"{\"id\":10,\"messages\":[],\"max_tokens\":18446744073709551616}", "10"),
        (b"{\"id\":11,\"messages\":[],\"max_tokens\":\"secret\"}", "11"),
        (b"{\"id\":12,\"messages\":[],\"max_tokens\":1.5}", "12"),
        (b"{\"id\":13,\"messages\":[],\"max_tokens\":null}", "13"),
    ];
    let good = b"\n{\"id\":\"good\",\"messages\":[],\"max_tokens\":1}\n\n";
    let input: Vec<u8> = bad.iter().flat_map(|(line, _)| [line, &good[..]].concat()).collect();
    let lines = lines(&langchain(&[]), input);
    assert_eq!(lines.len(), 2 * bad.len(), "empty lines get no answer");
    for (answers, (line, id)) in lines.chunks(2).zip(bad) {
        let line = String::from_utf8_lossy(line);
        assert!(answers[0].starts_with(&format!("{{\"id\":{id},\"error\":\"")), "{line}: {}", answers[0]);
        assert!(!answers[0].contains("secret"), "{line}: {}", answers[0]);
        assert_eq!(answers[1], r#"{"id":"good","messages":[],"tokens":0}"#);
    }
    assert!(lines[18].contains("messages[1]"), "{}", lines[18]);
}

#[test]
fn options_choose_the_kept_messages() {
    let messages = langchain_s_example();
    let by = |options: &[&str], max_tokens| {
        kept(&langchain(&[&["--counter", "messages"], options].concat()), &messages, max_tokens).0
    };
    let contents = |positions: &[usize]| -> Vec<String> {
        positions.iter().map(|position| messages[*position]["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(by(&[], 2), contents(&[4, 5]));
    assert_eq!(by(&["--strategy", "first"], 2), contents(&[0, 1]));
    assert_eq!(by(&["--strategy", "first", "--end-on", "system,tool"], 3), contents(&[0]));
    assert_eq!(by(&["--start-on", "user"], 2), contents(&[5]));
    assert_eq!(by(&["--start-on", "ai,human", "--end-on", "assistant"], 2), contents(&[3, 4]));
    assert_eq!(by(&["--include-system"], 0), contents(&[0]), "the system message may exceed the budget");
    assert_eq!(by(&["--start-on", "function"], 6), contents(&[]));

    let (kept, tokens) = kept(&langchain(&["--counter", "approximate", "--allow-partial"]), &messages, 16 + 22);
    assert_eq!(kept, ["\nWhy, he's probably chasing after the last cup of coffee in the office!", &contents(&[5])[0]]);
    assert!(tokens <= 38, "{tokens}");
}

#[test]
fn the_layer_s_rules_are_the_default() {
    let mut messages = tool_round();
    let list = messages.as_array_mut().unwrap();
    list.insert(0, json!({"role": "system", "content": "s"}));
    list.push(json!({"role": "user", "content": "p"}));
    let by = |messages: &Value, max_tokens| kept(&["--counter", "messages"], messages, max_tokens);
    for (max_tokens, contents) in
        [(6, &["s", "q", "", "result", "a", "p"][..]), (5, &["s", "q", "a", "p"]), (3, &["s", "p"]), (2, &["s", "p"])]
    {
        let (kept, tokens) = by(&messages, max_tokens);
        assert_eq!(
            (&*kept, tokens),
            (&*contents.iter().map(ToString::to_string).collect::<Vec<_>>(), contents.len() as u64)
        );
    }
    let in_a_turn = json!(messages.as_array().unwrap()[..4]);
    assert_eq!(by(&in_a_turn, 4).0, ["s", "q", "", "result"]);
}

#[test]
fn a_list_that_cannot_be_made_to_fit_gets_an_error() {
    let messages = tool_round();
    let messages = messages.as_array().unwrap();
    for (messages, max_tokens, error) in [
        (&messages[..3], 2, "the prompt does not fit: head 0 + "),
        (&messages[..2], 9, "the messages are not a valid prompt: "),
        (&messages[..4], 9, "the messages are not a valid prompt: "),
        (&messages[2..3], 9, "the messages are not a valid prompt: "),
        (&messages[..0], 9, "the messages are not a valid prompt: "),
    ] {
        let request = json!({"id": 7, "messages": messages, "max_tokens": max_tokens}).to_string();
        let answer = answer(&["--counter", "messages"], &request);
        assert_eq!(answer["id"], 7);
        assert!(answer["error"].as_str().unwrap().starts_with(error), "{answer}");
        assert_eq!(answer.as_object().unwrap().len(), 2);
    }
}

#[test]
fn tool_pairs_are_kept_unless_disabled() {
    let messages = tool_round();
    for (options, contents) in [
        (&["--counter", "messages"][..], &["a"][..]),
        (&["--counter", "messages", "--keep-pairs", "true"], &["a"]),
        (&["--counter", "messages", "--keep-pairs", "false"], &["result", "a"]),
        (&["--counter", "messages", "--keep-pairs", "false", "--strategy", "first"], &["q", ""]),
        (&["--counter", "messages", "--strategy", "first"], &["q"]),
    ] {
        assert_eq!(kept(&langchain(options), &messages, 2).0, contents, "{options:?}");
    }
}

#[test]
fn tokens_are_those_of_the_kept_messages() {
    let messages = tool_round();
    let tokens = |counter| kept(&langchain(&["--counter", counter]), &messages, 10_000).1;
    // Four messages with 4 tokens of framing and one token of text each; the call has 3 tokens and one each for its
    // name and its arguments.
    assert_eq!((tokens("o200k"), tokens("cl100k")), (4 * 4 + 3 + 5, 4 * 4 + 3 + 5));
    // 5, 68, 11 and 10 characters, and 3 tokens per message.
    assert_eq!((tokens("approximate"), tokens("messages")), (4 * 3 + 2 + 17 + 3 + 3, 4));
}

#[test]
fn invalid_options_are_usage_errors() {
    for options in [
        &["--mode", "langchain", "--strategy", "first", "--start-on", "human"][..],
        &["--mode", "langchain", "--strategy", "first", "--include-system"],
        &["--mode", "langchain", "--strategy", "middle"],
        &["--mode", "langchain", "--start-on", "usr"],
        &["--mode", "langchain", "--start-on", ""],
        &["--mode", "langchain", "--keep-pairs", "perhaps"],
        &["--counter", "words"],
        &["--mode", "other"],
        // Options that the layer's rules do not have.
        &["--strategy", "last"],
        &["--start-on", "human"],
        &["--end-on", "human"],
        &["--include-system"],
        &["--mode", "fit", "--allow-partial"],
        &["--mode", "fit", "--keep-pairs", "true"],
    ] {
        let output = run(options, "");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{options:?}");
    }
    assert!(run(&langchain(&["--strategy", "first", "--end-on", "human"]), "").status.success());
}

#[test]
fn many_lines_are_answered_in_order() {
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    let mut input = String::new();
    for turn in 0..5_000_u32 {
        let role = if turn % 2 == 0 { "user" } else { "assistant" };
        messages.push(json!({"role": role, "content": format!("line {turn}\n{turn}")}));
        let newest = &messages[messages.len().saturating_sub(40)..];
        input += &json!({"id": turn, "messages": newest, "max_tokens": 100}).to_string();
        input.push('\n');
    }
    let lines = lines(&langchain(&["--allow-partial"]), input);
    assert_eq!(lines.len(), 5_000);
    for (turn, line) in lines.iter().enumerate() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["id"], turn);
        assert!(answer["tokens"].as_u64().unwrap() <= 100, "{line}");
        assert_eq!(answer["messages"].as_array().unwrap().last().unwrap()["content"], format!("line {turn}\n{turn}"));
    }
}

#[test]
fn each_answer_is_flushed_before_the_next_line_is_read() {
    let mut child = start(&langchain(&[]));
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for id in 0..3 {
        writeln!(stdin, "{{\"id\":{id},\"messages\":[],\"max_tokens\":1}}").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"id\":{id},\"messages\":[],\"tokens\":0}}\n"));
    }
    write!(stdin, "{{\"messages\":[],\"max_tokens\":1}}").unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "{\"id\":null,\"messages\":[],\"tokens\":0}\n", "the last line needs no newline");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_closed_output_ends_the_program_without_an_error() {
    let mut child = start(&[]);
    drop(child.stdout.take());
    // The program may have ended before it reads the lines.
    let _ = child.stdin.take().unwrap().write_all("{}\n".repeat(10_000).as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
