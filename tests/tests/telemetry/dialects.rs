//! Turns whose history is in another dialect.

use serde_json::{Value, json};
use tests::{Chat, Storage, over_every_store};
use tower_chat_history::{
    ConversationId, HistoryOptions, Message, Policies, Reply, TurnInput,
    dialect::{AnthropicMessages, ChatCompletions, Dialect},
    policy::OnOtherDialect,
    store::Role,
};

use crate::{content::conversation, paths::Paths, seen::ReceivedSpan, trace::traced};

over_every_store! {
    #[tokio::test(start_paused = true)]
    translated_exchanges_are_counted,
}

fn options() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_other_dialect(OnOtherDialect::Translate))
}

async fn turn(chat: &Chat, id: &ConversationId, dialect: &'static dyn Dialect, texts: [&str; 2]) {
    let [question, answer] = texts;
    let said = |role, text| Message::compose(dialect, &role, text).unwrap();
    let turn = chat.engine().begin(TurnInput::new(id.clone(), [said(Role::User, question)])).await.unwrap();
    turn.commit(Reply::new(said(Role::Assistant, answer))).await.unwrap();
}

impl Paths<'_> {
    pub(crate) async fn another_dialect(&self) {
        let (chat, id) = (self.chat([], options()), conversation());
        for dialect in [&ChatCompletions as &'static dyn Dialect, &AnthropicMessages] {
            turn(&chat, &id, dialect, ["mark-user", "mark-reply"]).await;
        }
    }
}

async fn translated_exchanges_are_counted(storage: Storage) {
    let (chat, id) = (Chat::with_options(&storage, [], options()), storage.conversation());
    let (_, trace) = traced(async {
        for dialect in [&ChatCompletions as &'static dyn Dialect, &ChatCompletions, &AnthropicMessages] {
            turn(&chat, &id, dialect, ["u", "a"]).await;
        }
    })
    .await;
    let translated = |turn: &ReceivedSpan| turn["chat_history.exchanges.translated"].clone();
    let translated: Vec<Value> = trace.all("chat_history").into_iter().map(translated).collect();
    assert_eq!(translated, [Value::Null, Value::Null, json!(2)]);
}
