//! The cost of a summary.

/// The cost of a summary, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryCost {
    /// The number of calls of the summarizer, including those that failed or did not end.
    pub calls: u32,
    /// The input tokens of the successful calls, as the provider reported them. If it reported none, they are counted,
    /// without the summarizer's own prompt.
    pub input_tokens: u64,
    /// The output tokens of the successful calls, as the provider reported them, or else as counted.
    pub output_tokens: u64,
}
