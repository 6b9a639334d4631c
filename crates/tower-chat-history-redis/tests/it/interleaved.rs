//! All orders of the scripts of calls that create, delete, erase and list one conversation at the same time.

use std::sync::{Arc, Mutex};

use libtest_mimic::Trial;
use redis::{
    Cmd, ErrorKind, RedisResult, ServerErrorKind, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
use test_servers::trials;
use tokio::sync::{Semaphore, mpsc};
use tower_chat_history_conformance::shorthand::log_texts;
use tower_chat_history_core::{
    Append, ConversationId, Epoch, Erase, Expect, Fork, ForkTo, HistoryStore, List, Load, Loaded, Prefix, Seq,
    StoreError,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{
    Intercept, Intercepted, TestServer, append, conversation, exchange, intercepted, key, multiplexed, patient, say,
    slot_keys, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_first_turn_among_an_erasure_and_a_listing,
        two_first_turns_among_a_deletion,
        a_fork_among_an_erasure,
        a_fork_among_a_listing,
        a_fork_among_a_deletion_and_a_first_turn,
        an_append_among_an_erasure,
        an_append_to_an_old_conversation_among_a_deletion_and_a_listing,
        two_first_turns_among_an_expiry_and_a_listing,
    ]
}

/// The conversation that forks copy.
fn source_id() -> ConversationId {
    conversation("source")
}

/// A call that runs among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    /// A first turn whose load was before all other calls.
    FirstTurn,
    /// The same on a server that divides its keys, so that it takes two scripts.
    DividedFirstTurn,
    /// An append that expects nothing.
    Append,
    Delete,
    /// An erasure of the conversation's prefix, as `erase_all` makes it.
    Erase,
    /// An expiry of the conversation by its revision.
    EraseIf,
    /// A fork into the conversation, which was absent before all other calls.
    Fork,
    /// The same on a server that divides its keys, so that the exchanges are staged.
    DividedFork,
    List,
}

impl Actor {
    async fn run(self, store: &RedisStore, id: &ConversationId, since: Epoch) -> Result<(), StoreError> {
        let under = Prefix::from(id);
        match self {
            Self::FirstTurn | Self::DividedFirstTurn => {
                let append = Append::new(Expect::AnyOrCreate, exchange("first turn")).since(Some(since));
                store.append(id, append).await.map(drop)
            }
            Self::Append => store.append(id, append("append")).await.map(drop),
            Self::Delete => store.delete(id).await,
            Self::Erase => {
                store.bar(&under).await?;
                store.erase(&under, None, 9).await.map(drop)
            }
            Self::EraseIf => match store.read(id, Seq::FIRST, 1).await?.revision {
                Some(revision) => store.erase_if(id, revision).await.map(drop),
                None => Ok(()),
            },
            Self::Fork | Self::DividedFork => {
                let source = store.read(&source_id(), Seq::FIRST, 1).await?.revision.unwrap();
                let to = ForkTo::new(id.clone(), Seq::new(1)).since(Some(since));
                store.fork(&source_id(), source.incarnation(), to).await.map(drop)
            }
            Self::List => store.list(&under, None, 9).await.map(drop),
        }
    }

    /// Returns true if the call is refused after one that [refuses](Self::bars) first turns.
    const fn is_barred(self) -> bool {
        matches!(self, Self::FirstTurn | Self::DividedFirstTurn | Self::Fork | Self::DividedFork)
    }

    const fn divides_keys(self) -> bool {
        matches!(self, Self::DividedFirstTurn | Self::DividedFork)
    }

    /// Returns true if the call refuses first turns that began before it.
    const fn bars(self) -> bool {
        matches!(self, Self::Delete | Self::Erase)
    }
}

/// A call, by its number, is at its next script or has ended.
#[derive(Debug, PartialEq, Eq)]
enum Arrival {
    AtScript(usize),
    AtEnd(usize),
}

/// Waits for its turn before each script that concerns the conversation.
#[derive(Clone)]
struct Gate {
    marks: Arc<[String]>,
    divides_keys: bool,
    actor: usize,
    arrivals: mpsc::UnboundedSender<Arrival>,
    turns: Arc<Semaphore>,
    sent: Arc<Mutex<Vec<Cmd>>>,
}

impl Intercept for Gate {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let packed = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
        let source = key(&source_id(), "");
        let slots = self.marks.iter().chain([&source]).filter(|mark| packed.contains(*mark)).count();
        if self.divides_keys && slots > 1 {
            return Err((ErrorKind::Server(ServerErrorKind::CrossSlot), "keys of several slots").into());
        }

        if self.marks.iter().any(|mark| packed.contains(mark)) {
            self.arrivals.send(Arrival::AtScript(self.actor)).ok();
            self.turns.acquire().await.unwrap().forget();
            self.sent.lock().unwrap().push(command.clone());
        }
        connection.req_packed_command(command).await
    }
}

struct World {
    test: TestServer,
    connection: MultiplexedConnection,
    id: ConversationId,
    marks: Arc<[String]>,
    actors: Vec<Actor>,
    /// The conversation exists at the beginning.
    exists: bool,
}

/// One step of a schedule: the chosen call, and the number of calls that could take the step.
struct Step {
    chosen: usize,
    of: usize,
}

impl World {
    async fn new(actors: &[Actor], exists: bool) -> Self {
        let test = TestServer::new().await;
        let connection = multiplexed(&test.server).await;
        let id = conversation("raced");
        let marks: Arc<[String]> = [key(&id, ""), slot_keys(&id)[0].clone()].into();
        say(&test.store, &source_id(), "copied").await;
        let gate = Gate {
            marks: Arc::clone(&marks),
            divides_keys: true,
            actor: 0,
            arrivals: mpsc::unbounded_channel().0,
            turns: Arc::new(Semaphore::new(100)),
            sent: Arc::default(),
        };
        let divided = intercepted(&test.server, gate).await;
        let world = Self { test, connection, id, marks, actors: actors.to_vec(), exists };
        // All scripts are on the server, so that each is sent once.
        Actor::DividedFork.run(&divided, &world.id, Epoch::FIRST).await.unwrap();
        world.test.store.erase_if(&world.id, window(&world.test.store, &world.id).await.revision).await.unwrap();
        Actor::Fork.run(&world.test.store, &world.id, Epoch::FIRST).await.unwrap();
        for actor in [Actor::Append, Actor::EraseIf, Actor::FirstTurn, Actor::Delete, Actor::Erase, Actor::List] {
            actor.run(&world.test.store, &world.id, Epoch::FIRST).await.ok();
        }
        world
    }

    /// Runs all calls in one order: as the prefix says, and then always the first call that can run.
    async fn run(&mut self, prefix: &[usize]) -> Vec<Step> {
        self.test.run::<()>(&["FLUSHDB"]);
        say(&self.test.store, &source_id(), "copied").await;
        let loaded = self.test.store.load(&self.id, Load::new()).await.unwrap();
        let Loaded::Absent(since) = loaded else { panic!("{loaded:?}") };
        if self.exists {
            say(&self.test.store, &self.id, "old").await;
        } else {
            // An old name without a conversation, which a listing removes.
            let [names, registered, ..] = slot_keys(&self.id);
            self.test.run::<()>(&["ZADD", &names, "0", self.id.as_str()]);
            self.test.run::<()>(&["ZADD", &registered, "1", self.id.as_str()]);
        }

        let (arrivals, mut arrived) = mpsc::unbounded_channel();
        let mut calls = Vec::new();
        let mut turns = Vec::new();
        let sent = Arc::default();
        for (number, actor) in self.actors.iter().copied().enumerate() {
            let turn = Arc::new(Semaphore::new(0));
            let gate = Gate {
                marks: Arc::clone(&self.marks),
                divides_keys: actor.divides_keys(),
                actor: number,
                arrivals: arrivals.clone(),
                turns: Arc::clone(&turn),
                sent: Arc::clone(&sent),
            };
            let connection = self.connection.clone();
            let store = patient().over(Intercepted { connection, intercept: gate }).await.unwrap();
            let id = self.id.clone();
            let arrivals = arrivals.clone();
            calls.push(tokio::spawn(async move {
                let result = actor.run(&store, &id, since).await;
                arrivals.send(Arrival::AtEnd(number)).unwrap();
                result
            }));
            turns.push(turn);
        }

        // Each call is at its first script.
        for _ in &self.actors {
            arrived.recv().await.unwrap();
        }

        let mut steps = Vec::new();
        let mut running: Vec<_> = (0..calls.len()).collect();
        while !running.is_empty() {
            let chosen = prefix.get(steps.len()).copied().unwrap_or_default();
            steps.push(Step { chosen, of: running.len() });
            let call = running[chosen];
            turns[call].add_permits(1);
            match arrived.recv().await.unwrap() {
                Arrival::AtEnd(ended) => assert_eq!(running.remove(chosen), ended, "only this call can take a step"),
                next @ Arrival::AtScript(_) => {
                    assert_eq!(next, Arrival::AtScript(call), "only this call can take a step");
                }
            }
        }

        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        self.check(&results, &format!("{:?} {prefix:?}", self.actors)).await;

        // The network delivers all requests once more.
        let late = std::mem::take(&mut *sent.lock().unwrap());
        for command in late {
            self.connection.req_packed_command(&command).await.ok();
        }
        self.check(&results, &format!("{:?} {prefix:?}, late", self.actors)).await;
        steps
    }

    async fn check(&mut self, results: &[Result<(), StoreError>], order: &str) {
        for (actor, result) in self.actors.iter().zip(results) {
            let is_refused = actor.is_barred() && matches!(result, Err(StoreError::Gone));
            let is_fork = matches!(actor, Actor::Fork | Actor::DividedFork);
            let is_refused = is_refused || is_fork && matches!(result, Err(StoreError::Conflict { .. }));
            assert!(result.is_ok() || is_refused, "{order}: {actor:?} {result:?}");
        }
        let texts = log_texts(&self.test.store, &self.id).await;
        let names = [self.id.to_string(), source_id().to_string()];
        assert!(texts.is_empty() || self.test.names() == names, "{order}: a name is missing: {texts:?}");
        if self.actors.iter().any(|actor| actor.bars()) {
            let old = ["first turn", "old", "copied"].into_iter().find(|old| texts.iter().any(|text| text == old));
            assert_eq!(old, None, "{order}: it is still there, or came back");
        }
    }

    /// Runs the calls in all orders.
    async fn run_all(&mut self, at_least: usize) {
        let mut prefix = Vec::new();
        let mut orders = 0;
        loop {
            let steps = self.run(&prefix).await;
            orders += 1;
            let Some(last) = steps.iter().rposition(|step| step.chosen + 1 < step.of) else { break };
            prefix = steps[..=last].iter().map(|step| step.chosen).collect();
            prefix[last] += 1;
        }
        assert!(orders >= at_least, "{orders} orders");
    }
}

async fn a_first_turn_among_an_erasure_and_a_listing() {
    World::new(&[Actor::FirstTurn, Actor::Erase, Actor::List], false).await.run_all(240).await;
    World::new(&[Actor::DividedFirstTurn, Actor::Erase, Actor::List], false).await.run_all(1_000).await;
}

async fn two_first_turns_among_a_deletion() {
    for (actors, at_least) in [
        ([Actor::FirstTurn, Actor::FirstTurn], 20),
        ([Actor::FirstTurn, Actor::DividedFirstTurn], 60),
        ([Actor::DividedFirstTurn, Actor::DividedFirstTurn], 200),
    ] {
        World::new(&[actors[0], actors[1], Actor::Delete], false).await.run_all(at_least).await;
    }
}

async fn a_fork_among_an_erasure() {
    World::new(&[Actor::Fork, Actor::Erase], false).await.run_all(25).await;
    World::new(&[Actor::DividedFork, Actor::Erase], false).await.run_all(50).await;
}

async fn a_fork_among_a_listing() {
    World::new(&[Actor::Fork, Actor::List], false).await.run_all(10).await;
    World::new(&[Actor::DividedFork, Actor::List], false).await.run_all(20).await;
}

async fn a_fork_among_a_deletion_and_a_first_turn() {
    World::new(&[Actor::Fork, Actor::Delete, Actor::FirstTurn], false).await.run_all(60).await;
    World::new(&[Actor::DividedFork, Actor::Delete], false).await.run_all(35).await;
}

async fn an_append_among_an_erasure() {
    World::new(&[Actor::Append, Actor::Erase], false).await.run_all(35).await;
}

async fn an_append_to_an_old_conversation_among_a_deletion_and_a_listing() {
    World::new(&[Actor::Append, Actor::Delete, Actor::List], true).await.run_all(50).await;
}

async fn two_first_turns_among_an_expiry_and_a_listing() {
    World::new(&[Actor::FirstTurn, Actor::Append, Actor::EraseIf], true).await.run_all(40).await;
    World::new(&[Actor::DividedFirstTurn, Actor::Append, Actor::EraseIf], true).await.run_all(100).await;
}
