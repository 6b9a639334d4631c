//! What a summary costs.

/// What was spent on a summary, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryCost {
    /// Calls of the summarizer, also those that failed or did not end.
    pub calls: u32,
    /// Tokens of what the calls that answered were given: as the provider reported them, or else as counted, without the
    /// prompt around them.
    pub input_tokens: u64,
    /// Tokens of what they answered, as reported or else as counted.
    pub output_tokens: u64,
}
