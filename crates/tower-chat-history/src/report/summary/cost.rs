//! The cost of a summary.

/// The cost of a summary, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryCost {
    /// The number of calls of the summarizer, including calls that failed or were dropped after the timeout.
    pub calls: u32,
    /// The input tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the previous summary and the messages are counted; the summarizer's instructions are not.
    pub input_tokens: u64,
    /// The output tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the answer are counted.
    pub output_tokens: u64,
}
