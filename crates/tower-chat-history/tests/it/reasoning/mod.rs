//! Signed reasoning through the engine, with a provider that refuses a signature in another prompt.

mod limits;
mod prompts;
mod retention;
mod retention_properties;
mod trimmed;

use std::sync::Arc;

use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore, MemoryStore, Message, Reply, TurnInput,
    TurnReport,
    dialect::{CallId, Space},
    store::{Cut, Cuts, Load, Loaded, Profile, Role, Seq, Summary, Window},
};

/// A conversation with a provider that signs its reasoning.
struct Talk {
    store: Arc<MemoryStore>,
    engine: Engine,
    provider: SigningProvider,
    id: ConversationId,
    tools: &'static str,
    may_drop_reasoning: bool,
}

impl Talk {
    fn new(options: HistoryOptions) -> Self {
        Self::with(|store| Engine::with_options(store, options))
    }

    fn with(engine: impl FnOnce(Arc<MemoryStore>) -> Engine) -> Self {
        let store = Arc::new(MemoryStore::new());
        let engine = engine(Arc::clone(&store));
        let id = ConversationId::new(["acme", "reasoning"]).unwrap();
        Self { store, engine, provider: SigningProvider::new("one"), id, tools: "", may_drop_reasoning: false }
    }

    async fn try_call(&mut self, message: Message, says: &[Say]) -> Result<Arc<TurnReport>, HistoryError> {
        let mut input = TurnInput::new(self.id.clone(), [message]);
        input.request.tools = Some(self.tools.to_owned());
        input.request.may_drop_reasoning = self.may_drop_reasoning;
        let head = input.request.digest();
        let turn = self.engine.begin(input).await?;
        let reply = self.provider.reply(head, turn.context(), says).unwrap();
        Ok(turn.commit(Reply::of(reply)).await.unwrap())
    }

    async fn call(&mut self, message: Message, says: &[Say]) -> Arc<TurnReport> {
        self.try_call(message, says).await.unwrap()
    }

    async fn window(&self) -> Window {
        match self.store.load(&self.id, Load::new()).await.unwrap() {
            Loaded::Window(window) => window,
            other => panic!("{other:?}"),
        }
    }

    /// Stores a compaction as another process would: it summarizes everything before this position.
    async fn cut_elsewhere(&self, start: u64) {
        let window = self.window().await;
        let mut cut = Cut::window_from(Seq::new(start));
        cut.set_summary(Summary::new("what was said"), Seq::new(start));
        let replaced = window.compaction.as_ref().map(|compaction| Cuts::read(compaction).unwrap().cut);
        let cuts = Cuts::new(cut).replacing(replaced);
        let compact = cuts.compact(Profile::default(), window.compaction_version()).unwrap();
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.unwrap();
    }
}

fn question() -> Message {
    Message::compose(&SigningDialect, &Role::User, "and?").unwrap()
}

fn result() -> Message {
    let id = CallId::new(Space::DEFAULT, "x");
    Message::in_dialect(&SigningDialect, SigningDialect::results([(&id, "r")], None)).unwrap()
}

fn answers() -> [Say; 2] {
    [Say::Thought("hm".into()), Say::Text("so".into())]
}

fn asks() -> [Say; 2] {
    [Say::Thought("hm".into()), Say::Call { space: Space::DEFAULT, id: "x".into() }]
}
