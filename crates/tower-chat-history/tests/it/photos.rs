//! Photos in base64, which have many bytes and few tokens.

use tower_chat_history::{
    ContextBudget, ContextOptions, Engine, HistoryOptions, HistoryStore as _, HistoryStoreExt as _, MemoryStore,
    Message, Reply, TurnInput,
    store::{Load, LoadLimit, Loaded, Seq},
};

use crate::support::{id, texts};

/// Returns a question with a photo of this many bytes in base64.
fn photo(question: &str, bytes: usize) -> Message {
    let data = "iVBO/+w=".repeat(bytes / 8);
    let text = format!(r#"{{"type":"text","text":"{question}"}}"#);
    let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
    Message::user("").with_parts(&[text, image]).unwrap()
}

/// Answers a question, and returns the texts of its prompt.
async fn ask(engine: &Engine, question: Message, answer: &str) -> Vec<String> {
    let turn = engine.begin(TurnInput::new(id(), [question])).await.unwrap();
    let prompt = texts(turn.context());
    turn.commit(Reply::new(Message::assistant(answer))).await.unwrap();
    prompt
}

#[tokio::test]
async fn after_six_photos_all_questions_are_still_in_the_prompt() {
    let options = HistoryOptions::new().context(ContextBudget::tokens(1_000_000));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let mut said = Vec::new();
    for number in 0..6 {
        let [question, answer] = ["q", "a"].map(|who| format!("{who}{number}"));
        said.push(question.clone());
        assert_eq!(ask(&engine, photo(&question, 1_500_000), &answer).await, said);
        said.push(answer);
    }

    said.push("What was in the first photo?".to_owned());
    let prompt = ask(&engine, Message::user("What was in the first photo?"), "A ship.").await;
    assert_eq!(prompt, said);
}

#[tokio::test]
async fn a_window_with_more_media_than_the_limit_begins_with_three_quarters_of_it() {
    let limit = LoadLimit::default().with_media_bytes(40_000);
    let store = MemoryStore::new();
    let options = HistoryOptions::new().context(ContextOptions::new().load_limit(limit));
    let engine = Engine::with_options(store.clone(), options);
    let log = (0..6).flat_map(|number| [photo(&format!("q{number}"), 10_000), Message::assistant("a")]);
    store.conversation(&id()).import(log).await.unwrap();

    assert_eq!(ask(&engine, Message::user("q6"), "a").await, ["q3", "a", "q4", "a", "q5", "a", "q6"]);
    let next = ask(&engine, Message::user("q7"), "a").await;
    assert_eq!(next, ["q3", "a", "q4", "a", "q5", "a", "q6", "a", "q7"], "the prompt has the same beginning");

    let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else {
        panic!("the conversation exists");
    };
    assert_eq!(window.compaction.unwrap().window_start, Seq::new(3));
}
