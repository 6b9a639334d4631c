//! A search with scripted answers, and a conversation that uses it.

#![allow(unreachable_pub)] // Each test module uses a part of it.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tower_chat_history::{
    ContextBudget, ConversationId, Engine, Exchange, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore,
    Message, Reply, Turn, TurnInput, TurnReport,
    recall::{PrepareRequest, Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    store::{Citation, CompactOutcome, Cut, Cuts, Load, Loaded, Profile, Recalled, Recorded, Revision, Seq, Window},
};
use tower_chat_history_test::{FaultStore, check_chat_rules};

/// The answer to a search.
#[derive(Debug)]
pub enum Answer {
    /// Nothing matters enough.
    Nothing,
    /// This text, as a message that cites the exchange before the prompt's start.
    Text(String),
    /// These messages.
    Shows(Recalled),
    /// Nothing, and this number of exchanges is not prepared.
    Unprepared(u64),
    Fails(RecallError),
    /// Nothing, after this time.
    Late(Duration),
}

/// The outcome of a preparation.
#[derive(Clone, Debug)]
pub enum Preparation {
    Ends,
    /// It ends, and has work left.
    HasMore,
    Fails,
    Panics,
    /// It ends after a permit is there.
    Waits(Arc<Semaphore>),
}

/// The data of a search that was made.
#[derive(Clone, Debug)]
pub struct Search {
    pub revision: Option<Revision>,
    pub before: Seq,
    pub input: Vec<Message>,
    pub shown: Vec<Citation>,
    pub allowance: u64,
}

/// A search whose answers a function gives, by the number of the search. It collects the requests. Clones share them.
#[derive(Clone)]
pub struct ScriptedRecall {
    answers: Arc<dyn Fn(usize, &Search) -> Answer + Send + Sync>,
    preparation: Preparation,
    covers_others: bool,
    searches: Arc<Mutex<Vec<Search>>>,
    prepared: Arc<Mutex<Vec<(ConversationId, Revision, Seq)>>>,
    preparing: Arc<AtomicUsize>,
    most_preparing: Arc<AtomicUsize>,
}

impl ScriptedRecall {
    pub fn new(answers: impl Fn(usize, &Search) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            answers: Arc::new(answers),
            preparation: Preparation::Ends,
            covers_others: false,
            searches: Arc::default(),
            prepared: Arc::default(),
            preparing: Arc::default(),
            most_preparing: Arc::default(),
        }
    }

    /// Finds nothing for the turns of [`Chat::until_moved`]. Other searches are numbered from 0 on.
    pub fn after_fillers(answers: impl Fn(usize, &Search) -> Answer + Send + Sync + 'static) -> Self {
        let searches = AtomicUsize::new(0);
        Self::new(move |_, search| {
            let is_filler = search.input[0].text().starts_with("filler");
            if is_filler { Answer::Nothing } else { answers(searches.fetch_add(1, Relaxed), search) }
        })
    }

    /// Shows a text of about 20 tokens with the number of the search, [after the fillers](Self::after_fillers).
    pub fn numbered() -> Self {
        Self::after_fillers(|number, _| Answer::Text(format!("recalled {number} {}", "r".repeat(60))))
    }

    pub fn preparing(mut self, preparation: Preparation) -> Self {
        self.preparation = preparation;
        self
    }

    pub fn covering_others(mut self) -> Self {
        self.covers_others = true;
        self
    }

    pub fn searches(&self) -> Vec<Search> {
        self.searches.lock().unwrap().clone()
    }

    /// Returns the revision and the start of the window of each preparation.
    pub fn prepared(&self) -> Vec<(Revision, Seq)> {
        self.prepared.lock().unwrap().iter().map(|(_, revision, before)| (*revision, *before)).collect()
    }

    /// Returns the conversation of each preparation.
    pub fn prepared_conversations(&self) -> Vec<ConversationId> {
        self.prepared.lock().unwrap().iter().map(|(id, ..)| id.clone()).collect()
    }

    /// Returns the largest number of preparations that ran at the same time.
    pub fn most_preparing(&self) -> usize {
        self.most_preparing.load(Relaxed)
    }
}

impl fmt::Debug for ScriptedRecall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedRecall").field("preparation", &self.preparation).finish_non_exhaustive()
    }
}

#[async_trait]
impl Recall for ScriptedRecall {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        let RecallRequest { revision, before, input, shown, allowance, .. } = request;
        let search = Search { revision, before, input: input.to_vec(), shown: shown.to_vec(), allowance };
        let number = {
            let mut searches = self.searches.lock().unwrap();
            searches.push(search.clone());
            searches.len() - 1
        };
        match (self.answers)(number, &search) {
            Answer::Nothing => Ok(Recollection::nothing()),
            Answer::Text(text) => Ok(Recollection::shown(block(&text, before))),
            Answer::Shows(recalled) => Ok(Recollection::shown(recalled)),
            Answer::Unprepared(exchanges) => {
                let mut nothing = Recollection::nothing();
                nothing.unprepared = exchanges;
                Ok(nothing)
            }
            Answer::Fails(error) => Err(error),
            Answer::Late(time) => {
                tokio::time::sleep(time).await;
                Ok(Recollection::nothing())
            }
        }
    }

    fn covers_others(&self, _: &ConversationId) -> bool {
        self.covers_others
    }

    async fn prepare(&self, request: PrepareRequest<'_>) -> Result<bool, RecallError> {
        let PrepareRequest { conversation, revision, before, .. } = request;
        self.prepared.lock().unwrap().push((conversation.clone(), revision, before));
        let running = self.preparing.fetch_add(1, Relaxed) + 1;
        self.most_preparing.fetch_max(running, Relaxed);
        if let Preparation::Waits(permits) = &self.preparation {
            permits.acquire().await.unwrap().forget();
        }
        self.preparing.fetch_sub(1, Relaxed);
        match self.preparation {
            Preparation::Ends | Preparation::Waits(_) => Ok(false),
            Preparation::HasMore => Ok(true),
            Preparation::Fails => Err(RecallError::search("hush: the index is broken")),
            Preparation::Panics => panic!("the preparation panics on demand"),
        }
    }
}

/// Returns a message with this text that cites the exchange before this position.
pub fn block(text: &str, before: Seq) -> Recalled {
    Recalled::new(text, vec![Citation::new(Seq::new(before.get() - 1), 0..1)])
}

pub fn id() -> ConversationId {
    ConversationId::new(["tests", "recall"]).unwrap()
}

/// Returns a budget of 1,800 tokens for the prompt, counted by bytes. The allowance of recalled messages is 216 tokens,
/// and 54 are reserved.
pub fn budget() -> ContextBudget {
    ContextBudget::tokens(2_000).reply_reserve(200).calibrate(false)
}

/// Returns options with this search and this [budget].
pub fn options(recall: &ScriptedRecall) -> HistoryOptions {
    HistoryOptions::new().context(budget()).recall(RecallOptions::new(recall.clone()))
}

/// A conversation of one engine.
pub struct Chat {
    pub engine: Engine,
    pub store: FaultStore<MemoryStore>,
    pub recall: ScriptedRecall,
}

impl Chat {
    pub fn new(recall: ScriptedRecall) -> Self {
        let options = options(&recall);
        Self::with_options(recall, options)
    }

    pub fn with_options(recall: ScriptedRecall, options: HistoryOptions) -> Self {
        let store = FaultStore::new(MemoryStore::new());
        Self { engine: Engine::with_options(store.clone(), options), store, recall }
    }

    /// Begins a turn. Asserts that its context is valid.
    pub async fn begin(&self, input: impl IntoIterator<Item = Message>) -> Turn {
        let turn = self.engine.begin(TurnInput::new(id(), input)).await.unwrap();
        check_chat_rules(turn.context()).unwrap();
        turn
    }

    /// Runs a turn of about 200 tokens. Returns its context and its report.
    pub async fn turn(&self, text: &str) -> (Vec<Message>, Arc<TurnReport>) {
        let turn = self.begin([question(text)]).await;
        let context = turn.context().to_vec();
        (context, turn.commit(Reply::new(answer())).await.unwrap())
    }

    /// Runs turns until the window has moved, that is, until a search would be made for the next turn. Returns the
    /// number of turns.
    pub async fn until_moved(&self) -> usize {
        for number in 0..40 {
            let (_, report) = self.turn(&format!("filler {number}")).await;
            if report.tokens.unwrap().compacted {
                return number + 1;
            }
        }
        panic!("the window did not move");
    }

    pub async fn window(&self) -> Window {
        let Loaded::Window(window) = self.store.get_ref().load(&id(), Load::new()).await.unwrap() else {
            panic!("absent")
        };
        window
    }

    /// Stores a compaction whose window starts at this position, as another process may do.
    pub async fn cut(&self, start: Seq) {
        let window = self.window().await;
        let cuts = Cuts::new(Cut::window_from(start));
        let compact = cuts.compact(Profile::default(), window.compaction_version()).unwrap();
        let stored = self.store.compact(&id(), window.revision.incarnation(), compact).await.unwrap();
        assert!(matches!(stored, CompactOutcome::Stored(_)));
    }

    pub async fn log(&self) -> Vec<Recorded> {
        self.store.get_ref().conversation(&id()).exchanges().await.unwrap()
    }

    /// Returns the newest exchange.
    pub async fn last(&self) -> Recorded {
        self.log().await.pop().unwrap()
    }

    pub async fn last_exchange(&self) -> Exchange {
        Exchange::clone(&self.last().await.exchange)
    }
}

pub fn question(text: &str) -> Message {
    Message::user(format!("{text} {}", "q".repeat(400)))
}

pub fn answer() -> Message {
    Message::assistant("a".repeat(400))
}

/// Returns the messages that begin with "recalled".
pub fn recalled(context: &[Message]) -> Vec<String> {
    let texts = context.iter().map(|message| message.text().into_owned());
    texts.filter(|text| text.starts_with("recalled")).collect()
}
