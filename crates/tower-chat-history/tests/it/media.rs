//! Conversations with photos, in front of readers that limit them.

use tower_chat_history::{
    ContextBudget, ConversationId, Engine, HistoryOptions, MemoryStore, Message, Reply, TurnInput, TurnReport,
    compat::{Compat, MediaCompat, ReaderRow, Readers},
    refusal::Remedy,
    store::Seq,
};

fn id() -> ConversationId {
    ConversationId::new(["acme", "photos"]).unwrap()
}

/// Returns a question with a photo whose base64 has this size.
fn photo(at: usize, bytes: usize) -> Message {
    let data = "A".repeat(bytes);
    let text = format!(r#"{{"type":"text","text":"What is in photo {at}?"}}"#);
    let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
    Message::from_json(format!(r#"{{"role":"user","content":[{text},{image}]}}"#)).unwrap()
}

fn input(message: Message) -> TurnInput {
    let mut input = TurnInput::new(id(), [message]);
    input.request.origin = input.request.origin.provider("mine");
    input
}

fn limited(media: MediaCompat) -> HistoryOptions {
    let row = ReaderRow::new("mine", Compat::new().media(media)).provider("mine");
    HistoryOptions::new().readers(Readers::none().with(row))
}

fn photos(messages: &[Message]) -> usize {
    messages.iter().filter(|message| message.json().contains("base64")).count()
}

/// Asks a question. Returns the messages that were sent last, and the report.
async fn ask(engine: &Engine, message: Message) -> (Vec<Message>, std::sync::Arc<TurnReport>) {
    let turn = engine.begin(input(message)).await.unwrap();
    let sent = turn.context().to_vec();
    let report = turn.commit(Reply::new(Message::assistant("A cat."))).await.unwrap();
    (sent, report)
}

#[tokio::test]
async fn of_six_photos_the_oldest_become_texts_and_all_texts_stay() {
    let engine = Engine::with_options(MemoryStore::new(), limited(MediaCompat::new().images(5)));
    for at in 0..5 {
        let (sent, report) = ask(&engine, photo(at, 150_000)).await;
        assert_eq!((photos(&sent), report.media_left_out), (at + 1, 0));
    }
    let (sent, report) = ask(&engine, photo(5, 150_000)).await;
    assert_eq!((sent.len(), photos(&sent)), (11, 4));
    assert_eq!((report.media_left_out, report.media_bytes_left_out), (2, 2 * (150_000 + 22)));
    for (at, question) in sent.iter().step_by(2).enumerate() {
        assert!(question.json().contains(&format!("What is in photo {at}?")), "{at}");
        assert_eq!(question.json().contains("[image left out]"), at < 2, "{at}");
    }

    let explained = engine.explain(&id(), Seq::new(5)).await.unwrap().unwrap();
    let rows = explained.prompt.unwrap();
    let first = (rows[0].stored.as_ref().unwrap(), rows[0].sent.as_ref().unwrap());
    assert!(first.0.bytes() > 150_000 && first.1.bytes() < 200);
}

#[tokio::test]
async fn every_prompt_is_explained_and_begins_with_the_one_before_it_if_nothing_changed() {
    let options = limited(MediaCompat::new().images(7)).context(ContextBudget::tokens(16_000));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let mut before: Vec<Message> = Vec::new();
    let mut left_out = 0;
    let mut compactions = 0;
    for at in 0..120 {
        let question = if at % 3 == 0 { photo(at, 400) } else { Message::user("tell me more ".repeat(at % 50 + 20)) };
        let (sent, report) = ask(&engine, question).await;
        assert!(photos(&sent) <= 7, "{at}");

        let is_compacted = report.tokens.unwrap().compacted;
        compactions += usize::from(is_compacted);
        if !is_compacted && report.media_left_out == left_out && at > 0 {
            assert!(sent.starts_with(&before), "{at}");
        }
        left_out = report.media_left_out;
        before = sent;

        let explained = engine.explain(&id(), Seq::new(at as u64)).await.unwrap().unwrap();
        assert!(explained.prompt.is_ok(), "{at}: {:?}", explained.prompt);
    }
    assert!(compactions > 2, "{compactions}");
}

/// A server that refuses requests with more bytes.
async fn send(engine: &Engine, message: Message, most_bytes: usize, refused: &mut usize) -> Vec<Message> {
    let mut turn = engine.begin(input(message)).await.unwrap();
    while turn.context().iter().map(Message::bytes).sum::<usize>() > most_bytes {
        *refused += 1;
        assert!(turn.remedy(&Remedy::FewerBytes, "413").await);
    }
    let sent = turn.context().to_vec();
    turn.commit(Reply::new(Message::assistant("A cat."))).await.unwrap();
    sent
}

#[tokio::test]
async fn a_server_that_takes_fewer_bytes_gets_fewer_photos_after_one_refusal() {
    let engine = Engine::new(MemoryStore::new());
    let mut refused = 0;
    for at in 0..60 {
        let sent = send(&engine, photo(at, 10_000), 100_000, &mut refused).await;
        assert_eq!(sent.len(), 2 * at + 1, "all texts are sent");
        assert!(photos(&sent) > 2 || at < 2, "{at}: {}", photos(&sent));
        assert!(refused == usize::from(at >= 9), "{at}: {refused} refusals");
    }
}

#[tokio::test]
async fn a_photo_that_is_too_large_by_itself_fails_and_the_next_question_is_answered() {
    let engine = Engine::new(MemoryStore::new());
    let mut refused = 0;
    for at in 0..3 {
        send(&engine, photo(at, 10_000), 100_000, &mut refused).await;
    }
    let mut turn = engine.begin(input(photo(3, 200_000))).await.unwrap();
    let mut repeats = 0;
    while turn.remedy(&Remedy::FewerBytes, "413").await {
        repeats += 1;
    }
    turn.fail("413");
    assert!(repeats <= 2);
    let sent = send(&engine, Message::user("Hi"), 100_000, &mut refused).await;
    assert_eq!((sent.len(), photos(&sent), refused), (7, 3, 0), "nothing was learned");
}
