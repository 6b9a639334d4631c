//! Edits between the turns: import, truncate, prune, delete, fork.

use std::fmt;

use tower_chat_history::{
    ConversationId, HistoryStore as _, HistoryStoreExt as _, Message,
    store::{Derived, EraseExt as _, Prefix, PruneTo, Seq},
};

use super::{
    super::outcome::{Checked, Violation, holds},
    Case, Talk,
    log::Entry,
};

fn failed(error: impl fmt::Display) -> Violation {
    Violation::new("a conversation can be edited", error.to_string())
}

impl Case {
    /// Appends a log that was made elsewhere.
    pub(super) async fn import(&mut self, talk: usize) -> Checked {
        let log = self.words.log();
        self.import_log(talk, log).await
    }

    /// Begins a conversation with a log of several blocks of an index.
    pub(super) async fn import_blocks(&mut self) -> Checked {
        let turns = 70 + self.rng.index(150);
        let log = (0..turns).flat_map(|_| [self.words.user(), Message::assistant(self.words.text())]).collect();
        self.import_log(0, log).await
    }

    async fn import_log(&mut self, talk: usize, log: Vec<Message>) -> Checked {
        let Talk { log: expected, edits, before, .. } = &mut self.talks[talk];
        let (store, id) = (self.base.store(), expected.id.clone());
        let had = expected.entries.len();
        let imported = store.conversation(&id).import(log.clone()).await;
        imported.map_err(|error| Violation::new("any log can be imported", error.to_string()))?;
        let stored = store
            .conversation(&id)
            .exchanges()
            .await
            .map_err(|error| Violation::new("a log can be read", error.to_string()))?;
        let new: Vec<Entry> = stored.iter().map(Entry::of).skip(had).collect();
        let messages: Vec<_> = new.iter().flat_map(|entry| entry.messages.clone()).collect();
        holds(messages == log, "an import keeps every message in order", || {
            format!("{} of {} messages", messages.len(), log.len())
        })?;
        new.into_iter().for_each(|entry| expected.push(entry));
        *edits += 1;
        *before = None;
        self.figures.count("logs imported");
        self.settle(talk).await
    }

    /// Makes one edit, as a program does that manages its conversations.
    pub(super) async fn edit(&mut self, talk: usize) -> Checked {
        self.settle(talk).await?;
        let which = self.rng.below(5);
        let Talk { log, edits, before, .. } = &mut self.talks[talk];
        let id = log.id.clone();
        let len = log.entries.len();
        *edits += 1;
        *before = None;
        match which {
            0 => {
                let at = self.rng.index(len + 1);
                let from = log.entries.get(at).map_or_else(|| log.next(), |entry| entry.seq);
                let truncate = self.base.truncate();
                truncate.conversation(&id).truncate(Seq::new(from)).await.map_err(failed)?;
                log.truncate(from);
            }
            1 => {
                let taken = self.base.truncate().conversation(&id).take_last().await.map_err(failed)?;
                let expected = log.entries.last().cloned();
                holds(taken.as_ref().map(Entry::of) == expected, "the last exchange is taken", || {
                    format!("{taken:?}")
                })?;
                if let Some(taken) = expected {
                    log.truncate(taken.seq);
                }
            }
            2 => {
                if self.rng.once_in(2) {
                    self.base.store().delete(&id).await.map_err(failed)?;
                } else {
                    self.base.erase().erase_all(&Prefix::from(&id)).await.map_err(failed)?;
                }
                log.forget();
            }
            3 => {
                let traces = if self.rng.once_in(3) { Derived::Erase } else { Derived::Keep };
                let keep = PruneTo::LastTurns(1 + self.rng.index(6));
                self.base.prune().conversation(&id).prune(keep, traces).await.map_err(failed)?;
                if traces == Derived::Erase {
                    let entries = std::mem::take(&mut log.entries);
                    log.forget();
                    log.entries = entries;
                    let revision = self.base.store().conversation(&id).revision().await.map_err(failed)?;
                    revision.iter().for_each(|revision| log.erase_recalled(revision.first()));
                }
                log.check(&self.base, true).await?;
            }
            _ => return self.fork(talk).await,
        }
        self.figures.count("edits");
        self.settle(talk).await
    }

    async fn fork(&mut self, talk: usize) -> Checked {
        self.forks += 1;
        let log = &self.talks[talk].log;
        let copy = ConversationId::new(["fork", &self.forks.to_string()]).unwrap();
        let copied = self.base.fork().conversation(&log.id).fork(Seq::new(u64::MAX), &copy).await;
        let copied = copied.map_err(|error| Violation::new("a conversation can be forked", error.to_string()))?;
        holds(copied == log.entries.len() as u64, "a fork has the same exchanges", || {
            format!("{copied} of {}", log.entries.len())
        })?;
        let mut forked = Talk::new(&format!("fork/{}", self.forks), self.policies.len());
        forked.log = log.forked(copy);
        forked.log.check(&self.base, false).await?;
        // A fork becomes another conversation of the case. There are never many.
        if self.talks.len() < 3 {
            self.talks.push(forked);
        }
        self.figures.count("forks");
        Ok(())
    }
}
