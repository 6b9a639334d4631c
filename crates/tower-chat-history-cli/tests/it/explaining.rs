//! `explain`, over conversations that the engine made.

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, Engine, HistoryOptions, Reply, Summaries, TurnInput,
    budget::{ClearResults, Watermarks},
    recall::{Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_core::{Citation, Message, Origin, Recalled, Seq, Usage};

use crate::support::Place;

/// A text of 400 characters.
fn long(word: &str) -> String {
    format!("{word} ").repeat(400 / (word.len() + 1))
}

/// Stores these turns of the conversation `a` in a new database.
fn chat(options: HistoryOptions, turns: impl IntoIterator<Item = (Message, Reply)>) -> Place {
    let place = Place::empty();
    place.with_store(async |store| {
        let engine = Engine::with_options(store.clone(), options);
        for (input, reply) in turns {
            let turn = engine.begin(TurnInput::new("a".parse().unwrap(), [input])).await.unwrap();
            turn.commit(reply).await.unwrap();
        }
    });
    place
}

fn says(text: &str) -> Reply {
    Reply::new(Message::assistant(text))
}

/// Returns what is printed after the line with the time.
fn table(shown: &str) -> &str {
    let (head, rest) = shown.split_once("\n\n").unwrap();
    assert_eq!(head, "a");
    rest.split_once('\n').unwrap().1
}

#[derive(Debug)]
struct KnowsTom;

#[async_trait]
impl Summarizer for KnowsTom {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Ok(SummaryResponse::new("Tom is a cat."))
    }
}

/// Shows the first exchange again if it is asked to remember.
#[derive(Debug)]
struct Remembers;

#[async_trait]
impl Recall for Remembers {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        if !request.input.iter().any(|message| message.text().contains("remember")) {
            return Ok(Recollection::nothing());
        }
        let recalled = Recalled::new("You once said: Tom is gray.", vec![Citation::new(Seq::FIRST, 0..1)]);
        Ok(Recollection::shown(recalled))
    }
}

/// Returns a conversation whose last prompt has a summary and recalled messages.
fn summarized() -> Place {
    let context = ContextOptions::new().watermarks(Watermarks::last_turns(2));
    let options = HistoryOptions::new()
        .context(context)
        .origin(Origin::unknown().provider("acme").account("team-a").model("small"))
        .summaries(Summaries::new(KnowsTom).when(SummarizeWhen::BeforeCall))
        .recall(RecallOptions::new(Remembers));
    let mut last = says("Yes, he is gray.");
    last.usage = Some(Usage::new(180, 9));
    chat(
        options,
        [
            (Message::user(long("first")), says("ok")),
            (Message::user(long("second")), says("ok")),
            (Message::user("And who is Jerry?"), says("A mouse.")),
            (Message::user("Do you remember Tom?"), last),
        ],
    )
}

/// Returns a conversation in whose last prompt a result is cleared.
fn cleared() -> Place {
    let clear = ClearResults::new().keep(0).placeholder("[gone]");
    let budget = ContextBudget::tokens(280).reply_reserve(50).calibrate(false);
    let call = serde_json::json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "scan", "arguments": "{\"host\":\"db-1\"}"}},
    ]});
    chat(
        HistoryOptions::new().context(ContextOptions::new().budget(budget).clear_results(clear)),
        [
            (Message::user("Which ports are open?"), Reply::new(Message::try_from(call).unwrap())),
            (Message::tool("call_1", long("5432")), says("Only 5432.")),
            (Message::user(long("why")), says("ok")),
        ],
    )
}

#[test]
fn a_prompt_is_explained_message_by_message() {
    let place = chat(
        HistoryOptions::new(),
        [(Message::user("Who is Tom?"), says("A cat.")), (Message::user("What does he\nchase?"), says("Mice."))],
    );
    let expected = "\
POSITION  ROLE       SIZE  TOKENS  WHAT HAPPENED  TEXT
0         user       39 B       7  sent           Who is Tom?
0         assistant  39 B       6  sent           A cat.
1         user       48 B       9  sent           What does he chase?

sent       3 messages, 126 B, 22 tokens
tokens     not estimated, not reported (with instructions and tools)
renderer   version 2
provider   unknown
digest     agrees: this is the prompt that was sent
";
    let shown = place.run(&["explain", "a"]).ok();
    assert_eq!(table(&shown), expected, "{shown}");
    assert_eq!(place.run(&["explain", "a", "1"]).ok(), shown, "the newest reply is the default");

    let first = place.run(&["explain", "a", "0"]).ok();
    assert!(first.contains("Who is Tom?") && !first.contains("A cat."), "{first}");
}

#[test]
fn summaries_and_recalled_messages_are_named() {
    let expected = "\
POSITION  ROLE        SIZE  TOKENS  WHAT HAPPENED  TEXT
0–1                                 summarized
0–1       user       363 B      87  summary        The earlier part of this conversation is not sho…
2         assistant   44 B       7  stood in       Understood.
2         user        45 B       9  sent           And who is Jerry?
2         assistant   41 B       6  sent           A mouse.
3         user        55 B      11  recalled       You once said: Tom is gray.
3         assistant   44 B       7  stood in       Understood.
3         user        48 B       9  sent           Do you remember Tom?

sent       7 messages, 640 B, 136 tokens
tokens     estimated 139, reported 180 (with instructions and tools)
renderer   version 2
provider   acme, account team-a, model small
digest     agrees: this is the prompt that was sent
";
    let shown = summarized().run(&["explain", "a"]).ok();
    assert_eq!(table(&shown), expected, "{shown}");
}

#[test]
fn cleared_results_are_named_with_their_size_before() {
    let expected = "\
POSITION  ROLE        SIZE  TOKENS  WHAT HAPPENED      TEXT
0         user        49 B      10  sent               Which ports are open?
0         assistant  145 B      12  sent               → scan({\"host\":\"db-1\"}) [call_1]
1         tool        58 B       6  cleared, of 452 B  ← [call_1] [gone]
1         assistant   43 B       7  sent               Only 5432.
2         user       428 B     104  sent               why why why why why why why why why why why …

sent       5 messages, 723 B, 139 tokens
tokens     estimated 142, not reported (with instructions and tools)
renderer   version 2
provider   unknown
digest     agrees: this is the prompt that was sent
";
    let shown = cleared().run(&["explain", "a", "--placeholder", "[gone]"]).ok();
    assert_eq!(table(&shown), expected, "{shown}");
}

#[test]
fn what_was_left_out_has_its_reason() {
    let context = ContextOptions::new().watermarks(Watermarks::last_turns(1));
    let turns = ["one", "two", "three"].map(|text| (Message::user(text), says("ok")));
    let place = chat(HistoryOptions::new().context(context), turns);
    let shown = place.run(&["explain", "a"]).ok();
    let row = shown.lines().find(|line| line.starts_with("0 ")).unwrap();
    assert!(row.ends_with("left out: before the window"), "{shown}");
    assert!(!shown.contains("one"), "{shown}");
}

#[test]
fn a_digest_that_does_not_agree_is_an_incomplete_result() {
    let place = cleared();
    let ran = place.run(&["explain", "a"]);
    let last = ran.out.lines().next_back().unwrap_or_default();
    assert!(ran.code == Some(1) && last.starts_with("digest     does not agree: "), "{ran:?}");
    assert!(last.ends_with("This command uses default options, except those that you set."), "{ran:?}");
    assert!(!ran.out.contains("POSITION"), "{ran:?}");

    let ran = place.run(&["explain", "a", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &json["digest_agrees"], &json["rows"]), (Some(1), &false.into(), &serde_json::json!([])));
    assert!(json["not_known"].as_str().unwrap().contains("another prompt"), "{json}");
}

#[test]
fn a_summary_of_another_profile_is_not_known() {
    let ran = summarized().run(&["explain", "a", "--profile", "other"]);
    let last = ran.out.lines().next_back().unwrap_or_default();
    assert!(ran.code == Some(1) && last.starts_with("prompt     not known: the summary "), "{ran:?}");
}

#[test]
fn a_reply_that_no_model_of_the_library_made_is_not_known() {
    let ran = Place::filled().run(&["explain", "acme/user-1/a"]);
    assert!(ran.code == Some(1) && ran.out.contains("── 2 · 2025-01-01 00:00:02Z\n"), "{ran:?}");
    assert!(ran.out.contains("\nprompt     not known: nothing is stored about a prompt"), "{ran:?}");
}

#[test]
fn the_object_has_the_messages_that_were_sent() {
    let json = summarized().run(&["explain", "a", "--json"]).json();
    assert_eq!((&json["id"], &json["position"], &json["renderer"]), (&"a".into(), &3.into(), &2.into()));
    assert_eq!((&json["digest_agrees"], &json["not_known"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!((&json["origin"]["account"], &json["usage"]["input_tokens"]), (&"team-a".into(), &180.into()));

    let rows = json["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["subject"], &rows[0]["why"]), (&"before".into(), &"before_window".into()));
    assert_eq!(rows[0]["covers_to"], rows[0]["to"]);
    let recalled = rows.iter().find(|row| row["subject"] == "recalled").unwrap();
    assert_eq!(recalled["sent"]["message"]["content"], "You once said: Tom is gray.");
    let input = rows.last().unwrap();
    assert_eq!((&input["subject"], &input["fate"], &input["index"]), (&"input".into(), &"sent".into(), &0.into()));
    assert_eq!(input["sent"]["message"]["content"], "Do you remember Tom?");
}

#[test]
fn hostile_texts_are_escaped() {
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}x\r";
    let call = serde_json::json!({"role": "assistant", "content": hostile, "tool_calls": [
        {"id": hostile, "type": "function", "function": {"name": hostile, "arguments": hostile}},
    ]});
    let mut reply = Reply::new(Message::try_from(call).unwrap());
    reply.model = Some(hostile.to_owned());
    let options = HistoryOptions::new().origin(Origin::unknown().provider(hostile).route(hostile));
    let place = chat(options, [(Message::user(hostile), reply.clone()), (Message::tool(hostile, hostile), reply)]);
    for args in [&["explain", "a"][..], &["explain", "a", "--json"]] {
        let shown = place.run(args).ok();
        let is_obeyed = |one: char| one != '\n' && (one.is_control() || one == '\u{202e}');
        assert!(shown.contains("owned") && !shown.contains(is_obeyed), "{args:?}: {shown:?}");
    }
}

#[test]
fn what_is_missing_is_an_error() {
    let place = Place::filled();
    place.append("asked", "1", 1, [Message::user("Hello?")]);
    for (args, expected) in [
        (&["explain", "acme/nobody"][..], "there is no conversation acme/nobody"),
        (&["explain", "acme/user-10", "2"], "the conversation acme/user-10 has no exchange 2"),
        (&["explain", "asked"], "the conversation asked has no reply"),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.err), (Some(1), format!("chat-history: {expected}\n")), "{args:?}");
    }
}
