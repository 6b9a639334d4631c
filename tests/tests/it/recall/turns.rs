//! Recalled messages in every store, through the typed integration.

use async_trait::async_trait;
use tests::{BOTH_KINDS, Chat, Storage, UNDERSTOOD, exchanges, over_every_store, prompts, short, user_call};
use tower_chat_history::HistoryStore as _;
use tower_chat_history::{
    ContextBudget, HistoryOptions, HistoryStoreExt as _,
    recall::{PrepareRequest, Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    store::{Citation, Cuts, Load, Loaded, Recalled, Seq},
};
use tower_chat_history_test::{Replies, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    recalled_messages_are_sent_before_the_input_and_stored_byte_for_byte,
    a_stored_compaction_leaves_recalled_messages_out,
}

/// A search that shows the same messages again and again.
#[derive(Debug)]
struct Constant;

const TEXT: &str = "<earlier_messages>\n{\"text\":\"\u{1f436} Rex \\u0000 \\\\ \"}\n</earlier_messages>";

fn citations() -> Vec<Citation> {
    vec![Citation::new(Seq::FIRST, 0..1), Citation::new(Seq::new(1), 0..2)]
}

#[async_trait]
impl Recall for Constant {
    async fn recall(&self, _: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        Ok(Recollection::shown(Recalled::new(TEXT, citations())))
    }

    async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
        Ok(false)
    }
}

fn chat(storage: &Storage) -> Chat {
    let budget = ContextBudget::tokens(1_000).reply_reserve(100).calibrate(false);
    let options = HistoryOptions::new().context(budget).recall(RecallOptions::new(Constant).percent(20));
    Chat::with_options(storage, Replies::rules(|_| Reply::text("word ".repeat(40))), options)
}

async fn recalled_messages_are_sent_before_the_input_and_stored_byte_for_byte(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (chat(&storage), storage.conversation());
        let mut tokens = Vec::new();
        for turn in 0..20 {
            let (call, report) = user_call(&id, &format!("u{turn} {}", "word ".repeat(40))).with_report();
            chat.call(kind, call).await.unwrap();
            tokens.push(report.await.unwrap().recall.as_ref().map(|recall| recall.tokens));
        }
        // Another process reads them.
        let other = storage.replica().await;
        let log = exchanges(&other.store, &id).await;
        let sent = prompts(&chat.llm);
        let expected = Recalled::new(TEXT, citations());
        let mut recalled = 0;
        for (turn, recorded) in log.iter().enumerate() {
            let Some(stored) = &recorded.exchange.recalled else {
                assert_eq!(tokens[turn], None);
                continue;
            };
            assert_eq!((&stored.message, &stored.citations), (&expected.message, &expected.citations));
            assert_eq!(stored.message.json(), expected.message.json());
            assert_eq!(stored.tokens.map(u64::from), tokens[turn]);
            let prompt = &sent[turn];
            assert_eq!(prompt[prompt.len() - 3..prompt.len() - 1], [short(&expected.message), UNDERSTOOD.to_owned()]);
            assert!(prompt[prompt.len() - 1].starts_with(&format!("user: u{turn}")));
            recalled += 1;
        }
        assert!(recalled > 5, "{recalled}");
        let messages = other.store.conversation(&id).messages().await.unwrap();
        assert_eq!(messages.len(), 40, "they are not messages of the log");
    }
}

async fn a_stored_compaction_leaves_recalled_messages_out(storage: Storage) {
    let id = storage.conversation();
    let (mut before, mut compactions, mut stable) = (Vec::new(), 0, 0);
    for turn in 0..30 {
        // Each turn is made by another process.
        let replica = storage.replica().await;
        let chat = chat(&replica);
        let (call, report) = user_call(&id, &format!("u{turn} {}", "word ".repeat(40))).with_report();
        chat.call(tests::CallKind::Unary, call).await.unwrap();
        let prompt = prompts(&chat.llm).remove(0);
        if report.await.unwrap().tokens.unwrap().compacted {
            compactions += 1;
            let Loaded::Window(window) = replica.store.load(&id, Load::new()).await.unwrap() else { panic!("absent") };
            let cut = Cuts::read(&window.compaction.unwrap()).unwrap().cut;
            assert!(cut.window_start > Seq::FIRST);
            assert!(compactions == 1 || cut.recalled_from == Seq::new(turn), "turn {turn}: {cut:?}");
            let recalled = prompt.iter().filter(|message| message.contains("earlier_messages")).count();
            assert_eq!(recalled, 1, "only those of this turn");
        } else {
            assert!(prompt.starts_with(&before), "turn {turn}");
            stable += 1;
        }
        before = prompt;
    }
    assert!(compactions > 2 && stable > 10, "{compactions} {stable}");
}
