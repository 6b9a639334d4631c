//! A call that ends after its log was removed, when another call has stored its exchange id in a new log.

use std::time::Duration;

use async_trait::async_trait;
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tests::{Storage, over_every_store};
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, ExchangeId, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, Message, Reply, Turn, TurnInput,
    refusal::Remedy,
    store::{Derived, EraseExt as _, Load, Loaded, Prefix, PruneTo, Role, Seq},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

over_every_store! {
    #[tokio::test]
    its_summary_is_not_stored_in_the_new_log,
    its_repair_is_not_stored_in_the_new_log,
}

const SECRET: &str = "PLANTED-SECRET";
const REPEATED: &str = "request-7";

/// The ways to end a log: the next exchange is in a new one.
#[derive(Clone, Copy, Debug)]
enum End {
    Erase,
    Delete,
    Truncate,
    Prune,
}

const ENDS: [End; 4] = [End::Erase, End::Delete, End::Truncate, End::Prune];

impl End {
    /// Ends a log of three exchanges, of which the second one is removed.
    async fn of(self, storage: &Storage, id: &ConversationId) {
        let conversation = storage.store.conversation(id);
        match self {
            Self::Erase => storage.store.erase_all(&Prefix::from(id)).await.map(drop).unwrap(),
            Self::Delete => conversation.clear().await.unwrap(),
            Self::Truncate => conversation.truncate(Seq::new(1)).await.map(drop).unwrap(),
            Self::Prune => conversation.prune(PruneTo::LastTurns(1), Derived::Erase).await.map(drop).unwrap(),
        }
    }
}

/// Summarizes messages as their texts.
#[derive(Debug)]
struct Quote;

#[async_trait]
impl Summarizer for Quote {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let texts: Vec<_> = request.messages.iter().map(|message| message.text().into_owned()).collect();
        Ok(SummaryResponse::new(texts.join(" ")))
    }
}

fn summarizing() -> HistoryOptions {
    let summaries = Summaries::new(Quote).when(SummarizeWhen::BeforeEveryCall).least_room(1).max_tokens(200);
    HistoryOptions::new().context(ContextBudget::tokens(4_000).reply_reserve(10)).summaries(summaries)
}

async fn begin(engine: &Engine, id: &ConversationId, exchange: &str, question: Message) -> Turn {
    let input = TurnInput::new(id.clone(), [question]).exchange(ExchangeId::new(exchange).unwrap());
    engine.begin(input).await.unwrap()
}

async fn ask(engine: &Engine, id: &ConversationId, exchange: &str, question: Message, reply: Vec<Message>) {
    let turn = begin(engine, id, exchange, question).await;
    let report = turn.commit(Reply::of(reply)).await.unwrap();
    assert_eq!(report.outcome.kind(), "stored");
}

async fn assert_has_no_compaction(storage: &Storage, id: &ConversationId, end: End) {
    let Loaded::Window(window) = storage.store.load(id, Load::new()).await.unwrap() else { panic!("{end:?}: no log") };
    assert_eq!(window.compaction, None, "{end:?}");
}

async fn its_summary_is_not_stored_in_the_new_log(storage: Storage) {
    for end in ENDS {
        let id = storage.conversation();
        let engine = Engine::with_options(storage.store.clone(), summarizing());
        let replica = Engine::new(storage.replica().await.store);
        let answer = || vec![Message::assistant("I see.")];
        ask(&replica, &id, "one", Message::user("hello"), answer()).await;
        ask(&replica, &id, "two", Message::user(format!("my illness is {SECRET}")), answer()).await;
        ask(&replica, &id, "three", Message::user("thank you"), answer()).await;

        let late = begin(&engine, &id, REPEATED, Message::user("and now?")).await;
        assert!(late.context()[0].text().contains(SECRET), "the prompt has the summary");
        end.of(&storage, &id).await;
        ask(&replica, &id, REPEATED, Message::user("and now?"), answer()).await;
        // The summary would begin the window at an exchange that the new log has, too.
        for exchange in ["four", "five", "six"] {
            ask(&replica, &id, exchange, Message::user("hello again"), answer()).await;
        }
        let report = late.commit(Reply::of(answer())).await.unwrap();
        assert_eq!(report.outcome.kind(), "duplicate", "{end:?}");

        assert_has_no_compaction(&storage, &id, end).await;
        let turn = begin(&replica, &id, "next", Message::user("what do I have?")).await;
        assert!(!turn.context().iter().any(|message| message.json().contains(SECRET)), "{end:?}");
    }
}

async fn its_repair_is_not_stored_in_the_new_log(storage: Storage) {
    for end in ENDS {
        let id = storage.conversation();
        let engine = Engine::new(storage.store.clone());
        let replica = Engine::new(storage.replica().await.store);
        let question = || Message::compose(&SigningDialect, &Role::User, "u").unwrap();
        for exchange in ["one", "two", "three"] {
            let input = TurnInput::new(id.clone(), [question()]).exchange(ExchangeId::new(exchange).unwrap());
            let head = input.request.digest();
            let turn = replica.begin(input).await.unwrap();
            let script = [Say::Thought(SECRET.into()), Say::Text("a".into())];
            let reply = SigningProvider::new("one").reply(head, turn.context(), &script).unwrap();
            turn.commit(Reply::of(reply)).await.unwrap();
        }
        let answer = || vec![Message::compose(&SigningDialect, &Role::Assistant, "a").unwrap()];

        let mut late = begin(&engine, &id, REPEATED, question()).await;
        assert!(late.remedy(&Remedy::WithoutEncrypted, "400").await, "the prompt has reasoning");
        end.of(&storage, &id).await;
        for exchange in [REPEATED, "four", "five", "six"] {
            ask(&replica, &id, exchange, question(), answer()).await;
        }
        let report = late.commit(Reply::of(answer())).await.unwrap();
        assert_eq!(report.outcome.kind(), "duplicate", "{end:?}");

        engine.drain(Duration::from_secs(300)).await.unwrap();
        assert_has_no_compaction(&storage, &id, end).await;
    }
}
