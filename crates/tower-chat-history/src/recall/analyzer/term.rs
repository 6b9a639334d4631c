//! Terms: hashes of words.

use std::fmt;

/// A word, as a hash of 64 bits.
///
/// Two different words have the same term with a probability of about 1 in 18,000,000,000,000,000,000. Then a search
/// finds the passages of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

impl Term {
    /// Returns the term of a word in its final form: stemmed and folded.
    ///
    /// The hash is FNV-1a of 64 bits, then the finalizer of MurmurHash3. It does not resist attacks: whoever writes a
    /// conversation can make words of this conversation collide, and no others.
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
        Self(hash ^ (hash >> 33))
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({:016x})", self.0)
    }
}
