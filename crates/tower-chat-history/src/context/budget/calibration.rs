//! Calibration: correcting token counts by the usage that the provider reports in the same conversation.
//!
//! Each conversation has its own correction. A correction that several conversations share would let one tenant, who
//! chooses the texts of a conversation and sometimes also the provider that reports the usage, change the prompts of
//! others. Its gain would be small: it would apply only to a conversation's first call, before the first report.
//!
//! # Decisions
//!
//! - **A correction never refuses a call**, because no later report could then correct it.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
};

use quick_cache::sync::Cache;
use tower_chat_history_core::{ConversationId, Digest, Positions};

/// The corrections, for each conversation, model and counter.
///
/// A conversation's correction depends only on its own reports. Its key is a hash with a random key, so that no caller
/// can construct an id that has the entry of another conversation. By chance, a new conversation has one of the entries
/// with a probability of 2⁻⁴⁸ at most. Entries that were not used recently are evicted.
pub(crate) struct Calibration {
    entries: Cache<CalibrationKey, Entry>,
    key: RandomState,
}

/// The conversation, model and counter that a correction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CalibrationKey(u64);

/// The beginning of a prompt: while it stays the same, each prompt begins with the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromptStart {
    /// The positions of the cut.
    pub(crate) positions: Positions,
    /// The [digest](crate::context::RequestInfo::digest) of head, tools and response format.
    pub(crate) request: Digest,
}

/// A provider's report about a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageReport {
    /// The tokens of the prompt by the call's counter.
    pub(crate) counted: u64,
    /// The tokens of the prompt by the provider.
    pub(crate) reported: u64,
    /// True if the counter is an [estimate](crate::context::tokens::TokenCounter::is_estimate).
    pub(crate) is_estimate: bool,
    /// The beginning of the prompt, if the next prompt may begin with all of this one.
    pub(crate) start: Option<PromptStart>,
}

/// The correction of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The tokens of the provider per counted token, from 1 to 2.
    pub(crate) ratio: f64,
    /// The tokens that the provider did not count in the conversation's previous prompt. It is 0 if the ratio is more
    /// than 1.
    pub(crate) overcount: u64,
}

impl Correction {
    /// No correction.
    pub(crate) const NONE: Self = Self { ratio: 1.0, overcount: 0 };
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    ratios: Ratios,
    overcount: Option<Overcount>,
}

/// The weighted sum of the ratios of a conversation's calls. Newer calls have more weight.
#[derive(Clone, Copy, Debug, Default)]
struct Ratios {
    sum: f64,
    /// The sum of the weights.
    weights: f64,
}

/// The tokens that the provider did not count in the two newest prompts with this beginning.
#[derive(Clone, Copy, Debug)]
struct Overcount {
    start: PromptStart,
    newest: u64,
    /// `None` after the first report.
    before: Option<u64>,
}

/// The factor by which each further call multiplies the weight of the calls before it. After ten others, a call has a
/// tenth of its weight.
const DECAY: f64 = 0.8;

/// Prompts with fewer counted tokens are ignored. A provider adds a constant number of tokens that are not counted,
/// independent of the prompt's size. In a small prompt they would distort the ratio.
const MIN_PROMPT_TOKENS: u64 = 500;

/// The largest ratio that is used. A larger one means that the reported usage is not that of the counted prompt.
const LARGEST_RATIO: f64 = 1.5;

/// The largest ratio for a counter that estimates.
const LARGEST_RATIO_OF_ESTIMATE: f64 = 2.0;

/// The ratio up to which counts are regarded as high enough.
const NO_UNDERCOUNT: f64 = 1.01;

/// The smallest plausible ratio. A smaller one means that the reported usage is not that of the whole prompt, for
/// example because the provider reports tokens in its cache elsewhere.
const SMALLEST_RATIO: f64 = 0.5;

/// The factor by which a report is raised before it lowers a count.
const MARGIN: f64 = 1.05;

/// The largest number of entries, of about 130 bytes each.
const MAX_ENTRIES: usize = 1 << 16;

impl Calibration {
    fn of(entries: usize) -> Self {
        Self { entries: Cache::new(entries), key: RandomState::new() }
    }

    /// Returns the key of a conversation's calls of this model, counted by this counter.
    pub(crate) fn key(&self, conversation: &ConversationId, model: Option<&str>, counter: &str) -> CalibrationKey {
        CalibrationKey(self.key.hash_one((conversation, model, counter)))
    }

    /// Returns the correction for a prompt with this beginning. There is none without an entry.
    pub(crate) fn correction(&self, key: CalibrationKey, start: PromptStart) -> Correction {
        let Some(Entry { ratios, overcount }) = self.entries.get(&key) else { return Correction::NONE };
        let ratio = ratios.mean();
        if ratio > NO_UNDERCOUNT {
            return Correction { ratio, overcount: 0 };
        }

        match overcount.filter(|overcount| overcount.start == start) {
            Some(Overcount { newest, before: Some(before), .. }) if newest.min(before) > 0 => {
                Correction { ratio: 1.0, overcount: newest.min(before) }
            }
            _ => Correction { ratio, overcount: 0 },
        }
    }

    /// Adds the provider's report about a prompt.
    pub(crate) fn learn(&self, key: CalibrationKey, report: UsageReport) {
        let UsageReport { counted, reported, is_estimate, start } = report;
        if counted < MIN_PROMPT_TOKENS {
            return;
        }

        let largest = if is_estimate { LARGEST_RATIO_OF_ESTIMATE } else { LARGEST_RATIO };
        // If two calls of a conversation end at the same time, one of the two reports may be lost.
        let Entry { ratios, overcount: earlier } = self.entries.get(&key).unwrap_or_default();
        let ratio = reported as f64 / counted as f64;

        let lowered = (reported as f64 * MARGIN).ceil() as u64;
        let overcount = start.filter(|_| is_estimate && ratio >= SMALLEST_RATIO).map(|start| Overcount {
            start,
            newest: counted.saturating_sub(lowered),
            before: earlier.filter(|earlier| earlier.start == start).map(|earlier| earlier.newest),
        });

        // The ratio is bounded before it is added, so that one wrong report has limited influence.
        self.entries.insert(key, Entry { ratios: ratios.with(ratio.clamp(1.0, largest)), overcount });
    }

    /// Forgets that the provider counted less. Call it after a failed call, whose prompt may have been too large.
    pub(crate) fn doubt(&self, key: CalibrationKey) {
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.overcount.is_some()) {
            self.entries.insert(key, Entry { overcount: None, ..entry });
        }
    }

    /// Removes the entry. Call it when the conversation begins anew.
    pub(crate) fn forget(&self, key: CalibrationKey) {
        self.entries.remove(&key);
    }
}

impl Ratios {
    fn with(self, ratio: f64) -> Self {
        Self { sum: self.sum * DECAY + ratio, weights: self.weights * DECAY + 1.0 }
    }

    fn mean(self) -> f64 {
        if self.weights > 0.0 { (self.sum / self.weights).clamp(1.0, LARGEST_RATIO_OF_ESTIMATE) } else { 1.0 }
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self::of(MAX_ENTRIES)
    }
}

impl fmt::Debug for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calibration").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod tests;
