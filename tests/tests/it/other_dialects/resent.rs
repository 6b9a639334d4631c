//! Lists that a caller resends in another dialect than that of the log, or with a compaction.

use tests::{Storage, over_every_store};
use tower_chat_history::{
    HistoryError, Message, Policies,
    dialect::{AnthropicMessages, OpenAiResponses},
    error::TranscriptError,
    policy::{OnOtherDialect, OnTranscriptMismatch},
    store::Role,
};

use super::{Talk, element, said, translating};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_resent_list_in_another_dialect_is_compared_by_what_is_said,
    a_resent_list_with_a_compaction_that_the_log_does_not_have_does_not_match,
}

const CALL: &str = r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 2}"}}]}"#;

fn resent(results: [&str; 2]) -> Vec<Message> {
    let call = |id: &str, a: u8| format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{"a":{a}}}}}"#);
    let result = |id: &str, text: &str| format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}"#);
    [
        r#"{"role":"user","content":"u"}"#.to_owned(),
        format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"I look."}},{},{}]}}"#,
            call("p", 1),
            call("q", 2)
        ),
        format!(r#"{{"role":"user","content":[{},{}]}}"#, result("p", results[0]), result("q", results[1])),
        r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#.to_owned(),
    ]
    .iter()
    .map(|json| element(&AnthropicMessages, json))
    .collect()
}

async fn a_resent_list_in_another_dialect_is_compared_by_what_is_said(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    talk.turn(&engine, talk.input([Message::user("u")]), vec![Message::from_json(CALL).unwrap()]).await;
    let results = [Message::tool("x", "one"), Message::tool("x", "two")];
    talk.turn(&engine, talk.input(results), vec![Message::assistant("a")]).await;
    let question = || talk.input([said(&AnthropicMessages, &Role::User, "and?")]);
    let turn = engine.begin(question().transcript(resent(["one", "two"]))).await.unwrap();
    assert_eq!(turn.context().len(), 5);
    drop(turn);
    let error = talk.refused(&engine, question().transcript(resent(["two", "one"]))).await;
    let HistoryError::Transcript(TranscriptError { position, .. }) = error else { panic!("{error}") };
    assert_eq!(position, 2);
    let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
    let trusts = translating().policies(policies.on_transcript_mismatch(OnTranscriptMismatch::TrustLog));
    let differs = question().transcript(resent(["two", "one"]));
    let answer = vec![said(&AnthropicMessages, &Role::Assistant, "a")];
    let (prompt, report) = talk.turn(&talk.engine(trusts), differs, answer).await;
    assert!(prompt[2].find("one") < prompt[2].find("two"), "{prompt:?}");
    assert_eq!(report.transcript_mismatch.map(|mismatch| mismatch.position), Some(2));
}

async fn a_resent_list_with_a_compaction_that_the_log_does_not_have_does_not_match(storage: Storage) {
    let talk = Talk::new(storage);
    let engine = talk.engine(translating());
    let user = || said(&OpenAiResponses, &Role::User, "u");
    for _ in 0..2 {
        talk.ask(&engine, &OpenAiResponses, "u").await;
    }
    let compaction = element(&OpenAiResponses, r#"{"type":"compaction","id":"c","encrypted_content":"e"}"#);
    let list = [compaction, said(&OpenAiResponses, &Role::Assistant, "u")];
    let error = talk.refused(&engine, talk.input([user()]).transcript(list.clone())).await;
    let HistoryError::Transcript(TranscriptError { position, .. }) = error else { panic!("{error}") };
    assert_eq!(position, 0);
    // As new messages, the compaction begins the next prompts.
    let [compaction, _] = list;
    talk.turn(&engine, talk.input([compaction, user()]), vec![said(&OpenAiResponses, &Role::Assistant, "a")]).await;
    let (prompt, report) = talk.ask(&engine, &OpenAiResponses, "next").await;
    assert!(prompt[0].contains("compaction") && report.begins_with_compaction, "{prompt:?}");
    assert_eq!(prompt.len(), 4);
}
