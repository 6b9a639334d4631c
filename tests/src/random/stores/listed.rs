//! Listings, labels and erasures, and the comparison of each answer with the model's.

use tower_chat_history::{
    StoreError,
    store::{Labels, LabelsOutcome, LabelsVersion, Listed, Prefix, Removed, Revision, Seq},
};

use super::{
    super::outcome::{Checked, holds},
    Case,
    calls::{differ, refusal, same, unexpected},
};

impl Case {
    /// Returns a prefix that may contain the conversation.
    fn under(&mut self) -> Prefix {
        let parts: Vec<String> = self.id.parts().map(Into::into).collect();
        let first = parts[0].as_str();
        let similar = format!("{first}-2");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let deeper = [parts.as_slice(), &["x"]].concat();
        let prefix = match self.rng.below(6) {
            0 => Prefix::new([first]),
            1 => Prefix::new([similar.as_str()]),
            2 => Prefix::new(deeper),
            _ => Prefix::new(parts),
        };
        prefix.unwrap()
    }

    /// Returns the entry that the conversation must have.
    fn entry(&self) -> Option<Listed> {
        let life = self.life.as_ref()?;
        let entry = Listed::new(self.id.clone(), life.revision(), life.created_at, life.updated_at, life.bytes());
        Some(entry.labels(life.labels.clone(), life.labels_version))
    }

    /// Returns the numbers that must be stored under a prefix.
    fn numbers(&self, under: &Prefix) -> Removed {
        let mut numbers = Removed::default();
        let Some(life) = self.life.as_ref().filter(|_| under.contains(&self.id)) else { return numbers };
        numbers.conversations = 1;
        numbers.exchanges = life.entries.len() as u64;
        numbers.exchange_ids = numbers.exchanges;
        numbers.bytes = life.bytes();
        numbers.compactions = life.compactions.len() as u64;
        numbers.summaries = life.compactions.values().filter(|stored| stored.derived.is_some()).count() as u64;
        numbers.labels = u64::from(!life.labels.is_empty());
        numbers
    }

    /// Ends the conversation in the model.
    pub(super) fn end(&mut self) {
        self.ended.extend(self.life.take().map(|life| life.incarnation));
    }

    /// Marks the epochs from before an erasure in the model.
    pub(super) fn bar(&mut self, under: &Prefix) {
        if under.contains(&self.id) {
            self.epochs.iter_mut().for_each(|(_, is_erased)| *is_erased = true);
        }
    }

    pub(super) async fn list(&mut self) -> Checked {
        let (under, limit) = (self.under(), 1 + self.rng.index(3));
        let expected = self.entry();
        let described = self.store().describe(&self.id).await.map_err(|error| unexpected("an entry", &error))?;
        same("an entry", &described, &expected)?;
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = self.store().list(&under, after.as_ref(), limit).await;
            let page = page.map_err(|error| unexpected("a listing", &error))?;
            holds(page.conversations.len() <= limit, "a page has at most its limit", || format!("{limit}"))?;
            listed.extend(page.conversations);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        let expected: Vec<Listed> = expected.filter(|_| under.contains(&self.id)).into_iter().collect();
        self.figures.count("listings");
        same("a listing", &listed, &expected)
    }

    pub(super) async fn set_labels(&mut self) -> Checked {
        let (incarnation, title) = (self.incarnation(), format!("{}\0", self.rng.below(100)));
        let labels = if self.rng.once_in(5) { Labels::default() } else { Labels::new([("title", title)]).unwrap() };
        let stored = self.life.as_ref().map_or(LabelsVersion::NONE, |life| life.labels_version);
        let replaces = if self.rng.once_in(4) { LabelsVersion::new(self.rng.below(4)) } else { stored };
        let answer = self.store().set_labels(&self.id, incarnation, replaces, labels.clone()).await;
        let life = self.life.as_mut().filter(|life| life.incarnation == incarnation);
        match (answer, life) {
            (Err(error), None) => refusal("labels", &error, "gone"),
            (Ok(LabelsOutcome::Kept(labels, version)), Some(life)) => {
                holds(replaces != stored, "labels that replace the stored ones are stored", String::new)?;
                same("the labels that were kept", &(&labels, version), &(&life.labels, stored))
            }
            (Ok(LabelsOutcome::Stored(version)), Some(life)) => {
                same("the labels that were replaced", &replaces, &stored)?;
                holds(version > stored, "labels have a new version", String::new)?;
                (life.labels, life.labels_version) = (labels, version);
                self.figures.count("labels");
                Ok(())
            }
            (answer, life) => differ("labels", &answer, &life.map(|life| life.labels_version)),
        }
    }

    pub(super) async fn erase(&mut self) -> Checked {
        let (under, bars) = (self.under(), self.rng.once_in(2));
        let expected = self.numbers(&under);
        let count = self.store().count(&under).await.map_err(|error| unexpected("a count", &error))?;
        same("a count", &count.total(), &expected)?;
        if bars {
            self.store().bar(&under).await.map_err(|error| unexpected("the record of an erasure", &error))?;
            self.bar(&under);
        }
        if self.rng.once_in(3) {
            return Ok(());
        }
        let (mut removed, mut after) = (Removed::default(), None);
        loop {
            let page = self.store().erase(&under, after.as_ref(), 2).await;
            let page = page.map_err(|error| unexpected("an erasure", &error))?;
            removed += page.removed.total();
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        same("an erasure", &removed, &expected)?;
        if under.contains(&self.id) {
            self.end();
            self.figures.count("erasures");
        }
        Ok(())
    }

    pub(super) async fn erase_if(&mut self) -> Checked {
        let revision = self.revision();
        let first = if self.rng.once_in(4) { Seq::new(self.rng.below(3)) } else { revision.first() };
        let revision = Revision::new(revision.incarnation(), revision.version()).beginning_at(first);
        let answer: Result<_, StoreError> = self.store().erase_if(&self.id, revision).await;
        let answer = answer.map_err(|error| unexpected("an erasure at a revision", &error))?;
        let is_seen = self.life.as_ref().is_some_and(|life| life.revision() == revision);
        let expected = is_seen.then(|| self.numbers(&Prefix::from(&self.id)));
        same("an erasure at a revision", &answer, &expected)?;
        if is_seen {
            self.end();
            self.figures.count("erasures at a revision");
        }
        Ok(())
    }
}
