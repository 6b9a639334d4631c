//! The lanes that keep the conversations of [people](crate::people): they store, label and list them, and remove some in
//! every way. Late calls run at the same time as the removals and after them: none may bring a conversation back.

mod calls;
mod late;
mod remove;

use tower_chat_history::{
    BoxError,
    store::{Epoch, Incarnation, LabelsOutcome, LabelsVersion, Load, Loaded, Revision},
};

use self::remove::WAYS;
use super::Worker;
use crate::{
    people::{MAX_EXCHANGES, Owned, PLACES, Person, State},
    protocol::WorkerMessage,
    rng::SeededRng,
};

/// One person in this many is erased as a whole in the end, so that a long run does not store ever more.
const ERASE_ALL_ONCE_IN: u64 = 2;

/// The conversations of the person of a lane.
struct Life {
    person: Person,
    /// By place.
    conversations: [Kept; PLACES.len()],
}

/// The state of a conversation, as its lane knows it.
#[derive(Clone, Copy, Default)]
struct Kept {
    /// The number of the present life or of the last one.
    life: u32,
    /// The revision, or `None` if the conversation does not exist.
    revision: Option<Revision>,
    /// The size of its messages in bytes.
    bytes: u64,
    /// The epoch of the load before it was created.
    epoch: Option<Epoch>,
    /// The incarnation that has ended.
    ended: Option<Incarnation>,
}

impl Worker {
    /// Keeps the conversations of one person after the other.
    pub(super) async fn keep_people(&self, mut rng: SeededRng) -> Result<(), BoxError> {
        let mut number = 0;
        while !self.is_stopped() {
            let mut life =
                Life { person: Person { worker: self.args.number, number }, conversations: Default::default() };
            self.keep(&mut life, &mut rng).await?;
            number += 1;
        }
        Ok(())
    }

    async fn keep(&self, life: &mut Life, rng: &mut SeededRng) -> Result<(), BoxError> {
        let first = rng.index(WAYS.len());
        for way in WAYS.iter().cycle().skip(first).take(WAYS.len()) {
            // At first all of them, then those that the last way has removed.
            for owned in life.person.all_places() {
                if life.conversations[owned.place].revision.is_none() {
                    self.create(life, owned, rng).await?;
                }
            }
            self.check_listing(life, rng).await?;
            let removed = self.remove(life, *way, rng).await?;
            self.check_late_calls(life, &removed).await?;
            self.check_listing(life, rng).await?;
        }
        if rng.once_in(ERASE_ALL_ONCE_IN) {
            self.erase(life, life.person.prefix()?, life.person.all_places().collect()).await?;
            self.check_listing(life, rng).await?;
        }
        Ok(())
    }

    fn report(&self, owned: Owned, state: State) -> std::io::Result<()> {
        self.output.write(&WorkerMessage::Owned { owned, state })
    }

    /// Stores a conversation, which must be absent, with its labels.
    async fn create(&self, life: &mut Life, owned: Owned, rng: &mut SeededRng) -> Result<(), BoxError> {
        let id = owned.id()?;
        let epoch = match self.again(owned, || self.used.load(&id, Load::new())).await? {
            Ok(Loaded::Absent(epoch)) => epoch,
            other => return self.output.violation(format!("{owned} is not absent: {other:.200?}")).map_err(Into::into),
        };
        let number = life.conversations[owned.place].life + 1;
        self.report(owned, State::Begins { life: number })?;
        let (mut revision, mut bytes) = (None, 0);
        let exchanges = rng.between(1, MAX_EXCHANGES);
        for seq in 0..exchanges {
            let exchange = owned.exchange(number, seq)?;
            bytes += exchange.bytes() as u64;
            match self.append(owned, exchange, revision, epoch).await? {
                Some(stored) => revision = Some(stored),
                None => return Ok(()),
            }
        }
        let kept = Kept { life: number, revision, bytes, epoch: Some(epoch), ended: None };
        if let Some(revision) = revision {
            self.label(owned, revision.incarnation(), number).await?;
        }
        life.conversations[owned.place] = kept;
        self.report(owned, State::Kept { life: number, exchanges })?;
        Ok(())
    }

    async fn label(&self, owned: Owned, incarnation: Incarnation, life: u32) -> Result<(), BoxError> {
        let (id, labels) = (owned.id()?, owned.labels(life)?);
        if labels.is_empty() {
            return Ok(());
        }
        let set = || self.used.set_labels(&id, incarnation, LabelsVersion::NONE, labels.clone());
        let done = match self.again(owned, set).await? {
            Ok(LabelsOutcome::Stored(_)) => true,
            // The answer of the first attempt was lost.
            Ok(LabelsOutcome::Kept(kept, _)) => kept == labels,
            Err(_) => false,
        };
        if !done {
            self.output.violation(format!("the labels of {owned} were not stored"))?;
        }
        Ok(())
    }
}
