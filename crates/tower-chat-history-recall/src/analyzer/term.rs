//! Terms: hashes of words.

use std::fmt;

/// A word of the index, as a hash of 48 bits.
///
/// The index stores no text, only terms. Two different words have the same term with a probability of about
/// 1 in 280,000,000,000,000. Then a search finds the passages of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

impl Term {
    /// The number of bits of a term.
    pub const BITS: u32 = 48;
    /// The number of buckets that a segment of the index divides its terms into.
    pub const BUCKETS: u8 = 64;

    /// Returns the term of a word in its final form: stemmed and folded.
    ///
    /// The hash is FNV-1a of 64 bits, then the finalizer of MurmurHash3, of which the upper 48 bits are used. It is
    /// part of the stored format. It does not resist attacks: whoever writes a conversation can make words of this
    /// conversation collide, and no others.
    #[must_use]
    pub fn of(word: &str) -> Self {
        Self::of_chars(word.chars())
    }

    /// Returns the term of the word that consists of these characters.
    pub(super) fn of_chars(word: impl Iterator<Item = char>) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut utf8 = [0; 4];
        for c in word {
            for byte in c.encode_utf8(&mut utf8).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        Self((hash ^ (hash >> 33)) >> (u64::BITS - Self::BITS))
    }

    /// Returns the hash.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the term with this hash, or `None` if it has more than 48 bits.
    #[must_use]
    pub const fn from_hash(hash: u64) -> Option<Self> {
        if hash >> Self::BITS == 0 { Some(Self(hash)) } else { None }
    }

    /// Returns the bucket of the term: its upper 6 bits.
    #[must_use]
    pub const fn bucket(self) -> u8 {
        // A term has 48 bits, so 6 are left.
        (self.0 >> (Self::BITS - 6)) as u8
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({:012x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_frozen() {
        let hashes: Vec<u64> = ["", "dog", "straße"].iter().map(|word| Term::of(word).get()).collect();
        assert_eq!(hashes, [263_677_158_668_953, 267_732_623_983_219, 91_993_942_171_807]);
    }

    #[test]
    fn buckets_are_the_upper_bits() {
        assert_eq!(Term::from_hash(u64::MAX >> 16).map(Term::bucket), Some(63));
        assert_eq!(Term::from_hash(1 << 42).map(Term::bucket), Some(1));
        assert_eq!(Term::from_hash(1 << 48), None);
    }
}
