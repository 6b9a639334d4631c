//! Conversations with a constant window.

use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore as _, MemoryStore, Message,
    store::{Append, Cut, Cuts, Expect, Load, Loaded, Profile, Provenance, Seq},
};

use crate::{WINDOW, conversation};

/// The number of turns before a conversation is recreated, however short it is. That work is not measured, but it takes
/// the other conversations out of the CPU's caches.
const MIN_GROWTH: usize = 64;

/// A conversation in memory with a constant window.
#[derive(Debug)]
pub struct FixedWindow {
    /// The store.
    pub store: MemoryStore,
    /// The conversation.
    pub id: ConversationId,
    turn: [Message; 2],
    /// The messages of the log, two for each turn. No two of them share memory, as in a log that was loaded.
    own: Vec<Message>,
    provenance: Option<Box<Provenance>>,
    turns: usize,
    more: usize,
    /// The number of messages of the window.
    window: usize,
}

impl FixedWindow {
    /// Creates a conversation that has this turn many times. Its window has [`WINDOW`] messages.
    pub async fn of_turn(turns: usize, turn: [Message; 2]) -> Self {
        Self::of_turn_made(turns, turn, None).await
    }

    /// Creates the same. Each exchange has this provenance.
    pub async fn of_turn_made(turns: usize, turn: [Message; 2], provenance: Option<Box<Provenance>>) -> Self {
        Self::in_store(MemoryStore::new(), 0, turns, turn, provenance, WINDOW).await
    }

    /// Creates the same in this store, as the [conversation](conversation()) with this number, and with this number of
    /// messages in the window.
    pub async fn in_store(
        store: MemoryStore,
        number: usize,
        turns: usize,
        turn: [Message; 2],
        provenance: Option<Box<Provenance>>,
        window: usize,
    ) -> Self {
        let copy =
            |message: &Message| Message::in_dialect(message.dialect().unwrap(), message.json().to_owned()).unwrap();
        let own = (0..turns).flat_map(|_| turn.each_ref().map(copy)).collect();
        let kept = Self { store, id: conversation(number), own, turn, provenance, turns, more: 0, window };
        kept.begin().await;
        kept
    }

    /// Returns the turn.
    #[must_use]
    pub fn turn(&self) -> [Message; 2] {
        self.turn.clone()
    }

    async fn begin(&self) {
        self.store.delete(&self.id).await.unwrap();
        for own in self.own.chunks(2) {
            let mut exchange = Exchange::new(ExchangeId::generate(), own.iter().cloned());
            exchange.provenance.clone_from(&self.provenance);
            self.store.append(&self.id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
        }
        self.cut().await;
    }

    /// Stores a compaction that restores the size of the window.
    async fn cut(&self) {
        let start = self.turns + self.more - self.window / 2;
        let Loaded::Window(window) = self.store.load(&self.id, Load::new()).await.unwrap() else { return };
        let cut = Cut::window_from(Seq::new(start as u64));
        let compact = Cuts::new(cut).compact(Profile::default(), window.compaction_version()).unwrap();
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.unwrap();
    }

    /// Restores the size of the window after a turn. Recreates the conversation after it has grown by a tenth, and by
    /// a minimum.
    pub async fn restore(&mut self) {
        self.more += 1;
        if self.more > MIN_GROWTH.max(self.turns / 10) {
            self.more = 0;
            self.begin().await;
        } else {
            self.cut().await;
        }
    }
}
