//! Calls that are repeated without encrypted items, because the provider cannot read them any more.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p tests --test it repair -- --nocapture` tests more cases, and prints
//! the numbers of calls.

mod property;
mod provider;

use std::sync::{Arc, Mutex};

use http::Request;
use http_body_util::BodyExt as _;
use tests::{FullStore, Storage, over_every_store};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, HistoryStore,
    HistoryStoreExt as _, TurnReport,
    adapt::extract::FromExtensions,
    engine::InputMode,
    http::HttpHistory,
    refusal::Remedy,
    report::{NotStored, TurnOutcome},
    store::{Cut, Cuts, Load, Loaded, Seq},
};
use tower_chat_history_test::responses::Say;

use self::provider::Provider;

over_every_store! {
    #[tokio::test]
    an_item_that_the_provider_cannot_read,
    a_second_refusal,
}

const QUESTION: &str = r#"{"role":"user","content":"And what about this one?"}"#;

/// A replica of a program: a layer around the provider.
struct Replica {
    layer: ChatHistoryLayer<HttpHistory<FromExtensions>>,
    provider: Provider,
    id: ConversationId,
    reports: Arc<Mutex<Vec<TurnReport>>>,
}

impl Replica {
    fn new(store: impl HistoryStore, provider: Provider, id: ConversationId, window: Option<u32>) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let mut options = HistoryOptions::new().on_turn({
            let reports = Arc::clone(&reports);
            move |report| reports.lock().unwrap().push(report.clone())
        });
        if let Some(window) = window {
            let budget = ContextBudget::tokens(window).reply_reserve(20).calibrate(false);
            options = options.context(ContextOptions::new().budget(budget));
        }
        let adapter = HttpHistory::new().input_mode(InputMode::New).extract_by(FromExtensions::new());
        let layer = ChatHistoryLayer::from_engine(Engine::with_options(store, options), adapter);
        Self { layer, provider, id, reports }
    }

    /// Sends these items. Returns the status and the text of the response.
    async fn send(&self, input: &[String], streams: bool) -> Result<(u16, String), BoxError> {
        let provider = self.provider.clone();
        let service = service_fn(move |request| provider.clone().respond(request));
        let body = format!(r#"{{"model":"gpt-5.5","store":false,"input":[{}],"stream":{streams}}}"#, input.join(","));
        let request = Request::post("https://api.openai.com/v1/responses").extension(self.id.clone());
        let response = self.layer.layer(service).oneshot(request.body(body).unwrap()).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec()).unwrap()))
    }

    async fn ask(&self) -> (u16, String) {
        self.provider.prepare(&[Say::reasoning(), Say::text("so")]);
        self.send(&[QUESTION.to_owned()], false).await.unwrap()
    }

    fn report(&self) -> TurnReport {
        self.reports.lock().unwrap().last().unwrap().clone()
    }
}

/// Returns the stored cut.
async fn cut(store: &impl HistoryStore, id: &ConversationId) -> Option<Cut> {
    match store.load(id, Load::new()).await.unwrap() {
        Loaded::Window(window) => window.compaction.map(|compaction| Cuts::read(&compaction).unwrap().cut),
        _ => None,
    }
}

/// Returns two replicas over a store.
fn replicas(storage: &Storage) -> [Replica; 2] {
    let (provider, id) = (Provider::new(), storage.conversation());
    [(); 2].map(|()| Replica::new(storage.store.clone(), provider.clone(), id.clone(), None))
}

async fn an_item_that_the_provider_cannot_read(storage: Storage) {
    let [one, two] = replicas(&storage);
    for _ in 0..2 {
        assert_eq!(one.ask().await.0, 200);
    }
    one.provider.rotate_key();
    assert_eq!(one.ask().await.0, 200);
    assert_eq!((one.provider.requests().len(), one.provider.refused()), (4, 1));
    assert!(
        one.report().remedies == [Remedy::WithoutEncrypted]
            && matches!(one.report().outcome, TurnOutcome::Stored { .. })
    );
    let stored = cut(&storage.store, &one.id).await.unwrap();
    assert_eq!((stored.window_start, stored.encrypted_from), (Seq::FIRST, Seq::new(2)));
    // Neither replica is refused again, also after a truncation.
    assert_eq!((two.ask().await.0, one.ask().await.0), (200, 200));
    storage.store.conversation(&one.id).truncate(Seq::new(2)).await.unwrap();
    assert_eq!(cut(&storage.store, &one.id).await.unwrap().encrypted_from, Seq::new(2));
    assert_eq!((two.ask().await.0, one.provider.refused()), (200, 1));
}

async fn a_second_refusal(storage: Storage) {
    let [one, _] = replicas(&storage);
    assert_eq!(one.ask().await.0, 200);
    one.provider.rotate_key();
    one.provider.prepare(&[Say::text("so")]);
    let unknown = r#"{"type":"item_reference","id":"rs_unknown"}"#.to_owned();
    let (status, body) = one.send(&[QUESTION.to_owned(), unknown], false).await.unwrap();
    assert!(status == 404 && body.contains("rs_unknown"), "{status} {body}");
    assert_eq!((one.provider.requests().len(), one.provider.refused()), (3, 2));
    let report = one.report();
    assert!(
        report.remedies == [Remedy::WithoutEncrypted]
            && matches!(report.outcome, TurnOutcome::NotStored(NotStored::CallFailed)),
        "{report:?}"
    );
    let log = storage.store.conversation(&one.id).exchanges().await.unwrap();
    assert_eq!((log.len(), cut(&storage.store, &one.id).await), (1, None));
}

/// Opens a handle of a store for a replica.
type Open<'a> = &'a dyn Fn() -> Arc<dyn FullStore>;
