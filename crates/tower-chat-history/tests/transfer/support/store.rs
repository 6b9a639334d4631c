//! A store in memory that fails and changes on demand.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
};

use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, Erase, ErasedPage, HistoryStore, LabelsOutcome, List, Listed, Listing,
    Load, Loaded, Page, Scrubbed, StoreError, Window,
};
use tower_chat_history_core::{
    ByStore, Compaction, ConversationId, Cursor, Incarnation, Labels, LabelsVersion, Prefix, Profile, Recorded,
    Removed, Revision, Seq, Timestamp, backend::Erasures,
};

#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) incarnation: Incarnation,
    pub(crate) first: Seq,
    pub(crate) exchanges: Vec<Recorded>,
    pub(crate) compactions: HashMap<Profile, Compaction>,
    pub(crate) labels: Labels,
    pub(crate) labels_version: LabelsVersion,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Log {
    pub(crate) fn revision(&self) -> Revision {
        Revision::new(self.incarnation, self.first.get() + self.exchanges.len() as u64).beginning_at(self.first)
    }

    /// Removes the exchanges before this position.
    pub(crate) fn prune(&mut self, first: Seq) {
        self.exchanges.retain(|recorded| recorded.seq >= first);
        self.first = first;
    }

    fn listed(&self, id: &ConversationId) -> Listed {
        let bytes = self.exchanges.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
        Listed::new(id.clone(), self.revision(), self.created_at, self.updated_at, bytes)
            .labels(self.labels.clone(), self.labels_version)
    }

    fn removed(&self) -> Removed {
        let mut removed = Removed::default();
        removed.conversations = 1;
        removed.exchanges = self.exchanges.len() as u64;
        removed
    }
}

pub(crate) type Logs = BTreeMap<String, Log>;

type Hook = Box<dyn FnMut(&str, &mut Logs) -> Result<(), StoreError> + Send>;

#[derive(Default)]
struct State {
    logs: Logs,
    erasures: Erasures,
    hook: Option<Hook>,
}

/// A store in memory. A hook is called before each call.
#[derive(Clone, Default)]
pub(crate) struct TestStore(Arc<Mutex<State>>);

impl TestStore {
    pub(crate) fn logs(&self) -> Logs {
        self.0.lock().unwrap().logs.clone()
    }

    /// Calls this before each call of the store, with the name of the method.
    pub(crate) fn before_each(&self, hook: impl FnMut(&str, &mut Logs) -> Result<(), StoreError> + Send + 'static) {
        self.0.lock().unwrap().hook = Some(Box::new(hook));
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Logs) -> T) -> T {
        change(&mut self.0.lock().unwrap().logs)
    }

    fn call<T>(&self, name: &str, call: impl FnOnce(&mut State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut state = self.0.lock().unwrap();
        let State { logs, hook, .. } = &mut *state;
        if let Some(hook) = hook {
            hook(name, logs)?;
        }
        call(&mut state)
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestStore")
    }
}

#[async_trait::async_trait]
impl HistoryStore for TestStore {
    fn system(&self) -> &'static str {
        "test"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.call("load", |state| {
            let Some(log) = state.logs.get(id.as_str()) else { return Ok(Loaded::Absent(state.erasures.current())) };
            let compaction = log.compactions.get(&load.profile).cloned();
            let newest = log.exchanges.last().cloned().into_iter().collect();
            Ok(Loaded::Window(Window::new(log.revision(), compaction, newest, log.exchanges.len() > 1)))
        })
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.call("append", |state| {
            let log = state.logs.get_mut(id.as_str());
            let current = log.as_ref().map(|log| log.revision());
            let is_same = |recorded: &&Recorded| recorded.exchange.id == append.exchange.id;
            if let Some(known) = log.as_ref().and_then(|log| log.exchanges.iter().find(is_same)) {
                return Ok(Appended::duplicate(current.unwrap(), known.seq));
            }
            state.erasures.check(id, append.since)?;
            append.expect.check(current)?;
            let seq = current.map_or(append.first, |revision| revision.next());
            if let Some(continues) = append.exchange.continues.filter(|continues| *continues >= seq) {
                return Err(StoreError::ContinuesUnknown { continues, len: seq.get() });
            }
            let at = append.exchange.at;
            let log = state.logs.entry(id.as_str().into()).or_insert_with(|| Log {
                incarnation: Incarnation::random(),
                first: append.first,
                exchanges: Vec::new(),
                compactions: HashMap::new(),
                labels: Labels::default(),
                labels_version: LabelsVersion::NONE,
                created_at: at,
                updated_at: at,
            });
            log.exchanges.push(Recorded::new(seq, append.exchange));
            log.updated_at = log.updated_at.max(at);
            Ok(Appended::stored(log.revision(), seq, None))
        })
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.call("compact", |state| {
            let log = state.logs.get_mut(id.as_str()).filter(|log| log.incarnation == incarnation);
            let log = log.ok_or(StoreError::Gone)?;
            let stored = log.compactions.get(&compact.profile);
            let version = stored.map_or_else(Default::default, |stored| stored.version);
            if version != compact.replaces {
                return Ok(CompactOutcome::Kept(stored.cloned()));
            }
            log.compactions.insert(compact.profile.clone(), compact.stored_as(version.next()));
            Ok(CompactOutcome::Stored(version.next()))
        })
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.call("read", |state| {
            let Some(log) = state.logs.get(id.as_str()) else { return Ok(Page::absent()) };
            let rest = log.exchanges.iter().filter(|recorded| recorded.seq >= from);
            let page: Vec<_> = rest.clone().take(limit).cloned().collect();
            Ok(Page::new(log.revision(), page, rest.count() > limit))
        })
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.call("delete", |state| {
            state.erasures.record_deletion(id);
            state.logs.remove(id.as_str());
            Ok(())
        })
    }
}

#[async_trait::async_trait]
impl List for TestStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.call("list", |state| {
            let is_after = |id: &ConversationId| after.is_none_or(|after| id > after.last());
            let parsed = state.logs.iter().map(|(id, log)| (id.parse::<ConversationId>().unwrap(), log));
            let mut page = Listing::default();
            let mut last = None;
            for (id, log) in parsed.filter(|(id, _)| under.contains(id) && is_after(id)) {
                if page.len() >= limit.max(1) {
                    page.next = last.map(Cursor::after);
                    break;
                }
                // A log without exchanges stands for one that is damaged.
                let is_damaged = log.exchanges.is_empty();
                let entry = if is_damaged { Err(StoreError::backend("damaged")) } else { Ok(log.listed(&id)) };
                page.push(id.clone(), entry);
                last = Some(id);
            }
            Ok(page)
        })
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.call("describe", |state| Ok(state.logs.get(id.as_str()).map(|log| log.listed(id))))
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.call("set_labels", |state| {
            let log = state.logs.get_mut(id.as_str()).filter(|log| log.incarnation == incarnation);
            let log = log.ok_or(StoreError::Gone)?;
            if log.labels_version != replaces {
                return Ok(LabelsOutcome::Kept(log.labels.clone(), log.labels_version));
            }
            log.labels = labels;
            log.labels_version = replaces.next();
            Ok(LabelsOutcome::Stored(log.labels_version))
        })
    }
}

#[async_trait::async_trait]
impl Erase for TestStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.call("bar", |state| {
            state.erasures.record(under);
            Ok(())
        })
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let mut page = self.list(under, after, limit).await?;
        let next = page.next.take();
        self.call("erase", |state| {
            let mut removed = Removed::default();
            for entry in page.into_entries() {
                let id = entry.map_or_else(|damaged| damaged.id, |listed| listed.id);
                removed += state.logs.remove(id.as_str()).map(|log| log.removed()).unwrap_or_default();
            }
            Ok(ErasedPage::new(ByStore::of("test", removed), next))
        })
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.call("erase_if", |state| {
            let is_same = state.logs.get(id.as_str()).is_some_and(|log| log.revision() == revision);
            Ok(if is_same { state.logs.remove(id.as_str()).map(|log| log.removed()) } else { None })
        })
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.call("count", |state| {
            let mut removed = Removed::default();
            for (id, log) in &state.logs {
                if under.contains(&id.parse().unwrap()) {
                    removed += log.removed();
                }
            }
            Ok(ByStore::of("test", removed))
        })
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        Ok(Scrubbed::new(["cleared"], ["backups"]))
    }
}
