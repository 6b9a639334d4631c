//! The calls of a store, and the comparison of each answer with the model's.

use std::sync::Arc;

use tower_chat_history::{
    Exchange, ExchangeId, HistoryStore as _, Message, StoreError,
    store::{
        Append, Compact, CompactOutcome, CompactionVersion, Derived, Expect, Incarnation, Load, LoadLimit, Loaded,
        Prefix, Profile, Prune as _, PruneTo, Revision, Seq, Timestamp, Truncate as _,
    },
};

use super::{
    super::{
        Ingredient,
        outcome::{Checked, Violation, holds},
    },
    Case,
    model::{Answer, Compacted, Life, Refused, expected},
    open::FullStore,
};

impl Case {
    pub(super) fn store(&mut self) -> Arc<dyn FullStore> {
        Arc::clone(&self.store.handles[self.rng.index(2)])
    }

    pub(super) async fn call(&mut self) -> Checked {
        match self.rng.below(26) {
            0..8 => self.append().await,
            8..11 => self.compact().await,
            11..15 => self.load().await,
            15..17 => self.read().await,
            17 => self.prune().await,
            18 => self.truncate().await,
            20..22 => self.list().await,
            22..24 => self.set_labels().await,
            24 if self.rng.once_in(2) => self.erase().await,
            25 if self.rng.once_in(4) => self.erase_if().await,
            _ if self.rng.once_in(3) => self.delete().await,
            _ => self.load().await,
        }
    }

    /// Returns an incarnation, usually the present one.
    pub(super) fn incarnation(&mut self) -> Incarnation {
        let ended = if self.ended.is_empty() { Incarnation::random() } else { *self.rng.pick(&self.ended) };
        match &self.life {
            Some(life) if !self.rng.once_in(8) => life.incarnation,
            _ => ended,
        }
    }

    pub(super) fn revision(&mut self) -> Revision {
        let incarnation = self.incarnation();
        let now = self.life.as_ref().map_or_else(|| Revision::new(incarnation, 1), Life::revision);
        let version = if self.rng.once_in(4) { self.rng.below(now.version() + 2) } else { now.version() };
        Revision::new(incarnation, version).beginning_at(now.first())
    }

    fn profile(&mut self) -> Profile {
        Profile::new(*self.rng.pick(&["default", "p"])).unwrap()
    }

    fn exchange(&mut self) -> Exchange {
        self.made += 1;
        let (next, first) = self.life.as_ref().map_or((0, 0), |life| (life.next(), life.first));
        let fewest = u64::from(!self.ingredients.has(Ingredient::EmptyExchanges));
        let messages = (0..self.rng.between(fewest, 3)).map(|number| self.message(number)).collect::<Vec<_>>();
        let known = self.life.as_ref().filter(|life| !life.entries.is_empty());
        let id = match known {
            Some(life) if self.rng.once_in(8) => self.rng.pick(&life.entries).id.clone(),
            _ => ExchangeId::new(format!("e{}", self.made)).unwrap(),
        };
        let mut exchange = Exchange::new(id, messages);
        exchange.at = Timestamp::from_unix_millis(1_700_000_000_000 + self.rng.below(1_000));
        exchange.incomplete = self.rng.once_in(9);
        match self.rng.below(8) {
            0..3 if next > 0 => {
                exchange.continues = Some(Seq::new(self.rng.between(first.saturating_sub(1), next - 1)));
            }
            3 => exchange.continues = Some(Seq::new(next + self.rng.below(2))),
            _ => {}
        }
        exchange
    }

    fn message(&mut self, number: u64) -> Message {
        let text = match self.rng.below(6) {
            0 => r"\u0000 \ud800 \u00e4".to_owned(),
            1 => "x".repeat(self.rng.index(300)),
            // From 1 KiB on, it is media.
            2 => "iVBO".repeat(self.rng.index(1_000)),
            _ => format!("m{}.{number}", self.made),
        };
        let role = *self.rng.pick(&["user", "assistant", "tool"]);
        Message::from_json(format!(r#"{{"role":"{role}", "content":"{text}","n":1.50}}"#)).unwrap()
    }

    /// Returns a compaction whose window starts at an opening of the log. Its bytes are arbitrary.
    fn compaction(&mut self) -> Compact {
        let profile = self.profile();
        let stored = self.life.as_ref().and_then(|life| life.compactions.get(&profile).cloned());
        let version = stored.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
        if let Some(stored) = stored
            && self.ingredients.has(Ingredient::EqualCuts)
            && self.rng.once_in(3)
        {
            // The compaction that another replica has just stored.
            let replaces = CompactionVersion::new(version.get() - 1);
            return Compact::new(profile, replaces, stored.window_start, stored.state, stored.derived);
        }

        let starts = self.life.as_ref().map_or_else(|| vec![Seq::FIRST], |life| life.starts(life.next()));
        let start = *self.rng.pick(&starts);
        let mut replaces = version;
        if self.rng.once_in(4) {
            replaces =
                if self.rng.once_in(2) { CompactionVersion::NONE } else { CompactionVersion::new(version.get() + 3) };
        }
        let state = self.bytes();
        let derived = self.rng.once_in(2).then(|| self.bytes());
        Compact::new(profile, replaces, start, state, derived)
    }

    /// Returns bytes, which need not be UTF-8.
    fn bytes(&mut self) -> Arc<[u8]> {
        let mut bytes: Vec<u8> =
            (0..self.rng.index(40)).map(|_| u8::try_from(self.rng.below(256)).unwrap_or_default()).collect();
        if self.ingredients.has(Ingredient::LargeCompactions) && self.rng.once_in(4) {
            bytes.resize(6_000, b'x');
        }
        Arc::from(bytes)
    }

    /// Returns the compaction to keep when the log is truncated to the exchanges before a position.
    fn kept_before(&mut self, from: u64) -> Option<Compact> {
        let kept = self.compaction();
        let starts = self.life.as_ref()?.starts(from);
        let start = *self.rng.pick(&starts);
        (kept.replaces != CompactionVersion::NONE)
            .then(|| Compact::new(kept.profile, kept.replaces, start, kept.state, kept.derived))
    }

    async fn append(&mut self) -> Checked {
        let mut append = Append::new(Expect::AnyOrCreate, self.exchange());
        append.expect = match self.rng.below(8) {
            0 => Expect::Absent,
            1..3 => Expect::Exactly(self.revision()),
            3..6 => Expect::AnyIn(self.incarnation()),
            _ => Expect::AnyOrCreate,
        };
        if self.rng.once_in(4) {
            append.first = Seq::new(self.rng.below(3));
        }
        if self.rng.once_in(4) {
            let mut compact = self.compaction();
            // The window may also start at the exchange itself.
            if append.exchange.opens_turn() && self.rng.once_in(4) {
                compact.window_start = Seq::new(self.life.as_ref().map_or(append.first.get(), Life::next));
            }
            append.compact = Some(compact);
        }
        let mut was_erased = false;
        if !self.epochs.is_empty() && self.rng.once_in(3) {
            let (epoch, is_erased) = *self.rng.pick(&self.epochs);
            (append.since, was_erased) = (Some(epoch), is_erased);
        }
        let first = append.first;
        let answer = self.store().append(&self.id, append.clone()).await;
        let exchange = Exchange::clone(&append.exchange);
        let compact = append.compact;
        if let Some((life, seq)) = self.life.as_ref().and_then(|life| Some((life, life.find(&exchange.id)?))) {
            let answer = answer.map_err(|error| unexpected("append", &error))?;
            let seen = (answer.duplicate, answer.seq.get(), answer.revision, answer.compaction.is_none());
            return same("a repeated append", &seen, &(true, seq, life.revision(), true));
        }
        let next = self.life.as_ref().map_or(first.get(), Life::next);
        let mut outcome = Ok(None);
        if was_erased {
            outcome = Err("gone");
        } else if let Err(refused) = expected(append.expect, self.life.as_ref()) {
            outcome = Err(refused);
        } else if exchange.continues.is_some_and(|seq| self.life.is_none() || seq.get() >= next) {
            outcome = Err("continues_unknown");
        } else if let Some(compact) = &compact {
            let empty = Life::new(Incarnation::random(), first, exchange.at);
            outcome = Ok(Some(self.life.as_ref().unwrap_or(&empty).compact(compact)));
        }
        let (answer, compacted) = match (answer, outcome) {
            (Ok(answer), Ok(compacted)) => (answer, compacted),
            (Err(error), Err(refused)) => return refusal("append", &error, refused),
            (answer, outcome) => return differ("append", &answer, &outcome),
        };
        self.figures.count("exchanges");
        let begins = self.life.is_none();
        let life = self.life.get_or_insert_with(|| Life::new(answer.revision.incarnation(), first, exchange.at));
        life.updated_at = life.updated_at.max(exchange.at);
        life.entries.push(exchange);
        same("an append", &(answer.duplicate, answer.seq.get(), answer.revision), &(false, next, life.revision()))?;
        if begins {
            let old = self.ended.contains(&life.incarnation);
            holds(!old, "an incarnation is never reused", || life.incarnation.to_string())?;
        }
        match (compact, compacted, answer.compaction) {
            (None, _, None) => Ok(()),
            (Some(compact), Some(expected), Some(answer)) => self.compacted(compact, &expected, answer),
            (_, expected, answer) => differ("an append's compaction", &answer, &expected),
        }
    }

    /// Compares the outcome of a compaction, and stores it in the model.
    fn compacted(&mut self, compact: Compact, expected: &Compacted, answer: CompactOutcome) -> Checked {
        let Some(life) = &mut self.life else { return Ok(()) };
        match (expected, answer) {
            (Compacted::Stored, CompactOutcome::Stored(version)) => {
                let old = life.version(&compact.profile);
                holds(
                    version != old && version != CompactionVersion::NONE,
                    "a compaction has a new version",
                    String::new,
                )?;
                let stored = compact.stored_as(version);
                life.compactions.insert(compact.profile, stored);
                self.figures.count("compactions");
                Ok(())
            }
            (Compacted::Kept, CompactOutcome::Kept(kept)) => {
                same("the compaction that was kept", &kept, &life.compactions.get(&compact.profile).cloned())
            }
            (expected, answer) => differ("a compaction", &answer, &expected),
        }
    }

    async fn compact(&mut self) -> Checked {
        let (incarnation, compact) = (self.incarnation(), self.compaction());
        let answer = self.store().compact(&self.id, incarnation, compact.clone()).await;
        let expected = match self.life.as_ref().filter(|life| life.incarnation == incarnation) {
            Some(life) => Ok(life.compact(&compact)),
            None => Err("gone"),
        };
        match (answer, expected) {
            (Ok(answer), Ok(expected)) => self.compacted(compact, &expected, answer)?,
            (Err(error), Err(refused)) => return refusal("compact", &error, refused),
            (answer, expected) => return differ("compact", &answer, &expected),
        }
        self.space()
    }

    /// Checks that a memory store reports at least the bytes that it was given.
    fn space(&self) -> Checked {
        let (Some(memory), Some(life)) = (&self.store.memory, &self.life) else { return Ok(()) };
        if !self.ingredients.has(Ingredient::LargeCompactions) {
            return Ok(());
        }
        let derived = life.compactions.values().filter_map(|stored| stored.derived.as_ref());
        let given = derived.map(|derived| derived.len()).sum::<usize>();
        let messages = life.entries.iter().map(Exchange::bytes).sum::<usize>();
        let used = memory.used();
        holds(used >= given + messages, "a limit of memory counts what is stored", || {
            format!("{used} bytes are used for {messages} bytes of messages and {given} of derived text")
        })
    }

    async fn load(&mut self) -> Checked {
        let limit = match self.rng.below(3) {
            0 => LoadLimit::default(),
            _ => {
                let limit = LoadLimit::new(1 + self.rng.index(8), 1 + self.rng.index(2_000)).unwrap();
                limit.with_media_bytes(self.rng.index(20_000))
            }
        };
        let mut load = Load::new().profile(self.profile()).limit(limit);
        if !self.known.is_empty() && self.rng.once_in(3) {
            load.known = Some(self.rng.pick(&self.known).clone());
            load.or_added = self.rng.once_in(2);
        }
        if self.rng.once_in(6) {
            let number = self.rng.below(self.made + 1);
            load.exchange = Some(ExchangeId::new(format!("e{number}")).unwrap());
        }
        let answer = self.store().load(&self.id, load.clone()).await.map_err(|error| unexpected("load", &error))?;
        let mut expected = self.life.as_ref().map_or(Answer::Absent, |life| life.load(&load));
        let seen = match &answer {
            Loaded::Absent(_) => Answer::Absent,
            Loaded::Unchanged => Answer::Unchanged,
            Loaded::AlreadyRecorded(recorded) => Answer::Recorded(recorded.seq.get()),
            // A store may return the window instead.
            Loaded::Added(added) => {
                expected = self.life.as_ref().and_then(|life| life.added(&load)).map_or(expected, Answer::Added);
                Answer::Added(added.exchanges.first().map_or(u64::MAX, |first| first.seq.get()))
            }
            Loaded::Window(window) => {
                let from = window.exchanges.first().map_or(u64::MAX, |first| first.seq.get());
                Answer::Window(from, window.truncated)
            }
        };
        same("a load", &seen, &expected)?;
        if let Loaded::Absent(epoch) = &answer {
            self.epochs.push((*epoch, false));
        }
        if let (Loaded::Added(added), Some(life)) = (&answer, &self.life) {
            self.figures.count("added exchanges");
            same("the revision with added exchanges", &added.revision, &life.revision())?;
            same("the size of the log with added exchanges", &added.log_bytes, &life.bytes())?;
            return same_exchanges(life, &added.exchanges, life.next());
        }
        let (Loaded::Window(window), Some(life)) = (answer, &self.life) else { return Ok(()) };
        self.figures.count("windows");
        same("a window's revision", &window.revision, &life.revision())?;
        same("the size of the log of a window", &window.log_bytes, &life.bytes())?;
        same("a window's compaction", &window.compaction, &life.compactions.get(&load.profile).cloned())?;
        if load.profile == Profile::new("default").unwrap() {
            self.known.push(window.known());
        }
        same_exchanges(life, &window.exchanges, life.next())
    }

    async fn read(&mut self) -> Checked {
        let next = self.life.as_ref().map_or(0, Life::next);
        let (from, limit) = (self.rng.below(next + 3), self.rng.index(6));
        let page =
            self.store().read(&self.id, Seq::new(from), limit).await.map_err(|error| unexpected("read", &error))?;
        let Some(life) = &self.life else {
            return same("a page", &(page.revision, page.exchanges.len(), page.more), &(None, 0, false));
        };
        same("a page's revision", &page.revision, &Some(life.revision()))?;
        let from = from.max(life.first);
        let enough = page.exchanges.len() <= limit && (limit == 0 || from >= next || !page.exchanges.is_empty());
        holds(enough, "a page has at most its limit, and is not empty too early", || {
            format!("{} of {limit}", page.exchanges.len())
        })?;
        let first = page.exchanges.first().map_or(from, |first| first.seq.get());
        same("where a page begins", &first, &from)?;
        let end = from + page.exchanges.len() as u64;
        same("whether there are more exchanges", &page.more, &(end < next))?;
        same_exchanges(life, &page.exchanges, end)
    }

    async fn prune(&mut self) -> Checked {
        let incarnation = self.incarnation();
        let next = self.life.as_ref().map_or(0, Life::next);
        let keep = match self.rng.below(3) {
            0 => PruneTo::From(Seq::new(self.rng.below(next + 2))),
            1 if !self.ingredients.has(Ingredient::EmptyExchanges) => PruneTo::LastMessages(self.rng.index(12)),
            _ => PruneTo::LastTurns(self.rng.index(5)),
        };
        let traces = if self.rng.once_in(3) { Derived::Erase } else { Derived::Keep };
        let answer = self.store().prune(&self.id, incarnation, keep, traces).await;
        let Some(life) = self.life.as_mut().filter(|life| life.incarnation == incarnation) else {
            return match answer {
                Err(error) => refusal("prune", &error, "gone"),
                answer => differ("prune", &answer, &"gone"),
            };
        };
        let answer = answer.map_err(|error| unexpected("prune", &error))?;
        let from = life.pruned(keep);
        same("what a prune removes", &answer.removed, &(from - life.first))?;
        life.prune(from);
        let old = life.incarnation;
        life.forget_traces(traces, answer.revision.incarnation());
        if traces == Derived::Erase && life.first > 0 {
            holds(life.incarnation != old, "erasing derived data begins another incarnation", || format!("{keep:?}"))?;
            self.ended.push(old);
        }
        same("a revision after a prune", &answer.revision, &life.revision())
    }

    async fn truncate(&mut self) -> Checked {
        let revision = self.revision();
        let next = self.life.as_ref().map_or(0, Life::next);
        // Usually near the end.
        let from = if self.rng.once_in(3) { self.rng.below(next + 2) } else { next.saturating_sub(self.rng.below(3)) };
        let keep = self.kept_before(from);
        let answer = self.store().truncate(&self.id, revision, Seq::new(from), keep.clone()).await;
        if let Err(refused) = expected(Expect::Exactly(revision), self.life.as_ref()) {
            return match answer {
                Err(error) => refusal("truncate", &error, refused),
                answer => differ("truncate", &answer, &refused),
            };
        }
        let answer = answer.map_err(|error| unexpected("truncate", &error))?;
        let Some(life) = &mut self.life else { return Ok(()) };
        let removed = life.next() - from.clamp(life.first, life.next());
        same("what a truncation removes", &answer.removed, &removed)?;
        if removed == 0 {
            return same("a revision after a truncation", &answer.revision, &Some(life.revision()));
        }
        self.ended.push(life.incarnation);
        if from <= life.first {
            self.life = None;
            self.bar(&Prefix::from(&self.id.clone()));
            self.figures.count("truncations to nothing");
            return same("a revision after a truncation", &answer.revision, &None);
        }
        let new = answer.revision.map_or(life.incarnation, |revision| revision.incarnation());
        holds(!self.ended.contains(&new), "a truncation begins another incarnation", String::new)?;
        life.truncate(from, new, keep.as_ref());
        same("a revision after a truncation", &answer.revision, &Some(life.revision()))
    }

    async fn delete(&mut self) -> Checked {
        self.store().delete(&self.id).await.map_err(|error| unexpected("delete", &error))?;
        self.end();
        self.bar(&Prefix::from(&self.id.clone()));
        self.figures.count("deletions");
        Ok(())
    }
}

fn same_exchanges(life: &Life, answer: &[tower_chat_history::store::Recorded], end: u64) -> Checked {
    let first = answer.first().map_or(end, |first| first.seq.get());
    for (seq, recorded) in (first..end).zip(answer) {
        same("an exchange's position", &recorded.seq.get(), &seq)?;
        holds(life.at(seq) == Some(&*recorded.exchange), "an exchange comes back as it was", || format!("{seq}"))?;
    }
    same("how many exchanges there are", &(answer.len() as u64), &(end - first))
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &'static str, answer: &T, expected: &T) -> Checked {
    if answer == expected { Ok(()) } else { differ(what, answer, expected) }
}

pub(super) fn differ(what: &'static str, answer: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug) -> Checked {
    let shown = |it: &dyn std::fmt::Debug| format!("{it:?}").chars().take(400).collect::<String>();
    Err(Violation::new(what, format!("expected {}, got {}", shown(expected), shown(answer))))
}

pub(super) fn refusal(what: &'static str, error: &StoreError, refused: Refused) -> Checked {
    if error.kind() == refused { Ok(()) } else { differ(what, error, &refused) }
}

pub(super) fn unexpected(what: &'static str, error: &StoreError) -> Violation {
    Violation::new(what, format!("refused: {error:?}"))
}
