//! The cases of translations and of compactions that a provider makes, through the engine.

mod compactions;
mod resent;
mod turns;

use std::sync::Arc;

use tests::Storage;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore as _, HistoryStoreExt as _, Message, Policies,
    Reply, TurnInput, TurnReport,
    dialect::Dialect,
    error::OtherDialect,
    policy::OnOtherDialect,
    store::{Cut, Cuts, Load, Loaded, Profile, Recorded, Role, Summary},
};

/// A conversation.
struct Talk {
    storage: Storage,
    id: ConversationId,
}

/// The prompt of a turn, and its report.
type Turned = (Vec<String>, Arc<TurnReport>);

impl Talk {
    fn new(storage: Storage) -> Self {
        Self { id: storage.conversation(), storage }
    }

    fn engine(&self, options: HistoryOptions) -> Engine {
        Engine::with_options(self.storage.store.clone(), options)
    }

    fn input(&self, input: impl IntoIterator<Item = Message>) -> TurnInput {
        TurnInput::new(self.id.clone(), input)
    }

    /// Makes a turn with this input and this reply.
    async fn turn(&self, engine: &Engine, input: TurnInput, reply: Vec<Message>) -> Turned {
        let turn = engine.begin(input).await.unwrap();
        let prompt = turn.context().iter().map(|message| message.json().to_owned()).collect();
        (prompt, turn.commit(Reply::of(reply)).await.unwrap())
    }

    /// Makes a turn with a question and an answer.
    async fn ask(&self, engine: &Engine, dialect: &'static dyn Dialect, text: &str) -> Turned {
        let [question, answer] = [Role::User, Role::Assistant].map(|role| said(dialect, &role, text));
        self.turn(engine, self.input([question]), vec![answer]).await
    }

    async fn refused(&self, engine: &Engine, input: TurnInput) -> HistoryError {
        engine.begin(input).await.unwrap_err()
    }

    /// Stores a compaction as another process would.
    async fn summarize_all_but_the_last_turn(&self) {
        let store = &self.storage.store;
        let Loaded::Window(window) = store.load(&self.id, Load::new()).await.unwrap() else {
            panic!("nothing is stored")
        };
        let turn = window.exchanges.iter().rfind(|recorded| recorded.exchange.opens_turn()).unwrap().seq;
        let mut cut = Cut::window_from(turn);
        cut.set_summary(Summary::new("what was said"), turn);
        let compact = Cuts::new(cut).compact(Profile::default(), window.compaction_version()).unwrap();
        store.compact(&self.id, window.revision.incarnation(), compact).await.unwrap();
    }

    async fn log(&self) -> Vec<Recorded> {
        self.storage.store.conversation(&self.id).exchanges().await.unwrap()
    }
}

fn translating() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_other_dialect(OnOtherDialect::Translate))
}

fn said(dialect: &'static dyn Dialect, role: &Role, text: &str) -> Message {
    Message::compose(dialect, role, text).unwrap()
}

fn element(dialect: &'static dyn Dialect, json: &str) -> Message {
    Message::in_dialect(dialect, json).unwrap()
}

fn other_dialect(error: HistoryError) -> OtherDialect {
    match error {
        HistoryError::OtherDialect(error) => error,
        error => panic!("{error}"),
    }
}
