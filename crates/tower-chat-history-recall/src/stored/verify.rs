//! The check of parts that searches found damaged, and their removal.

use std::collections::BTreeSet;

use tower_chat_history_core::{Attachment, AttachmentKey, AttachmentName, ConversationId, Incarnation, Seq};

use super::{
    StoredIndex,
    error::Stop,
    pause::{Pace, pause},
    read::{MAX_INDEX_BYTES, MAX_READ_BYTES, within},
    records::{Damaged, Parts},
    suspects::Suspect,
    vectors::VectorNames,
};
use crate::{index::RecordName, search::Query, vectors::VectorBlock};

impl StoredIndex {
    /// Counts those parts as damaged that a search for this query cannot read. Returns `true` if there are any.
    pub(super) async fn damage_unreadable(&self, parts: &mut Parts, query: &Query) -> bool {
        let mut found = Vec::new();
        for part in parts.index.parts() {
            found.extend(part.unreadable(query.terms()).map(|record| Damaged { start: part.range().start, record }));
            pause().await;
        }
        found.iter().for_each(|damaged| parts.damage(*damaged));
        !found.is_empty()
    }

    /// Removes the blocks and segments that searches found damaged, if they still are. Returns their number.
    pub(super) async fn remove_suspects(&self, id: &ConversationId, incarnation: Incarnation) -> Result<u64, Stop> {
        let suspects: Vec<Damaged> = self.suspects.of(id, incarnation).into_iter().filter_map(Suspect::terms).collect();
        let records: BTreeSet<RecordName> = suspects.iter().map(|suspect| suspect.record).collect();
        let (names, mut removed) = (self.names()?, BTreeSet::new());
        for record in records {
            let damaged = self.damaged_of(id, incarnation, record).await?;
            let here = || suspects.iter().filter(|suspect| suspect.record == record);
            let confirmed: Vec<&Damaged> =
                here().filter(|suspect| damaged.contains(&(suspect.start, suspect.is_segment()))).collect();
            let keys: Vec<AttachmentKey> = confirmed.iter().flat_map(|suspect| suspect.keys(names)).collect();
            self.remove(id, incarnation, &keys).await?;
            removed.extend(confirmed.iter().map(|suspect| (suspect.start, suspect.is_segment())));
            here().for_each(|suspect| self.suspects.forget(id, incarnation, Suspect::Terms(*suspect)));
        }
        Ok(removed.len() as u64)
    }

    /// Returns the starts of the parts that are damaged, as far as these records show it. A segment is marked.
    async fn damaged_of(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        record: RecordName,
    ) -> Result<BTreeSet<(Seq, bool)>, Stop> {
        let of_terms = self.names()?;
        let (names, needed): (Vec<AttachmentName>, Vec<u8>) = match record {
            RecordName::Block => (vec![of_terms.blocks.clone()], Vec::new()),
            RecordName::Documents => (vec![of_terms.documents.clone()], Vec::new()),
            RecordName::Bucket(bucket) => (vec![of_terms.documents.clone(), of_terms.of(record).clone()], vec![bucket]),
        };
        let read = self.store.attachments(id, &names, MAX_INDEX_BYTES).await?;
        within(read.revision, Some(incarnation))?;
        let parts = self.decoded(&read.attachments, &needed, read.more, &mut Pace::new(None)).await?;
        let mut damaged: BTreeSet<(Seq, bool)> =
            parts.damaged.iter().map(|damaged| (damaged.start, damaged.is_segment())).collect();
        for part in parts.index.parts() {
            if part.check().is_err() {
                damaged.insert((part.range().start, part.is_segment()));
            }
            pause().await;
        }
        Ok(damaged)
    }

    /// Removes the vectors that searches found damaged, if they still are. Returns the number of blocks.
    pub(super) async fn remove_suspect_vectors(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        names: &VectorNames,
    ) -> Result<u64, Stop> {
        let mut removed = 0;
        for suspect in self.suspects.of(id, incarnation) {
            let Suspect::Vectors(start) = suspect else { continue };
            let read = self.store.attachments(id, &[names.of(start)?], MAX_READ_BYTES).await?;
            let is_damaged = |stored: &Attachment| VectorBlock::decode(&stored.body).is_err();
            if read.attachments.iter().any(|stored| stored.range.start == start && is_damaged(stored)) {
                self.store.attach(id, incarnation, &names.keys(start)?, &[]).await?;
                removed += 1;
            }
            self.suspects.forget(id, incarnation, suspect);
            pause().await;
        }
        Ok(removed)
    }
}
