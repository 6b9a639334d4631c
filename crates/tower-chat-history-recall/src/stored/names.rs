//! The names of the index's attachments.

use tower_chat_history_core::{Attachment, AttachmentKey, AttachmentName, AttachmentNameError, Seq};

use crate::{
    analyzer::Term,
    index::{IndexPart, RecordName},
};

/// The names of the index that one analyzer made: `terms/<hash of its id>/all` and so on. So the index of another
/// analyzer has other names.
#[derive(Clone, Debug)]
pub(super) struct TermNames {
    pub(super) blocks: AttachmentName,
    pub(super) documents: AttachmentName,
    buckets: Vec<AttachmentName>,
}

impl TermNames {
    /// Creates the names for the analyzer with this [id](crate::Analyzer::id).
    ///
    /// # Errors
    ///
    /// Returns an error if a store would refuse a name. All names are short and ASCII.
    pub(super) fn new(analyzer_id: &str) -> Result<Self, AttachmentNameError> {
        let hash = hash_of(analyzer_id);
        let record = |name: RecordName| AttachmentName::new(format!("terms/{hash}/{name}"));
        let buckets = (0..Term::BUCKETS).map(|bucket| record(RecordName::Bucket(bucket)));
        Ok(Self {
            blocks: record(RecordName::Block)?,
            documents: record(RecordName::Documents)?,
            buckets: buckets.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the name of a record.
    pub(super) fn of(&self, record: RecordName) -> &AttachmentName {
        match record {
            RecordName::Block => &self.blocks,
            RecordName::Documents => &self.documents,
            RecordName::Bucket(bucket) => self.buckets.get(usize::from(bucket)).unwrap_or(&self.documents),
        }
    }

    /// Returns the bucket with this name.
    pub(super) fn bucket_of(&self, name: &AttachmentName) -> Option<u8> {
        let at = self.buckets.binary_search(name).ok()?;
        u8::try_from(at).ok()
    }

    /// Returns all names.
    pub(super) fn all(&self) -> impl Iterator<Item = &AttachmentName> {
        [&self.blocks, &self.documents].into_iter().chain(&self.buckets)
    }

    /// Returns the keys of all records of the segment that begins at a position.
    pub(super) fn segment_keys(&self, start: Seq) -> impl Iterator<Item = AttachmentKey> {
        let names = [&self.documents].into_iter().chain(&self.buckets);
        names.map(move |name| AttachmentKey { name: name.clone(), start })
    }

    /// Returns the key of the block that begins at a position.
    pub(super) fn block_key(&self, start: Seq) -> AttachmentKey {
        AttachmentKey { name: self.blocks.clone(), start }
    }

    /// Returns the attachment for a record of a part.
    pub(super) fn attachment(&self, part: &IndexPart, (name, body): (RecordName, Vec<u8>)) -> Attachment {
        Attachment::new(self.of(name).clone(), part.range(), body)
    }
}

/// Returns the hash of an id, in hexadecimal digits.
pub(super) fn hash_of(id: &str) -> String {
    format!("{:012x}", Term::of(id).get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_frozen_and_in_order() {
        let names = TermNames::new("english-1-4f43f85d").unwrap();
        let all: Vec<&str> = names.all().map(AttachmentName::as_str).collect();
        assert_eq!(all[..3], ["terms/578815030efd/all", "terms/578815030efd/docs", "terms/578815030efd/b00"]);
        assert_eq!(all.len(), 66);
        for bucket in 0..Term::BUCKETS {
            assert_eq!(names.bucket_of(names.of(RecordName::Bucket(bucket))), Some(bucket));
        }
        assert_eq!(names.bucket_of(&names.documents), None);
    }
}
